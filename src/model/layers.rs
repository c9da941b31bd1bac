//! One stack of layers from its embeddings to its final norm: an encoder or a decoder, by data.

use candle_core::{Device, Tensor};
use ndarray::Array2;

use super::attention::Pass;
use super::block::{Block, Convolve};
use super::cache::{Cache, Memory};
use super::embed::Embeddings;
use super::ops::Norm;
use crate::error::{Error, Result};
use crate::tokens::Batch;
use crate::trace::{Intervention, Recorder, Site, Stack};

/// Embeddings, layers and final norm.
pub(crate) struct Layers {
    pub embeddings: Embeddings,
    pub blocks: Vec<Block>,
    pub convolve: Option<Convolve>,
    pub final_norm: Option<Norm>,
    pub stack: Stack,
    /// Positions count real tokens only, so that padding on the left changes nothing.
    pub causal: bool,
}

/// What one run reads and writes besides the weights.
pub(crate) struct Run<'a> {
    /// The first positions' global marks, `[B, T]`, row after row; empty for none.
    pub global: &'a [bool],
    pub memory: Option<&'a Memory>,
    pub cache: Option<&'a mut Cache>,
    pub recorder: &'a mut Recorder,
    pub interventions: &'a [Intervention],
}

impl Layers {
    /// `batch` [B, T] → the output of the last layer [B, T, D]; behind what `run.cache` holds.
    pub fn forward(&self, batch: &Batch, device: &Device, mut run: Run<'_>) -> Result<Tensor> {
        if batch.ids.is_empty() {
            return Err(Error::input("batch", "no tokens"));
        }
        let past = run.cache.as_ref().map_or(0, |cache| cache.len());
        let done = self.over(batch, device, past, &mut run);
        if let (Err(_), Some(cache)) = (&done, run.cache) {
            cache.rewind(past); // as if the run had not been tried
        }
        done
    }

    fn over(
        &self,
        batch: &Batch,
        device: &Device,
        past: usize,
        run: &mut Run<'_>,
    ) -> Result<Tensor> {
        let before = run.cache.as_ref().map(|cache| real_tokens(cache.mask()));
        let positions = self.positions(batch, before.as_deref());
        let visible = match &mut run.cache {
            None => batch.mask.clone(),
            Some(cache) => {
                cache.extend(&batch.mask)?;
                cache.mask().clone()
            }
        };
        let (real, bias) = (real(&batch.mask, device)?, bias(&visible, device)?);
        let mut pass = Pass {
            stack: self.stack,
            layer: 0,
            past,
            positions: &positions,
            bias: &bias,
            real: &real,
            global: run.global,
            recorder: &mut *run.recorder,
            interventions: run.interventions,
        };
        let embedded = self.embeddings.forward(batch, &real, &positions)?;
        let embedded = pass.visit(Site::Embedding, embedded, &[])?;
        let mut x = embedded.clone();
        for (layer, block) in self.blocks.iter().enumerate() {
            pass.layer = layer;
            let cache = run.cache.as_mut().map(|cache| &mut cache.layers[layer]);
            x = block.forward(&x, &mut pass, cache, run.memory)?;
            if let (0, Some(convolve)) = (layer, &self.convolve) {
                x = convolve.forward(&embedded, &x, &real)?;
            }
            x = pass.visit(Site::Residual, x, &[])?;
        }
        self.final_norm.as_ref().map_or(Ok(x.clone()), |norm| norm.forward(&x))
    }

    /// Which position each token of [B, T] has in its text; `before` real tokens are in the cache.
    fn positions(&self, batch: &Batch, before: Option<&[u32]>) -> Vec<u32> {
        let t = batch.ids.ncols() as u32;
        if !self.causal {
            return (0..batch.ids.nrows()).flat_map(|_| 0..t).collect();
        }
        let row = |(b, row): (usize, ndarray::ArrayView1<'_, u32>)| {
            let mut next = before.map_or(0, |before| before.get(b).copied().unwrap_or(0));
            let place = move |&real: &u32| {
                let place = next;
                next += u32::from(real != 0);
                place
            };
            row.iter().map(place).collect::<Vec<_>>()
        };
        batch.mask.rows().into_iter().enumerate().flat_map(row).collect()
    }

    /// What the cross-attention of these layers makes of an encoder's output [B, S, D].
    pub fn remember(
        &self,
        hidden: &Tensor,
        mask: &Array2<u32>,
        recorder: &mut Recorder,
        interventions: &[Intervention],
    ) -> Result<Memory> {
        let (real, bias) = (real(mask, hidden.device())?, bias(mask, hidden.device())?);
        let mut pass = Pass {
            stack: Stack::Cross,
            layer: 0,
            past: 0,
            positions: &[],
            bias: &bias,
            real: &real,
            global: &[],
            recorder,
            interventions,
        };
        let mut layers = Vec::with_capacity(self.blocks.len());
        for (layer, block) in self.blocks.iter().enumerate() {
            pass.layer = layer;
            let cross = block.cross.as_ref().map(|(cross, _)| cross.remember(hidden, &mut pass));
            layers.push(cross.transpose()?.flatten());
        }
        Ok(Memory { hidden: hidden.clone(), layers, bias: pass.bias.clone() })
    }
}

/// Real tokens of each row.
fn real_tokens(mask: &Array2<u32>) -> Vec<u32> {
    mask.rows()
        .into_iter()
        .map(|row| row.iter().filter(|&&real| real != 0).count() as u32)
        .collect()
}

/// 1 for real positions, 0 for padding: [B, T].
pub(crate) fn real(mask: &Array2<u32>, device: &Device) -> Result<Tensor> {
    let real: Vec<f32> = mask.iter().map(|&m| if m == 0 { 0.0 } else { 1.0 }).collect();
    Ok(Tensor::from_vec(real, mask.dim(), &Device::Cpu)?.to_device(device)?)
}

/// 0 for visible positions, `f32::MIN` for hidden ones: [B, S].
fn bias(mask: &Array2<u32>, device: &Device) -> Result<Tensor> {
    let bias: Vec<f32> = mask.iter().map(|&m| if m == 0 { f32::MIN } else { 0.0 }).collect();
    Ok(Tensor::from_vec(bias, mask.dim(), &Device::Cpu)?.to_device(device)?)
}
