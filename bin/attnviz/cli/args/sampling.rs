//! How tokens are drawn.

use attnviz::decode::Sampling;
use clap::Args;

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sampling")]
pub struct SamplingArgs {
    /// Divides the logits before the soft-max: 0 takes the likeliest token, below 1 favours likely
    /// ones, above 1 flattens; if not given, 1 where anything below asks for draws, else 0
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    pub temperature: Option<f64>,
    /// Draw from the N likeliest tokens
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub top_k: Option<usize>,
    /// Draw from the fewest likeliest tokens that have this probability together
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub top_p: Option<f64>,
    /// Draw from the tokens at least this times as probable as the likeliest
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub min_p: Option<f64>,
    /// Where random numbers begin: the same seed draws the same
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value = "0")]
    pub seed: u64,
    /// How many texts to draw
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value = "1")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub samples: u32,
}

impl SamplingArgs {
    /// The numbers that were given; `draws` says whether something else asks for draws.
    pub fn sampling(&self, draws: bool) -> Sampling {
        let filters = self.top_k.is_some() || self.top_p.is_some() || self.min_p.is_some();
        let draws = draws || filters || self.samples > 1;
        Sampling {
            temperature: self.temperature.unwrap_or(if draws { 1.0 } else { 0.0 }),
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            ..Sampling::default()
        }
    }
}
