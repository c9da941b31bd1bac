//! `attnviz view` and `attnviz export`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;

use super::{
    ArrayArgs, ChoiceArgs, InputArgs, ManyArgs, ModelArgs, PictureArgs, RunArgs, TalkArgs,
};
use crate::cli::stages;

#[derive(Debug, Args)]
pub struct ViewArgs {
    #[command(flatten)]
    pub input: InputArgs,
    /// What the decoder of an encoder-decoder reads, behind its start token; without it the
    /// encoder alone is drawn
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["file", "attention"])]
    pub target: Option<String>,
    #[command(flatten)]
    pub many: ManyArgs,
    #[command(flatten)]
    pub arrays: ArrayArgs,
    #[command(flatten)]
    pub choice: ChoiceArgs,
    #[command(flatten)]
    pub picture: PictureArgs,
    /// Write one offline page beside the pictures, as `attnviz html` does
    #[arg(long)]
    pub html: bool,
    /// Folder that gets a folder per text
    #[arg(short, long, value_name = "DIR", default_value = "notebooks-out")]
    pub out: PathBuf,
    /// Write into a folder that attnviz did not make
    #[arg(long)]
    pub force: bool,
    /// How many links to list
    #[arg(long, value_name = "N", default_value = "10")]
    pub top: NonZeroUsize,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub talk: TalkArgs,
}

#[derive(Debug, Args)]
pub struct ExportArgs {
    #[command(flatten)]
    pub input: InputArgs,
    /// Token ids from a .safetensors or .npz file: input_ids and, if there, attention_mask,
    /// token_type_ids, decoder_input_ids and decoder_attention_mask, all [B,T]; padding is kept
    #[arg(long, value_name = "FILE", conflicts_with_all = ["text", "pair", "spans", "global"])]
    pub inputs: Option<PathBuf>,
    /// What the decoder of an encoder-decoder reads, behind its start token; without it the
    /// encoder alone is run
    #[arg(long, value_name = "TEXT", conflicts_with = "inputs")]
    pub target: Option<String>,
    /// File to write, by its ending: .safetensors, .npz or .json
    #[arg(short, long, value_name = "FILE")]
    pub out: PathBuf,
    /// Write one offline page of the attention beside the file, under its name with .html
    #[arg(long, conflicts_with = "inputs")]
    pub html: bool,
    /// Overwrite the file
    #[arg(long)]
    pub force: bool,
    /// Further stages, by layer: query,key,value,scores,context,head_output
    #[arg(long, value_name = "STAGES", value_delimiter = ',')]
    #[arg(value_parser = PossibleValuesParser::new(stages::FURTHER.map(|(name, _)| name)))]
    pub include: Vec<String>,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub talk: TalkArgs,
}
