//! Trace → numbers: pure functions on [`Attention`](crate::Attention), a file per idea.
//!
//! Nothing here needs a model: arrays from elsewhere with their tokens do as well.

pub mod links;
pub mod merge;
pub mod patterns;
pub mod rollout;

pub use links::{Link, links};
pub use merge::{WithoutSpecial, merge_words, without_special};
pub use patterns::{Pattern, Shares, patterns, shares};
pub use rollout::{RESIDUAL, rollout, rollout_null};
