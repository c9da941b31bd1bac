//! What heads give on the mean, which an output bias can keep when they go.

use std::collections::{BTreeMap, BTreeSet};

use candle_core::{DType, Tensor};
use ndarray::Array2;

use super::ablate::{Layers, means};
use super::place::StackHead;
use crate::config::Stack;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::select::Head;
use crate::task::{Sample, Written};
use crate::tokens::Batch;
use crate::trace::{Change, Intervention, Keep, Recorder, Site};

/// The mean of every head's output over the real tokens of some texts.
#[derive(Debug, Clone)]
pub struct HeadMeans {
    /// Per layer, mean weighted values, `[1,H,1,K]`.
    contexts: Layers,
    /// What each adds to the residual stream, `[D]`.
    outputs: BTreeMap<StackHead, Vec<f64>>,
}

impl HeadMeans {
    /// The means over all samples, of the stacks that they run through.
    ///
    /// # Errors
    /// [`Error::Input`] where there is no token; those of [`Sample::run`].
    pub fn of(model: &Model, samples: &[Sample]) -> Result<Self> {
        let contexts = means(model, samples)?;
        // a single token with the means for its contexts: what the output projections make of them
        let one = samples.first().map(one_token);
        let one = one.ok_or_else(|| Error::input("texts", "none to take means over"))?;
        let changes: Vec<Intervention> =
            contexts.iter().map(|(&at, mean)| replace(at, None, mean)).collect();
        let mut recorder = Recorder::new().keep(Site::HeadOutput, Keep::All);
        one.run(model, &mut recorder, &changes)?;
        let mut outputs = BTreeMap::new();
        for (stack, layer, _, kept) in recorder.into_trace()?.iter() {
            let rows = kept.tensor.to_dtype(DType::F64)?.squeeze(2)?.squeeze(0)?; // [H, D]
            for (&head, row) in kept.heads.iter().zip(rows.to_vec2::<f64>()?) {
                outputs.insert(StackHead { stack, head: Head { layer, head } }, row);
            }
        }
        Ok(Self { contexts, outputs })
    }

    /// These heads at their means: what a checkpoint computes whose output biases keep them.
    pub fn off(&self, heads: &BTreeSet<StackHead>) -> Vec<Intervention> {
        let of = |(&(stack, layer), mean): (&(Stack, usize), &Tensor)| {
            let own = heads.iter().filter(|one| (one.stack, one.head.layer) == (stack, layer));
            let own: Vec<usize> = own.map(|one| one.head.head).collect();
            (!own.is_empty()).then(|| replace((stack, layer), Some(own), mean))
        };
        self.contexts.iter().filter_map(of).collect()
    }

    /// What these heads add to the residual stream together, `[D]`; `None` where a mean is missing.
    pub(super) fn sum(&self, heads: &[StackHead]) -> Option<Vec<f64>> {
        let mut sum: Vec<f64> = Vec::new();
        for one in heads {
            let own = self.outputs.get(one)?;
            sum.resize(own.len(), 0.0);
            sum.iter_mut().zip(own).for_each(|(sum, x)| *sum += x);
        }
        Some(sum)
    }
}

fn replace(
    (stack, layer): (Stack, usize),
    heads: Option<Vec<usize>>,
    mean: &Tensor,
) -> Intervention {
    let (layers, change) = (Some(vec![layer]), Change::Replace(mean.clone()));
    Intervention { stack, site: Site::Context, layers, heads, positions: None, change }
}

/// The first token alone, on either side.
fn one_token(sample: &Sample) -> Sample {
    let first = |batch: &Batch| {
        let id = batch.ids.first().copied().unwrap_or(0);
        Batch::from_ids(Array2::from_elem((1, 1), id), Array2::ones((1, 1)))
    };
    let special = || Array2::from_elem((1, 1), false);
    let written = sample.written.as_ref();
    let written = written.map(|one| Written { batch: first(&one.batch), special: special() });
    Sample { batch: first(&sample.batch), special: special(), written, target: None }
}
