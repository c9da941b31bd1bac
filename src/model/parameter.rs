//! Linear maps and norms whose own numbers want a gradient: values by the crate's own loops, and
//! gradients by input, weight and bias in one operation.

use candle_core::{CpuStorage, CustomOp3, Layout, Result as CandleResult, Shape, Tensor};

use super::kernel::back::{norm_back, norm_parameters_back, sum_of_rows};
use super::kernel::matmul::{Sizes, View, matmul};
use super::kernel::rows;
use super::ops::{Norm, on_slice};
use crate::config::NormKind;
use crate::error::Result;

type Three = (Option<Tensor>, Option<Tensor>, Option<Tensor>);

/// `x` [.., in], weight [out, in], bias [out] → x·Wᵀ + b [.., out], with a gradient by all that want
/// one.
pub(super) fn affine(x: &Tensor, weight: &Tensor, bias: &Tensor) -> Result<Tensor> {
    let (outputs, inputs) = weight.dims2()?;
    let wants = [x, weight, bias].map(Tensor::track_op);
    let (x, weight) = (x.contiguous()?, weight.contiguous()?);
    Ok(x.apply_op3(&weight, bias, Affine { inputs, outputs, wants })?)
}

struct Affine {
    inputs: usize,
    outputs: usize,
    wants: [bool; 3],
}

impl CustomOp3 for Affine {
    fn name(&self) -> &'static str {
        "affine"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
        bias: &CpuStorage,
        bias_layout: &Layout,
    ) -> CandleResult<(CpuStorage, Shape)> {
        let (x, weight) = (slice(x, x_layout)?, slice(weight, weight_layout)?);
        let rows = x.len() / self.inputs.max(1);
        let mut out = rows::zeros(rows * self.outputs);
        rows::add_to_rows(&mut out, slice(bias, bias_layout)?);
        let factors = (View::rows(x, self.inputs), View::rows(weight, self.inputs).t());
        let sizes = Sizes { m: rows, k: self.inputs, n: self.outputs };
        matmul(&mut out, self.outputs, true, factors, sizes, 1.0, rayon::current_num_threads());
        let mut shape = x_layout.dims().to_vec();
        if let Some(last) = shape.last_mut() {
            *last = self.outputs;
        }
        Ok((CpuStorage::F32(out), shape.into()))
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        _: &Tensor,
        _: &Tensor,
        gradient: &Tensor,
    ) -> CandleResult<Three> {
        let (inputs, outputs) = (self.inputs, self.outputs);
        let (x, weight) = (x.detach(), weight.detach());
        let (rows, gradient) = (x.elem_count() / inputs.max(1), gradient.contiguous()?);
        let threads = rayon::current_num_threads();
        let product = |factors: (View<'_>, View<'_>), sizes: Sizes| {
            let mut out = rows::zeros(sizes.m * sizes.n);
            matmul(&mut out, sizes.n, false, factors, sizes, 1.0, threads);
            out
        };
        let by_input = on_both(&gradient, &weight, |g, w| {
            let factors = (View::rows(g, outputs), View::rows(w, inputs));
            product(factors, Sizes { m: rows, k: outputs, n: inputs })
        });
        let by_weight = on_both(&gradient, &x, |g, x| {
            let factors = (View::rows(g, outputs).t(), View::rows(x, inputs));
            product(factors, Sizes { m: outputs, k: rows, n: inputs })
        });
        let by_bias = || on_slice(&gradient, |g| sum_of_rows(g, outputs)).unwrap_or_default();
        let made = |wanted: bool, make: &dyn Fn() -> Vec<f32>, like: &[usize]| {
            wanted.then(|| Tensor::from_vec(make(), like, gradient.device())).transpose()
        };
        Ok((
            made(self.wants[0], &by_input, x.dims())?,
            made(self.wants[1], &by_weight, weight.dims())?,
            made(self.wants[2], &by_bias, &[outputs])?,
        ))
    }
}

/// `norm` of `x` [.., D] with a gradient by `x` and by the norm's own numbers.
pub(super) fn norm(x: &Tensor, norm: &Norm) -> Result<Tensor> {
    let wants = [x, &norm.weight, &norm.bias].map(Tensor::track_op);
    let own = Normed { kind: norm.kind, eps: norm.eps as f32, wants };
    Ok(x.contiguous()?.apply_op3(&norm.weight.contiguous()?, &norm.bias.contiguous()?, own)?)
}

struct Normed {
    kind: NormKind,
    eps: f32,
    wants: [bool; 3],
}

impl CustomOp3 for Normed {
    fn name(&self) -> &'static str {
        "norm"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
        bias: &CpuStorage,
        bias_layout: &Layout,
    ) -> CandleResult<(CpuStorage, Shape)> {
        let (weight, bias) = (slice(weight, weight_layout)?, slice(bias, bias_layout)?);
        let mut out = rows::copied(slice(x, layout)?);
        match self.kind {
            NormKind::Layer => rows::layer_norm(&mut out, weight, bias, self.eps),
            NormKind::Rms => rows::rms_norm(&mut out, weight, self.eps),
        }
        Ok((CpuStorage::F32(out), layout.shape().clone()))
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        _: &Tensor,
        _: &Tensor,
        gradient: &Tensor,
    ) -> CandleResult<Three> {
        let (eps, centred) = (self.eps, self.kind == NormKind::Layer);
        let (x, weight, gradient) = (x.detach(), weight.detach(), gradient.contiguous()?);
        let width = weight.elem_count();
        let by_input = on_both(&x, &weight, |x, weight| {
            let mut back = on_slice(&gradient, rows::copied).unwrap_or_default();
            norm_back(&mut back, x, weight, eps, centred);
            back
        });
        let by_input = match self.wants[0] {
            true => Some(Tensor::from_vec(by_input(), x.shape(), gradient.device())?),
            false => None,
        };
        if !self.wants[1] && !self.wants[2] {
            return Ok((by_input, None, None));
        }
        let sums =
            |x: &[f32]| on_slice(&gradient, |g| norm_parameters_back(g, x, width, eps, centred));
        let (by_weight, by_bias) = on_slice(&x, sums).flatten().unwrap_or_default();
        let vector = |data: Vec<f32>| Tensor::from_vec(data, width, gradient.device());
        Ok((
            by_input,
            self.wants[1].then(|| vector(by_weight)).transpose()?,
            (centred && self.wants[2]).then(|| vector(by_bias)).transpose()?,
        ))
    }
}

/// A closure that makes numbers of two contiguous f32 tensors; nothing of other kinds.
fn on_both<'a>(
    a: &'a Tensor,
    b: &'a Tensor,
    f: impl Fn(&[f32], &[f32]) -> Vec<f32> + 'a,
) -> impl Fn() -> Vec<f32> + 'a {
    move || on_slice(a, |a| on_slice(b, |b| f(a, b))).flatten().unwrap_or_default()
}

fn slice<'a>(storage: &'a CpuStorage, layout: &Layout) -> CandleResult<&'a [f32]> {
    match (storage, layout.contiguous_offsets()) {
        (CpuStorage::F32(data), Some((from, to))) => Ok(&data[from..to]),
        _ => Err(candle_core::Error::Msg("expected contiguous f32 numbers".into())),
    }
}
