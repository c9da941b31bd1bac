//! Dropout (Srivastava et al. 2014) as changes of a run, drawn from the run's own random numbers:
//! candle's draws from a generator that cannot be seeded on the CPU.

use candle_core::{Device, Tensor};
use rand_chacha::ChaCha12Rng;

use super::{Purpose, random, uniform};
use crate::config::Config;
use crate::error::Result;
use crate::task::Sample;
use crate::trace::{Change, Intervention, Site, Stack};

/// Shares of numbers that become 0 while training; the others grow to keep the mean.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Dropout {
    /// Of embeddings and of what attention and the linear maps add to the residual stream.
    pub hidden: f64,
    /// Of attention probabilities.
    pub attention: f64,
}

/// The changes of step `step` for a sample: at the places where BERT has dropout, of an
/// encoder-decoder that writes in all three stacks.
///
/// # Errors
/// None in practice: [`Error::Tensor`](crate::Error::Tensor) is candle's.
pub fn dropout(
    rates: Dropout,
    config: &Config,
    sample: &Sample,
    seed: u64,
    step: u64,
) -> Result<Vec<Intervention>> {
    let random = random(seed, step, Purpose::Dropout);
    let mut masks = Masks { rates, random, all: Vec::new() };
    let read = sample.batch.ids.dim();
    masks.of_stack(config, read, read.1)?;
    if let (Some(decoder), Some(written)) = (&config.decoder, &sample.written) {
        masks.of_stack(decoder, written.batch.ids.dim(), read.1)?;
    }
    Ok(masks.all)
}

/// Masks that were drawn, one after another.
struct Masks {
    rates: Dropout,
    random: ChaCha12Rng,
    all: Vec<Intervention>,
}

impl Masks {
    /// Of a stack over B texts of T positions; its cross-attention, where it has one, reads S.
    fn of_stack(&mut self, config: &Config, (b, t): (usize, usize), s: usize) -> Result<()> {
        let (stack, hidden) = (config.stack(), self.rates.hidden);
        let wide = [b, t, config.hidden_size];
        self.draw((stack, Site::Embedding, 0), &wide, hidden)?;
        for (layer, heads) in config.heads.iter().enumerate() {
            self.draw((stack, Site::Probs, layer), &[b, heads.len(), t, t], self.rates.attention)?;
            self.draw((stack, Site::AttentionOutput, layer), &wide, hidden)?;
            if let Some(heads) = config.cross_heads.get(layer) {
                let at = |site| (Stack::Cross, site, layer);
                self.draw(at(Site::Probs), &[b, heads.len(), t, s], self.rates.attention)?;
                self.draw(at(Site::AttentionOutput), &wide, hidden)?;
            }
            self.draw((stack, Site::MlpOutput, layer), &wide, hidden)?;
        }
        Ok(())
    }

    /// A mask for one place; none where nothing passes or nothing is dropped.
    fn draw(
        &mut self,
        (stack, site, layer): (Stack, Site, usize),
        shape: &[usize],
        rate: f64,
    ) -> Result<()> {
        if rate <= 0.0 || shape.contains(&0) {
            return Ok(());
        }
        let (rate, kept) = (rate as f32, (1.0 / (1.0 - rate)) as f32);
        let mut draw = || if uniform(&mut self.random) < rate { 0.0 } else { kept };
        let mask = (0..shape.iter().product()).map(|_| draw()).collect();
        let mask = Tensor::from_vec::<_, f32>(mask, shape, &Device::Cpu)?;
        self.all.push(Intervention {
            stack,
            site,
            layers: Some(vec![layer]),
            heads: None,
            positions: None,
            change: Change::Multiply(mask),
        });
        Ok(())
    }
}
