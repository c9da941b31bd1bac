//! The model's operations on tensors: the crate's own loops for f32 on the CPU, candle's
//! operations elsewhere and wherever a gradient is wanted.

use candle_core::{CpuStorage, D, DType, Device, Storage, Tensor};

use super::gradient::{known, passes_through};
use super::kernel::back;
use super::kernel::matmul::{Sizes, View, matmul};
use super::kernel::rows;
use super::parameter;
use super::stored::Stored;
use crate::config::{Activation, NormKind};
use crate::error::Result;

/// What follows a linear map, on the same pass over its output.
pub(crate) enum Then<'a> {
    Nothing,
    Activate(Activation),
    Norm(&'a Norm),
}

/// A norm of each position.
#[derive(Debug, Clone)]
pub(crate) struct Norm {
    pub kind: NormKind,
    pub weight: Tensor, // [D]
    pub bias: Tensor,   // [D]; not read where a norm takes no mean away
    pub eps: f64,
}

/// x·W + b.
#[derive(Debug, Clone)]
pub(crate) struct Linear {
    pub weight: Weight, // [in, out]
    pub bias: Tensor,   // [out]
}

/// The matrix of a linear map.
#[derive(Debug, Clone)]
pub(crate) enum Weight {
    /// [in, out], so that its rows are read in order.
    Dense(Tensor),
    /// [out, in], as files store it: what is trained keeps the file's shape.
    Turned(Tensor),
    /// Of a quantized checkpoint, as it is stored.
    Stored(Stored),
}

impl Weight {
    /// As a tensor [in, out].
    pub fn dense(&self) -> Result<Tensor> {
        match self {
            Self::Dense(weight) => Ok(weight.clone()),
            Self::Turned(weight) => Ok(weight.t()?.contiguous()?),
            Self::Stored(stored) => stored.dense(),
        }
    }

    /// [in, out]
    fn sizes(&self) -> Result<(usize, usize)> {
        match self {
            Self::Dense(weight) => Ok(weight.dims2()?),
            Self::Turned(weight) => weight.dims2().map(|(out, inputs)| Ok((inputs, out)))?,
            Self::Stored(stored) => Ok(stored.sizes()),
        }
    }

    fn tensor(&self) -> Option<&Tensor> {
        match self {
            Self::Dense(weight) | Self::Turned(weight) => Some(weight),
            Self::Stored(_) => None,
        }
    }
}

/// Runs `f` on a contiguous f32 CPU tensor's numbers; `None` where it is another kind of tensor.
pub(super) fn on_slice<R>(tensor: &Tensor, f: impl FnOnce(&[f32]) -> R) -> Option<R> {
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
pub(super) fn own(tensors: &[&Tensor]) -> bool {
    ours(tensors) && tensors.iter().all(|t| !t.track_op())
}

/// Whether the crate's own loops know such numbers: f32 on the CPU.
pub(super) fn ours(tensors: &[&Tensor]) -> bool {
    tensors.iter().all(|t| matches!(t.device(), Device::Cpu) && t.dtype() == DType::F32)
}

impl Linear {
    /// `x` [.., in] → [.., out]: x·W + b (+ `residual` [.., out]), and then `then`.
    pub fn forward(&self, x: &Tensor, residual: Option<&Tensor>, then: Then<'_>) -> Result<Tensor> {
        let mut shape = x.dims().to_vec();
        let (inputs, outputs) = self.weight.sizes()?;
        if let Some(last) = shape.last_mut() {
            *last = outputs;
        }
        let used = [Some(x), residual, self.weight.tensor(), Some(&self.bias)];
        if own(&used.into_iter().flatten().collect::<Vec<_>>()) {
            let x = x.contiguous()?;
            let residual = residual.map(Tensor::contiguous).transpose()?;
            let start = match &residual {
                Some(residual) => on_slice(residual, rows::copied),
                None => Some(rows::zeros(x.elem_count() / inputs.max(1) * outputs)),
            };
            let done = start.and_then(|out| self.on_slices(&x, out, &then));
            if let Some(out) = done {
                return Ok(Tensor::from_vec(out, shape, &Device::Cpu)?);
            }
        }
        let weights: Vec<&Tensor> = self.weight.tensor().into_iter().chain([&self.bias]).collect();
        let mut y = match &self.weight {
            Weight::Turned(weight) if ours(&[x, weight, &self.bias]) => {
                parameter::affine(x, weight, &self.bias)?
            }
            _ if passes_through(x, &weights) => self.through(x)?,
            _ => x.broadcast_matmul(&self.weight.dense()?)?.broadcast_add(&self.bias)?,
        };
        if let Some(residual) = residual {
            y = (y + residual)?;
        }
        finish(&y, &then)
    }

    /// x·W + b with a gradient by x alone.
    fn through(&self, x: &Tensor) -> Result<Tensor> {
        let weight = self.weight.clone();
        known(
            x,
            |x| self.forward(x, None, Then::Nothing),
            move |x, _, gradient| {
                let weight = weight.dense()?;
                let (inputs, outputs) = weight.dims2()?;
                let mut back = rows::zeros(x.elem_count());
                let sizes = Sizes { m: x.elem_count() / inputs.max(1), k: outputs, n: inputs };
                on_slice(gradient, |gradient| {
                    on_slice(&weight, |weight| {
                        let factors = (View::rows(gradient, outputs), View::rows(weight, outputs));
                        let factors = (factors.0, factors.1.t());
                        let threads = rayon::current_num_threads();
                        matmul(&mut back, inputs, false, factors, sizes, 1.0, threads);
                    })
                });
                Ok(Tensor::from_vec(back, x.shape(), &Device::Cpu)?)
            },
        )
    }

    /// Adds x·W + b to `out` and finishes it in place.
    fn on_slices(&self, x: &Tensor, mut out: Vec<f32>, then: &Then<'_>) -> Option<Vec<f32>> {
        let (inputs, outputs) = self.weight.sizes().ok()?;
        on_slice(&self.bias, |bias| rows::add_to_rows(&mut out, bias))?;
        let sizes = Sizes { m: out.len() / outputs.max(1), k: inputs, n: outputs };
        let add = |out: &mut [f32], x: &[f32], weight: View<'_>| {
            let threads = rayon::current_num_threads();
            matmul(out, outputs, true, (View::rows(x, inputs), weight), sizes, 1.0, threads);
        };
        on_slice(x, |x| match &self.weight {
            Weight::Dense(w) => on_slice(w, |w| add(&mut out, x, View::rows(w, outputs))),
            Weight::Turned(w) => on_slice(w, |w| add(&mut out, x, View::rows(w, inputs).t())),
            Weight::Stored(stored) => stored.add_product(&mut out, x, 1.0).ok(),
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

/// Heads side by side: `x` [B, H, T, K] → [B, T, H·K].
pub(crate) fn merge_heads(x: &Tensor) -> Result<Tensor> {
    let (b, h, t, k) = x.dims4()?;
    if own(&[x])
        && let Some(merged) = on_slice(x, |data| rows::merge_heads(data, [b, h, t, k]))
    {
        return Ok(Tensor::from_vec(merged, (b, t, h * k), &Device::Cpu)?);
    }
    Ok(x.transpose(1, 2)?.contiguous()?.flatten_from(2)?)
}

/// What follows a linear map, by candle's operations where the crate's own do not serve.
pub(crate) fn finish(y: &Tensor, then: &Then<'_>) -> Result<Tensor> {
    match then {
        Then::Nothing => Ok(y.clone()),
        Then::Activate(activation) => activate(y, *activation),
        Then::Norm(norm) => norm.forward(y),
    }
}

/// The activation of every element.
pub(crate) fn activate(x: &Tensor, activation: Activation) -> Result<Tensor> {
    if own(&[x]) {
        let done = on_slice(&x.contiguous()?, |data| {
            let mut out = rows::copied(data);
            rows::activate(&mut out, activation);
            out
        });
        if let Some(out) = done {
            return Ok(Tensor::from_vec(out, x.shape(), &Device::Cpu)?);
        }
    }
    if passes_through(x, &[]) {
        let value = |x: &Tensor| activate(x, activation);
        return known(x, value, move |x, _, gradient| {
            let mut slope = on_slice(x, rows::copied).unwrap_or_default();
            back::activation_slope(&mut slope, activation);
            Ok((Tensor::from_vec(slope, x.shape(), &Device::Cpu)? * gradient)?)
        });
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
                let mut out = rows::copied(data);
                self.on_slice(&mut out).map(|()| out)
            });
            if let Some(out) = done.flatten() {
                return Ok(Tensor::from_vec(out, x.shape(), &Device::Cpu)?);
            }
        }
        if passes_through(x, &[&self.weight, &self.bias]) {
            return self.through(x);
        }
        if ours(&[x, &self.weight, &self.bias]) {
            return parameter::norm(x, self);
        }
        let centred = match self.kind {
            NormKind::Layer => x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?,
            NormKind::Rms => x.clone(),
        };
        let variance = centred.sqr()?.mean_keepdim(D::Minus1)?;
        let scaled = centred.broadcast_div(&(variance + self.eps)?.sqrt()?)?;
        let scaled = scaled.broadcast_mul(&self.weight)?;
        Ok(match self.kind {
            NormKind::Layer => scaled.broadcast_add(&self.bias)?,
            NormKind::Rms => scaled,
        })
    }

    /// The norm with a gradient by x alone.
    fn through(&self, x: &Tensor) -> Result<Tensor> {
        let (weight, kind, eps) = (self.weight.clone(), self.kind, self.eps as f32);
        known(
            x,
            |x| self.forward(x),
            move |x, _, gradient| {
                let mut back = on_slice(gradient, rows::copied).unwrap_or_default();
                let centred = kind == NormKind::Layer;
                on_slice(x, |x| {
                    on_slice(&weight, |weight| back::norm_back(&mut back, x, weight, eps, centred))
                });
                Ok(Tensor::from_vec(back, x.shape(), &Device::Cpu)?)
            },
        )
    }

    fn on_slice(&self, data: &mut [f32]) -> Option<()> {
        let eps = self.eps as f32;
        on_slice(&self.weight, |weight| match self.kind {
            NormKind::Layer => {
                on_slice(&self.bias, |bias| rows::layer_norm(data, weight, bias, eps))
            }
            NormKind::Rms => {
                rows::rms_norm(data, weight, eps);
                Some(())
            }
        })?
    }
}
