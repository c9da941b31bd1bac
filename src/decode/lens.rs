//! What the masked-LM head reads off each layer: the logit lens.

use candle_core::Tensor;

use super::fill::{Candidates, Filler, candidates};
use super::sampler::Sampler;
use super::sampling::Sampling;
use crate::config::NormOrder;
use crate::error::{Error, Result};
use crate::tokens::{Batch, Encoding};
use crate::trace::{Change, Intervention, Keep, Recorder, Site, Stack};

/// The masks as the head reads them off one layer's output.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// The layer, from 0; `None` for the embeddings.
    pub layer: Option<usize>,
    /// What it makes of each mask.
    pub masks: Vec<Candidates>,
}

impl Filler<'_> {
    /// Puts the masked-LM head on the embeddings and on each layer's output in turn, as if the
    /// model ended there; the last reading is the model's own. Where a norm follows the last layer
    /// (`NormOrder::Pre`) each output goes through it first; where each layer ends in its own norm,
    /// as in BERT, outputs are taken as they are. The head was trained on the last layer alone: what
    /// it reads off an early one is a view of it, not its meaning.
    ///
    /// # Errors
    /// As [`Filler::candidates`].
    ///
    /// # Source
    /// nostalgebraist 2020, "interpreting GPT: the logit lens".
    pub fn lens(
        &self,
        encoding: &Encoding,
        sampling: &Sampling,
        count: usize,
    ) -> Result<Vec<Reading>> {
        let masks = self.masks(encoding)?;
        let sampler = Sampler::new(sampling.clone(), 0)?;
        let batch = self.batch(encoding);
        let states = self.states(&batch)?; // [L + 1, T, D]
        let many = batch.repeated(states.dim(0)?)?;
        let states = match self.model.config().norm_order {
            NormOrder::Post => states,
            NormOrder::Pre => self.normed(&many, states)?,
        };
        let rows = self.rows(&states, &many, &masks)?;
        let layers = std::iter::once(None).chain((0..).map(Some));
        let read = |(layer, rows): (Option<usize>, Vec<Vec<f32>>)| {
            let masks = candidates(&masks, &rows, &sampler, count)?;
            Ok(Reading { layer, masks })
        };
        layers.zip(rows).map(read).collect()
    }

    /// The residual stream behind the embeddings and behind each layer.
    fn states(&self, batch: &Batch) -> Result<Tensor> {
        let mut recorder =
            Recorder::new().keep(Site::Embedding, Keep::All).keep(Site::Residual, Keep::All);
        self.model.forward(batch, &mut recorder, &[])?;
        let trace = recorder.into_trace()?;
        let layers = (0..self.model.config().layers()).map(|layer| (layer, Site::Residual));
        let sites = std::iter::once((0, Site::Embedding)).chain(layers);
        let states = sites.map(|(layer, site)| {
            let kept = trace.get(Stack::Encoder, layer, site);
            let none = || Error::checkpoint(&self.model.report().name, "no output of a layer");
            kept.map(|kept| kept.tensor.clone()).ok_or_else(none)
        });
        Ok(Tensor::cat(&states.collect::<Result<Vec<_>>>()?, 0)?)
    }

    /// The states behind the model's final norm: one example each of a run that ends with them.
    fn normed(&self, many: &Batch, states: Tensor) -> Result<Tensor> {
        let last = self.model.config().layers().saturating_sub(1);
        let ends = Intervention {
            stack: Stack::Encoder,
            site: Site::Residual,
            layers: Some(vec![last]),
            heads: None,
            positions: None,
            change: Change::Replace(states),
        };
        self.model.forward(many, &mut Recorder::new(), &[ends])
    }
}
