//! Training a checkpoint further, and gates with it.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;

use super::{ModelArgs, RunArgs, TalkArgs};

pub const NOTES: &str = "\
A labelled set with classes of texts or of words trains the model's own classifier, or a new
one on top where the checkpoint has none that knows them all by name or number; a word is told
at its first token. Pairs with scores train the cosine of their mean embeddings; a file of texts
trains a masked or causal language model.

With --gates each head has a gate that is trained with the weights (Voita et al. 2019): l0
draws it from a hard-concrete distribution and counts the gates that are open (Louizos et al.
2018), l1 sums their sizes. The scale of each head's values and output weights is held
meanwhile, so that they cannot undo a gate. Then the heads of the smallest gates are cut out,
--fraction of all of them, and the rest is trained on without gates.

While it runs, OUT.run holds its state; after an interruption --resume goes on from there to
the same numbers. Weights of f16 or bf16 are trained as f32 and rounded when they are written.";

#[derive(Debug, Args)]
pub struct FinetuneArgs {
    /// Folder to write
    #[arg(value_name = "OUT")]
    pub out: PathBuf,
    /// A labelled set: sentiment or pairs, which come with the program, or a file as for prune
    #[arg(long, value_name = "SET", conflicts_with = "file")]
    #[arg(required_unless_present = "file")]
    pub data: Option<String>,
    /// One text per line, for a masked or causal language model; every tenth is for validation
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Share of the tokens that is masked
    #[arg(long, value_name = "P", default_value = "0.15")]
    pub mask_share: f64,
    #[command(flatten)]
    pub course: CourseArgs,
    #[command(flatten)]
    pub gates: GateArgs,
    /// Another model to hold the result against, item by item on the part for tests
    #[arg(long, value_name = "MODEL", requires = "data")]
    pub against: Option<String>,
    /// How much worse than --against counts as no worse
    #[arg(long, value_name = "X", default_value = "0.05", requires = "against")]
    pub margin: f64,
    /// Go on with a run that was interrupted
    #[arg(long)]
    pub resume: bool,
    /// Write into a folder that holds files, replacing those of the same names
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub talk: TalkArgs,
}

/// How training goes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Course")]
pub struct CourseArgs {
    /// Passes over the examples
    #[arg(long, value_name = "N", default_value = "3")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub epochs: u32,
    /// Steps, in place of passes
    #[arg(long, value_name = "N", conflicts_with = "epochs")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub steps: Option<u64>,
    /// Examples of a step
    #[arg(long, value_name = "N", default_value = "16")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub batch_size: u16,
    /// The largest learning rate
    #[arg(long, value_name = "X", default_value = "5e-5", alias = "lr")]
    pub rate: f64,
    /// How the rate falls: linear, cosine or constant
    #[arg(long, value_name = "SHAPE", default_value = "linear")]
    #[arg(value_parser = PossibleValuesParser::new(["linear", "cosine", "constant"]))]
    pub schedule: String,
    /// Share of the steps in which the rate rises
    #[arg(long, value_name = "P", default_value = "0.1")]
    pub warmup: f64,
    /// AdamW's weight decay, of matrices
    #[arg(long, value_name = "X", default_value = "0.01")]
    pub weight_decay: f64,
    /// Length to which longer gradients are cut; 0 for none
    #[arg(long, value_name = "X", default_value = "1")]
    pub clip: f64,
    /// Share of hidden numbers that is dropped
    #[arg(long, value_name = "P", default_value = "0.1")]
    pub dropout: f64,
    /// Share of attention probabilities that is dropped
    #[arg(long, value_name = "P", default_value = "0.1")]
    pub attention_dropout: f64,
    /// Steps between two looks at the part for validation; a pass if not given
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub every: Option<u64>,
    /// End after N looks without a better one
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub patience: Option<u64>,
    /// Where random numbers begin: order, masks, dropout, gates, new weights
    #[arg(long, value_name = "N", default_value = "0")]
    pub seed: u64,
}

/// Gates that are trained with the weights.
#[derive(Debug, Args)]
#[command(next_help_heading = "Gates")]
pub struct GateArgs {
    /// Train a gate for each head: l0 or l1
    #[arg(long, value_name = "PENALTY")]
    #[arg(value_parser = PossibleValuesParser::new(["l0", "l1"]))]
    pub gates: Option<String>,
    /// What the penalty weighs against the loss, as the mean over heads
    #[arg(long, value_name = "X", default_value = "1", requires = "gates")]
    pub gate_weight: f64,
    /// The learning rate of gates in proportion to that of weights
    #[arg(long, value_name = "X", default_value = "1000", requires = "gates")]
    pub gate_rate: f64,
    /// Share of all heads that goes
    #[arg(long, value_name = "P", default_value = "0.5", requires = "gates")]
    pub fraction: f64,
    /// Passes over the examples after the cut
    #[arg(long, value_name = "N", default_value = "2", requires = "gates")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub recover_epochs: u32,
}
