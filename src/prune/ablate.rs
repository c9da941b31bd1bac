//! Heads switched off during a run, one set after another.

use std::collections::BTreeMap;

use candle_core::{DType, Tensor};

use super::place::StackHead;
use crate::config::{Config, Stack};
use crate::error::{Error, Result};
use crate::model::Model;
use crate::task::{Outputs, Sample, Target, joined, outputs_of};
use crate::tokens::Batch;
use crate::trace::{Change, Intervention, Keep, Recorder, Site, Trace};

/// A tensor for each layer of each stack.
pub(super) type Layers = BTreeMap<(Stack, usize), Tensor>;

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

/// What the model gives with each of these sets of heads off; the unpruned model first. `divergence`
/// asks for that from the unpruned logits.
///
/// # Errors
/// [`Error::Input`] where a batch of one text has no other to resample from; those of
/// [`Sample::run`] and [`Target::losses`].
pub fn ablate(
    model: &Model,
    samples: &[Sample],
    off: Off,
    sets: &[Vec<StackHead>],
    divergence: bool,
    mut done: impl FnMut(),
) -> Result<Vec<Outputs>> {
    let means = match off {
        Off::Mean => means(model, samples)?,
        _ => Layers::new(),
    };
    let mut all: Vec<Vec<Outputs>> = vec![Vec::new(); sets.len() + 1];
    for sample in samples {
        let unpruned = match divergence {
            true => Some(Target::unpruned_logits(model, sample)?),
            false => None,
        };
        let source = match off {
            Off::Zero => Layers::new(),
            Off::Mean => means.clone(),
            Off::Resampled => others(model, sample)?,
            Off::Uniform => uniform(model, sample)?,
        };
        let change = |at: (Stack, usize)| -> Option<(Site, Change)> {
            Some(match off {
                Off::Zero => (Site::Context, Change::Zero),
                Off::Mean | Off::Resampled => {
                    (Site::Context, Change::Replace(source.get(&at)?.clone()))
                }
                Off::Uniform => (Site::Probs, Change::Replace(source.get(&at)?.clone())),
            })
        };
        for (outputs, set) in all.iter_mut().zip(std::iter::once(&Vec::new()).chain(sets)) {
            outputs.push(outputs_of(model, sample, &changed(set, change), unpruned.as_ref())?);
            done();
        }
    }
    all.into_iter().map(joined).collect()
}

/// The same change for all heads of a set, layer by layer.
fn changed(
    set: &[StackHead],
    change: impl Fn((Stack, usize)) -> Option<(Site, Change)>,
) -> Vec<Intervention> {
    let mut layers: BTreeMap<(Stack, usize), Vec<usize>> = BTreeMap::new();
    for one in set {
        layers.entry((one.stack, one.head.layer)).or_default().push(one.head.head);
    }
    let one = |((stack, layer), heads): ((Stack, usize), Vec<usize>)| {
        let (site, change) = change((stack, layer))?;
        let (layers, heads) = (Some(vec![layer]), Some(heads));
        Some(Intervention { stack, site, layers, heads, positions: None, change })
    };
    layers.into_iter().filter_map(one).collect()
}

fn contexts(model: &Model, sample: &Sample) -> Result<Trace> {
    let mut recorder = Recorder::new().keep(Site::Context, Keep::All);
    sample.run(model, &mut recorder, &[])?;
    recorder.into_trace()
}

/// The texts whose tokens are the queries of a stack.
fn queries(sample: &Sample, stack: Stack) -> &Batch {
    match stack {
        Stack::Encoder => &sample.batch,
        Stack::Decoder | Stack::Cross => sample.last(),
    }
}

/// Per layer with heads, each head's mean context over all real tokens, `[1,H,1,K]`.
pub(super) fn means(model: &Model, samples: &[Sample]) -> Result<Layers> {
    let mut sums: BTreeMap<(Stack, usize), (Tensor, usize)> = BTreeMap::new();
    for sample in samples {
        for (stack, layer, _, kept) in contexts(model, sample)?.iter() {
            let batch = queries(sample, stack);
            let (b, t) = batch.ids.dim();
            let real = batch.mask.iter().map(|&real| f64::from(real)).collect();
            let real = Tensor::from_vec::<_, f64>(real, (b, 1, t, 1), model.device())?;
            let context = kept.tensor.to_dtype(DType::F64)?;
            let sum = context.broadcast_mul(&real)?.sum_keepdim((0, 2))?;
            let count: usize = batch.lengths.iter().sum();
            let both = match sums.get(&(stack, layer)) {
                Some((before, counted)) => ((before + sum)?, counted + count),
                None => (sum, count),
            };
            sums.insert((stack, layer), both);
        }
    }
    let mean = |(at, (sum, count)): ((Stack, usize), (Tensor, usize))| -> Result<_> {
        Ok((at, (sum / count.max(1) as f64)?))
    };
    sums.into_iter().map(mean).collect()
}

/// Per layer with heads, each text's context taken from the next text's, `[B,H,T,K]`.
fn others(model: &Model, sample: &Sample) -> Result<Layers> {
    let mut moved = Layers::new();
    for (stack, layer, _, kept) in contexts(model, sample)?.iter() {
        let batch = queries(sample, stack);
        let (b, t) = batch.ids.dim();
        let places = Tensor::from_vec(next(batch)?, b * t, model.device())?;
        let (_, h, _, k) = kept.tensor.dims4()?;
        let rows = kept.tensor.transpose(1, 2)?.contiguous()?.reshape((b * t, h * k))?;
        let rows = rows.index_select(&places, 0)?.reshape((b, t, h, k))?;
        moved.insert((stack, layer), rows.transpose(1, 2)?.contiguous()?);
    }
    Ok(moved)
}

/// For each of the `[B,T]` places the one of the next text that stands in for it.
fn next(batch: &Batch) -> Result<Vec<u32>> {
    let (b, t) = batch.ids.dim();
    if b < 2 {
        let why = "resampling needs another text in each batch, found a batch of one";
        return Err(Error::input("texts", why));
    }
    let real: Vec<Vec<u32>> = batch
        .mask
        .rows()
        .into_iter()
        .map(|row| (0..t as u32).filter(|&i| row[i as usize] != 0).collect())
        .collect();
    let place = |example: usize, token: usize| {
        let (other, from) = ((example + 1) % b, &real[(example + 1) % b]);
        (other * t) as u32 + from.get(token % from.len().max(1)).copied().unwrap_or(0)
    };
    Ok((0..b).flat_map(|e| (0..t).map(move |i| place(e, i))).collect())
}

/// Per layer, even weights over the keys that each query sees, `[B,1,T,S]`.
fn uniform(model: &Model, sample: &Sample) -> Result<Layers> {
    let config = model.config();
    let mut layers = Layers::new();
    for stack in super::gates::running(config, sample) {
        let of = config.of(stack);
        for layer in 0..of.layers() {
            let weights = match stack {
                Stack::Cross => across(model, sample)?,
                _ => over_itself(
                    model,
                    of,
                    queries(sample, stack),
                    of.windows.get(layer).copied().flatten(),
                )?,
            };
            layers.insert((stack, layer), weights);
        }
    }
    Ok(layers)
}

/// Even weights of every written token over all tokens that were read, `[B,1,T,S]`.
fn across(model: &Model, sample: &Sample) -> Result<Tensor> {
    let (b, s) = sample.batch.ids.dim();
    let t = sample.last().ids.ncols();
    let row = |example: usize| {
        let real = sample.batch.mask.row(example);
        let count = real.sum().max(1) as f32;
        real.iter().map(|&real| real as f32 / count).collect::<Vec<_>>()
    };
    let weights = (0..b).flat_map(|example| row(example).repeat(t)).collect();
    Ok(Tensor::from_vec::<_, f32>(weights, (b, 1, t, s), model.device())?)
}

/// Even weights of every token over those that it sees, `[B,1,T,T]`.
fn over_itself(
    model: &Model,
    config: &Config,
    batch: &Batch,
    window: Option<usize>,
) -> Result<Tensor> {
    let (b, t) = batch.ids.dim();
    let global = match config.global_queries {
        true => model.global_queries(batch)?,
        false => None,
    };
    let is_global =
        |example: usize, i: usize| global.as_ref().is_some_and(|marks| marks[(example, i)] != 0);
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
}
