//! Dropout (Srivastava et al. 2014) as changes of a run, drawn from the run's own random numbers:
//! candle's draws from a generator that cannot be seeded on the CPU.

use candle_core::{Device, Tensor};

use super::{Purpose, random, uniform};
use crate::config::Config;
use crate::error::Result;
use crate::tokens::Batch;
use crate::trace::{Change, Intervention, Site, Stack};

/// Shares of numbers that become 0 while training; the others grow to keep the mean.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Dropout {
    /// Of embeddings and of what attention and the linear maps add to the residual stream.
    pub hidden: f64,
    /// Of attention probabilities.
    pub attention: f64,
}

/// The changes of step `step` for a batch [B, T]: at the places where BERT has dropout. Of an
/// encoder-decoder those of the encoder.
///
/// # Errors
/// None in practice: [`Error::Tensor`](crate::Error::Tensor) is candle's.
pub fn dropout(
    rates: Dropout,
    config: &Config,
    batch: &Batch,
    seed: u64,
    step: u64,
) -> Result<Vec<Intervention>> {
    let mut random = random(seed, step, Purpose::Dropout);
    let (b, t) = batch.ids.dim();
    let stack = config.stack();
    let mut all = Vec::new();
    let mut add = |site, layer, shape: &[usize], rate: f64| -> Result<()> {
        if rate > 0.0 {
            let (rate, kept) = (rate as f32, (1.0 / (1.0 - rate)) as f32);
            let mut draw = || if uniform(&mut random) < rate { 0.0 } else { kept };
            let mask = (0..shape.iter().product()).map(|_| draw()).collect();
            let mask = Tensor::from_vec::<_, f32>(mask, shape, &Device::Cpu)?;
            all.push(at(stack, site, layer, mask));
        }
        Ok(())
    };
    let wide = [b, t, config.hidden_size];
    add(Site::Embedding, 0, &wide, rates.hidden)?;
    for (layer, heads) in config.heads.iter().enumerate() {
        if !heads.is_empty() {
            add(Site::Probs, layer, &[b, heads.len(), t, t], rates.attention)?;
        }
        add(Site::AttentionOutput, layer, &wide, rates.hidden)?;
        add(Site::MlpOutput, layer, &wide, rates.hidden)?;
    }
    Ok(all)
}

fn at(stack: Stack, site: Site, layer: usize, mask: Tensor) -> Intervention {
    let layers = Some(vec![layer]);
    Intervention {
        stack,
        site,
        layers,
        heads: None,
        positions: None,
        change: Change::Multiply(mask),
    }
}
