//! Training a model from nothing.

use std::path::PathBuf;

use attnviz::train::Init;
use clap::Args;
use clap::builder::PossibleValuesParser;

use super::TalkArgs;

pub const NOTES: &str = "\
The text becomes a WordPiece vocabulary of its own, then windows of --context tokens, each line
between [CLS] and [SEP]. Of every twenty stretches of the text one is for validation. A causal
model is asked for each next token, a masked one for some tokens of each window.

OUT is a folder that generate (causal) and fill (masked) take as --model, and transformers too,
as BertLMHeadModel and BertForMaskedLM. While training runs, OUT.run holds its state as of the
last look at validation; after an interruption --resume goes on to the same weights.

Examples:
  attnviz train book.txt ./book --steps 2000
  attnviz generate --model ./book \"It was\" --temperature 0.7
  attnviz train book.txt ./book-masked --task masked --minutes 20
  attnviz convert ./book ./book-f16 --dtype f16";

#[derive(Debug, Args)]
pub struct TrainArgs {
    /// Text in UTF-8, a paragraph or sentence per line; - for standard input
    #[arg(value_name = "TEXT_FILE")]
    pub text: PathBuf,
    /// Folder to write
    #[arg(value_name = "OUT")]
    pub out: PathBuf,
    /// causal: goes on from a text; masked: fills gaps in it
    #[arg(long, default_value = "causal")]
    #[arg(value_parser = PossibleValuesParser::new(["causal", "masked"]))]
    pub task: String,
    /// Texts to write at the end, of a causal model
    #[arg(long, value_name = "N", default_value = "3")]
    pub samples: u32,
    /// Go on with a run that was interrupted
    #[arg(long)]
    pub resume: bool,
    /// Write into a folder that holds files, replacing those of the same names
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub sizes: SizeArgs,
    #[command(flatten)]
    pub course: TrainCourseArgs,
    /// Threads, at most one per core; all cores if not given
    #[arg(long, value_name = "N", help_heading = "Running")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
    #[command(flatten)]
    pub talk: TalkArgs,
}

/// What the model is.
#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub struct SizeArgs {
    /// Most tokens of the vocabulary
    #[arg(long, value_name = "N", default_value = "4000")]
    pub vocab: usize,
    /// Make capitals small and strip accents
    #[arg(long)]
    pub lowercase: bool,
    /// Layers
    #[arg(long, value_name = "N", default_value = "4")]
    pub layers: usize,
    /// Heads of each layer
    #[arg(long, value_name = "N", default_value = "4")]
    pub heads: usize,
    /// Width, a multiple of the heads
    #[arg(long, value_name = "N", default_value = "128")]
    pub width: usize,
    /// Width between the two maps behind each attention; four times the width if not given
    #[arg(long, value_name = "N")]
    pub inner: Option<usize>,
    /// Most tokens of a text; --context if not given
    #[arg(long, value_name = "N")]
    pub positions: Option<usize>,
    /// First weights: xavier for query and key and half its range for values, else normal of
    /// deviation 0.02; or normal for all
    #[arg(long, default_value = "xavier")]
    #[arg(value_parser = PossibleValuesParser::new(Init::NAMES.map(|(name, _)| name)))]
    pub init: String,
}

/// How training goes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Course")]
pub struct TrainCourseArgs {
    /// Tokens of a window
    #[arg(long, value_name = "N", default_value = "128")]
    pub context: usize,
    /// Passes over the text
    #[arg(long, value_name = "N", default_value = "4")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub epochs: u32,
    /// Steps, in place of passes
    #[arg(long, value_name = "N", conflicts_with = "epochs")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub steps: Option<u64>,
    /// End with the look at validation after so many minutes, wherever the learning rate is then
    #[arg(long, value_name = "N")]
    pub minutes: Option<f64>,
    /// Windows of a step
    #[arg(long, value_name = "N", default_value = "8")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub batch_size: u16,
    /// The largest learning rate
    #[arg(long, value_name = "X", default_value = "0.002", alias = "lr")]
    pub rate: f64,
    /// How the rate falls: linear, cosine or constant
    #[arg(long, value_name = "SHAPE", default_value = "cosine")]
    #[arg(value_parser = PossibleValuesParser::new(["linear", "cosine", "constant"]))]
    pub schedule: String,
    /// Share of the steps in which the rate rises
    #[arg(long, value_name = "P", default_value = "0.05")]
    pub warmup: f64,
    /// AdamW's weight decay, of matrices
    #[arg(long, value_name = "X", default_value = "0.05")]
    pub weight_decay: f64,
    /// Length to which longer gradients are cut; 0 for none
    #[arg(long, value_name = "X", default_value = "1")]
    pub clip: f64,
    /// Share of hidden numbers that is dropped
    #[arg(long, value_name = "P", default_value = "0")]
    pub dropout: f64,
    /// Share of attention probabilities that is dropped
    #[arg(long, value_name = "P", default_value = "0")]
    pub attention_dropout: f64,
    /// Share of the tokens that a masked model is asked for
    #[arg(long, value_name = "P", default_value = "0.15")]
    pub mask_share: f64,
    /// Mask all of them, rather than 80 %, with another token for 10 % and the same for 10 %
    #[arg(long)]
    pub mask_all: bool,
    /// Steps between two looks at validation
    #[arg(long, value_name = "N", default_value = "500")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub every: u64,
    /// End after N looks without a better one
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub patience: Option<u64>,
    /// Where random numbers begin: first weights, order, windows, masks, dropout
    #[arg(long, value_name = "N", default_value = "0")]
    pub seed: u64,
}
