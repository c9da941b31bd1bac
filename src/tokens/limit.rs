//! How long an input may be, and what is cut from one that is longer.

use super::{Encoding, words};
use crate::error::{Error, Result};

/// How many tokens the model takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limit {
    /// Most tokens, special ones included; `None` for no limit.
    pub max: Option<usize>,
    /// Cut what is beyond `max` instead of refusing it.
    pub truncate: bool,
}

impl Limit {
    /// Refuses or cuts what is beyond the limit; special tokens are never cut.
    pub(super) fn apply(&self, encoding: &mut Encoding, place: &str) -> Result<()> {
        let Some(max) = self.max else { return Ok(()) };
        let found = encoding.len();
        if found <= max {
            return Ok(());
        }
        if !self.truncate {
            let why = format!("{found} tokens, but the model takes at most {max}");
            return Err(Error::input(place, why));
        }
        let count = |sequence| {
            encoding.tokens.iter().filter(|token| token.sequence == Some(sequence)).count()
        };
        let (a, b) = (count(0), count(1));
        let special = found - a - b;
        if special >= max {
            let why = format!("{special} of the {max} tokens allowed are special tokens");
            return Err(Error::input(place, why));
        }
        let mut left = longest_first(a, b, max - special);
        encoding.tokens.retain(|token| {
            let left = match token.sequence {
                Some(0) => &mut left.0,
                Some(_) => &mut left.1,
                None => return true,
            };
            let keep = *left > 0;
            *left = left.saturating_sub(1);
            keep
        });
        encoding.cut = found - encoding.len();
        for (sequence, spans) in encoding.words.iter_mut().enumerate() {
            *spans = words::assign(&mut encoding.tokens, sequence, spans);
        }
        Ok(())
    }
}

/// How many tokens of each sequence stay, by the `longest_first` rule of the tokenizers crate: the
/// longer one is cut to the length of the other before both are.
fn longest_first(a: usize, b: usize, max: usize) -> (usize, usize) {
    let short = a.min(b);
    let (short, long) =
        if 2 * short >= max { (max / 2, max - max / 2) } else { (short, max - short) };
    if a > b { (long, short) } else { (short, long) }
}
