//! `attnviz generate`.

use std::path::PathBuf;

use attnviz::decode::Sampling;
use clap::Args;

use super::{DrawnArgs, ModelArgs, RunArgs, SamplingArgs, TalkArgs};

pub const NOTES: &str = "\
--temperature divides the logits over the vocabulary, --attn-temperature the
scores inside every attention: the first changes which word is drawn, the second
what each word sees.

Pictures show the attention of every token, prompt and continuation in one; the
page has a slider over the steps.

Examples:
  attnviz generate --model built-in:kjv \"In the beginning\" --temperature 0.7
  attnviz generate --model gpt2 \"Once upon a time\" --temperature 0.8 --seed 1
  attnviz generate --model t5-small \"translate English to German: Good night.\"
  attnviz generate --model SmolLM2-135M.gguf \"The sea is\" --png --heads L3H1
  attnviz generate --model gpt2 \"The sea is\" --samples 3 --top-p 0.9 --json";

#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// What to go on from, as one argument; of an encoder-decoder what its encoder reads
    #[arg(value_name = "PROMPT")]
    pub prompt: Option<String>,
    /// Words that someone forgot to quote
    #[arg(hide = true)]
    pub loose: Vec<String>,
    /// Token ids from a .safetensors or .npz file in place of a prompt: input_ids and, if there,
    /// attention_mask (padded on the left), decoder_input_ids, all [B,T]
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    pub inputs: Option<PathBuf>,
    /// Most tokens to write; up to the model's last position if that is nearer
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_new_tokens: Option<u32>,
    /// Stop before this text; may be given several times
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub stop: Vec<String>,
    /// Go on past the token that ends a text
    #[arg(long)]
    pub ignore_end: bool,
    /// Read everything again for every token, for comparison
    #[arg(long)]
    pub no_cache: bool,
    /// Divides the scores inside every attention before their soft-max
    #[arg(long, value_name = "T", default_value = "1", allow_hyphen_values = true)]
    pub attn_temperature: f64,
    #[command(flatten)]
    pub sampling: SamplingArgs,
    /// Divides positive logits of tokens that are there already, and multiplies negative ones
    #[arg(long, value_name = "X", default_value = "1", allow_hyphen_values = true)]
    #[arg(help_heading = "Sampling")]
    pub repetition_penalty: f64,
    /// No N tokens occur twice in the same order
    #[arg(long, value_name = "N", default_value = "0", help_heading = "Sampling")]
    pub no_repeat_ngram: usize,
    /// How many alternatives to list with each token of --json
    #[arg(long, value_name = "N", default_value = "5")]
    pub top: usize,
    /// Write sequences, step logits and attention to a file: .safetensors, .npz or .json
    #[arg(long, value_name = "FILE")]
    pub export: Option<PathBuf>,
    #[command(flatten)]
    pub drawn: DrawnArgs,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub talk: TalkArgs,
}

impl GenerateArgs {
    /// How tokens are drawn.
    pub fn sampling(&self, forbidden: &[Vec<u32>]) -> Sampling {
        Sampling {
            repetition_penalty: self.repetition_penalty,
            no_repeat_ngram: self.no_repeat_ngram,
            forbidden: forbidden.to_vec(),
            ..self.sampling.sampling(false)
        }
    }
}
