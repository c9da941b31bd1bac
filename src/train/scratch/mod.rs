//! Models from nothing: a tokenizer and first weights for a text, and the text as examples.

mod recipe;
mod start;
mod text;
mod vocabulary;
mod windows;

pub use recipe::{Recipe, Windows};
pub use start::{Init, NewModel};
pub use text::Corpus;
pub use vocabulary::{Vocabulary, wordpiece};
pub use windows::{Masking, WindowExamples};
