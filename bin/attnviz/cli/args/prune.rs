//! The head-pruning bench: scores, ablation, surgery.

use std::path::PathBuf;

use attnviz::prune::{Budget, Off, Removal, Score, Scoring};
use attnviz::study::LOSSES;
use clap::Args;
use clap::builder::PossibleValuesParser;

use super::{ModelArgs, RunArgs, TalkArgs};

pub const STRATEGIES: [&str; 4] = ["one-shot", "iterative", "greedy", "random"];

pub const SCORE_NOTES: &str = "\
Scores, each the mean over all texts; g is a head's gate, L the loss of a text:
  gradient     |dL/dg| at g = 1 (Michel et al. 2019)
  fisher       (dL/dg)² at g = 1
  integrated   |∫ dL/dg dg| from 0 to 1, the heads of a layer together
  jacobian     ‖df/dg‖², f being the text's embedding; needs no loss
  confidence   largest weight of each token, [CLS] and the like left out (Voita et al. 2019)
  output-norm  length of what the head adds to the residual stream
  l0, l1       the gate that training leaves the head, weights held, where the number
               of open gates (Louizos et al. 2018) or their sizes stand against L

Losses:
  masked-lm    tokens that are masked for it; the default of a masked language model
  causal-lm    the next token; the default of a causal one
  seq2seq-lm   the next token of the text to write, text_b of a pair or else the text
               itself; the default of a model that reads and writes
  embedding    1 - cosine to the unpruned model's own embedding, for integrated and ablate
  logits       divergence from the unpruned model's own distribution, likewise";

pub const PRUNE_NOTES: &str = "\
Scores are made on the part of a labelled set for training, choices by its part for
validation, reports on its part for tests; of texts in a file three, one and one of each
five in their order.

Lists of heads: L3H1,L5H2 or 5:0,3;8:10 or 0,7 (of each layer) or {\"5\": [0, 3]}; before
a list of an encoder-decoder encoder:, decoder: or cross:, as in --remove decoder:L0H1.
Layers that share a block (ALBERT) lose a head together; heads that share keys and
values go only as a whole group. The folder names what went in config.json under
pruned_heads, by original numbers, as transformers 4 did.";

/// What heads are scored and measured on.
#[derive(Debug, Args)]
pub struct TextsArgs {
    /// One text per line; .jsonl for lines with text (and text_b), words or tokens; - for standard
    /// input
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// A labelled set in place of texts: sentiment or pairs, which come with the program, or a file;
    /// tab-separated with a header, .jsonl or .parquet: text or text_a and text_b, label or score,
    /// split; or words and labels. Heads are scored on its part for training, reports are on the
    /// one for tests
    #[arg(long, value_name = "SET", conflicts_with_all = ["file", "loss"])]
    pub data: Option<String>,
    /// Texts to run at once
    #[arg(long, value_name = "N", default_value = "8")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub batch_size: u16,
    /// What a text's loss is; by the model's head if not given
    #[arg(long, value_name = "LOSS")]
    #[arg(value_parser = PossibleValuesParser::new(LOSSES))]
    pub loss: Option<String>,
    /// Share of the tokens that is masked for masked-lm
    #[arg(long, value_name = "P", default_value = "0.15", allow_negative_numbers = true)]
    pub mask_share: f64,
    /// Where random numbers begin: masks, probes, resamplings
    #[arg(long, value_name = "N", default_value = "0")]
    pub seed: u64,
}

/// How scores are made.
#[derive(Debug, Args)]
pub struct ScoringArgs {
    /// Divide each score by the ℓ2 norm of its layer's
    #[arg(long)]
    pub by_layer: bool,
    /// Points of the integral
    #[arg(long, value_name = "N", default_value = "10")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub steps: u16,
    /// Projections of the Jacobian
    #[arg(long, value_name = "N", default_value = "8")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub probes: u16,
    /// Steps in which the gates of l0 and l1 are trained
    #[arg(long, value_name = "N", default_value = "200")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub gate_steps: u16,
}

impl ScoringArgs {
    pub fn with(&self, seed: u64) -> Scoring {
        Scoring {
            points: self.steps.into(),
            probes: self.probes.into(),
            gate_steps: self.gate_steps.into(),
            seed,
        }
    }
}

#[derive(Debug, Args)]
pub struct ImportanceArgs {
    /// The text, as one argument
    #[arg(value_name = "TEXT", conflicts_with_all = ["file", "data"])]
    pub text: Option<String>,
    /// Words that someone forgot to quote
    #[arg(hide = true)]
    pub loose: Vec<String>,
    #[command(flatten)]
    pub texts: TextsArgs,
    /// Scores, several as gradient,confidence; if not given gradient, or jacobian without a loss
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    #[arg(value_parser = PossibleValuesParser::new(Score::NAMES))]
    pub score: Vec<String>,
    #[command(flatten)]
    pub scoring: ScoringArgs,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub talk: TalkArgs,
}

#[derive(Debug, Args)]
pub struct PruneArgs {
    /// Folder to write
    #[arg(value_name = "OUT")]
    pub out: PathBuf,
    /// Heads to remove; several times for several stacks
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    #[arg(conflicts_with_all = ["fraction", "budget"])]
    #[arg(required_unless_present_any = ["fraction", "budget"])]
    pub remove: Vec<Removal>,
    /// Share of all heads to remove, those of the lowest scores first
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub fraction: Option<f64>,
    /// The most that may stay in place of a share that goes: heads=36, params=18M, or flops=80%
    /// of what there is; flops are those of 128 tokens
    #[arg(long, value_name = "WHAT=AMOUNT", conflicts_with = "fraction")]
    pub budget: Option<Budget>,
    /// Score to choose by, or random; if not given gradient, or jacobian without a loss
    #[arg(long, value_name = "SCORE")]
    #[arg(value_parser = PossibleValuesParser::new(Score::NAMES.into_iter().chain(["random"])))]
    pub score: Option<String>,
    /// How heads are found: by one score, by a score that is made again in rounds, one by one by
    /// what the model loses on other texts (greedy, slow), or at random
    #[arg(long, value_name = "NAME", conflicts_with = "remove")]
    #[arg(value_parser = PossibleValuesParser::new(STRATEGIES))]
    pub strategy: Option<String>,
    /// Score again after each of N equal parts of the way; 5 if not given with iterative
    #[arg(long, value_name = "N", conflicts_with = "remove")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub rounds: Option<u16>,
    #[command(flatten)]
    pub scoring: ScoringArgs,
    #[command(flatten)]
    pub texts: TextsArgs,
    /// Keep the mean output of removed heads, over the texts for scores, in the output bias
    #[arg(long)]
    pub fold_bias: bool,
    /// Let a layer lose all its heads
    #[arg(long)]
    pub allow_empty_layers: bool,
    /// Write into a folder that holds files, replacing those of the same names
    #[arg(long)]
    pub force: bool,
    /// Measure the time of a pass at 1, 4, 16 and 64 texts before and after
    #[arg(long)]
    pub latency: bool,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub talk: TalkArgs,
}

#[derive(Debug, Args)]
pub struct AblateArgs {
    /// The text, as one argument
    #[arg(value_name = "TEXT", conflicts_with_all = ["file", "data"])]
    pub text: Option<String>,
    /// Words that someone forgot to quote
    #[arg(hide = true)]
    pub loose: Vec<String>,
    #[command(flatten)]
    pub texts: TextsArgs,
    /// What a head gives while it is off: nothing, its mean over the texts, its output for another
    /// text, or its values by even weights
    #[arg(long, value_name = "KIND", default_value = "zero")]
    #[arg(value_parser = PossibleValuesParser::new(Off::NAMES.map(|(name, _)| name)))]
    pub off: String,
    /// Which heads are off: each alone, all others of its layer, or all others
    #[arg(long, value_name = "SETS", default_value = "each")]
    #[arg(value_parser = PossibleValuesParser::new(["each", "layer-others", "all-others"]))]
    pub sets: String,
    /// File for a picture of layers and heads, .png or .svg
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Overwrite a picture that is there
    #[arg(long, requires = "out")]
    pub force: bool,
    /// Resamplings behind intervals and tests; if not given 1000, or 40 for each head, so that a
    /// mark is possible after Holm
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rounds: Option<u32>,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub talk: TalkArgs,
}
