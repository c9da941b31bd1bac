//! One attention over queries, keys and values: in tiles by the crate's own loops where they serve,
//! or step by step by candle's operations where scores or probabilities are to be changed.

use candle_core::{CpuStorage, D, Device, Storage, Tensor};

use super::distance::Distances;
use super::kernel::attend::{self, Heads};
use super::ops::own;
use crate::error::Result;

/// What one attention reads.
pub(crate) struct Attend<'a> {
    pub query: &'a Tensor, // [B, H, T, K]
    pub key: &'a Tensor,   // [B, H, S, K]
    pub value: &'a Tensor, // [B, H, S, K]
    /// `[B, S]`: 0 where a key is visible, `f32::MIN` where hidden.
    pub bias: &'a Tensor,
    /// Furthest distance of a visible key.
    pub window: Option<usize>,
    pub distances: Option<&'a Distances>,
    /// What products are multiplied by.
    pub scale: f64,
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
        let tight = |t: &&&Tensor| !t.is_contiguous();
        if !own(&tensors) || tensors[3..].iter().find(tight).is_some() {
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
        if parts[..3].iter().any(|(_, stride)| stride[3] != 1) {
            return Ok(None);
        }
        let heads = |i: usize| {
            let (data, stride) = (parts[i].0, parts[i].1);
            Heads { data, strides: [stride[0], stride[1], stride[2]] }
        };
        let index = self.distances.map(|d| d.index(t, s)).unwrap_or_default();
        let mut data = parts[4..].iter().map(|(data, _)| *data);
        let tables = tables.map(|table| table.and_then(|_| data.next()));
        let inputs = attend::Inputs {
            query: heads(0),
            key: heads(1),
            value: heads(2),
            bias: parts[3].0,
            window: self.window,
            relative: self.distances.map(|d| d.relative(&index, tables)),
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
        let (query, key) = (self.query.contiguous()?, self.key.contiguous()?);
        let products = query.matmul(&key.t()?)?; // [B, H, T, S]
        match self.distances {
            Some(distances) => distances.add(&products, &query, &key, self.scale),
            None => Ok((products * self.scale)?),
        }
    }

    /// Soft-max over the visible keys, by candle's operations: `[B,H,T,S]`.
    pub fn probs(&self, scores: &Tensor) -> Result<Tensor> {
        let (_, _, t, s) = scores.dims4()?;
        let b = self.bias.dim(0)?;
        let mut masked = scores.broadcast_add(&self.bias.reshape((b, 1, 1, s))?)?;
        if let Some(window) = self.window {
            let near = (0..t).flat_map(|i| (0..s).map(move |j| u8::from(i.abs_diff(j) <= window)));
            let near = Tensor::from_vec(near.collect(), (1, 1, t, s), scores.device())?;
            let hidden = Tensor::new(f32::MIN, scores.device())?.broadcast_as(scores.shape())?;
            masked = near.broadcast_as(scores.shape())?.where_cond(&masked, &hidden)?;
        }
        match masked.track_op() {
            true => Ok(candle_nn::ops::softmax(&masked, D::Minus1)?),
            false => Ok(candle_nn::ops::softmax_last_dim(&masked)?),
        }
    }
}
