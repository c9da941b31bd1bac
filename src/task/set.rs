//! A labelled set for one model: what heads are scored on, chosen by and reported with.

use std::sync::Arc;

use ndarray::Array2;

use super::classes::{first_tokens, listed, matched};
use super::labelled::{Item, Label, Labelled, Split};
use super::measure::outputs;
use super::probe::{Probe, STRENGTHS};
use super::reached::{Answers, Reached};
use super::sample::{Sample, encode};
use super::target::Target;
use crate::config::Task;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::tokens::{Encoding, Input, Limit};
use crate::trace::{Intervention, Recorder};

/// What tells the classes.
#[derive(Debug, Clone)]
enum Teller {
    /// The checkpoint's own head, of texts or of tokens; each class of the set is one of its.
    Own(Vec<u32>),
    /// A probe on embeddings, as fitted to the unpruned model.
    Probe(Arc<Probe>),
    /// Nothing: pairs with scores.
    None,
}

/// A labelled set, encoded for one model. Classes of texts are told by the checkpoint's own head
/// where it is a classifier, else by a [`Probe`] on mean embeddings; classes of words by its head for
/// tokens, at the first token of each word; pairs with scores are compared by the cosine of their
/// mean embeddings.
#[derive(Debug, Clone)]
pub struct Set {
    labelled: Labelled,
    name: String,
    encodings: Vec<Vec<Encoding>>,
    teller: Teller,
    batch_size: usize,
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
    /// the part for training, with the one of [`STRENGTHS`] that has the least loss on the part for
    /// validation. Runs are of `batch_size` items.
    ///
    /// # Errors
    /// [`Error::Input`] naming an item that the tokenizer or the model refuses, [`Error::Usage`]
    /// where the model's own head has another number of classes, those of [`Model::forward`].
    pub fn new(
        labelled: Labelled,
        name: &str,
        model: &Model,
        limit: &Limit,
        batch_size: usize,
    ) -> Result<Self> {
        let items = labelled.items.iter().zip(1..);
        let encodings = items.map(|(item, number)| {
            encoded(item, model, limit).map_err(|error| match error {
                Error::Input { place, why } => {
                    Error::input(format!("{name}, item {number}"), format!("{place}: {why}"))
                }
                other => other,
            })
        });
        let encodings = encodings.collect::<Result<_>>()?;
        let (name, teller) = (name.into(), Teller::None);
        let mut set = Self { labelled, name, encodings, teller, batch_size: batch_size.max(1) };
        set.teller = set.teller(model)?;
        Ok(set)
    }

    /// The name by which it was asked for.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its items and classes.
    pub fn labelled(&self) -> &Labelled {
        &self.labelled
    }

    /// How items are told, for a reader.
    pub fn by(&self) -> String {
        match &self.teller {
            Teller::Own(_) => "the model's own head".into(),
            Teller::Probe(probe) => {
                format!("logistic regression on mean embeddings, C = {}", probe.strength)
            }
            Teller::None => "cosine of mean embeddings".into(),
        }
    }

    /// Whether its samples have a loss: pairs have none.
    pub fn has_loss(&self) -> bool {
        !matches!(self.teller, Teller::None)
    }

    /// Places of the items of a part, the short ones first, so that little of a batch is padding.
    fn part(&self, split: Split) -> Vec<usize> {
        let items = self.labelled.items.iter().enumerate();
        let mut places: Vec<usize> =
            items.filter(|(_, item)| item.split == split).map(|(i, _)| i).collect();
        let longest = |&i: &usize| self.encodings[i].iter().map(Encoding::len).max();
        places.sort_by_key(longest); // stable
        places
    }

    /// The number of a class in what tells it.
    fn class(&self, class: u32) -> u32 {
        match &self.teller {
            Teller::Own(places) => places.get(class as usize).copied().unwrap_or(class),
            _ => class,
        }
    }

    fn classes(&self, places: &[usize]) -> Vec<u32> {
        let class = |&i: &usize| match self.labelled.items[i].label {
            Label::Class(class) => self.class(class),
            _ => 0,
        };
        places.iter().map(class).collect()
    }

    /// The classes of an item's words, each with the place of the word's first token.
    fn words(&self, place: usize) -> Vec<(usize, u32)> {
        let (Some(encoding), Item { input: Input::Words(words), label: Label::Words(classes), .. }) =
            (self.encodings[place].first(), &self.labelled.items[place])
        else {
            return Vec::new();
        };
        let firsts = first_tokens(encoding, words).into_iter().zip(classes);
        firsts.filter_map(|(first, &class)| Some((first?, self.class(class)))).collect()
    }

    fn teller(&self, model: &Model) -> Result<Teller> {
        let count = self.labelled.classes.len();
        if count == 0 {
            return Ok(Teller::None);
        }
        let of_words = self.labelled.items.iter().any(|item| matches!(item.label, Label::Words(_)));
        match (model.config().task, of_words) {
            (Task::SequenceClassification, false) | (Task::TokenClassification, true) => {
                let own = &model.config().labels;
                let wrong = || Error::Usage {
                    flag: "--data".into(),
                    want: format!("classes of the model's own head, {}", listed(own)),
                    found: format!("{} in {}", listed(&self.labelled.classes), self.name),
                };
                return Ok(Teller::Own(matched(&self.labelled.classes, own).ok_or_else(wrong)?));
            }
            (task, true) => {
                return Err(Error::Usage {
                    flag: "--data".into(),
                    want: "a model with a head for the classes of tokens".into(),
                    found: format!("one for {}", task.name()),
                });
            }
            _ => {}
        }
        let (train, held) = (self.part(Split::Train), self.part(Split::Validation));
        let (x, y) = (self.embeddings(model, &[], &train)?, self.classes(&train));
        let (held, want) = (self.embeddings(model, &[], &held)?, self.classes(&held));
        let mut best: Option<(f64, Probe)> = None;
        for strength in STRENGTHS {
            let probe = Probe::fit(&x, &y, count, strength)?;
            let loss = probe.loss(&held, &want);
            if best.as_ref().is_none_or(|(least, _)| loss < *least) {
                best = Some((loss, probe));
            }
        }
        best.map(|(_, probe)| Teller::Probe(Arc::new(probe)))
            .ok_or_else(|| Error::input(&self.name, "holds nothing to fit a probe on"))
    }

    /// Batches of the texts of these items, one after another, without targets.
    fn batches<'a>(&'a self, places: &'a [usize], pad: u32) -> impl Iterator<Item = Sample> + 'a {
        places.chunks(self.batch_size).map(move |some| {
            let texts: Vec<Encoding> =
                some.iter().flat_map(|&i| self.encodings[i].iter().cloned()).collect();
            Sample::new(&texts, pad, None)
        })
    }

    /// Mean embeddings of the texts of these items, `[N,D]`.
    fn embeddings(
        &self,
        model: &Model,
        changes: &[Intervention],
        places: &[usize],
    ) -> Result<Array2<f64>> {
        let samples: Vec<Sample> = self.batches(places, model.tokenizer()?.pad_id()).collect();
        Ok(outputs(model, &samples, changes, &[])?.embeddings)
    }

    /// The batches of a part, with the loss of each item where there are classes: by the model's own
    /// head, or by the probe of the unpruned model.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] for a model without a tokenizer.
    pub fn samples(&self, model: &Model, split: Split) -> Result<Vec<Sample>> {
        let places = self.part(split);
        let pad = model.tokenizer()?.pad_id();
        let mut samples: Vec<Sample> = self.batches(&places, pad).collect();
        for (sample, some) in samples.iter_mut().zip(places.chunks(self.batch_size)) {
            sample.target = match &self.teller {
                Teller::Own(_) if model.config().task == Task::TokenClassification => {
                    let mut labels = Array2::from_elem(sample.batch.ids.dim(), None);
                    for (b, &i) in some.iter().enumerate() {
                        for (first, class) in self.words(i) {
                            labels[(b, first)] = Some(class);
                        }
                    }
                    Some(Target::Tokens(labels))
                }
                Teller::Own(_) => Some(Target::Classes(self.classes(some))),
                Teller::Probe(probe) => Some(Target::Probed(Arc::clone(probe), self.classes(some))),
                Teller::None => None,
            };
        }
        Ok(samples)
    }

    /// What a model reaches on a part, with `changes` in every run; the items are in one order for all
    /// models. A probe is fitted anew to the
    /// embeddings that the changed model gives of the part for training, at the strength that was
    /// chosen for the unpruned one: what a head took with it was not there to be learnt.
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
        let places = self.part(split);
        let count = self.labelled.classes.len();
        let found = match &self.teller {
            Teller::None => return self.pairs(model, changes, &places),
            Teller::Own(_) => return self.own(model, changes, &places),
            Teller::Probe(probe) if !anew => {
                probe.classes(&self.embeddings(model, changes, &places)?)
            }
            Teller::Probe(probe) => {
                let train = self.part(Split::Train);
                let x = self.embeddings(model, changes, &train)?;
                let probe = Probe::fit(&x, &self.classes(&train), count, probe.strength)?;
                probe.classes(&self.embeddings(model, changes, &places)?)
            }
        };
        let items = found.into_iter().zip(self.classes(&places)).map(|pair| vec![pair]);
        Ok(Reached { answers: Answers::Classes { items: items.collect(), count } })
    }

    /// A number to choose by, the larger the better, from one pass over a part with `changes` in it:
    /// minus the mean loss of the classes, by the model's own head or by the probe as it was fitted to
    /// the unpruned model; of pairs Spearman's rank correlation.
    ///
    /// # Errors
    /// Those of [`Model::forward`].
    pub fn worth(&self, model: &Model, changes: &[Intervention], split: Split) -> Result<f64> {
        if let Teller::None = self.teller {
            return Ok(self.pairs(model, changes, &self.part(split))?.metric());
        }
        let losses = outputs(model, &self.samples(model, split)?, changes, &[])?.losses;
        Ok(-losses.iter().sum::<f64>() / losses.len().max(1) as f64)
    }

    /// Classes that the model's own head tells.
    fn own(&self, model: &Model, changes: &[Intervention], places: &[usize]) -> Result<Reached> {
        let of_words = model.config().task == Task::TokenClassification;
        let mut items = Vec::new();
        let samples = self.batches(places, model.tokenizer()?.pad_id());
        for (sample, some) in samples.zip(places.chunks(self.batch_size)) {
            let hidden = sample.run(model, &mut Recorder::new(), changes)?;
            let logits = model.head(&hidden, &sample.batch)?.logits.ok_or_else(|| {
                Error::checkpoint(&model.report().name, "its head gives no logits")
            })?;
            if of_words {
                let told = logits.argmax(2)?.to_vec2::<u32>()?; // [B, T]
                for (told, &i) in told.iter().zip(some) {
                    let pair = |(first, is): (usize, u32)| Some((*told.get(first)?, is));
                    items.push(self.words(i).into_iter().filter_map(pair).collect());
                }
            } else {
                let told = logits.argmax(1)?.to_vec1::<u32>()?;
                items.extend(told.into_iter().zip(self.classes(some)).map(|pair| vec![pair]));
            }
        }
        let count = model.config().labels.len().max(self.labelled.classes.len());
        Ok(Reached { answers: Answers::Classes { items, count } })
    }

    fn pairs(&self, model: &Model, changes: &[Intervention], places: &[usize]) -> Result<Reached> {
        let embeddings = self.embeddings(model, changes, places)?;
        let cosine = |pair: usize| {
            let (a, b) = (embeddings.row(2 * pair), embeddings.row(2 * pair + 1));
            a.dot(&b) / (a.dot(&a) * b.dot(&b)).sqrt().max(1e-12)
        };
        let score = |&i: &usize| match self.labelled.items[i].label {
            Label::Score(score) => score,
            _ => 0.0,
        };
        let pairs = match embeddings.nrows() == 2 * places.len() {
            true => places.iter().enumerate().map(|(n, i)| (cosine(n), score(i))).collect(),
            // scores of single texts say nothing of pairs
            false => Vec::new(),
        };
        Ok(Reached { answers: Answers::Pairs(pairs) })
    }
}

/// Pairs with scores are compared by their embeddings, so each text is read alone.
fn encoded(item: &Item, model: &Model, limit: &Limit) -> Result<Vec<Encoding>> {
    match (&item.input, &item.label) {
        (Input::Pair(a, b), Label::Score(_)) => [a, b]
            .map(|text| Input::Text(text.clone()))
            .iter()
            .map(|text| encode(model, text, limit))
            .collect(),
        (input, _) => Ok(vec![encode(model, input, limit)?]),
    }
}
