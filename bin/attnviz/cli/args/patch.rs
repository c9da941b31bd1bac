//! `attnviz patch`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use attnviz::patch::{By, Direction, Point};
use attnviz::picture::Format;
use attnviz::{HeadChoice, Indices};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::{Given, ModelArgs, RunArgs, TalkArgs};

/// The names of `--metric`.
pub const METRICS: [&str; 4] = ["logit-difference", "probability", "divergence", "cosine"];

pub const NOTES: &str = "\
The corrupted text is run again and again, each time with one activation of the clean run
in place of its own (or, with --direction noising, the clean text with one of the
corrupted run). Numbers are on a scale on which the corrupted run is 0 and the clean
one 1. Both texts must have as many tokens: exchange a word for another.

Sites:
  query, key, value  of a head; keys and values that heads share go together
  pattern            attention probabilities: where a head looks
  head_output        weighted values, and so all that a head adds
  residual           output of a layer, by position only

Metrics, at the mask or behind the last token:
  logit-difference   logit of --answer less that of --wrong; the default with both
  probability        of --answer; the default with it alone
  divergence         of the distribution from the clean run's, in nats; the default
                     without --answer
  cosine             of the mean embedding to the clean run's; the default of models
                     without a head

Examples:
  attnviz patch --model gpt2 \"The capital of France is\" \"The capital of Italy is\"
      --answer Paris --wrong Rome --png
  attnviz patch --model bert-base-uncased \"The cat said [MASK] meow.\"
      \"The dog said [MASK] meow.\" --site query,key,value,pattern --by head
  attnviz patch \"A man is eating food\" \"A man is eating glass\"";

#[derive(Debug, Args)]
pub struct PatchArgs {
    /// The text with the right answer, as one argument
    #[arg(value_name = "CLEAN")]
    pub clean: Option<String>,
    /// The text without it, of as many tokens
    #[arg(value_name = "CORRUPTED", requires = "clean")]
    pub corrupted: Option<String>,
    /// Words that someone forgot to quote
    #[arg(hide = true)]
    pub loose: Vec<String>,
    /// What the decoder of an encoder-decoder has written so far, in both runs
    #[arg(long, value_name = "TEXT")]
    pub target: Option<String>,
    /// Token that the clean text is to give; a class, where the head classifies
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    pub answer: Option<String>,
    /// Token that the corrupted text is to give
    #[arg(long, value_name = "WORD", allow_hyphen_values = true, requires = "answer")]
    pub wrong: Option<String>,
    /// What is measured of a run; by the answers and the model's head if not given
    #[arg(long, value_name = "METRIC")]
    #[arg(value_parser = PossibleValuesParser::new(METRICS))]
    pub metric: Option<String>,
    /// Position that is measured at, from 0, or from the end as -1; if not given the mask's, or the
    /// last
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub at: Option<i64>,
    /// What is patched, several as query,pattern
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "head_output")]
    #[arg(value_parser = PossibleValuesParser::new(Point::NAMES.map(|(name, _)| name))
        .map(|name| named(&Point::NAMES, &name)))]
    pub site: Vec<Point>,
    /// What is told apart: heads, positions, or each head at each position; if not given heads and
    /// then positions
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    #[arg(value_parser = PossibleValuesParser::new(By::NAMES.map(|(name, _)| name))
        .map(|name| named(&By::NAMES, &name)))]
    pub by: Vec<By>,
    /// Which run gets activations of the other
    #[arg(long, value_name = "WAY", default_value = "denoising")]
    #[arg(value_parser = PossibleValuesParser::new(Direction::NAMES.map(|(name, _)| name))
        .map(|name| named(&Direction::NAMES, &name)))]
    pub direction: Direction,
    /// Which attention of an encoder-decoder: encoder (the default), decoder or cross
    #[arg(long, value_name = "STACK")]
    #[arg(value_parser = PossibleValuesParser::new(["encoder", "decoder", "cross"]))]
    pub stack: Option<String>,
    /// Layers to patch: 0-3,-1 (from 0; negative from the end)
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub layers: Option<Given<Indices>>,
    /// Heads to patch: 0,7-9 of each layer, or L3H1,L5H11, or 3:1;5:0,11
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub heads: Option<Given<HeadChoice>>,
    /// How many places to list
    #[arg(long, value_name = "N", default_value = "10")]
    pub top: NonZeroUsize,
    /// Draw each site, layers down and heads or positions across
    #[arg(long, help_heading = "Pictures")]
    pub png: bool,
    /// Folder that gets a folder of pictures
    #[arg(short, long, value_name = "DIR", default_value = "notebooks-out")]
    #[arg(help_heading = "Pictures")]
    pub out: PathBuf,
    /// Write into a folder that attnviz did not make
    #[arg(long, help_heading = "Pictures")]
    pub force: bool,
    /// File formats: png, svg, or both as png,svg
    #[arg(long, value_name = "LIST", default_value = "png", value_delimiter = ',')]
    #[arg(help_heading = "Pictures")]
    pub format: Vec<Format>,
    /// Light on dark
    #[arg(long, help_heading = "Pictures")]
    pub dark: bool,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub talk: TalkArgs,
}

/// A name that was checked → its value.
fn named<T: Copy>(names: &[(&str, T)], name: &str) -> T {
    names.iter().find(|(one, _)| *one == name).unwrap_or(&names[0]).1
}
