//! Masks as they are typed, and filled ones as text.

use super::fill::Filler;
use crate::tokens::{Encoding, Input, Token};

/// Names that people give the mask, whatever a tokenizer calls it.
const NAMES: [&str; 2] = ["[MASK]", "<mask>"];

impl Filler<'_> {
    /// The input with the tokenizer's own mask wherever it has another's usual name, `[MASK]` or
    /// `<mask>`; `None` where nothing changes, as in an input that has the tokenizer's own mask.
    pub fn with_own_mask(&self, input: &Input) -> Option<Input> {
        let own = self.mask();
        let texts: Vec<&String> = match input {
            Input::Text(text) => vec![text],
            Input::Pair(a, b) => vec![a, b],
            Input::Words(list) | Input::Tokens(list) => list.iter().collect(),
        };
        let has = |name: &str| texts.iter().any(|text| text.contains(name));
        if has(&own) || !NAMES.into_iter().any(has) {
            return None;
        }
        let renamed =
            |text: &String| NAMES.iter().fold(text.clone(), |text, name| text.replace(name, &own));
        Some(match input {
            Input::Text(text) => Input::Text(renamed(text)),
            Input::Pair(a, b) => Input::Pair(renamed(a), renamed(b)),
            Input::Words(words) => Input::Words(words.iter().map(renamed).collect()),
            Input::Tokens(pieces) => Input::Tokens(pieces.iter().map(renamed).collect()),
        })
    }

    /// The text of each sequence as it was typed, with `ids` `[T]` in place of its masks: of a
    /// vocabulary whose pieces bring their spaces along, a piece decides itself whether a space is
    /// before it, unless that was a token before the mask; of others, one that continues a word is
    /// written onto what is before it.
    pub fn spell(&self, encoding: &Encoding, ids: &[u32]) -> Vec<String> {
        let spell = |(sequence, text): (usize, &String)| self.spelt(encoding, ids, sequence, text);
        encoding.texts.iter().enumerate().map(spell).collect()
    }

    fn spelt(&self, encoding: &Encoding, ids: &[u32], sequence: usize, text: &str) -> String {
        let typed: Vec<char> = text.chars().collect();
        let spaced = self.tokenizer.spaced();
        let (mut spelt, mut done) = (String::new(), 0);
        let is_mask = |token: &Token| {
            token.sequence == Some(sequence) && token.id == self.tokenizer.mask_id()
        };
        for (token, &id) in encoding.tokens.iter().zip(ids).filter(|(token, _)| is_mask(token)) {
            let (start, end) = token.offsets;
            spelt.extend(typed.get(done..start).unwrap_or_default());
            done = end;
            let piece = self.tokenizer.piece(id).unwrap_or_default();
            let (written, continues) = self.tokenizer.written(&piece);
            let apart = spelt.is_empty() || spelt.ends_with(char::is_whitespace);
            match (spaced, continues) {
                (true, false) if !apart => spelt.push(' '),
                (false, true) => spelt.truncate(spelt.trim_end().len()),
                _ => {}
            }
            spelt += &written;
        }
        spelt.extend(typed.get(done..).unwrap_or_default());
        spelt
    }
}
