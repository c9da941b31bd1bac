//! Heads switched off during a run, one set after another.

use std::collections::BTreeMap;

use candle_core::{DType, Tensor};

use super::importance::Sample;
use super::measure::{Outputs, joined, outputs_of};
use super::target::Target;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::select::Head;
use crate::tokens::Batch;
use crate::trace::{Change, Intervention, Keep, Recorder, Site, Trace};

/// What a head gives in place of its output while it is off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Off {
    /// Nothing: the head as it would be cut out of the weights. With it goes what its value bias
    /// adds to every token.
    Zero,
    /// Its mean output over the real tokens of all texts, at every token.
    Mean,
    /// Its output for another text, the next one of the batch, token by token; over the end of that
    /// text from its start again.
    Resampled,
    /// Its values by even weights over all visible keys in place of its own.
    Uniform,
}

impl Off {
    /// The names that `--off` takes, each with its kind.
    pub const NAMES: [(&'static str, Off); 4] = [
        ("zero", Self::Zero),
        ("mean", Self::Mean),
        ("resampled", Self::Resampled),
        ("uniform", Self::Uniform),
    ];
}

/// What the model gives with each of these sets of heads off; the unpruned model first. Of an
/// encoder-decoder the encoder's heads. `divergence` asks for that from the unpruned logits.
///
/// # Errors
/// [`Error::Input`] where a batch of one text has no other to resample from; those of
/// [`Model::forward`] and [`Target::losses`].
pub fn ablate(
    model: &Model,
    samples: &[Sample],
    off: Off,
    sets: &[Vec<Head>],
    divergence: bool,
    mut done: impl FnMut(),
) -> Result<Vec<Outputs>> {
    let means = match off {
        Off::Mean => means(model, samples)?,
        _ => BTreeMap::new(),
    };
    let mut all: Vec<Vec<Outputs>> = vec![Vec::new(); sets.len() + 1];
    for sample in samples {
        let unpruned = match divergence {
            true => Some(Target::unpruned_logits(model, &sample.batch)?),
            false => None,
        };
        let source = match off {
            Off::Resampled => others(model, sample)?,
            _ => BTreeMap::new(),
        };
        let uniform = match off {
            Off::Uniform => uniform(model, &sample.batch)?,
            _ => Vec::new(),
        };
        let change = |layer: usize| -> Option<(Site, Change)> {
            Some(match off {
                Off::Zero => (Site::Context, Change::Zero),
                Off::Mean => (Site::Context, Change::Replace(means.get(&layer)?.clone())),
                Off::Resampled => (Site::Context, Change::Replace(source.get(&layer)?.clone())),
                Off::Uniform => (Site::Probs, Change::Replace(uniform.get(layer)?.clone())),
            })
        };
        for (outputs, set) in all.iter_mut().zip(std::iter::once(&Vec::new()).chain(sets)) {
            let changes = interventions(model, set, change);
            outputs.push(outputs_of(model, sample, &changes, unpruned.as_ref())?);
            done();
        }
    }
    all.into_iter().map(joined).collect()
}

/// The same change for all heads of a set, layer by layer.
fn interventions(
    model: &Model,
    set: &[Head],
    change: impl Fn(usize) -> Option<(Site, Change)>,
) -> Vec<Intervention> {
    let mut layers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for head in set {
        layers.entry(head.layer).or_default().push(head.head);
    }
    let one = |(layer, heads): (usize, Vec<usize>)| {
        let (site, change) = change(layer)?;
        Some(Intervention {
            stack: model.config().stack(),
            site,
            layers: Some(vec![layer]),
            heads: Some(heads),
            positions: None,
            change,
        })
    };
    layers.into_iter().filter_map(one).collect()
}

fn contexts(model: &Model, batch: &Batch) -> Result<Trace> {
    let mut recorder = Recorder::new().keep(Site::Context, Keep::All);
    model.forward(batch, &mut recorder, &[])?;
    recorder.into_trace()
}

/// Per layer with heads, each head's mean context over all real tokens, `[1,H,1,K]`.
fn means(model: &Model, samples: &[Sample]) -> Result<BTreeMap<usize, Tensor>> {
    let mut sums: BTreeMap<usize, Tensor> = BTreeMap::new();
    let mut count = 0usize;
    for sample in samples {
        let (b, t) = sample.batch.ids.dim();
        let real = sample.batch.mask.iter().map(|&real| f64::from(real)).collect();
        let real = Tensor::from_vec::<_, f64>(real, (b, 1, t, 1), model.device())?;
        for (_, layer, _, kept) in contexts(model, &sample.batch)?.iter() {
            let context = kept.tensor.to_dtype(DType::F64)?;
            let sum = context.broadcast_mul(&real)?.sum_keepdim((0, 2))?;
            let sum = match sums.get(&layer) {
                Some(before) => (before + sum)?,
                None => sum,
            };
            sums.insert(layer, sum);
        }
        count += sample.batch.lengths.iter().sum::<usize>();
    }
    let mean = |(layer, sum): (usize, Tensor)| -> Result<(usize, Tensor)> {
        Ok((layer, (sum / count.max(1) as f64)?))
    };
    sums.into_iter().map(mean).collect()
}

/// Per layer with heads, each text's context taken from the next text's, `[B,H,T,K]`.
fn others(model: &Model, sample: &Sample) -> Result<BTreeMap<usize, Tensor>> {
    let (b, t) = sample.batch.ids.dim();
    if b < 2 {
        let why = "resampling needs another text in each batch, found a batch of one";
        return Err(Error::input("texts", why));
    }
    let real: Vec<Vec<u32>> = sample
        .batch
        .mask
        .rows()
        .into_iter()
        .map(|row| (0..t as u32).filter(|&i| row[i as usize] != 0).collect())
        .collect();
    let place = |example: usize, token: usize| {
        let (other, from) = ((example + 1) % b, &real[(example + 1) % b]);
        (other * t) as u32 + from.get(token % from.len().max(1)).copied().unwrap_or(0)
    };
    let places: Vec<u32> = (0..b).flat_map(|e| (0..t).map(move |i| place(e, i))).collect();
    let places = Tensor::from_vec(places, b * t, model.device())?;
    let mut moved = BTreeMap::new();
    for (_, layer, _, kept) in contexts(model, &sample.batch)?.iter() {
        let (_, h, _, k) = kept.tensor.dims4()?;
        let rows = kept.tensor.transpose(1, 2)?.contiguous()?.reshape((b * t, h * k))?;
        let rows = rows.index_select(&places, 0)?.reshape((b, t, h, k))?;
        moved.insert(layer, rows.transpose(1, 2)?.contiguous()?);
    }
    Ok(moved)
}

/// Per layer, even weights over the keys that each query sees, `[B,1,T,T]`.
fn uniform(model: &Model, batch: &Batch) -> Result<Vec<Tensor>> {
    let (config, (b, t)) = (model.config(), batch.ids.dim());
    let global = model.global_queries(batch)?;
    let is_global =
        |example: usize, i: usize| global.as_ref().is_some_and(|marks| marks[(example, i)] != 0);
    let layer = |window: &Option<usize>| -> Result<Tensor> {
        let mut weights = vec![0.0f32; b * t * t];
        for (row, weights) in weights.chunks_exact_mut(t.max(1)).enumerate() {
            let (example, i) = (row / t, row % t);
            let near = |j: usize| {
                let far = window.is_some_and(|reach| i.abs_diff(j) > reach);
                let far = far && !is_global(example, i) && !is_global(example, j);
                let behind = config.causal && j > i;
                !far && !behind
            };
            let sees = |j: &usize| batch.mask[(example, *j)] != 0 && near(*j);
            let count = (0..t).filter(sees).count();
            // a query that sees nothing is padding: its row is even, as the model has it
            (0..t).filter(|j| count == 0 || sees(j)).for_each(|j| {
                weights[j] = 1.0 / if count == 0 { t } else { count } as f32;
            });
        }
        Ok(Tensor::from_vec(weights, (b, 1, t, t), model.device())?)
    };
    config.windows.iter().map(layer).collect()
}
