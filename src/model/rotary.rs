//! Rotary positions (Su et al. 2021): queries and keys turned by their position, half of a head's
//! width against the other.

use std::f64::consts::TAU;

use candle_core::{Device, Tensor};

use crate::config::{Rope, RopeScaling};
use crate::error::Result;

/// The frequencies of one layer.
#[derive(Debug, Clone)]
pub(crate) struct Rotary {
    inverse: Vec<f32>, // [K / 2]
}

impl Rotary {
    pub fn new(rope: Rope, head_dim: usize) -> Self {
        let power = |i: usize| (rope.base as f32).powf(i as f32 / head_dim as f32);
        let plain = (0..head_dim).step_by(2).map(|i| 1.0 / power(i));
        Self { inverse: plain.map(|frequency| scaled(frequency, rope.scaling)).collect() }
    }

    /// `x` [B, H, T, K] → the same turned by `positions` [B, T], row after row.
    pub fn turn(&self, x: &Tensor, positions: &[u32]) -> Result<Tensor> {
        let (half, (b, _, t, _)) = (self.inverse.len(), x.dims4()?);
        // most batches have the same positions in every row
        let alike = positions.chunks_exact(t).all(|row| *row == positions[..t]);
        let (positions, shape) = match alike {
            true => (&positions[..t], vec![t, half]),
            false => (positions, vec![b, t, half]),
        };
        let angle = |&p: &u32| self.inverse.iter().map(move |f| p as f32 * f);
        let angles: Vec<f32> = positions.iter().flat_map(angle).collect();
        let angles = Tensor::from_vec(angles, shape, &Device::Cpu)?;
        let (cos, sin) = (angles.cos()?, angles.sin()?);
        let (cos, sin) = (cos.to_device(x.device())?, sin.to_device(x.device())?);
        let x = x.contiguous()?;
        match x.track_op() {
            true if alike => Ok(candle_nn::rotary_emb::rope_slow(&x, &cos, &sin)?),
            true => by_row(&x, &cos, &sin),
            false => Ok(candle_nn::rotary_emb::rope(&x, &cos, &sin)?),
        }
    }
}

/// candle's operation with a gradient takes one table for all examples.
fn by_row(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    let turned = (0..x.dim(0)?).map(|b| {
        let row = x.narrow(0, b, 1)?.contiguous()?;
        candle_nn::rotary_emb::rope_slow(&row, &cos.get(b)?, &sin.get(b)?)
    });
    Ok(Tensor::cat(&turned.collect::<candle_core::Result<Vec<_>>>()?, 0)?)
}

fn scaled(frequency: f32, scaling: RopeScaling) -> f32 {
    match scaling {
        RopeScaling::None => frequency,
        RopeScaling::Linear { factor } => frequency / factor as f32,
        RopeScaling::Llama3 { factor, low, high, original } => {
            let wave = TAU / f64::from(frequency);
            let (longest, shortest) = (original / low, original / high);
            if wave < shortest {
                return frequency;
            }
            let divided = f64::from(frequency) / factor;
            if wave > longest {
                return divided as f32;
            }
            let kept = (original / wave - low) / (high - low);
            ((1.0 - kept) * divided + kept * f64::from(frequency)) as f32
        }
    }
}
