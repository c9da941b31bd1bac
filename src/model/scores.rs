//! One attention over queries, keys and values: in tiles by the crate's own loops where they serve,
//! or step by step by candle's operations where scores or probabilities are to be changed.

use candle_core::{CpuStorage, Device, Storage, Tensor};

use super::distance::Distances;
use super::gradient;
use super::kernel::attend::{self, Heads};
use super::ops::own;
use crate::error::Result;

/// What one attention reads.
pub(crate) struct Attend<'a> {
    pub query: &'a Tensor, // [B, H, T, K]
    pub key: &'a Tensor,   // [B, H / group, S, K]
    pub value: &'a Tensor, // [B, H / group, S, K]
    /// Query heads that share one head of keys and values.
    pub group: usize,
    /// Position of the first query: how many keys were there before.
    pub past: usize,
    /// Hides the keys behind each query.
    pub causal: bool,
    /// `[B, S]`: 0 where a key is visible, `f32::MIN` where hidden.
    pub bias: &'a Tensor,
    /// Furthest distance of a visible key.
    pub window: Option<usize>,
    pub distances: Option<&'a Distances>,
    pub global: Option<&'a Global>,
    /// What products are multiplied by.
    pub scale: f64,
}

/// Global positions and the projections of global queries.
pub(crate) struct Global {
    /// `[B, S]`, row after row.
    pub is: Vec<bool>,
    pub query: Tensor, // [B, H, T, K]
    pub key: Tensor,   // [B, H, S, K]
    pub value: Tensor, // [B, H, S, K]
}

impl Global {
    /// 1 for the global ones, in the shape that broadcasts over queries or over keys.
    fn mask(&self, like: &Tensor, shape: (usize, usize, usize, usize)) -> Result<Tensor> {
        let marks = self.is.iter().map(|&is| u8::from(is)).collect();
        Ok(Tensor::from_vec::<_, u8>(marks, shape, like.device())?)
    }
}

/// Context `[B,H,T,K]` and, for the heads asked for, scores and probabilities `[B,·,T,S]`.
pub(crate) struct Attended {
    pub context: Tensor,
    pub scores: Option<Tensor>,
    pub probs: Option<Tensor>,
}

impl Attend<'_> {
    /// In one pass over tiles, where the crate's own loops serve; `None` elsewhere.
    pub fn in_tiles(&self, scores: &[usize], probs: &[usize]) -> Result<Option<Attended>> {
        let tables = self.distances.map(Distances::tensors).unwrap_or_default();
        let mut tensors = vec![self.query, self.key, self.value, self.bias];
        tensors.extend(tables.iter().flatten());
        let further = tensors.len();
        tensors.extend(self.global.iter().flat_map(|g| [&g.query, &g.key, &g.value]));
        let tight = |t: &&&Tensor| !t.is_contiguous();
        if !own(&tensors) || tensors[3..further].iter().find(tight).is_some() {
            return Ok(None);
        }
        let (b, h, t, k) = self.query.dims4()?;
        let s = self.key.dim(2)?;
        let guards: Vec<_> = tensors.iter().map(|tensor| tensor.storage_and_layout()).collect();
        let mut parts = Vec::with_capacity(guards.len());
        for (storage, layout) in &guards {
            match &**storage {
                Storage::Cpu(CpuStorage::F32(data)) => {
                    parts.push((&data[layout.start_offset()..], layout.stride()));
                }
                _ => return Ok(None),
            }
        }
        let heads_of = parts[..3].iter().chain(&parts[further..]);
        if heads_of.clone().any(|(_, stride)| stride[3] != 1) {
            return Ok(None);
        }
        let heads = |i: usize| {
            let (data, stride) = (parts[i].0, parts[i].1);
            Heads { data, strides: [stride[0], stride[1], stride[2]] }
        };
        let index = self.distances.map(|d| d.index(t, s, self.past)).unwrap_or_default();
        let global = self.global.map(|global| attend::Global {
            is: &global.is,
            query: heads(further),
            key: heads(further + 1),
            value: heads(further + 2),
        });
        let mut data = parts[4..further].iter().map(|(data, _)| *data);
        let tables = tables.map(|table| table.and_then(|_| data.next()));
        let inputs = attend::Inputs {
            query: heads(0),
            key: heads(1),
            value: heads(2),
            bias: parts[3].0,
            past: self.past,
            group: self.group,
            causal: self.causal,
            window: self.window,
            relative: self.distances.map(|d| d.relative(&index, tables)),
            global,
            scale: self.scale as f32,
            sizes: [b, h, t, s, k],
        };
        let out = attend::attend(&inputs, scores, probs);
        let square = |data: Vec<f32>, heads: &[usize]| match heads.len() {
            0 => Ok(None),
            n => Tensor::from_vec(data, (b, n, t, s), &Device::Cpu).map(Some),
        };
        Ok(Some(Attended {
            context: Tensor::from_vec(out.context, (b, h, t, k), &Device::Cpu)?,
            scores: square(out.scores, scores)?,
            probs: square(out.probs, probs)?,
        }))
    }

    /// Scaled products plus position terms, by candle's operations: `[B,H,T,S]`.
    pub fn scores(&self) -> Result<Tensor> {
        let (query, key) = (self.query.contiguous()?, repeated(self.key, self.group)?);
        let products = query.matmul(&key.t()?)?; // [B, H, T, S]
        let scores = match self.distances {
            Some(distances) => distances.add(&products, &query, &key, (self.scale, self.past))?,
            None => (products * self.scale)?,
        };
        let Some(global) = self.global else { return Ok(scores) };
        let (query, key) = (global.query.contiguous()?, global.key.contiguous()?);
        let own = (query.matmul(&key.t()?)? * self.scale)?;
        self.where_global(global, &own, &scores)
    }

    /// `own` in the rows of global queries, `other` elsewhere: both [B, H, T, ·].
    fn where_global(&self, global: &Global, own: &Tensor, other: &Tensor) -> Result<Tensor> {
        let (b, _, t, _) = other.dims4()?;
        let rows = global.mask(other, (b, 1, t, 1))?.broadcast_as(other.shape())?;
        Ok(rows.where_cond(own, other)?)
    }

    /// Weighted values, by candle's operations: `[B,H,T,K]`.
    pub fn context(&self, probs: &Tensor) -> Result<Tensor> {
        let context = probs.matmul(&repeated(self.value, self.group)?)?;
        let Some(global) = self.global else { return Ok(context) };
        let own = probs.matmul(&global.value.contiguous()?)?;
        self.where_global(global, &own, &context)
    }

    /// Soft-max over the visible keys, by candle's operations: `[B,H,T,S]`.
    pub fn probs(&self, scores: &Tensor) -> Result<Tensor> {
        let (_, _, t, s) = scores.dims4()?;
        let b = self.bias.dim(0)?;
        // chosen rather than added: a row that sees nothing then passes no gradient to its scores
        let mut sees = self.bias.reshape((b, 1, 1, s))?.ge(0.0)?;
        if self.causal || self.window.is_some() {
            let (reach, past, causal) = (self.window.unwrap_or(s), self.past, self.causal);
            let near = move |i: usize, j: usize| {
                u8::from((past + i).abs_diff(j) <= reach && !(causal && j > past + i))
            };
            let near = (0..t).flat_map(|i| (0..s).map(move |j| near(i, j)));
            let mut near = Tensor::from_vec(near.collect(), (1, 1, t, s), scores.device())?;
            if let Some(global) = self.global {
                let (rows, columns) = ((b, 1, t, 1), (b, 1, 1, s));
                near = near.broadcast_maximum(&global.mask(scores, rows)?)?;
                near = near.broadcast_maximum(&global.mask(scores, columns)?)?;
            }
            sees = sees.broadcast_minimum(&near)?;
        }
        let hidden = Tensor::new(f32::MIN, scores.device())?.broadcast_as(scores.shape())?;
        let masked = sees.broadcast_as(scores.shape())?.where_cond(scores, &hidden)?;
        match masked.track_op() {
            true => gradient::softmax(&masked),
            false => Ok(candle_nn::ops::softmax_last_dim(&masked)?),
        }
    }
}

/// Keys or values once for each query head: [B, H / group, S, K] → [B, H, S, K].
pub(crate) fn repeated(x: &Tensor, group: usize) -> Result<Tensor> {
    if group == 1 {
        return Ok(x.contiguous()?);
    }
    let (b, heads, s, k) = x.dims4()?;
    let all = x.unsqueeze(2)?.broadcast_as((b, heads, group, s, k))?.contiguous()?;
    Ok(all.reshape((b, heads * group, s, k))?)
}
