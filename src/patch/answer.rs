//! The token that a word is where the model is asked for one.

use crate::tokens::{Encoding, Input, Limit, Tokenizer};

/// The one token that `word` becomes behind `text`, with a space between them where neither has one;
/// else the piece of that very name. [`None`] where it is none or several.
pub fn next_token(tokenizer: &Tokenizer, text: &str, word: &str) -> Option<u32> {
    let spaced = text.is_empty()
        || text.ends_with(char::is_whitespace)
        || word.starts_with(char::is_whitespace);
    let before = match text.trim().is_empty() {
        true => Vec::new(),
        false => typed(tokenizer, &Input::Text(text.into()))?,
    };
    let behind = |between: &str| {
        let after = typed(tokenizer, &Input::Text(format!("{text}{between}{word}")))?;
        let (last, rest) = after.split_last()?;
        (rest == before).then_some(*last)
    };
    let apart = if spaced { None } else { behind(" ") };
    apart.or_else(|| behind("")).or_else(|| named(tokenizer, word))
}

/// The one token that `word` becomes in place of the token at position `at`, a mask, say, with all
/// others as they are; else the piece of that very name. [`None`] where it is none or several.
pub fn token_in_place(
    tokenizer: &Tokenizer,
    encoding: &Encoding,
    at: usize,
    word: &str,
) -> Option<u32> {
    let filled = || -> Option<u32> {
        let token = encoding.tokens.get(at)?;
        let mut texts = encoding.texts.clone();
        let text = texts.get_mut(token.sequence?)?;
        let (start, end) = token.offsets;
        *text =
            text.chars().take(start).chain(word.chars()).chain(text.chars().skip(end)).collect();
        let input = match <[String; 2]>::try_from(texts) {
            Ok([a, b]) => Input::Pair(a, b),
            Err(texts) => Input::Text(texts.into_iter().next()?),
        };
        let filled = tokenizer.encode(&input, &Limit::default()).ok()?;
        let other = |i: usize| filled.tokens[i].id == encoding.tokens[i].id || i == at;
        let same = filled.len() == encoding.len() && (0..filled.len()).all(other);
        filled.tokens.get(at).filter(|_| same)?.id
    };
    filled().or_else(|| named(tokenizer, word))
}

/// Ids without the special tokens at the ends.
fn typed(tokenizer: &Tokenizer, input: &Input) -> Option<Vec<u32>> {
    let encoding = tokenizer.encode(input, &Limit::default()).ok()?;
    encoding.tokens.iter().filter(|token| !token.special).map(|token| token.id).collect()
}

fn named(tokenizer: &Tokenizer, word: &str) -> Option<u32> {
    let ids = 0..u32::try_from(tokenizer.vocab_size()).ok()?;
    ids.into_iter().find(|&id| tokenizer.piece(id).as_deref() == Some(word))
}
