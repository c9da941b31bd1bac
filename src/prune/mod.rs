//! The head-pruning bench: how much each head matters ([`importance`](fn@importance)), and a
//! checkpoint without the ones that matter least ([`prune`]).
//!
//! A gate is a factor on a head's context, the weighted values that it hands to the output
//! projection: 1 leaves the head as it is, 0 is the head cut out of the weights. Every score here
//! reads or differentiates a run whose gates are 1.

mod ablate;
mod choose;
mod cut;
mod gates;
mod importance;
mod labelled;
mod measure;
mod operations;
mod paired;
mod place;
mod probe;
mod scores;
mod surgery;
mod target;

pub use ablate::{Off, ablate};
pub use choose::{lowest, random_scores};
pub use gates::{Gradients, gradients};
pub use importance::{Sample, Score, importance, integrated};
pub use labelled::{Item, Label, Labelled, Split};
pub use measure::{Likeness, Outputs, cosines, likeness, outputs};
pub use operations::operations;
pub use paired::{Effect, effect, holm};
pub use place::{Removal, StackHead, heads_left};
pub use probe::{Probe, STRENGTHS, Told, told};
pub use scores::{HeadScore, by_layer, pearson, rank_correlation, spearman};
pub use surgery::{PruneOptions, Pruned, prune};
pub use target::{Target, embedding, mask_some};
