//! `attnviz fill`.

use std::num::NonZeroUsize;

use attnviz::decode::Order;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::{DrawnArgs, InputArgs, ModelArgs, RunArgs, SamplingArgs, TalkArgs};

pub const NOTES: &str = "\
What a masked language model expects at one mask depends on the words around it,
but its expectations at several masks are not those of one joint distribution:
other orders and rewriting (--iterations) give other texts, none of them a sample
of \"the\" distribution of the model (Wang & Cho 2019).

Pictures show what the masks attend to while all are masked.

Examples:
  attnviz fill --model bert-base-uncased \"The [MASK] sat on the [MASK].\"
  attnviz fill --model roberta-base \"Paris is the <mask> of France.\" --per-layer
  attnviz fill --model bert-base-uncased \"The [MASK] [MASK] again.\" --samples 5
      --temperature 0.7 --top-k 50 --iterations 10 --seed 1";

#[derive(Debug, Args)]
pub struct FillArgs {
    #[command(flatten)]
    pub input: InputArgs,
    /// Which mask to fill first, for the next is read with it filled
    #[arg(long, value_name = "ORDER", default_value_t = Order::default())]
    #[arg(value_parser = PossibleValuesParser::new(Order::NAMES.map(|(name, _)| name))
        .try_map(|name| name.parse::<Order>()))]
    pub fill_order: Order,
    /// Mask and fill each mask again so many times (pseudo-Gibbs)
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value = "0")]
    #[arg(value_parser = clap::value_parser!(u32).range(..=100_000))]
    pub iterations: u32,
    /// How many candidates to list per mask
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value = "5")]
    pub top: NonZeroUsize,
    /// List what the masked-LM head reads off each layer (logit lens)
    #[arg(long)]
    pub per_layer: bool,
    #[command(flatten)]
    pub sampling: SamplingArgs,
    #[command(flatten)]
    pub drawn: DrawnArgs,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub talk: TalkArgs,
}
