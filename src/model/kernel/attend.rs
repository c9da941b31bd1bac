//! Scaled dot-product attention on slices: heads in parallel, a tile of query rows at a time, so
//! that what is not recorded costs no memory beyond a tile.

use std::borrow::Cow;

use rayon::prelude::*;

use super::matmul::{Sizes, View, matmul};
use super::relative::{Relative, Terms};
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
    /// a page of its own, and every tile would read them all again. A cache has them so already.
    fn gather(
        &self,
        (example, head): (usize, usize),
        count: usize,
        width: usize,
    ) -> Cow<'a, [f32]> {
        let view = self.of(example, head);
        if view.row == width {
            return Cow::Borrowed(&view.data[..count * width]);
        }
        let mut rows = Vec::with_capacity(count * width);
        for i in 0..count {
            rows.extend_from_slice(&view.data[i * view.row..][..width]);
        }
        Cow::Owned(rows)
    }
}

/// Queries that see every key and that every query sees, with projections of their own
/// (Longformer, Beltagy et al. 2020).
#[derive(Clone, Copy)]
pub(crate) struct Global<'a> {
    /// `[B, S]`: which positions they are.
    pub is: &'a [bool],
    pub query: Heads<'a>,
    pub key: Heads<'a>,
    pub value: Heads<'a>,
}

/// The projections of one head for the global queries of one example.
struct GlobalHead<'a> {
    is: &'a [bool],
    query: Cow<'a, [f32]>,
    key: Cow<'a, [f32]>,
    value: Cow<'a, [f32]>,
}

impl<'a> GlobalHead<'a> {
    /// `None` where the example has no global query.
    fn new(global: Global<'a>, place: (usize, usize), [_, _, t, s, k]: [usize; 5]) -> Option<Self> {
        let is = &global.is[place.0 * s..][..s];
        is.contains(&true).then(|| Self {
            is,
            query: global.query.gather(place, t, k),
            key: global.key.gather(place, s, k),
            value: global.value.gather(place, s, k),
        })
    }
}

/// The global queries among `count` rows from `first` on, as (head, row of the block, position).
fn global_rows<'g, 'a>(
    global: &'g Option<GlobalHead<'a>>,
    first: usize,
    count: usize,
) -> impl Iterator<Item = (&'g GlobalHead<'a>, usize, usize)> {
    let rows = move |global: &'g GlobalHead<'a>| {
        let all = (0..count).map(move |i| (global, i, first + i));
        all.filter(|(global, _, at)| global.is[*at])
    };
    global.iter().flat_map(rows)
}

/// Everything that one call of [`attend`] reads.
pub(crate) struct Inputs<'a> {
    pub query: Heads<'a>,
    pub key: Heads<'a>,
    pub value: Heads<'a>,
    /// `[B, S]`, added to every score of a key: 0 visible, `f32::MIN` hidden.
    pub bias: &'a [f32],
    /// Position of the first query: how many keys were there before.
    pub past: usize,
    /// Query heads that share one head of keys and values.
    pub group: usize,
    /// Hides the keys behind each query.
    pub causal: bool,
    /// Furthest distance of a visible key.
    pub window: Option<usize>,
    pub relative: Option<Relative<'a>>,
    pub global: Option<Global<'a>>,
    /// What products are multiplied by.
    pub scale: f32,
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

/// softmax(scale · q·kᵀ + position terms + bias)·v. `scores` and `probs` list the heads to keep, in
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
    let shared = (work.example, work.head / inputs.group);
    let (query, key) = (inputs.query.gather(place, t, k), inputs.key.gather(shared, s, k));
    let value = inputs.value.gather(shared, s, k);
    let terms = inputs.relative.map(|relative| Terms::new(inputs, relative, work.head, &key));
    let global = inputs.global.and_then(|global| GlobalHead::new(global, place, inputs.sizes));
    for first in (0..t).step_by(tile) {
        let count = tile.min(t - first);
        let span = first * s..(first + count) * s;
        // probabilities that are kept are computed where they stay
        let block = match &mut work.probs {
            Some(probs) => &mut probs[span.clone()],
            None => &mut scratch[..count * s],
        };
        let factors = (View::rows(&query[first * k..], k), View::rows(&key, k).t());
        matmul(block, s, false, factors, Sizes { m: count, k, n: s }, inputs.scale, 1);
        if let Some(terms) = &terms {
            terms.add(inputs, &query[first * k..], first, block);
        }
        let one = Sizes { m: 1, k, n: s };
        for (global, i, at) in global_rows(&global, first, count) {
            let factors = (View::rows(&global.query[at * k..], k), View::rows(&global.key, k).t());
            matmul(&mut block[i * s..], s, false, factors, one, inputs.scale, 1);
        }
        if let Some(scores) = &mut work.scores {
            scores[span].copy_from_slice(block);
        }
        inputs.hide(block, bias, global.as_ref().map(|g| g.is), first);
        rows::softmax(block, s);
        let context = &mut work.context[first * k..(first + count) * k];
        let factors = (View::rows(block, s), View::rows(&value, k));
        matmul(context, k, false, factors, Sizes { m: count, k: s, n: k }, 1.0, 1);
        for (global, i, _) in global_rows(&global, first, count) {
            let factors = (View::rows(&block[i * s..], s), View::rows(&global.value, k));
            matmul(&mut context[i * k..], k, false, factors, Sizes { m: 1, k: s, n: k }, 1.0, 1);
        }
    }
}

impl Inputs<'_> {
    /// Hides keys by their bias, those behind the query and those beyond the window, unless key or
    /// query is global. `f32::MIN` is set once, never added twice: a row with everything hidden
    /// stays uniform.
    fn hide(&self, block: &mut [f32], bias: &[f32], global: Option<&[bool]>, first: usize) {
        let s = bias.len();
        if bias.iter().any(|&x| x != 0.0) {
            for row in block.chunks_exact_mut(s) {
                for (x, b) in row.iter_mut().zip(bias) {
                    *x += b;
                }
            }
        }
        if !self.causal && self.window.is_none() {
            return;
        }
        let is_global = |at: usize| global.is_some_and(|is| is[at]);
        for (i, row) in block.chunks_exact_mut(s).enumerate() {
            let at = self.past + first + i;
            if is_global(at) {
                continue;
            }
            let reach = self.window.unwrap_or(s);
            let ahead = if self.causal { 0 } else { reach };
            let far = (0..at.saturating_sub(reach)).chain((at + ahead + 1).min(s)..s);
            far.filter(|&j| !is_global(j)).for_each(|j| row[j] = f32::MIN);
        }
    }
}
