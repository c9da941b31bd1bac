//! A labelled set for one model: what heads are scored on, chosen by and reported with.

use std::collections::BTreeSet;

use super::drawn::drawn;
use super::encoded::Encoded;
use super::labelled::{Labelled, Split};
use super::measure::outputs;
use super::probe::Probe;
use super::reached::{Answers, Reached};
use super::sample::Sample;
use super::teller::Teller;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::tokens::Limit;
use crate::trace::{Intervention, Recorder};

/// A labelled set, encoded for one model. Classes of texts are told by the checkpoint's own head
/// where it is a classifier, else by a [`Probe`] on mean embeddings; classes of words by its head for
/// tokens, at the first token of each word, else by a probe on the last layer's output there; pairs
/// with scores are compared by the cosine of their mean embeddings.
#[derive(Debug, Clone)]
pub struct Set {
    items: Encoded,
    name: String,
    teller: Teller,
}

impl Set {
    /// Reads a set as [`Labelled::open`] does and gets it ready for `model`, unpruned.
    ///
    /// # Errors
    /// Those of [`Labelled::open`] and [`Set::new`].
    pub fn open(name: &str, model: &Model, limit: &Limit, batch_size: usize) -> Result<Self> {
        Self::new(Labelled::open(name)?, name, model, limit, batch_size)
    }

    /// Encodes a set for `model`, unpruned, and gets ready to tell its classes: a probe is fitted on
    /// the part for training, with the one of [`STRENGTHS`](super::STRENGTHS) that has the least loss
    /// on the part for validation. Runs are of `batch_size` items.
    ///
    /// # Errors
    /// [`Error::Input`] naming an item that the tokenizer or the model refuses, [`Error::Usage`]
    /// where the model's own head has other classes, those of [`Model::forward`].
    pub fn new(
        labelled: Labelled,
        name: &str,
        model: &Model,
        limit: &Limit,
        batch_size: usize,
    ) -> Result<Self> {
        let items = Encoded::new(labelled, name, model, limit, batch_size)?;
        let teller = Teller::new(&items, name, model)?;
        Ok(Self { items, name: name.into(), teller })
    }

    /// The name by which it was asked for.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its items and classes.
    pub fn labelled(&self) -> &Labelled {
        &self.items.labelled
    }

    /// How items are told, for a reader.
    pub fn by(&self) -> String {
        self.teller.name(&self.items)
    }

    /// Whether its samples have a loss: pairs have none.
    pub fn has_loss(&self) -> bool {
        !matches!(self.teller, Teller::None)
    }

    /// The set with no more than `count` items of a part, drawn with a seed; what tells its classes
    /// stays, and so do the other parts.
    pub fn some(&self, split: Split, count: usize, seed: u64) -> Self {
        let part = self.part(split);
        let chosen = drawn(part.len(), count, seed);
        let left: BTreeSet<usize> =
            part.iter().enumerate().filter(|(i, _)| !chosen.contains(i)).map(|(_, &i)| i).collect();
        Self { items: self.items.without(&left), ..self.clone() }
    }

    /// Places of the items of a part among all, in their order.
    pub(crate) fn part(&self, split: Split) -> Vec<usize> {
        self.items.part(split)
    }

    /// The batch of these items with what they are held against; pairs by the distance of the cosine
    /// from their score, as a share of the range of all scores.
    pub(crate) fn sample(&self, places: &[usize], pad: u32) -> Sample {
        let sample = self.items.sample(places, pad);
        Sample { target: Some(self.teller.target(&self.items, &sample, places)), ..sample }
    }

    /// The batches of a part, with the loss of each item where there are classes: by the model's own
    /// head, or by the probe of the unpruned model.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] for a model without a tokenizer.
    pub fn samples(&self, model: &Model, split: Split) -> Result<Vec<Sample>> {
        let places = self.items.by_length(split);
        let batches = self.items.batches(&places, model.tokenizer()?.pad_id());
        let with_target = |(sample, some): (Sample, &[usize])| {
            let target = self.has_loss().then(|| self.teller.target(&self.items, &sample, some));
            Sample { target, ..sample }
        };
        Ok(batches.map(with_target).collect())
    }

    /// What a model reaches on a part, with `changes` in every run; the items are in one order for all
    /// models. A probe is fitted anew to the embeddings that the changed model gives of the part for
    /// training, at the strength that was chosen for the unpruned one: what a head took with it was
    /// not there to be learnt.
    ///
    /// # Errors
    /// Those of [`Model::forward`].
    pub fn reached(
        &self,
        model: &Model,
        changes: &[Intervention],
        split: Split,
    ) -> Result<Reached> {
        self.told(model, changes, split, true)
    }

    /// The same with the probe as it was fitted to the unpruned model, as a classifier that nobody
    /// trains again: a pass over this part alone. Without a probe it is [`Set::reached`].
    ///
    /// # Errors
    /// Those of [`Model::forward`].
    pub fn reached_untrained(
        &self,
        model: &Model,
        changes: &[Intervention],
        split: Split,
    ) -> Result<Reached> {
        self.told(model, changes, split, false)
    }

    fn told(
        &self,
        model: &Model,
        changes: &[Intervention],
        split: Split,
        anew: bool,
    ) -> Result<Reached> {
        let (items, places) = (&self.items, self.items.by_length(split));
        let count = items.labelled.classes.len();
        let (found, count) = match &self.teller {
            Teller::None => return self.pairs(model, changes, &places),
            Teller::Own(_) => {
                (self.own(model, changes, &places)?, count.max(model.config().labels.len()))
            }
            Teller::Probe(probe) if !anew => {
                (probe.classes(&items.embeddings(model, changes, &places)?), count)
            }
            Teller::Probe(probe) => {
                let train = items.by_length(Split::Train);
                let (x, y) = (items.embeddings(model, changes, &train)?, self.classes(&train));
                let probe = Probe::fit(&x, &y, count, probe.strength)?;
                (probe.classes(&items.embeddings(model, changes, &places)?), count)
            }
        };
        let mut found = found.into_iter();
        let told = |&place: &usize| {
            let classes = self.teller.classes_of(items, place).into_iter();
            classes.filter_map(|(_, is)| Some((found.next()?, is))).collect()
        };
        Ok(Reached {
            answers: Answers::Classes { items: places.iter().map(told).collect(), count },
        })
    }

    fn classes(&self, places: &[usize]) -> Vec<u32> {
        self.teller.classes(&self.items, places)
    }

    /// A number to choose by, the larger the better, from one pass over a part with `changes` in it:
    /// minus the mean loss of the classes, by the model's own head or by the probe as it was fitted to
    /// the unpruned model; of pairs Spearman's rank correlation.
    ///
    /// # Errors
    /// Those of [`Model::forward`].
    pub fn worth(&self, model: &Model, changes: &[Intervention], split: Split) -> Result<f64> {
        if let Teller::None = self.teller {
            return Ok(self.pairs(model, changes, &self.items.by_length(split))?.metric());
        }
        let losses = outputs(model, &self.samples(model, split)?, changes, &[])?.losses;
        Ok(-losses.iter().sum::<f64>() / losses.len().max(1) as f64)
    }

    /// Classes that the model's own head tells, of these items one after another.
    fn own(&self, model: &Model, changes: &[Intervention], places: &[usize]) -> Result<Vec<u32>> {
        let mut all = Vec::new();
        for (sample, some) in self.items.batches(places, model.tokenizer()?.pad_id()) {
            let hidden = sample.run(model, &mut Recorder::new(), changes)?;
            let logits = model.head(&hidden, &sample.batch)?.logits.ok_or_else(|| {
                Error::checkpoint(&model.report().name, "its head gives no logits")
            })?;
            let told = match self.items.of_words() {
                true => logits.argmax(2)?,                // [B, T]
                false => logits.argmax(1)?.unsqueeze(1)?, // [B, 1]
            };
            for (told, &place) in told.to_vec2::<u32>()?.iter().zip(some) {
                all.extend(self.items.classes(place).iter().map(|&(at, _)| told[at]));
            }
        }
        Ok(all)
    }

    fn pairs(&self, model: &Model, changes: &[Intervention], places: &[usize]) -> Result<Reached> {
        let embeddings = self.items.embeddings(model, changes, places)?;
        let cosine = |pair: usize| {
            let (a, b) = (embeddings.row(2 * pair), embeddings.row(2 * pair + 1));
            a.dot(&b) / (a.dot(&a) * b.dot(&b)).sqrt().max(1e-12)
        };
        let places = places.iter().enumerate();
        let pairs = places.map(|(pair, &place)| (cosine(pair), self.items.score(place))).collect();
        Ok(Reached { answers: Answers::Pairs(pairs) })
    }
}
