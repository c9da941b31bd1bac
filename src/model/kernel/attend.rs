//! Scaled dot-product attention on slices: heads in parallel, a tile of query rows at a time, so
//! that what is not recorded costs no memory beyond a tile.

use rayon::prelude::*;

use super::matmul::{Sizes, View, matmul};
use super::rows;

/// Numbers in a tile of scores: 128 kB, which stays in the second-level cache.
const TILE: usize = 1 << 15;

/// Queries, keys or values of all heads inside one slice, the last axis contiguous.
#[derive(Clone, Copy)]
pub(crate) struct Heads<'a> {
    pub data: &'a [f32],
    /// Distance between examples, heads, positions.
    pub strides: [usize; 3],
}

impl<'a> Heads<'a> {
    fn of(&self, example: usize, head: usize) -> View<'a> {
        let start = example * self.strides[0] + head * self.strides[1];
        View::rows(&self.data[start..], self.strides[2])
    }

    /// `count` rows of one head side by side: where heads lie in one wide projection, each row is
    /// a page of its own, and every tile would read them all again.
    fn gather(&self, (example, head): (usize, usize), count: usize, width: usize) -> Vec<f32> {
        let view = self.of(example, head);
        let mut rows = Vec::with_capacity(count * width);
        for i in 0..count {
            rows.extend_from_slice(&view.data[i * view.row..][..width]);
        }
        rows
    }
}

/// Position terms that depend on the distance of query and key (Shaw et al. 2018).
#[derive(Clone, Copy)]
pub(crate) struct Relative<'a> {
    /// `[2·max − 1, K]`, row `max − 1 − i + j` for query i and key j.
    pub table: &'a [f32],
    pub max: usize,
    /// Adds k·E as well as q·E.
    pub with_keys: bool,
}

/// Everything that one call of [`attend`] reads.
pub(crate) struct Inputs<'a> {
    pub query: Heads<'a>,
    pub key: Heads<'a>,
    pub value: Heads<'a>,
    /// `[B, S]`, added to every score of a key: 0 visible, `f32::MIN` hidden.
    pub bias: &'a [f32],
    pub relative: Option<Relative<'a>>,
    /// B, H, T, S, K.
    pub sizes: [usize; 5],
}

/// What [`attend`] gives; scores and probabilities for the heads asked for.
pub(crate) struct Outputs {
    /// `[B, H, T, K]`
    pub context: Vec<f32>,
    /// `[B, kept, T, S]`, before the bias.
    pub scores: Vec<f32>,
    /// `[B, kept, T, S]`
    pub probs: Vec<f32>,
}

/// The part of the outputs that belongs to one head of one example.
struct Work<'o> {
    example: usize,
    head: usize,
    context: &'o mut [f32],
    scores: Option<&'o mut [f32]>,
    probs: Option<&'o mut [f32]>,
}

/// softmax(q·kᵀ/√K + position terms + bias)·v. `scores` and `probs` list the heads to keep, in
/// ascending order.
pub(crate) fn attend(inputs: &Inputs<'_>, scores: &[usize], probs: &[usize]) -> Outputs {
    let [b, h, t, s, k] = inputs.sizes;
    let mut outputs = Outputs {
        context: vec![0.0; b * h * t * k],
        scores: vec![0.0; b * scores.len() * t * s],
        probs: vec![0.0; b * probs.len() * t * s],
    };
    if t * s * k == 0 {
        return outputs;
    }
    let mut kept_scores = outputs.scores.chunks_exact_mut(t * s);
    let mut kept_probs = outputs.probs.chunks_exact_mut(t * s);
    let mut work = Vec::with_capacity(b * h);
    for (i, context) in outputs.context.chunks_exact_mut(t * k).enumerate() {
        let (example, head) = (i / h, i % h);
        let scores = scores.contains(&head).then(|| kept_scores.next()).flatten();
        let probs = probs.contains(&head).then(|| kept_probs.next()).flatten();
        work.push(Work { example, head, context, scores, probs });
    }
    work.into_par_iter().for_each(|work| one_head(inputs, work));
    outputs
}

fn one_head(inputs: &Inputs<'_>, mut work: Work<'_>) {
    let [_, _, t, s, k] = inputs.sizes;
    let tile = (TILE / s).clamp(1, t);
    let mut scratch = if work.probs.is_none() { vec![0.0; tile * s] } else { Vec::new() };
    let bias = &inputs.bias[work.example * s..][..s];
    let place = (work.example, work.head);
    let (query, key) = (inputs.query.gather(place, t, k), inputs.key.gather(place, s, k));
    let value = inputs.value.gather(place, s, k);
    for first in (0..t).step_by(tile) {
        let count = tile.min(t - first);
        let span = first * s..(first + count) * s;
        // probabilities that are kept are computed where they stay
        let block = match &mut work.probs {
            Some(probs) => &mut probs[span.clone()],
            None => &mut scratch[..count * s],
        };
        products(inputs, &query[first * k..], &key, first, block);
        if let Some(scores) = &mut work.scores {
            scores[span].copy_from_slice(block);
        }
        add_bias(block, bias);
        rows::softmax(block, s);
        let context = &mut work.context[first * k..(first + count) * k];
        let sizes = Sizes { m: count, k: s, n: k };
        let factors = (View::rows(block, s), View::rows(&value, k));
        matmul(context, k, false, factors, sizes, 1.0, 1);
    }
}

/// Scaled products of a tile of queries, of which the first stands at position `first`, with
/// every key, plus position terms.
fn products(inputs: &Inputs<'_>, query: &[f32], key: &[f32], first: usize, block: &mut [f32]) {
    let [_, _, _, s, k] = inputs.sizes;
    let scale = 1.0 / (k as f32).sqrt();
    let (query, key) = (View::rows(query, k), View::rows(key, k));
    let sizes = Sizes { m: block.len() / s, k, n: s };
    matmul(block, s, false, (query, key.t()), sizes, scale, 1);
    let Some(relative) = inputs.relative else { return };
    for (i, row) in block.chunks_exact_mut(s).enumerate() {
        let nearest = (relative.max - 1).saturating_sub(first + i) * k;
        let table = View::rows(&relative.table[nearest..], k);
        let query = View::rows(&query.data[i * k..], k);
        matmul(row, s, true, (query, table.t()), Sizes { m: 1, k, n: s }, scale, 1);
        if relative.with_keys {
            add_key_terms(row, key, table, k, scale);
        }
    }
}

/// Adds k_j·E_j to each score of a row.
fn add_key_terms(row: &mut [f32], key: View<'_>, table: View<'_>, k: usize, scale: f32) {
    for (j, x) in row.iter_mut().enumerate() {
        let (key, term) = (&key.data[j * key.row..][..k], &table.data[j * k..][..k]);
        *x += scale * rows::dot(key, term);
    }
}

fn add_bias(block: &mut [f32], bias: &[f32]) {
    if bias.iter().all(|&x| x == 0.0) {
        return;
    }
    for row in block.chunks_exact_mut(bias.len()) {
        for (x, b) in row.iter_mut().zip(bias) {
            *x += b;
        }
    }
}
