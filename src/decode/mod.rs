//! Logits → tokens → texts: which token to take, by temperature and seed, and writing with a cache.

mod filters;
pub mod sampler;
pub mod sampling;
pub mod writer;

pub use sampler::{Choice, Sampler};
pub use sampling::Sampling;
pub use writer::{End, Start, Until, Writer, Writing, Written};
