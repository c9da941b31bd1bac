//! Activation patching: what of one run, put into another at one place, carries the answer over.
//!
//! Two prompts of equally many tokens, a clean one with the right answer and a corrupted one without
//! it, are run; then the corrupted one is run again with one activation of the clean run in place of
//! its own ([`Direction::Denoising`]), or the clean one with one of the corrupted run
//! ([`Direction::Noising`]). Denoising finds what is enough to bring the answer back, noising what it
//! cannot do without; the two differ wherever several heads do the same work.
//!
//! # Source
//! Vig et al. 2020, "Investigating Gender Bias in Language Models Using Causal Mediation Analysis";
//! Meng et al. 2022, "Locating and Editing Factual Associations in GPT"; Heimersheim and Nanda 2024,
//! "How to use and interpret activation patching".

mod answer;
mod metric;
mod place;
mod run;

pub use answer::{next_token, token_in_place};
pub use metric::Metric;
pub use place::{By, Place, Point};
pub use run::{Cell, Direction, Patching, Prompt};
