//! The second text of an encoder-decoder, as its decoder reads it.

use super::{Encoding, Input, Limit, Token, Tokenizer};
use crate::error::{Error, Result};

impl Tokenizer {
    /// Tokenizes a text that a decoder is to have written: what the decoder reads of it is `start`
    /// and then all tokens but a special last one, which it would write and never read (as in
    /// training; Williams & Zipser 1989). By [`Tokenizer::target`], where there is one.
    ///
    /// # Errors
    /// Those of [`Tokenizer::encode`].
    pub fn encode_target(&self, text: &str, start: u32, limit: &Limit) -> Result<Encoding> {
        let side = self.target().unwrap_or(self);
        let named = |error| match error {
            Error::Input { why, .. } => Error::input("target", why),
            other => other,
        };
        let mut encoding = side.encode(&Input::Text(text.into()), limit).map_err(named)?;
        encoding.tokens.pop_if(|last| last.special);
        let piece = side.piece(start).unwrap_or_else(|| format!("<{start}>"));
        let token = Token { text: piece, id: Some(start), special: true, ..Token::default() };
        encoding.tokens.insert(0, token);
        Ok(encoding)
    }
}
