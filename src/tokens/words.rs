//! Which word of its text a token belongs to.

use unicode_segmentation::UnicodeSegmentation;

use super::Token;

/// A stretch of text, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub start: usize,
    pub end: usize,
}

/// The words of a text by the Unicode rules (UAX #29): whitespace is left out, punctuation is a
/// word of its own.
pub(super) fn split(text: &str) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut start = 0;
    for piece in text.split_word_bounds() {
        let end = start + piece.chars().count();
        if !piece.chars().all(char::is_whitespace) {
            spans.push(Span { start, end });
        }
        start = end;
    }
    spans
}

/// Numbers the words of one sequence and gives each of its tokens its word. Words that a token
/// spans together become one; words without any token are not counted. Returns their spans.
pub(super) fn assign(tokens: &mut [Token], sequence: usize, spans: &[Span]) -> Vec<Span> {
    let mut joined = vec![false; spans.len()]; // joined[i]: belongs with i - 1
    let mut reached = vec![None; tokens.len()];
    for (token, first) in tokens.iter().zip(&mut reached) {
        if token.sequence != Some(sequence) {
            continue;
        }
        let touched = touched(token, spans);
        *first = touched.clone().next();
        for index in touched.skip(1) {
            joined[index] = true;
        }
    }
    let mut group_of = Vec::with_capacity(spans.len());
    let mut groups: Vec<(Span, bool)> = Vec::new(); // span, has a token
    for (index, span) in spans.iter().enumerate() {
        match groups.last_mut() {
            Some((group, _)) if joined[index] => group.end = span.end,
            _ => groups.push((*span, false)),
        }
        group_of.push(groups.len() - 1);
    }
    for &first in reached.iter().flatten() {
        groups[group_of[first]].1 = true;
    }
    let mut number = Vec::with_capacity(groups.len());
    let mut kept = Vec::new();
    for (span, used) in &groups {
        number.push(kept.len());
        if *used {
            kept.push(*span);
        }
    }
    for (token, first) in tokens.iter_mut().zip(reached) {
        if token.sequence == Some(sequence) {
            token.word = first.map(|first| number[group_of[first]]);
        }
    }
    kept
}

/// The words that a token's characters are in; of an empty token, the word around its place; of a
/// space by itself, which belongs to what follows, the word that begins after it.
fn touched(token: &Token, spans: &[Span]) -> std::ops::Range<usize> {
    let (start, end) = token.offsets;
    let from = spans.partition_point(|span| span.end <= start);
    let to = spans.partition_point(|span| span.start < end.max(start + 1));
    if to <= from && token.text == " " && spans.get(from).is_some_and(|span| span.start == end) {
        return from..from + 1;
    }
    from..to.max(from)
}

/// `text[start..end]` in characters.
pub(super) fn slice(text: &str, start: usize, end: usize) -> &str {
    let at = |index| text.char_indices().nth(index).map_or(text.len(), |(byte, _)| byte);
    let (from, to) = (at(start), at(end));
    text.get(from..to.max(from)).unwrap_or_default()
}
