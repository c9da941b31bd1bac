//! One layer: attention and two linear maps, each with its residual and norm.

use candle_core::{D, Tensor};

use super::attention::{Attention, Pass};
use super::ops::{Linear, Norm, Then, activate};
use crate::config::{Activation, NormOrder};
use crate::error::Result;

/// A layer of any family.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub attention: Attention,
    /// Before or after the attention; `None` in a first layer that leaves it to the embeddings.
    pub attention_norm: Option<Norm>,
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
    /// `x` [B, T, D] → [B, T, D].
    pub fn forward(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        let then = |norm| match norm {
            Some(norm) => Then::Norm(norm),
            None => Then::Nothing,
        };
        let x = match self.order {
            NormOrder::Post => {
                let x = self.attention.forward(x, x, then(self.attention_norm.as_ref()), pass)?;
                self.mlp.forward(&x, &x, Then::Norm(&self.mlp_norm))?
            }
            NormOrder::Pre => {
                let normed =
                    self.attention_norm.as_ref().map(|norm| norm.forward(x)).transpose()?;
                let inner = normed.as_ref().unwrap_or(x);
                let x = self.attention.forward(inner, x, Then::Nothing, pass)?;
                self.mlp.forward(&self.mlp_norm.forward(&x)?, &x, Then::Nothing)?
            }
        };
        Ok(x)
    }
}

impl Mlp {
    /// `x` [B, T, D] → [B, T, D], plus `residual`, and then `then`.
    fn forward(&self, x: &Tensor, residual: &Tensor, then: Then<'_>) -> Result<Tensor> {
        let inner = match self.gated {
            false => self.up.forward(x, None, Then::Activate(self.activation))?, // [B, T, I]
            true => {
                let both = self.up.forward(x, None, Then::Nothing)?; // [B, T, 2·I]
                let halves = both.chunk(2, D::Minus1)?;
                (activate(&halves[0], self.activation)? * &halves[1])? // [B, T, I]
            }
        };
        self.down.forward(&inner, Some(residual), then)
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
        let x = input.transpose(1, 2)?.contiguous()?; // [B, D, T]
        let around = (self.weight.dim(2)? - 1) / 2;
        let x = x.conv1d(&self.weight, around, 1, 1, self.groups)?;
        let x = x.transpose(1, 2)?.contiguous()?.broadcast_add(&self.bias)?;
        let real = real.unsqueeze(2)?; // [B, T, 1]
        let x = activate(&x.broadcast_mul(&real)?, self.activation)?;
        Ok(self.norm.forward(&(output + x)?)?.broadcast_mul(&real)?)
    }
}
