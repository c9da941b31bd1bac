//! Attention where a gradient is wanted and nobody looks inside: one operation from queries, keys and
//! values side by side to the context side by side. Its way back computes the probabilities anew
//! rather than keep them (Dao et al. 2022, section 3.1, without the tiles).

use candle_core::{CpuStorage, CustomOp1, Layout, Result as CandleResult, Shape, Tensor};
use rayon::prelude::*;

use super::attention::{Attention, Pass, Source};
use super::kernel::math;
use super::kernel::matmul::{Sizes, View, matmul};
use super::kernel::rows;
use super::ops::{on_slice, ours};
use crate::error::Result;
use crate::trace::Site;

/// What is not in the tensor.
#[derive(Debug, Clone)]
pub(super) struct Packed {
    /// Heads of queries, H.
    pub heads: usize,
    /// How many of them share a head of keys and values.
    pub group: usize,
    /// Head width, K.
    pub width: usize,
    /// What products are multiplied by.
    pub scale: f32,
    /// Hides the keys behind each query.
    pub causal: bool,
    /// Furthest distance of a visible key.
    pub window: Option<usize>,
    /// `[B, T]`: whether each key is visible.
    pub visible: Vec<bool>,
}

impl Attention {
    /// How the one operation serves that has a gradient; `None` where it does not, or where someone
    /// looks at what is in between.
    pub(super) fn packed(
        &self,
        all: &Tensor,
        pass: &Pass<'_>,
        source: &Source<'_>,
    ) -> Result<Option<Packed>> {
        const INSIDE: [Site; 7] = [
            Site::Query,
            Site::Key,
            Site::Value,
            Site::Scores,
            Site::Probs,
            Site::Context,
            Site::HeadOutput,
        ];
        let seen = |&site: &Site| {
            pass.changes(site) || pass.recorder.places(pass.layer, site, &self.heads).is_some()
        };
        let plain = self.distances.is_none() && self.rotary.is_none() && self.global.is_none();
        let new = matches!(source, Source::New) && pass.past == 0;
        if !serves(all) || !plain || !new || INSIDE.iter().any(seen) {
            return Ok(None);
        }
        let visible = pass.bias.flatten_all()?.to_vec1::<f32>()?;
        Ok(Some(Packed {
            heads: self.heads.len(),
            group: self.group,
            width: self.head_dim,
            scale: self.scale as f32,
            causal: self.causal,
            window: self.window,
            visible: visible.into_iter().map(|bias| bias >= 0.0).collect(),
        }))
    }
}

/// Whether [`packed`] serves for such queries, keys and values.
fn serves(qkv: &Tensor) -> bool {
    qkv.track_op() && ours(&[qkv])
}

/// `qkv` [B, T, (H + 2·G)·K] → context [B, T, H·K].
pub(super) fn packed(qkv: &Tensor, how: Packed) -> Result<Tensor> {
    Ok(qkv.contiguous()?.apply_op1(how)?)
}

/// One example: T positions, rows of `row` numbers.
#[derive(Clone, Copy)]
struct Example<'a> {
    qkv: &'a [f32],
    visible: &'a [bool],
    t: usize,
    row: usize,
}

impl Packed {
    fn out(&self) -> usize {
        self.heads * self.width
    }

    /// Where the query, key and value of a head begin in a row.
    fn places(&self, head: usize) -> [usize; 3] {
        let (shared, all) = (head / self.group, self.heads / self.group);
        [head, self.heads + shared, self.heads + all + shared].map(|place| place * self.width)
    }

    fn examples<'a>(&'a self, qkv: &'a [f32], dims: &[usize]) -> Vec<Example<'a>> {
        let (t, row) = (dims[1], dims[2]);
        let each = qkv.chunks(t * row).zip(self.visible.chunks(t));
        each.map(|(qkv, visible)| Example { qkv, visible, t, row }).collect()
    }

    /// Runs `f` over the hidden keys of each query, as ranges of its row of `square` [T, T].
    fn over_hidden(&self, example: Example<'_>, square: &mut [f32], value: f32) {
        let t = example.t;
        let padded = example.visible.contains(&false);
        for (i, row) in square.chunks_exact_mut(t).enumerate() {
            if self.causal {
                row[i + 1..].fill(value);
            }
            if let Some(reach) = self.window {
                row[..i.saturating_sub(reach)].fill(value);
                row[(i + reach + 1).min(t)..].fill(value);
            }
            if padded {
                let hidden = row.iter_mut().zip(example.visible).filter(|(_, visible)| !**visible);
                hidden.for_each(|(x, _)| *x = value);
            }
        }
    }

    /// Probabilities of one head, [T, T].
    fn probs(&self, example: Example<'_>, head: usize, square: &mut [f32]) {
        let Example { qkv, t, row, .. } = example;
        let [q, k, _] = self.places(head).map(|place| &qkv[place..]);
        let sizes = Sizes { m: t, k: self.width, n: t };
        let factors = (View::rows(q, row), View::rows(k, row).t());
        matmul(square, t, false, factors, sizes, self.scale, 1);
        self.over_hidden(example, square, f32::MIN);
        rows::softmax(square, t);
    }

    fn forward(&self, example: Example<'_>, out: &mut [f32]) {
        let Example { qkv, t, row, .. } = example;
        let mut square = vec![0.0; t * t];
        for head in 0..self.heads {
            self.probs(example, head, &mut square);
            let value = &qkv[self.places(head)[2]..];
            let factors = (View::rows(&square, t), View::rows(value, row));
            let sizes = Sizes { m: t, k: t, n: self.width };
            matmul(&mut out[head * self.width..], self.out(), false, factors, sizes, 1.0, 1);
        }
    }

    /// `back` [T, (H + 2·G)·K] starts as 0; `out` and `gradient` are [T, H·K].
    fn backward(&self, example: Example<'_>, out: &[f32], gradient: &[f32], back: &mut [f32]) {
        let (Example { qkv, t, row, .. }, width, wide) = (example, self.width, self.out());
        let (mut probs, mut slope) = (vec![0.0; t * t], vec![0.0; t * t]);
        let square = Sizes { m: t, k: width, n: t };
        let thin = Sizes { m: t, k: t, n: width };
        for head in 0..self.heads {
            self.probs(example, head, &mut probs);
            let [q, k, v] = self.places(head);
            let (out, gradient) = (&out[head * width..], &gradient[head * width..]);
            let by_context = View::rows(gradient, wide);
            // values: Pᵀ·g
            let factors = (View::rows(&probs, t).t(), by_context);
            matmul(&mut back[v..], row, true, factors, thin, 1.0, 1);
            // scores: P ∘ (g·Vᵀ − Σ g ∘ context)
            let factors = (by_context, View::rows(&qkv[v..], row).t());
            matmul(&mut slope, t, false, factors, square, 1.0, 1);
            let each = slope.chunks_exact_mut(t).zip(probs.chunks_exact(t));
            for (i, (slope, probs)) in each.enumerate() {
                let at = i * wide..i * wide + width;
                let along = math::dot(&out[at.clone()], &gradient[at]);
                slope.iter_mut().zip(probs).for_each(|(s, p)| *s = p * (*s - along));
            }
            self.over_hidden(example, &mut slope, 0.0);
            let factors = (View::rows(&slope, t), View::rows(&qkv[k..], row));
            matmul(&mut back[q..], row, true, factors, thin, self.scale, 1);
            let factors = (View::rows(&slope, t).t(), View::rows(&qkv[q..], row));
            matmul(&mut back[k..], row, true, factors, thin, self.scale, 1);
        }
    }
}

impl CustomOp1 for Packed {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn cpu_fwd(&self, qkv: &CpuStorage, layout: &Layout) -> CandleResult<(CpuStorage, Shape)> {
        let (CpuStorage::F32(data), Some((from, to))) = (qkv, layout.contiguous_offsets()) else {
            return Err(candle_core::Error::Msg("expected contiguous f32 numbers".into()));
        };
        let (b, t, _) = layout.shape().dims3()?;
        let mut out = rows::zeros(b * t * self.out());
        let examples = self.examples(&data[from..to], layout.dims());
        let chunks = out.par_chunks_mut((t * self.out()).max(1)).zip(examples);
        chunks.for_each(|(out, example)| self.forward(example, out));
        Ok((CpuStorage::F32(out), (b, t, self.out()).into()))
    }

    fn bwd(&self, qkv: &Tensor, out: &Tensor, gradient: &Tensor) -> CandleResult<Option<Tensor>> {
        let (qkv, out, gradient) = (qkv.detach(), out.detach(), gradient.contiguous()?);
        let (_, t, _) = qkv.dims3()?;
        let mut back = rows::zeros(qkv.elem_count());
        let each = (t * self.out()).max(1);
        on_slice(&qkv, |data| {
            on_slice(&out, |out| {
                on_slice(&gradient, |gradient| {
                    let examples = self.examples(data, qkv.dims());
                    let given = out.par_chunks(each).zip(gradient.par_chunks(each));
                    let size = (back.len() / examples.len().max(1)).max(1);
                    let chunks = back.par_chunks_mut(size).zip(examples).zip(given);
                    chunks.for_each(|((back, example), (out, gradient))| {
                        self.backward(example, out, gradient, back);
                    });
                })
            })
        });
        Ok(Some(Tensor::from_vec(back, qkv.shape(), qkv.device())?))
    }
}
