//! From pieces to words, and away with special tokens.

use std::ops::Range;

use ndarray::{Array2, Axis, s};
use rayon::prelude::*;

use crate::attention::{Attention, HeadWeights};
use crate::tokens::Token;

/// Merges the pieces of each word: the weight *to* a word is the sum over its pieces, the weight
/// *from* a word the mean over its pieces, so that rows still sum to 1.
///
/// Neighbouring tokens merge when they name the same word of the same sequence; special tokens and
/// tokens without a word stay alone. `name(sequence, word)` is the word as typed; where it has no
/// answer the pieces are joined.
///
/// # Source
/// Clark et al. 2019, "What Does BERT Look At?", section 4.1.
pub fn merge_words(
    attention: &Attention,
    name: impl Fn(usize, usize) -> Option<String>,
) -> Attention {
    let (rows, columns) = (groups(&attention.queries), groups(&attention.keys));
    let heads = attention
        .heads
        .par_iter()
        .map(|one| HeadWeights { head: one.head, weights: merged(&one.weights, &rows, &columns) })
        .collect();
    let join = |tokens: &[Token], groups: &[Range<usize>]| {
        groups.iter().map(|group| joined(&tokens[group.clone()], &name)).collect()
    };
    Attention {
        queries: join(&attention.queries, &rows),
        keys: join(&attention.keys, &columns),
        heads,
        head_counts: attention.head_counts.clone(),
    }
}

/// Runs of tokens that belong to one word.
pub(crate) fn groups(tokens: &[Token]) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    for (i, token) in tokens.iter().enumerate() {
        let joins = i > 0 && token.word.is_some() && !token.special && {
            let before = &tokens[i - 1];
            !before.special && (before.sequence, before.word) == (token.sequence, token.word)
        };
        match groups.last_mut() {
            Some(group) if joins => group.end = i + 1,
            _ => groups.push(i..i + 1),
        }
    }
    groups
}

/// `weights` [Q, K] → one row per group of `rows`, one column per group of `columns`. Sums are in
/// f64: a word of many pieces must not push its row away from 1.
fn merged(weights: &Array2<f32>, rows: &[Range<usize>], columns: &[Range<usize>]) -> Array2<f32> {
    let mut out = Array2::zeros((rows.len(), columns.len()));
    for (group, mut row) in rows.iter().zip(out.rows_mut()) {
        let mut sums = vec![0.0_f64; columns.len()];
        for pieces in weights.slice(s![group.clone(), ..]).rows() {
            for (sum, column) in sums.iter_mut().zip(columns) {
                *sum += pieces.slice(s![column.clone()]).iter().map(|&w| f64::from(w)).sum::<f64>();
            }
        }
        for (value, sum) in row.iter_mut().zip(sums) {
            *value = (sum / group.len() as f64) as f32;
        }
    }
    out
}

/// One token for the pieces of a word.
pub(crate) fn joined(pieces: &[Token], name: impl Fn(usize, usize) -> Option<String>) -> Token {
    let (first, last) = (&pieces[0], &pieces[pieces.len() - 1]);
    let typed = match (first.special, first.word) {
        (false, Some(word)) => name(first.sequence.unwrap_or(0), word),
        _ => None,
    };
    if let [only] = pieces {
        // an unknown piece keeps its label, or nobody would see that the model did not know it
        let text = typed.filter(|_| only.unknown.is_none()).unwrap_or_else(|| only.text.clone());
        return Token { text, ..only.clone() };
    }
    let pieced = || {
        let tail = pieces[1..].iter().map(|t| t.text.strip_prefix("##").unwrap_or(&t.text));
        std::iter::once(first.text.as_str()).chain(tail).collect::<String>()
    };
    Token {
        text: typed.unwrap_or_else(pieced),
        id: None,
        offsets: (first.offsets.0, last.offsets.1),
        unknown: None,
        ..first.clone()
    }
}

/// Attention between typed tokens alone, see [`without_special`].
#[derive(Debug, Clone, PartialEq)]
pub struct WithoutSpecial {
    /// Rows sum to 1 again, save rows that had no weight left: those are zero.
    pub attention: Attention,
    /// Per head of `attention.heads`, per row: the share of the row's weight that went to special
    /// tokens and is no longer shown, from 0 to 1.
    pub lost: Vec<Vec<f32>>,
}

/// Leaves the rows and columns of special tokens out and divides each row by what it has left.
pub fn without_special(attention: &Attention) -> WithoutSpecial {
    let typed = |tokens: &[Token]| -> Vec<usize> {
        (0..tokens.len()).filter(|&i| !tokens[i].special).collect()
    };
    let (rows, columns) = (typed(&attention.queries), typed(&attention.keys));
    let mut lost = Vec::with_capacity(attention.heads.len());
    let mut heads = Vec::with_capacity(attention.heads.len());
    for one in &attention.heads {
        let mut weights = one.weights.select(Axis(0), &rows).select(Axis(1), &columns);
        let mut gone = Vec::with_capacity(rows.len());
        for (row, mut left) in rows.iter().zip(weights.rows_mut()) {
            let all: f64 = one.weights.row(*row).iter().map(|&w| f64::from(w)).sum();
            let kept: f64 = left.iter().map(|&w| f64::from(w)).sum();
            let share = if all > 0.0 { kept / all } else { 0.0 };
            gone.push((1.0 - share).clamp(0.0, 1.0) as f32);
            if kept > 0.0 {
                left.mapv_inplace(|w| (f64::from(w) / kept) as f32);
            }
        }
        lost.push(gone);
        heads.push(HeadWeights { head: one.head, weights });
    }
    let pick = |tokens: &[Token], at: &[usize]| at.iter().map(|&i| tokens[i].clone()).collect();
    WithoutSpecial {
        attention: Attention {
            queries: pick(&attention.queries, &rows),
            keys: pick(&attention.keys, &columns),
            heads,
            head_counts: attention.head_counts.clone(),
        },
        lost,
    }
}
