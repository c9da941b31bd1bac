//! Pieces of the vocabulary, taken as they are.

use super::input::not_blank;
use super::words::{self, Span};
use super::{Encoding, Kind, Token, Tokenizer, display};
use crate::error::{Error, Result};

impl Tokenizer {
    /// The text is what the pieces spell: one that continues the piece before it is written onto
    /// that, and belongs to the same word.
    pub(super) fn pieces(&self, pieces: &[String]) -> Result<Encoding> {
        let (mut text, mut end) = (String::new(), 0);
        let mut words: Vec<Span> = Vec::new();
        let mut tokens = Vec::with_capacity(pieces.len());
        for (index, piece) in pieces.iter().enumerate() {
            not_blank(&format!("tokens[{index}]"), piece)?;
            let mut token = self.piece_token(piece)?;
            if !token.special {
                let (written, continues) = self.written(piece);
                let continues = continues && tokens.last().is_some_and(is_typed);
                // a piece by itself is shown as it is
                let written = if continues || self.spaced() { written } else { piece.clone() };
                if !continues && !words.is_empty() {
                    text.push(' ');
                    end += 1;
                }
                let start = end;
                text.push_str(&written);
                end += written.chars().count();
                match words.last_mut() {
                    Some(word) if continues => word.end = end,
                    _ => words.push(Span { start, end }),
                }
                token.offsets = (start, end);
            }
            tokens.push(token);
        }
        let words = words::assign(&mut tokens, 0, &words);
        Ok(Encoding::new(tokens, vec![text], vec![words]))
    }

    /// Whether pieces bring the spaces between words along.
    pub(crate) fn spaced(&self) -> bool {
        matches!(self.kind, Kind::ByteLevelBpe | Kind::Bpe | Kind::Unigram)
    }

    /// What a piece writes, and whether it continues the piece before it.
    pub(crate) fn written(&self, piece: &str) -> (String, bool) {
        if self.spaced() {
            let text = display::readable(self.kind, piece);
            let word = text.strip_prefix(' ');
            return (word.unwrap_or(&text).to_owned(), word.is_none());
        }
        let prefix = self.special.prefix.as_deref().unwrap_or("##");
        let rest = piece.strip_prefix(prefix).filter(|rest| !rest.is_empty());
        (rest.unwrap_or(piece).to_owned(), rest.is_some())
    }

    pub(super) fn piece_token(&self, piece: &str) -> Result<Token> {
        let known = self.id(piece);
        let Some(id) = known.or(self.special.unknown) else {
            let why = format!("`{piece}` is not in the vocabulary, which has no unknown token");
            return Err(Error::input("tokens", why));
        };
        let special = [self.special.cls, self.special.sep].contains(&Some(id));
        Ok(Token {
            text: self.shown(id, piece),
            id: Some(id),
            sequence: (!special).then_some(0),
            special,
            unknown: known.is_none().then(|| piece.to_owned()),
            ..Token::default()
        })
    }
}

fn is_typed(token: &Token) -> bool {
    !token.special
}
