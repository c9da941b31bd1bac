//! What tells the classes of a labelled set.

use std::sync::Arc;

use ndarray::Array2;

use super::classes::{listed, matched};
use super::encoded::Encoded;
use super::labelled::Split;
use super::probe::{Probe, STRENGTHS};
use super::sample::Sample;
use super::target::Target;
use crate::config::Task;
use crate::error::{Error, Result};
use crate::model::Model;

/// What tells the classes.
#[derive(Debug, Clone)]
pub(super) enum Teller {
    /// The checkpoint's own head, of texts or of tokens; each class of the set is one of its.
    Own(Vec<u32>),
    /// A probe on embeddings, as fitted to the unpruned model.
    Probe(Arc<Probe>),
    /// Nothing: pairs with scores.
    None,
}

impl Teller {
    /// The model's own head where it has one for such classes, else a probe: fitted on the part for
    /// training, with the one of [`STRENGTHS`] that has the least loss on the part for validation.
    pub fn new(items: &Encoded, name: &str, model: &Model) -> Result<Self> {
        let classes = &items.labelled.classes;
        if classes.is_empty() {
            return Ok(Self::None);
        }
        let own = &model.config().labels;
        match (model.config().task, items.of_words()) {
            (Task::SequenceClassification, false) | (Task::TokenClassification, true) => {
                let places = matched(classes, own).ok_or_else(|| Error::Usage {
                    flag: "--data".into(),
                    want: format!("classes of the model's own head, {}", listed(own)),
                    found: format!("{} in {name}", listed(classes)),
                });
                places.map(Self::Own)
            }
            _ => Self::fitted(items, name, model),
        }
    }

    fn fitted(items: &Encoded, name: &str, model: &Model) -> Result<Self> {
        let embedded = |split| -> Result<(Array2<f64>, Vec<u32>)> {
            let places = items.by_length(split);
            let classes = places.iter().flat_map(|&place| items.classes(place));
            Ok((items.embeddings(model, &[], &places)?, classes.map(|(_, class)| class).collect()))
        };
        let ((x, y), (held, want)) = (embedded(Split::Train)?, embedded(Split::Validation)?);
        if y.is_empty() {
            return Err(Error::input(name, "holds no items for train, to fit a probe on"));
        }
        let mut best: Option<(f64, Probe)> = None;
        for strength in STRENGTHS {
            let probe = Probe::fit(&x, &y, items.labelled.classes.len(), strength)?;
            let loss = probe.loss(&held, &want);
            if best.as_ref().is_none_or(|(least, _)| loss < *least) {
                best = Some((loss, probe));
            }
        }
        Ok(best.map_or(Self::None, |(_, probe)| Self::Probe(Arc::new(probe))))
    }

    /// How items are told, for a reader.
    pub fn name(&self, items: &Encoded) -> String {
        let what = if items.of_words() { "first tokens" } else { "mean embeddings" };
        match self {
            Self::Own(_) => "the model's own head".into(),
            Self::Probe(probe) => {
                format!("logistic regression on {what}, C = {}", probe.strength)
            }
            Self::None => "cosine of mean embeddings".into(),
        }
    }

    /// The classes of an item under their numbers in what tells them, each with its token.
    pub fn classes_of(&self, items: &Encoded, place: usize) -> Vec<(usize, u32)> {
        let mut all = items.classes(place);
        if let Self::Own(places) = self {
            let own = |class: u32| places.get(class as usize).copied().unwrap_or(class);
            all.iter_mut().for_each(|(_, class)| *class = own(*class));
        }
        all
    }

    /// The same of these items, one after another, without the tokens.
    pub fn classes(&self, items: &Encoded, places: &[usize]) -> Vec<u32> {
        let of = |&place: &usize| self.classes_of(items, place).into_iter().map(|(_, class)| class);
        places.iter().flat_map(of).collect()
    }

    /// What the sample of these items is held against.
    pub fn target(&self, items: &Encoded, sample: &Sample, places: &[usize]) -> Target {
        let tokens = || {
            let mut labels = Array2::from_elem(sample.batch.ids.dim(), None);
            for (b, &place) in places.iter().enumerate() {
                for (first, class) in self.classes_of(items, place) {
                    labels[(b, first)] = Some(class);
                }
            }
            labels
        };
        match (self, items.of_words()) {
            (Self::Own(_), true) => Target::Tokens(tokens()),
            (Self::Own(_), false) => Target::Classes(self.classes(items, places)),
            (Self::Probe(probe), true) => Target::ProbedTokens(Arc::clone(probe), tokens()),
            (Self::Probe(probe), false) => {
                Target::Probed(Arc::clone(probe), self.classes(items, places))
            }
            (Self::None, _) => {
                let (low, high) = items.range();
                let share = |&place: &usize| (items.score(place) - low) / (high - low).max(1e-12);
                Target::Alike(places.iter().map(|place| share(place) as f32).collect())
            }
        }
    }
}
