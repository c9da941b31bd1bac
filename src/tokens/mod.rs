//! Text or pair → tokens: ids, type ids, display text, words, offsets.
//!
//! ```
//! use attnviz::hub::{HubEnv, ModelRequest, resolve};
//! use attnviz::tokens::{Input, Limit, Tokenizer};
//!
//! # fn main() -> attnviz::Result<()> {
//! # if cfg!(not(feature = "embedded")) { return Ok(()) }
//! let files = resolve(&ModelRequest::default(), &HubEnv::from_env(), &())?;
//! let tokenizer = Tokenizer::open(&files.tokenizer)?;
//! let limit = Limit { max: Some(512), truncate: false };
//! let encoding = tokenizer.encode(&Input::Text("It didn't rain".into()), &limit)?;
//!
//! let pieces: Vec<&str> = encoding.tokens.iter().map(|token| token.text.as_str()).collect();
//! assert_eq!(pieces, ["[CLS]", "it", "didn", "'", "t", "rain", "[SEP]"]);
//! assert_eq!(encoding.words(0), ["It", "didn't", "rain"]);
//! assert_eq!(encoding.tokens[4].word, Some(1));
//! # Ok(()) }
//! ```

mod batch;
mod byte_level;
mod charsmap;
mod class;
mod continued;
mod decode;
mod display;
mod encoding;
mod ends;
pub(crate) mod gguf;
mod given;
mod ids;
mod input;
mod kind;
mod limit;
mod load;
mod marian;
mod own_pieces;
mod pieces;
mod settings;
mod spans;
mod special;
mod target;
mod tokenizer;
mod wordpiece;
mod words;

pub use batch::{Batch, group_by_length};
pub use decode::DecodeStream;
pub use encoding::{Encoding, Unknown};
pub use input::Input;
pub use kind::{Behaviour, Kind};
pub use limit::Limit;
pub use spans::Spans;
pub use tokenizer::Tokenizer;

/// One token as the model sees it and as a person should read it.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct Token {
    /// Readable text: `##` kept; the markers of other kinds turned back into text, so that a piece
    /// that begins a word begins with a space; bytes of a character that is split over pieces as
    /// `<E6><88>`.
    pub text: String,
    /// Row of the embedding table; `None` for tokens that came without a model.
    pub id: Option<u32>,
    /// Token type (segment) id: 0 or 1.
    pub type_id: u32,
    /// Which text of a pair it belongs to (0 or 1); `None` for special tokens.
    pub sequence: Option<usize>,
    /// Which word of its sequence, counted from 0; `None` for special tokens.
    pub word: Option<usize>,
    /// First and last-but-one character of the token in its text: `start..end`, counted in
    /// Unicode characters, `(0, 0)` for special tokens.
    pub offsets: (usize, usize),
    /// Added by the tokenizer (`[CLS]`, `[SEP]`) rather than typed.
    pub special: bool,
    /// What was typed where the vocabulary had only the unknown token for it.
    pub unknown: Option<String>,
}
