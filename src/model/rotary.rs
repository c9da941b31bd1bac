//! Rotary positions (Su et al. 2021): queries and keys turned by their position, half of a head's
//! width against the other.

use candle_core::{Device, Tensor};

use crate::error::Result;

/// The frequencies of one layer.
#[derive(Debug, Clone)]
pub(crate) struct Rotary {
    inverse: Vec<f32>, // [K / 2]
}

impl Rotary {
    pub fn new(base: f64, head_dim: usize) -> Self {
        let power = |i: usize| (base as f32).powf(i as f32 / head_dim as f32);
        Self { inverse: (0..head_dim).step_by(2).map(|i| 1.0 / power(i)).collect() }
    }

    /// `x` [B, H, T, K] → the same turned, position 0 first.
    pub fn turn(&self, x: &Tensor) -> Result<Tensor> {
        let (half, t) = (self.inverse.len(), x.dim(2)?);
        let angles = (0..t).flat_map(|p| self.inverse.iter().map(move |f| p as f32 * f));
        let angles = Tensor::from_iter(angles, &Device::Cpu)?.reshape((t, half))?;
        let (cos, sin) = (angles.cos()?, angles.sin()?);
        let (cos, sin) = (cos.to_device(x.device())?, sin.to_device(x.device())?);
        let x = x.contiguous()?;
        match x.track_op() {
            true => Ok(candle_nn::rotary_emb::rope_slow(&x, &cos, &sin)?),
            false => Ok(candle_nn::rotary_emb::rope(&x, &cos, &sin)?),
        }
    }
}
