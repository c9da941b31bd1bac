//! One layer: attention and two linear maps, each with its residual and norm.

use candle_core::Tensor;

use super::attention::{Attention, Pass};
use super::ops::{Linear, Norm, Then};
use crate::config::Activation;
use crate::error::Result;
use crate::trace::Site;

/// A layer that normalises after each residual sum (post-norm, Vaswani et al. 2017).
#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub attention: Attention,
    pub attention_norm: Norm,
    pub up: Linear,   // [D, I]
    pub down: Linear, // [I, D]
    pub activation: Activation,
    pub norm: Norm,
}

impl Block {
    /// `x` [B, T, D] → [B, T, D].
    pub fn forward(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        let x = self.attention.forward(x, x, Then::Norm(&self.attention_norm), pass)?;
        let inner = self.up.forward(&x, None, Then::Activate(self.activation))?; // [B, T, I]
        let x = self.down.forward(&inner, Some(&x), Then::Norm(&self.norm))?;
        pass.visit(Site::Residual, x, &[])
    }
}
