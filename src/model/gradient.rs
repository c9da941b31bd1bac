//! Values by the crate's own loops, with the derivative that a gradient needs: for runs whose
//! weights are constant and whose gates, or other parts of the way, are not.

use std::sync::{Mutex, PoisonError};

use candle_core::{CpuStorage, CustomOp1, D, Layout, Result as CandleResult, Shape, Tensor};

use super::kernel::{loss, rows};
use super::ops::{on_slice, own};
use crate::error::Result;

/// An operation whose value is known already, and how a gradient goes back through it.
struct Known<F> {
    value: Mutex<Option<Vec<f32>>>,
    shape: Shape,
    back: F,
}

impl<F> CustomOp1 for Known<F>
where
    F: Fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor> + Send + Sync,
{
    fn name(&self) -> &'static str {
        "known"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> CandleResult<(CpuStorage, Shape)> {
        let value = self.value.lock().unwrap_or_else(PoisonError::into_inner).take();
        let value = value.ok_or_else(|| candle_core::Error::Msg("applied twice".into()))?;
        Ok((CpuStorage::F32(value), self.shape.clone()))
    }

    fn bwd(&self, x: &Tensor, y: &Tensor, gradient: &Tensor) -> CandleResult<Option<Tensor>> {
        let back = (self.back)(&x.detach(), &y.detach(), &gradient.contiguous()?);
        back.map(Some).map_err(|error| candle_core::Error::Msg(error.to_string()))
    }
}

/// Whether `x` wants a gradient that constant `weights` do not, where the own loops may run.
pub(super) fn passes_through(x: &Tensor, weights: &[&Tensor]) -> bool {
    x.track_op() && own(&[&x.detach()]) && own(weights)
}

/// `value(x)`, which the own loops compute, as an operation on `x`; `back` makes its gradient by
/// `x` of (x, value, gradient by the value), all of them contiguous and constant.
pub(super) fn known(
    x: &Tensor,
    value: impl FnOnce(&Tensor) -> Result<Tensor>,
    back: impl Fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor> + Send + Sync + 'static,
) -> Result<Tensor> {
    let x = x.contiguous()?;
    let value = value(&x.detach())?.contiguous()?;
    let (numbers, shape) = (on_slice(&value, rows::copied), value.shape().clone());
    let value = Mutex::new(Some(numbers.unwrap_or_default()));
    Ok(x.apply_op1(Known { value, shape, back })?)
}

/// Cross entropy of each row of scores `x` [N, C] with its class, in nats: [N]. One pass there and
/// one back, p − 1 at the class and p elsewhere, without the logarithms of all probabilities.
pub(crate) fn cross_entropy(x: &Tensor, classes: Vec<u32>) -> Result<Tensor> {
    let back = classes.clone();
    known(
        x,
        move |x| {
            let losses = on_slice(x, |x| loss::cross_entropy(x, &classes)).unwrap_or_default();
            Ok(Tensor::from_vec(losses, classes.len(), x.device())?)
        },
        move |x, losses, gradient| {
            let mut slope = on_slice(x, rows::copied).unwrap_or_default();
            on_slice(losses, |losses| {
                on_slice(gradient, |gradient| {
                    loss::cross_entropy_back(&mut slope, &back, losses, gradient);
                })
            });
            Ok(Tensor::from_vec(slope, x.shape(), x.device())?)
        },
    )
}

/// Soft-max over the last axis, which candle's fused one has no gradient for.
pub(super) fn softmax(x: &Tensor) -> Result<Tensor> {
    if !passes_through(x, &[]) {
        return Ok(candle_nn::ops::softmax(x, D::Minus1)?);
    }
    let value = |x: &Tensor| Ok(candle_nn::ops::softmax_last_dim(x)?);
    known(x, value, |_, probs, gradient| {
        // p ∘ (g − p·g)
        let weighted = (probs * gradient)?;
        let sum = weighted.sum_keepdim(D::Minus1)?;
        Ok((weighted - probs.broadcast_mul(&sum)?)?)
    })
}
