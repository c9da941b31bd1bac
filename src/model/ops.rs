//! The model's operations on tensors: the crate's own loops for f32 on the CPU, candle's
//! operations elsewhere and wherever a gradient is wanted.

use candle_core::{CpuStorage, D, DType, Device, Storage, Tensor};

use super::kernel::attend::{self, Heads};
use super::kernel::matmul::{Sizes, View, matmul};
use super::kernel::rows;
use crate::config::Activation;
use crate::error::Result;

/// What follows a linear map, on the same pass over its output.
pub(crate) enum Then<'a> {
    Nothing,
    Activate(Activation),
    Norm(&'a Norm),
}

/// A layer norm.
#[derive(Debug, Clone)]
pub(crate) struct Norm {
    pub weight: Tensor, // [D]
    pub bias: Tensor,   // [D]
    pub eps: f64,
}

/// x·W + b with W kept as [in, out], so that its rows are read in order.
#[derive(Debug, Clone)]
pub(crate) struct Linear {
    pub weight: Tensor, // [in, out]
    pub bias: Tensor,   // [out]
}

/// Runs `f` on a contiguous f32 CPU tensor's numbers; `None` where it is another kind of tensor.
fn on_slice<R>(tensor: &Tensor, f: impl FnOnce(&[f32]) -> R) -> Option<R> {
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        Storage::Cpu(CpuStorage::F32(data)) => {
            let (from, to) = layout.contiguous_offsets()?;
            Some(f(&data[from..to]))
        }
        _ => None,
    }
}

/// Whether the crate's own loops may run: f32 on the CPU, no gradient asked for.
fn own(tensors: &[&Tensor]) -> bool {
    tensors
        .iter()
        .all(|t| matches!(t.device(), Device::Cpu) && t.dtype() == DType::F32 && !t.track_op())
}

impl Linear {
    /// `x` [.., in] → [.., out]: x·W + b (+ `residual` [.., out]), and then `then`.
    pub fn forward(&self, x: &Tensor, residual: Option<&Tensor>, then: Then<'_>) -> Result<Tensor> {
        let mut shape = x.dims().to_vec();
        let (inputs, outputs) = self.weight.dims2()?;
        if let Some(last) = shape.last_mut() {
            *last = outputs;
        }
        let used = [Some(x), residual, Some(&self.weight), Some(&self.bias)];
        if own(&used.into_iter().flatten().collect::<Vec<_>>()) {
            let x = x.contiguous()?;
            let residual = residual.map(Tensor::contiguous).transpose()?;
            let start = match &residual {
                Some(residual) => on_slice(residual, <[f32]>::to_vec),
                None => Some(vec![0.0; x.elem_count() / inputs.max(1) * outputs]),
            };
            let done = start.and_then(|out| self.on_slices(&x, out, &then));
            if let Some(out) = done {
                return Ok(Tensor::from_vec(out, shape, &Device::Cpu)?);
            }
        }
        let mut y = x.broadcast_matmul(&self.weight)?.broadcast_add(&self.bias)?;
        if let Some(residual) = residual {
            y = (y + residual)?;
        }
        finish(&y, &then)
    }

    /// Adds x·W + b to `out` and finishes it in place.
    fn on_slices(&self, x: &Tensor, mut out: Vec<f32>, then: &Then<'_>) -> Option<Vec<f32>> {
        let (inputs, outputs) = self.weight.dims2().ok()?;
        on_slice(&self.bias, |bias| rows::add_to_rows(&mut out, bias))?;
        on_slice(x, |x| {
            on_slice(&self.weight, |weight| {
                let factors = (View::rows(x, inputs), View::rows(weight, outputs));
                let sizes = Sizes { m: out.len() / outputs.max(1), k: inputs, n: outputs };
                let threads = rayon::current_num_threads();
                matmul(&mut out, outputs, true, factors, sizes, 1.0, threads);
            })
        })??;
        match then {
            Then::Nothing => Some(()),
            Then::Activate(activation) => {
                rows::activate(&mut out, *activation);
                Some(())
            }
            Then::Norm(norm) => norm.on_slice(&mut out),
        }?;
        Some(out)
    }
}

/// What follows a linear map, by candle's operations where the crate's own do not serve.
pub(crate) fn finish(y: &Tensor, then: &Then<'_>) -> Result<Tensor> {
    match then {
        Then::Nothing => Ok(y.clone()),
        Then::Activate(activation) => activate(y, *activation),
        Then::Norm(norm) => norm.forward(y),
    }
}

fn activate(x: &Tensor, activation: Activation) -> Result<Tensor> {
    if own(&[x]) {
        let done = on_slice(&x.contiguous()?, |data| {
            let mut out = data.to_vec();
            rows::activate(&mut out, activation);
            out
        });
        if let Some(out) = done {
            return Ok(Tensor::from_vec(out, x.shape(), &Device::Cpu)?);
        }
    }
    Ok(match activation {
        Activation::Gelu => x.gelu_erf()?,
        Activation::GeluTanh => x.gelu()?,
        Activation::QuickGelu => (x * candle_nn::ops::sigmoid(&(x * 1.702)?)?)?,
        Activation::Relu => x.relu()?,
        Activation::Silu => x.silu()?,
        Activation::Tanh => x.tanh()?,
    })
}

impl Norm {
    /// `x` [.., D] → [.., D].
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        if own(&[x, &self.weight, &self.bias]) {
            let x = x.contiguous()?;
            let done = on_slice(&x, |data| {
                let mut out = data.to_vec();
                self.on_slice(&mut out).map(|()| out)
            });
            if let Some(out) = done.flatten() {
                return Ok(Tensor::from_vec(out, x.shape(), &Device::Cpu)?);
            }
        }
        let centred = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
        let variance = centred.sqr()?.mean_keepdim(D::Minus1)?;
        let scaled = centred.broadcast_div(&(variance + self.eps)?.sqrt()?)?;
        Ok(scaled.broadcast_mul(&self.weight)?.broadcast_add(&self.bias)?)
    }

    fn on_slice(&self, data: &mut [f32]) -> Option<()> {
        on_slice(&self.weight, |weight| {
            on_slice(&self.bias, |bias| rows::layer_norm(data, weight, bias, self.eps as f32))
        })?
    }
}

/// Position terms by distance: `[2·max − 1, K]`, rows in the order of
/// [`attend::Relative::table`].
#[derive(Debug, Clone)]
pub(crate) struct Distances {
    pub table: Tensor,
    pub max: usize,
    pub with_keys: bool,
}

impl Distances {
    /// E of each pair of query i and key j: `[T,S,K]`.
    fn pairs(&self, t: usize, s: usize) -> Result<Tensor> {
        let rows = (0..t).flat_map(|i| (0..s).map(move |j| (i, j)));
        let rows: Vec<u32> =
            rows.map(|(i, j)| (self.max - 1 + j).saturating_sub(i) as u32).collect();
        let rows = Tensor::from_vec(rows, t * s, self.table.device())?;
        Ok(self.table.index_select(&rows, 0)?.reshape((t, s, ()))?)
    }

    /// q_i·E_ij for `query` [B,H,T,K]: `[B,H,T,S]`.
    fn terms(&self, query: &Tensor, s: usize) -> Result<Tensor> {
        let (b, h, t, k) = query.dims4()?;
        let pairs = self.pairs(t, s)?.transpose(1, 2)?.contiguous()?; // [T, K, S]
        let rows = query.permute((2, 0, 1, 3))?.reshape((t, b * h, k))?;
        Ok(rows.matmul(&pairs)?.reshape((t, b, h, s))?.permute((1, 2, 0, 3))?.contiguous()?)
    }

    /// k_j·E_ij for `key` [B,H,S,K]: `[B,H,T,S]`.
    fn key_terms(&self, key: &Tensor, t: usize) -> Result<Tensor> {
        let (b, h, s, k) = key.dims4()?;
        let pairs = self.pairs(t, s)?.permute((1, 2, 0))?.contiguous()?; // [S, K, T]
        let rows = key.permute((2, 0, 1, 3))?.reshape((s, b * h, k))?;
        Ok(rows.matmul(&pairs)?.reshape((s, b, h, t))?.permute((1, 2, 3, 0))?.contiguous()?)
    }
}

/// Queries, keys, values `[B,H,·,K]`, the key bias `[B,S]` and position terms of one attention.
pub(crate) struct Attend<'a> {
    pub query: &'a Tensor,
    pub key: &'a Tensor,
    pub value: &'a Tensor,
    pub bias: &'a Tensor,
    pub distances: Option<&'a Distances>,
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
        let table = self.distances.map(|d| &d.table).unwrap_or(self.bias);
        if !own(&[self.query, self.key, self.value, self.bias, table]) {
            return Ok(None);
        }
        let (b, h, t, k) = self.query.dims4()?;
        let s = self.key.dim(2)?;
        let (bias, table) = (self.bias.contiguous()?, table.contiguous()?);
        let guards = [self.query, self.key, self.value, &bias, &table]
            .map(|tensor| tensor.storage_and_layout());
        let mut parts = Vec::with_capacity(5);
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
        let relative = self.distances.map(|d| attend::Relative {
            table: parts[4].0,
            max: d.max,
            with_keys: d.with_keys,
        });
        let inputs = attend::Inputs {
            query: heads(0),
            key: heads(1),
            value: heads(2),
            bias: parts[3].0,
            relative,
            sizes: [b, h, t, s, k],
        };
        let out = attend::attend(&inputs, scores, probs);
        let tensor = |data: Vec<f32>, shape: (usize, usize, usize, usize)| {
            Tensor::from_vec(data, shape, &Device::Cpu)
        };
        let square = |data: Vec<f32>, heads: &[usize]| match heads.len() {
            0 => Ok(None),
            n => tensor(data, (b, n, t, s)).map(Some),
        };
        Ok(Some(Attended {
            context: tensor(out.context, (b, h, t, k))?,
            scores: square(out.scores, scores)?,
            probs: square(out.probs, probs)?,
        }))
    }

    /// Scaled products plus position terms, by candle's operations: `[B,H,T,S]`.
    pub fn scores(&self) -> Result<Tensor> {
        let (query, key) = (self.query.contiguous()?, self.key.contiguous()?);
        let (t, k, s) = (query.dim(2)?, query.dim(3)?, key.dim(2)?);
        let mut scores = query.matmul(&key.t()?)?; // [B, H, T, S]
        if let Some(distances) = self.distances {
            scores = (scores + distances.terms(&query, s)?)?;
            if distances.with_keys {
                scores = (scores + distances.key_terms(&key, t)?)?;
            }
        }
        Ok((scores * (1.0 / (k as f64).sqrt()))?)
    }

    /// Soft-max over the visible keys, by candle's operations: `[B,H,T,S]`.
    pub fn probs(&self, scores: &Tensor) -> Result<Tensor> {
        let (b, s) = self.bias.dims2()?;
        let masked = scores.broadcast_add(&self.bias.reshape((b, 1, 1, s))?)?;
        match masked.track_op() {
            true => Ok(candle_nn::ops::softmax(&masked, D::Minus1)?),
            false => Ok(candle_nn::ops::softmax_last_dim(&masked)?),
        }
    }
}
