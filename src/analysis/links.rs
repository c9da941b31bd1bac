//! The few links worth looking at: where a head attends most from one word to another.

use crate::attention::{Attention, HeadWeights};
use crate::select::Head;
use crate::tokens::Token;

/// One head's largest weight from a word to another word. A link says where weight went, not what
/// it means: it is not coreference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// The head.
    pub head: Head,
    /// Row: index into the queries.
    pub query: usize,
    /// Column: index into the keys.
    pub key: usize,
    /// The weight, as the model gave it: not renormalised over what is left out.
    pub weight: f32,
}

/// Each head's largest link, largest first.
///
/// A link runs between different words that are not neighbours: different texts (whatever their
/// case), and more than one word apart or in different texts of a pair. Special tokens are left
/// out. Takes words; merge pieces first ([`merge_words`](super::merge_words)). Tokens without word
/// numbers (arrays from elsewhere) count as one word each.
pub fn links(attention: &Attention) -> Vec<Link> {
    let (queries, keys) = (places(&attention.queries), places(&attention.keys));
    let mut found: Vec<Link> =
        attention.heads.iter().filter_map(|one| largest(one, &queries, &keys)).collect();
    found.sort_by(|a, b| b.weight.total_cmp(&a.weight).then(a.head.cmp(&b.head)));
    found
}

/// Where a token stands and how it reads; `None` for special tokens.
type Place = Option<(usize, usize, String)>;

fn places(tokens: &[Token]) -> Vec<Place> {
    let place = |(i, token): (usize, &Token)| {
        (!token.special)
            .then(|| (token.sequence.unwrap_or(0), token.word.unwrap_or(i), reading(token)))
    };
    tokens.iter().enumerate().map(place).collect()
}

/// Two unknown words differ when what was typed differs.
fn reading(token: &Token) -> String {
    token.unknown.as_ref().unwrap_or(&token.text).to_lowercase()
}

fn largest(one: &HeadWeights, queries: &[Place], keys: &[Place]) -> Option<Link> {
    let mut best: Option<Link> = None;
    for ((query, key), &weight) in one.weights.indexed_iter() {
        let (Some(from), Some(to)) = (&queries[query], &keys[key]) else { continue };
        let apart = from.0 != to.0 || from.1.abs_diff(to.1) > 1;
        let larger = best.is_none_or(|link| weight > link.weight);
        if apart && larger && weight > 0.0 && from.2 != to.2 {
            best = Some(Link { head: one.head, query, key, weight });
        }
    }
    best
}
