//! One layer: attention and two linear maps, each with its residual and norm.

use candle_core::{D, Tensor};

use super::attention::{Attention, Pass, Source};
use super::cache::{KeyValues, Memory};
use super::ops::{Linear, Norm, Then, activate};
use crate::config::{Activation, NormOrder};
use crate::error::Result;
use crate::trace::{Site, Stack};

/// A layer of any family.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub attention: Attention,
    /// Before or after the attention; `None` in a first layer that leaves it to the embeddings.
    pub attention_norm: Option<Norm>,
    /// Attention over an encoder's output, with its norm.
    pub cross: Option<(Attention, Norm)>,
    pub mlp: Mlp,
    pub mlp_norm: Norm,
    pub order: NormOrder,
}

/// Two linear maps around an activation.
#[derive(Debug, Clone)]
pub(crate) struct Mlp {
    pub up: Linear,   // [D, I], or [D, 2·I] where gated
    pub down: Linear, // [I, D]
    pub activation: Activation,
    pub gated: bool,
}

impl Block {
    /// `x` [B, T, D] → [B, T, D]. `cache` is this layer's, where the run has one, and `memory` what
    /// a cross-attention reads.
    pub fn forward(
        &self,
        x: &Tensor,
        pass: &mut Pass<'_>,
        cache: Option<&mut KeyValues>,
        memory: Option<&Memory>,
    ) -> Result<Tensor> {
        let source = cache.map_or(Source::New, Source::Cached);
        let x = self.residual(self.attention_norm.as_ref(), x, |inner, then| {
            self.attention.forward(inner, x, then, pass, source)
        })?;
        let x = match (&self.cross, memory) {
            (Some((cross, norm)), Some(memory)) => {
                let mut pass = Pass {
                    stack: Stack::Cross,
                    bias: &memory.bias,
                    recorder: &mut *pass.recorder,
                    ..*pass
                };
                self.residual(Some(norm), &x, |inner, then| {
                    let source = memory.layers[pass.layer].as_ref();
                    let source = source.map_or(Source::New, Source::Memory);
                    cross.forward(inner, &x, then, &mut pass, source)
                })?
            }
            _ => x,
        };
        self.residual(Some(&self.mlp_norm), &x, |inner, then| {
            self.mlp.forward(inner, &x, then, pass)
        })
    }

    /// One part of the block with its norm before or after it; `part` adds the residual itself.
    fn residual(
        &self,
        norm: Option<&Norm>,
        x: &Tensor,
        part: impl FnOnce(&Tensor, Then<'_>) -> Result<Tensor>,
    ) -> Result<Tensor> {
        match (self.order, norm) {
            (_, None) => part(x, Then::Nothing),
            (NormOrder::Post, Some(norm)) => part(x, Then::Norm(norm)),
            (NormOrder::Pre, Some(norm)) => part(&norm.forward(x)?, Then::Nothing),
        }
    }
}

impl Mlp {
    /// `x` [B, T, D] → [B, T, D], plus `residual`, and then `then`.
    fn forward(
        &self,
        x: &Tensor,
        residual: &Tensor,
        then: Then<'_>,
        pass: &mut Pass<'_>,
    ) -> Result<Tensor> {
        let inner = match self.gated {
            false => self.up.forward(x, None, Then::Activate(self.activation))?, // [B, T, I]
            true => {
                let both = self.up.forward(x, None, Then::Nothing)?; // [B, T, 2·I]
                let halves = both.chunk(2, D::Minus1)?;
                (activate(&halves[0], self.activation)? * &halves[1])? // [B, T, I]
            }
        };
        pass.added(Site::MlpOutput, &self.down, &inner, residual, then)
    }
}

/// The output of the first layer and of a convolution over its input, normalised (He et al. 2021,
/// "enhanced mask decoder and n-gram induced input encoding").
#[derive(Debug, Clone)]
pub(crate) struct Convolve {
    pub weight: Tensor, // [D, D / groups, kernel]
    pub bias: Tensor,   // [D]
    pub groups: usize,
    pub activation: Activation,
    pub norm: Norm,
}

impl Convolve {
    /// `input` and `output` of the first layer [B, T, D] → [B, T, D]. `real` [B, T] is 1 for real
    /// positions; padding becomes 0.
    pub fn forward(&self, input: &Tensor, output: &Tensor, real: &Tensor) -> Result<Tensor> {
        let around = (self.weight.dim(2)? - 1) / 2;
        let x = match input.track_op() || self.weight.track_op() {
            true => self.products(input, around)?,
            false => {
                let x = input.transpose(1, 2)?.contiguous()?; // [B, D, T]
                let x = x.conv1d(&self.weight, around, 1, 1, self.groups)?;
                x.transpose(1, 2)?.contiguous()?
            }
        };
        let x = x.broadcast_add(&self.bias)?;
        let real = real.unsqueeze(2)?; // [B, T, 1]
        let x = activate(&x.broadcast_mul(&real)?, self.activation)?;
        Ok(self.norm.forward(&(output + x)?)?.broadcast_mul(&real)?)
    }

    /// The convolution as products, [B, T, D] → [B, T, D], where a gradient is wanted: candle's own by
    /// the kernel of a convolution is not its derivative.
    fn products(&self, x: &Tensor, around: usize) -> Result<Tensor> {
        let (t, kernel) = (x.dim(1)?, self.weight.dim(2)?);
        let padded = x.pad_with_zeros(1, around, kernel - 1 - around)?;
        let inputs = padded.chunk(self.groups, 2)?;
        let weights = self.weight.chunk(self.groups, 0)?;
        let each = inputs.iter().zip(&weights).map(|(x, weight)| {
            let near = (0..kernel).map(|place| x.narrow(1, place, t));
            let near = near.collect::<candle_core::Result<Vec<_>>>()?;
            let near = Tensor::cat(&near, 2)?; // [B, T, kernel · D / groups]
            let weight = weight.transpose(1, 2)?.contiguous()?.flatten_from(1)?;
            near.broadcast_matmul(&weight.t()?)
        });
        Ok(Tensor::cat(&each.collect::<candle_core::Result<Vec<_>>>()?, 2)?)
    }
}
