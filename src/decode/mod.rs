//! Logits → tokens → texts: which token to take, by temperature and seed; masks filled with them;
//! texts written with a cache.

pub mod fill;
mod filters;
pub mod lens;
pub mod order;
pub mod sampler;
pub mod sampling;
mod spell;
pub mod stop;
pub mod text;
pub mod writer;

pub use fill::{Candidates, Filled, Filler, Step};
pub use lens::Reading;
pub use order::Order;
pub use sampler::{Choice, Sampler};
pub use sampling::Sampling;
pub use stop::Stop;
pub use text::{End, Written};
pub use writer::{Start, Until, Writer, Writing};
