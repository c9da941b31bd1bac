//! attnviz: see and question the attention heads of pretrained transformers.
//!
//! Text → tokens → model → trace → analysis → picture; each stage is a module, and what comes after
//! the trace takes arrays alone, wherever they come from.
//!
//! ```
//! use attnviz::picture::{Format, Style, TextEngine, View, heatmap};
//! use attnviz::tokens::{Batch, Input, Limit};
//! use attnviz::{Head, Keep, Model, Recorder, Site, Stack};
//!
//! # fn main() -> attnviz::Result<()> {
//! # if cfg!(not(feature = "embedded")) { return Ok(()) }
//! let model = Model::from_pretrained("built-in")?; // or a folder, a file, a Hub id
//! let text = Input::Text("The cat sat because it was tired".into());
//! let encoding = model.tokenizer()?.encode(&text, &Limit::default())?;
//! let batch = Batch::new(&[encoding.clone()], model.tokenizer()?.pad_id());
//! let mut recorder = Recorder::new().keep(Site::Probs, Keep::All);
//! model.forward(&batch, &mut recorder, &[])?;
//! let trace = recorder.into_trace()?;
//! let attention = trace.attention(Stack::Encoder, 0, &encoding.tokens, model.config())?;
//!
//! let (head, style) = (Head { layer: 3, head: 1 }, Style::default());
//! let view = View::head(&attention, head, "MiniLM", &style.scale.resolve(&attention))?;
//! let png = heatmap(&view, &style, Format::Png, &TextEngine::new())?;
//! assert!(png.starts_with(b"\x89PNG"));
//! # Ok(()) }
//! ```
#![deny(missing_docs)]
#![deny(unsafe_code)]

pub mod analysis;
pub mod attention;
pub mod config;
pub mod decode;
pub mod error;
pub mod export;
mod family;
mod gguf;
pub mod hub;
pub mod model;
pub mod notebook;
pub mod output;
pub mod patch;
pub mod picture;
pub mod prune;
pub mod select;
pub mod study;
pub mod task;
pub mod tokens;
pub mod trace;
pub mod train;

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
