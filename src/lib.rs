//! attnviz: see, question and prune the attention heads of pretrained transformers.
#![deny(missing_docs)]
#![deny(unsafe_code)]

pub mod attention;
pub mod error;
pub mod hub;
pub mod select;
pub mod tokens;

pub use attention::{Attention, HeadWeights};
pub use error::{Error, Result};
pub use select::{Head, HeadChoice, Indices};
pub use tokens::Token;
