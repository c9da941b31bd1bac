//! Derivatives against differences.

use clap::Args;

use super::{ModelArgs, RunArgs, TalkArgs, TextsArgs};

pub const NOTES: &str = "\
The loss of the first batch is differentiated by every tensor of the checkpoint and by the gate
of every head. Each derivative is held against central differences along the gradient itself
and along random halves of its entries: over several lengths of step, of which three that agree
give the number. A tensor fails where the two differ by more than --tolerance, as a share of the
larger, beyond what the differences leave open; the exit code is then 1.";

#[derive(Debug, Args)]
pub struct GradcheckArgs {
    /// The text, as one argument
    #[arg(value_name = "TEXT", conflicts_with_all = ["file", "data"])]
    pub text: Option<String>,
    /// Words that someone forgot to quote
    #[arg(hide = true)]
    pub loose: Vec<String>,
    #[command(flatten)]
    pub texts: TextsArgs,
    /// Check only tensors whose name here has this in it, such as attention or layers.0
    #[arg(long, value_name = "PART")]
    pub only: Option<String>,
    /// Directions per tensor
    #[arg(long, value_name = "N", default_value = "2")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..))]
    pub directions: u8,
    /// How far the two may be apart
    #[arg(long, value_name = "X", default_value = "0.01")]
    pub tolerance: f64,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub talk: TalkArgs,
}
