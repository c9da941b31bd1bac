//! Logits → tokens: which token to take, by temperature and seed.

mod filters;
pub mod sampler;
pub mod sampling;

pub use sampler::{Choice, Sampler};
pub use sampling::Sampling;
