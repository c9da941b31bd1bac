//! Activation patching: what of one run, put into another at one place, carries the answer over.
//!
//! Two prompts of equally many tokens, a clean one with the right answer and a corrupted one without
//! it, are run; then the corrupted one is run again with one activation of the clean run in place of
//! its own ([`Direction::Denoising`]), or the clean one with one of the corrupted run
//! ([`Direction::Noising`]). Denoising finds what is enough to bring the answer back, noising what it
//! cannot do without; the two differ wherever several heads do the same work.
//!
//! ```
//! use attnviz::patch::{By, Direction, Metric, Patching, Point, Prompt};
//! use attnviz::tokens::{Batch, Input, Limit};
//! use attnviz::{Model, Stack};
//!
//! # fn main() -> attnviz::Result<()> {
//! # if cfg!(not(feature = "embedded")) { return Ok(()) }
//! let model = Model::from_pretrained("built-in")?;
//! let tokenizer = model.tokenizer()?;
//! let prompt = |text: &str| -> attnviz::Result<Prompt> {
//!     let encoding = tokenizer.encode(&Input::Text(text.into()), &Limit::default())?;
//!     Ok(Prompt { read: Batch::new(&[encoding], tokenizer.pad_id()), written: None })
//! };
//! let clean = prompt("The man is eating food in the kitchen")?;
//! let corrupted = prompt("The man is eating glass in the kitchen")?;
//! let patching = Patching::new(
//!     &model,
//!     Stack::Encoder,
//!     (&clean, &corrupted),
//!     &[Point::Output],
//!     Metric::Cosine, // to the clean text's embedding; a language model has logits to compare
//!     Direction::Denoising,
//! )?;
//! let heads = model.config().heads.iter().cloned().enumerate().collect();
//! let cells = patching.sweep(Point::Output, By::Head, &heads, || {})?;
//! let most = cells.iter().max_by(|a, b| a.restored.total_cmp(&b.restored)).expect("72 heads");
//! assert_eq!((most.place.layer, &most.place.heads), (5, &Some(vec![11])));
//! # Ok(()) }
//! ```
//!
//! # Source
//! Vig et al. 2020, "Investigating Gender Bias in Language Models Using Causal Mediation Analysis";
//! Meng et al. 2022, "Locating and Editing Factual Associations in GPT"; Heimersheim and Nanda 2024,
//! "How to use and interpret activation patching".

mod answer;
mod metric;
mod place;
mod run;
mod sweep;

pub use answer::{next_token, token_in_place};
pub use metric::Metric;
pub use place::{By, Place, Point};
pub use run::{Direction, Patching, Prompt};
pub use sweep::Cell;
