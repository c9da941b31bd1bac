//! Heads with a plain pattern: to the token before, the one after, themselves, or a special token.

use std::fmt;

use serde::Serialize;

use crate::attention::{Attention, HeadWeights};
use crate::select::Head;

/// A head that gives at least this mean share to one place is named after it.
pub const PLAIN: f32 = 0.5;

/// Where a head with a plain pattern looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// The token before.
    Previous,
    /// The token after.
    Next,
    /// The token itself.
    Itself,
    /// The first special token (`[CLS]`), or the first token where none is special.
    First,
    /// The special tokens after the first (`[SEP]`).
    Separator,
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Previous => "previous token",
            Self::Next => "next token",
            Self::Itself => "itself",
            Self::First => "first special token",
            Self::Separator => "separator",
        })
    }
}

/// Mean shares of one head's weight by place, each from 0 to 1 and each over the rows that have
/// such a place: the first row has no previous token. A share that no row has is 0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Shares {
    /// The head.
    pub head: Head,
    /// To the token before.
    pub previous: f32,
    /// To the token after.
    pub next: f32,
    /// To the token itself.
    pub itself: f32,
    /// To the first special token, or to the first one where none is special.
    pub first: f32,
    /// To the other special tokens, summed.
    pub separator: f32,
}

impl Shares {
    /// The largest share, when it is at least `threshold`.
    pub fn plain(&self, threshold: f32) -> Option<(Pattern, f32)> {
        let all = [
            (Pattern::Previous, self.previous),
            (Pattern::Next, self.next),
            (Pattern::Itself, self.itself),
            (Pattern::First, self.first),
            (Pattern::Separator, self.separator),
        ];
        all.into_iter().filter(|&(_, share)| share >= threshold).max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// The shares of every head, in the order of `attention.heads`. Takes pieces: a word made of many
/// would look like a head that attends to itself. Positions are compared one to one, so the rows
/// and columns should be the same tokens.
///
/// # Source
/// Clark et al. 2019, "What Does BERT Look At?", sections 3.1 and 3.2.
pub fn shares(attention: &Attention) -> Vec<Shares> {
    let special: Vec<usize> =
        (0..attention.keys.len()).filter(|&i| attention.keys[i].special).collect();
    attention.heads.iter().map(|one| of_head(one, &special)).collect()
}

/// The heads whose largest mean share is at least [`PLAIN`], with that share.
pub fn patterns(attention: &Attention) -> Vec<(Head, Pattern, f32)> {
    let named = |s: Shares| s.plain(PLAIN).map(|(pattern, share)| (s.head, pattern, share));
    shares(attention).into_iter().filter_map(named).collect()
}

fn of_head(one: &HeadWeights, special: &[usize]) -> Shares {
    let (queries, keys) = one.weights.dim();
    // mean of weights[i, i + step] over the rows that have that column
    let diagonal = |step: isize| {
        let on = |i: usize| i.checked_add_signed(step).filter(|&j| j < keys).map(|j| (i, j));
        mean((0..queries).filter_map(on).map(|at| one.weights[at]))
    };
    let column = |j: usize| mean(one.weights.column(j).iter().copied());
    let (first, rest) = match special.split_first() {
        Some((&j, rest)) => (column(j), rest),
        None if keys > 0 => (column(0), special), // decoders rest on it all the same
        None => (0.0, special),
    };
    Shares {
        head: one.head,
        previous: diagonal(-1),
        next: diagonal(1),
        itself: diagonal(0),
        first,
        separator: rest.iter().map(|&j| column(j)).sum(),
    }
}

fn mean(values: impl Iterator<Item = f32>) -> f32 {
    let (sum, count) = values.fold((0.0, 0), |(sum, n), v| (sum + f64::from(v), n + 1));
    if count == 0 { 0.0 } else { (sum / f64::from(count)) as f32 }
}
