//! The head-pruning bench: how much each head matters ([`importance`](fn@importance)), and a
//! checkpoint without the ones that matter least ([`prune`]).
//!
//! A gate is a factor on a head's context, the weighted values that it hands to the output
//! projection: 1 leaves the head as it is, 0 is the head cut out of the weights. Every score here
//! reads or differentiates a run whose gates are 1.

mod ablate;
mod budget;
mod cut;
mod even;
mod gates;
mod importance;
mod means;
mod operations;
mod place;
mod score;
mod scores;
mod source;
mod strategy;
mod surgery;
mod units;

pub use ablate::{Off, ablate};
pub use budget::{Allowance, Budget, Quantity};
pub use gates::{Gradients, gradients};
pub(crate) use gates::{layers, running};
pub use importance::{importance, integrated};
pub use means::HeadMeans;
pub use operations::operations;
pub use place::{Removal, StackHead, heads_left, off};
pub(crate) use place::{name as stack_name, stacks};
pub use score::{Score, Scoring};
pub use scores::{HeadScore, by_layer, rank_correlation};
pub use strategy::{Chooser, Strategy};
pub use surgery::{PruneOptions, Pruned, prune};
pub use units::{lowest, random_scores};
