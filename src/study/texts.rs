//! What a study measures on: texts with labels or without, in parts.

use super::draw::draw;
use crate::error::Result;
use crate::model::Model;
use crate::task::{Outputs, Sample, Set, Split, Target, cosines, outputs};
use crate::trace::Intervention;

/// What must not get worse.
pub enum Texts {
    /// A labelled set, encoded for the model.
    Labelled(Box<Set>),
    /// Texts without labels.
    Plain(Plain),
}

/// Texts without labels, in batches with their targets.
pub struct Plain {
    /// What they are called.
    pub name: String,
    /// What heads are scored on.
    pub train: Vec<Sample>,
    /// What greedy choices are made by.
    pub validation: Vec<Sample>,
    /// What curves are of.
    pub test: Vec<Sample>,
    /// What is measured of each text.
    pub measure: Measure,
}

/// What is measured of a text without labels, the larger the better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Minus its loss.
    Loss,
    /// The centred cosine of its embedding to the unpruned model's.
    Likeness,
    /// Minus the divergence from the unpruned model's distributions, in nats.
    Divergence,
}

impl Measure {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Loss => "minus the loss",
            Self::Likeness => "cosine to the unpruned embeddings",
            Self::Divergence => "minus the divergence from the unpruned logits",
        }
    }

    /// Text by text, what `changes` leave of it; `unpruned` is what the model gives without any.
    pub(super) fn found(
        self,
        model: &Model,
        samples: &[Sample],
        unpruned: &Outputs,
        changes: &[Intervention],
    ) -> Result<Vec<f64>> {
        let targets: Vec<Target> = match self {
            Self::Divergence => samples.iter().filter_map(|one| one.target.clone()).collect(),
            _ => Vec::new(),
        };
        let changed = outputs(model, samples, changes, &targets)?;
        match self {
            Self::Loss => Ok(changed.losses.iter().map(|loss| -loss).collect()),
            Self::Divergence => Ok(changed.divergences.iter().map(|nats| -nats).collect()),
            Self::Likeness => cosines(unpruned, &changed),
        }
    }
}

/// What greedy choices are made by: the part for validation, or what a seed draws of it.
pub(super) enum Held {
    Labelled(Set),
    Plain { measure: Measure, samples: Vec<Sample>, unpruned: Outputs },
}

impl Held {
    /// `items` of the part for validation, drawn with a seed; all if not given.
    pub fn of(texts: &Texts, model: &Model, items: Option<usize>, seed: u64) -> Result<Self> {
        let count = items.unwrap_or(usize::MAX);
        Ok(match texts {
            Texts::Labelled(set) => Self::Labelled(set.some(Split::Validation, count, seed)),
            Texts::Plain(plain) => {
                let samples = draw(&plain.validation, count, seed)?;
                let unpruned = outputs(model, &samples, &[], &[])?;
                Self::Plain { measure: plain.measure, samples, unpruned }
            }
        })
    }

    /// What the model is worth with these changes, the larger the better.
    pub fn worth(&self, model: &Model, changes: &[Intervention]) -> Result<f64> {
        match self {
            Self::Labelled(set) => set.worth(model, changes, Split::Validation),
            Self::Plain { measure, samples, unpruned } => {
                let found = measure.found(model, samples, unpruned, changes)?;
                Ok(found.iter().sum::<f64>() / found.len().max(1) as f64)
            }
        }
    }
}
