//! Labelled sets: what heads are scored on, and what a model makes of the part for reports.

use std::sync::Arc;

use attnviz::prune::{
    Effect, Item, Label, Labelled, Outputs, Probe, STRENGTHS, Sample, Split, Target, Told, effect,
    outputs, pearson, spearman, told,
};
use attnviz::tokens::{Encoding, Input};
use attnviz::{Error, Model, Recorder, Result, Task};
use ndarray::Array2;
use serde_json::{Value, json};

use super::super::args::RunArgs;
use super::super::session;
use super::texts::number;

/// What tells the classes.
enum Teller {
    /// The checkpoint's own head.
    Own,
    /// A probe on embeddings, as fitted to the unpruned model.
    Probe(Arc<Probe>),
    /// Nothing: pairs with scores.
    None,
}

/// A labelled set, encoded for one model.
pub struct Set {
    labelled: Labelled,
    name: String,
    encodings: Vec<Vec<Encoding>>,
    teller: Teller,
    batch_size: usize,
}

/// What a model reaches on the part for reports.
pub struct Reached {
    pub told: Option<Told>,
    pub correlations: Option<(f64, f64)>,
    /// Per item: 1 where it is right.
    right: Vec<f64>,
    /// Per pair: cosine and score.
    pairs: Vec<(f64, f64)>,
}

impl Set {
    /// Reads and encodes a set, and gets ready to tell its classes.
    pub fn open(name: &str, batch_size: usize, model: &Model, run: &RunArgs) -> Result<Self> {
        let labelled = Labelled::open(name)?;
        let encode = |item: &Item| -> Result<Vec<Encoding>> {
            match (&item.input, item.label) {
                // compared by their embeddings, so each is read alone
                (Input::Pair(a, b), Label::Score(_)) => [a, b]
                    .map(|text| Input::Text(text.clone()))
                    .iter()
                    .map(|text| session::encode(model, text, run))
                    .collect(),
                (input, _) => Ok(vec![session::encode(model, input, run)?]),
            }
        };
        let encodings = labelled.items.iter().map(encode).collect::<Result<_>>()?;
        let teller = Teller::None;
        let mut set = Self { labelled, name: name.into(), encodings, teller, batch_size };
        set.teller = set.teller(model)?;
        Ok(set)
    }

    /// Items of a part with their places.
    fn part(&self, split: Split) -> Vec<usize> {
        let items = self.labelled.items.iter().enumerate();
        items.filter(|(_, item)| item.split == split).map(|(i, _)| i).collect()
    }

    fn classes(&self, places: &[usize]) -> Vec<u32> {
        let class = |&i: &usize| match self.labelled.items[i].label {
            Label::Class(class) => class,
            Label::Score(_) => 0,
        };
        places.iter().map(class).collect()
    }

    fn teller(&self, model: &Model) -> Result<Teller> {
        let count = self.labelled.classes.len();
        if count == 0 {
            return Ok(Teller::None);
        }
        if model.config().task == Task::SequenceClassification {
            return match model.config().labels.len() {
                own if own == count => Ok(Teller::Own),
                own => Err(Error::Usage {
                    flag: "--data".into(),
                    want: format!("{own} classes, as the model's own head has"),
                    found: format!("{count} in {}", self.name),
                }),
            };
        }
        Ok(Teller::Probe(Arc::new(self.fit(model, None)?)))
    }

    /// Fits a probe on the part for training; its strength is the one of the least loss on the
    /// part for validation.
    fn fit(&self, model: &Model, strength: Option<f64>) -> Result<Probe> {
        let (train, validation) = (self.part(Split::Train), self.part(Split::Validation));
        let count = self.labelled.classes.len();
        let (x, y) = (self.embeddings(model, &train)?, self.classes(&train));
        if let Some(strength) = strength {
            return Probe::fit(&x, &y, count, strength);
        }
        let (held, want) = (self.embeddings(model, &validation)?, self.classes(&validation));
        let mut best: Option<(f64, Probe)> = None;
        for strength in STRENGTHS {
            let probe = Probe::fit(&x, &y, count, strength)?;
            let loss = probe.loss(&held, &want);
            if best.as_ref().is_none_or(|(least, _)| loss < *least) {
                best = Some((loss, probe));
            }
        }
        best.map(|(_, probe)| probe).ok_or_else(|| Error::Input {
            place: self.name.clone(),
            why: "holds nothing to fit a probe on".into(),
        })
    }

    /// Batches of the texts of these items, one after another, without targets.
    fn batches<'a>(&'a self, places: &'a [usize], pad: u32) -> impl Iterator<Item = Sample> + 'a {
        places.chunks(self.batch_size.max(1)).map(move |some| {
            let texts: Vec<Encoding> =
                some.iter().flat_map(|&i| self.encodings[i].iter().cloned()).collect();
            Sample::new(&texts, pad, None)
        })
    }

    fn embeddings(&self, model: &Model, places: &[usize]) -> Result<Array2<f64>> {
        let samples: Vec<Sample> = self.batches(places, model.tokenizer()?.pad_id()).collect();
        let Outputs { embeddings, .. } = outputs(model, &samples, &[], &[])?;
        Ok(embeddings)
    }

    /// What heads are scored on: the part for training, with its loss where there are classes.
    pub fn samples(&self, model: &Model) -> Result<Vec<Sample>> {
        let places = self.part(Split::Train);
        let pad = model.tokenizer()?.pad_id();
        let mut samples: Vec<Sample> = self.batches(&places, pad).collect();
        for (sample, some) in samples.iter_mut().zip(places.chunks(self.batch_size.max(1))) {
            sample.target = match &self.teller {
                Teller::Own => Some(Target::Classes(self.classes(some))),
                Teller::Probe(probe) => Some(Target::Probed(Arc::clone(probe), self.classes(some))),
                Teller::None => None,
            };
        }
        Ok(samples)
    }

    pub fn has_loss(&self) -> bool {
        !matches!(self.teller, Teller::None)
    }

    /// What a model reaches on the part for reports. A probe is fitted anew to its embeddings.
    pub fn reached(&self, model: &Model) -> Result<Reached> {
        let places = self.part(Split::Test);
        let count = self.labelled.classes.len();
        let want = self.classes(&places);
        let found = match &self.teller {
            Teller::None => return self.reached_pairs(model, &places),
            Teller::Own => self.own(model, &places)?,
            Teller::Probe(probe) => {
                let probe = self.fit(model, Some(probe.strength))?;
                probe.classes(&self.embeddings(model, &places)?)
            }
        };
        let right = found.iter().zip(&want).map(|(a, b)| f64::from(u8::from(a == b))).collect();
        let told = Some(told(&found, &want, count));
        Ok(Reached { told, correlations: None, right, pairs: Vec::new() })
    }

    /// Classes that the model's own head tells.
    fn own(&self, model: &Model, places: &[usize]) -> Result<Vec<u32>> {
        let mut found = Vec::new();
        for Sample { batch, .. } in self.batches(places, model.tokenizer()?.pad_id()) {
            let hidden = model.forward(&batch, &mut Recorder::new(), &[])?;
            let logits = model.head(&hidden, &batch)?.logits;
            let logits = logits.ok_or_else(|| lacks_logits(model))?;
            found.extend(logits.argmax(1)?.to_vec1::<u32>()?);
        }
        Ok(found)
    }

    fn reached_pairs(&self, model: &Model, places: &[usize]) -> Result<Reached> {
        let embeddings = self.embeddings(model, places)?;
        let cosine = |pair: usize| {
            let (a, b) = (embeddings.row(2 * pair), embeddings.row(2 * pair + 1));
            a.dot(&b) / (a.dot(&a) * b.dot(&b)).sqrt().max(1e-12)
        };
        let score = |&i: &usize| match self.labelled.items[i].label {
            Label::Score(score) => score,
            Label::Class(_) => 0.0,
        };
        let whole = embeddings.nrows() == 2 * places.len();
        let pairs: Vec<(f64, f64)> = match whole {
            true => places.iter().enumerate().map(|(n, i)| (cosine(n), score(i))).collect(),
            // scores of single texts say nothing of pairs
            false => Vec::new(),
        };
        let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        let correlations = spearman(&a, &b).zip(pearson(&a, &b));
        Ok(Reached { told: None, correlations, right: Vec::new(), pairs })
    }

    /// How classes are told, for a reader.
    fn means(&self) -> String {
        match &self.teller {
            Teller::Own => "the model's own head".into(),
            Teller::Probe(probe) => {
                format!("logistic regression on mean embeddings, C = {}", probe.strength)
            }
            Teller::None => "cosine of mean embeddings".into(),
        }
    }

    /// Both models on the part for reports.
    pub fn report(&self, before: &Reached, after: &Reached, seed: u64) -> Report {
        let differences: Vec<f64> =
            after.right.iter().zip(&before.right).map(|(after, before)| after - before).collect();
        let change = match differences.is_empty() {
            false => Some(effect(&differences, 2000, seed)),
            true => None,
        };
        Report {
            name: self.name.clone(),
            means: self.means(),
            items: before.right.len().max(before.pairs.len()),
            told: before.told.zip(after.told),
            correlations: before.correlations.zip(after.correlations),
            change,
        }
    }
}

fn lacks_logits(model: &Model) -> Error {
    let path = model.report().name.clone().into();
    Error::Checkpoint { path, why: "its head gives no logits".into() }
}

/// What pruning changed on a labelled set.
pub struct Report {
    name: String,
    means: String,
    items: usize,
    told: Option<(Told, Told)>,
    correlations: Option<((f64, f64), (f64, f64))>,
    /// Of the accuracy, item by item.
    change: Option<Effect>,
}

impl Report {
    pub fn json(&self) -> Value {
        json!({
            "data": self.name,
            "items": self.items,
            "by": self.means,
            "before": self.told.map(|(before, _)| before),
            "after": self.told.map(|(_, after)| after),
            "accuracy_change": self.change,
            "spearman": self.correlations.map(|(before, after)| [before.0, after.0]),
            "pearson": self.correlations.map(|(before, after)| [before.1, after.1]),
        })
    }

    pub fn text(&self) -> String {
        let mut text =
            format!("{}, {} items for reports, {}:\n", self.name, self.items, self.means);
        if let Some((before, after)) = self.told {
            let pair = |name, a: f64, b: f64| format!("{name} {a:.3} -> {b:.3}");
            let parts = [
                pair("accuracy", before.accuracy, after.accuracy),
                pair("F1", before.f1, after.f1),
                pair("Matthews", before.matthews, after.matthews),
            ];
            text += &format!("  {}\n", parts.join(", "));
        }
        if let Some(change) = self.change {
            let (low, high) = change.interval;
            text += &format!(
                "  change of accuracy {} [{}, {}] (bootstrap, 95 %), p {:.3} (signs at random)\n",
                number(change.mean),
                number(low),
                number(high),
                change.p
            );
        }
        if let Some((before, after)) = self.correlations {
            text += &format!(
                "  Spearman {:.3} -> {:.3}, Pearson {:.3} -> {:.3}\n",
                before.0, after.0, before.1, after.1
            );
        }
        text
    }
}
