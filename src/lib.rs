//! attnviz: see and question the attention heads of pretrained transformers.
#![deny(missing_docs)]
#![deny(unsafe_code)]

pub mod analysis;
pub mod attention;
pub mod config;
pub mod error;
pub mod export;
mod family;
pub mod hub;
pub mod model;
pub mod output;
pub mod picture;
pub mod select;
pub mod tokens;
pub mod trace;

pub use attention::{Attention, HeadWeights};
pub use error::{Error, Result};
pub use select::{Head, HeadChoice, Indices};
pub use tokens::Token;
mod weights;
pub use config::{Config, Task};
pub use model::{LoadOptions, Model};
pub use trace::{Change, Intervention, Keep, Kept, Recorder, Site, Stack, Trace};

#[cfg(all(doctest, feature = "embedded"))]
#[doc = include_str!("../README.md")]
struct Readme;
