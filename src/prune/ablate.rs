//! Heads switched off during a run, one set after another.

use std::collections::BTreeMap;

use candle_core::{DType, Tensor};

use super::even::even;
use super::place::StackHead;
use crate::config::Stack;
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
    /// Its output for another text, the one half a batch on, token by token; over the end of that
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
            Off::Uniform => even(model, sample)?,
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
pub(super) fn queries(sample: &Sample, stack: Stack) -> &Batch {
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
        let why = "resampling needs another text in each batch, found a batch of one; another batch \
                   size may help";
        return Err(Error::input("texts", why));
    }
    let real: Vec<Vec<u32>> = batch
        .mask
        .rows()
        .into_iter()
        .map(|row| (0..t as u32).filter(|&i| row[i as usize] != 0).collect())
        .collect();
    let place = |example: usize, token: usize| {
        // not the next one: the texts of a pair stand side by side, and are no other item
        let other = (example + b / 2) % b;
        let from = &real[other];
        (other * t) as u32 + from.get(token % from.len().max(1)).copied().unwrap_or(0)
    };
    Ok((0..b).flat_map(|e| (0..t).map(move |i| place(e, i))).collect())
}
