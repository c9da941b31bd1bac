//! A text file as ids, and which of them are for validation.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::tokens::Tokenizer;

use super::vocabulary::{CLS, SEP};

/// All tokens of a text, line after line, each between `[CLS]` and `[SEP]`: four bytes a token.
#[derive(Debug, Clone)]
pub struct Corpus {
    /// The ids.
    pub ids: Vec<u32>,
    /// How many of them are unknown to the vocabulary.
    pub unknown: usize,
}

/// Stretches that the text is divided into, of which every [`EVERY`]th is for validation.
const STRETCHES: usize = 200;
const EVERY: usize = 20;

/// Stretches of a text, in tokens.
pub type Stretches = Vec<Range<usize>>;

impl Corpus {
    /// Reads `lines`; blank ones are nothing.
    ///
    /// # Errors
    /// [`Error::Input`] where the tokenizer does not take a line.
    pub fn new<'a>(lines: impl Iterator<Item = &'a str>, tokenizer: &Tokenizer) -> Result<Self> {
        let mut ids = Vec::new();
        let unknown = tokenizer.unknown_id();
        let mut count = 0;
        let lines: Vec<&str> = lines.filter(|line| !line.trim().is_empty()).collect();
        for some in lines.chunks(1 << 12) {
            for line in tokenizer.ids_of(some)? {
                count += line.iter().filter(|&&id| Some(id) == unknown).count();
                ids.push(CLS);
                ids.extend(line);
                ids.push(SEP);
            }
        }
        Ok(Self { ids, unknown: count })
    }

    /// Stretches for training and for validation, all of `context` tokens at least: one in twenty
    /// for validation, spread over the text, and the last one of a short text.
    ///
    /// # Errors
    /// [`Error::Input`] where there are not enough tokens for one of each.
    pub fn split(&self, context: usize) -> Result<(Stretches, Stretches)> {
        let all = self.ids.len();
        let count = (all / context.max(1)).min(STRETCHES);
        if count < 2 {
            let why = format!("{all} tokens, expected {} at least: --context twice", 2 * context);
            return Err(Error::input("text", why));
        }
        let every = EVERY.min(count);
        let stretch = |i: usize| i * all / count..(i + 1) * all / count;
        let held = |i: usize| i % every == every - 1;
        let part = |wanted: bool| (0..count).filter(|&i| held(i) == wanted).map(stretch).collect();
        Ok((part(false), part(true)))
    }
}
