//! What is looked at: a text, a file of them, or arrays.

use std::path::PathBuf;

use attnviz::Indices;
use attnviz::tokens::Spans;
use clap::Args;

use super::Given;

#[derive(Debug, Args)]
pub struct InputArgs {
    /// The text, as one argument
    #[arg(value_name = "TEXT")]
    pub text: Option<String>,
    /// Words that someone forgot to quote
    #[arg(hide = true)]
    pub loose: Vec<String>,
    /// Two texts, read as one pair
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with = "text")]
    pub pair: Option<Vec<String>>,
    /// Words as spans of characters, in place of the text's own: [[0,2],[2,5]]; for a pair a list
    /// of such lists
    #[arg(long, value_name = "JSON")]
    pub spans: Option<Spans>,
    /// Tokens that see all and are seen by all, in models that have such (Longformer), in place of
    /// the model's own choice: 0,5-8 (from 0, special ones counted)
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub global: Option<Given<Indices>>,
}

#[derive(Debug, Args)]
pub struct ManyArgs {
    /// One text per line; .jsonl for lines with text (and text_b, spans), words or tokens; - for
    /// standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["text", "pair", "spans", "global"])]
    pub file: Option<PathBuf>,
    /// Texts of a file to run at once
    #[arg(long, value_name = "N", default_value = "8")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub batch_size: u16,
}

#[derive(Debug, Args)]
pub struct ArrayArgs {
    /// Draw these arrays instead of running a model: [L,H,Q,K] or one [H,Q,K] per layer, from
    /// .npz, .npy or .safetensors
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["text", "pair", "file", "spans", "global"])]
    pub attention: Option<PathBuf>,
    /// JSON list of the tokens of --attention
    #[arg(long, value_name = "FILE", requires = "attention")]
    pub tokens: Option<PathBuf>,
}
