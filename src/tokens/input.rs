//! What was typed.

use super::words::Span;
use crate::error::{Error, Result};

/// What was typed, in one of the forms that the command line and JSONL lines take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// One text (`text`).
    Text(String),
    /// Two texts (`text` and `text_b`).
    Pair(String, String),
    /// One text as words that are already apart (`words`); each is tokenized by itself.
    Words(Vec<String>),
    /// Pieces of the vocabulary, taken as they are (`tokens`): nothing is added to them.
    Tokens(Vec<String>),
}

/// The words joined by spaces, and where each is.
pub(super) fn join(words: &[String]) -> Result<(String, Vec<Span>)> {
    let mut text = String::new();
    let mut spans = Vec::with_capacity(words.len());
    let mut end = 0;
    for (index, word) in words.iter().enumerate() {
        not_blank(&format!("words[{index}]"), word)?;
        if index > 0 {
            text.push(' ');
            end += 1;
        }
        let start = end;
        text.push_str(word);
        end += word.chars().count();
        spans.push(Span { start, end });
    }
    Ok((text, spans))
}

/// Refuses what holds nothing to read.
pub(super) fn not_blank(place: &str, text: &str) -> Result<()> {
    let found = match text {
        "" => "empty",
        text if text.trim().is_empty() => "only whitespace",
        _ => return Ok(()),
    };
    Err(Error::input(place, format!("{found}, expected something to read")))
}

/// What messages call the input.
pub(super) fn place(input: &Input) -> &'static str {
    match input {
        Input::Text(_) | Input::Pair(..) => "text",
        Input::Words(_) => "words",
        Input::Tokens(_) => "tokens",
    }
}
