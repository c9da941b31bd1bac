//! The items of a labelled set as one model reads them.

use std::collections::BTreeSet;

use candle_core::DType;
use ndarray::Array2;

use super::classes::first_tokens;
use super::labelled::{Item, Label, Labelled, Split};
use super::measure::{outputs, shaped};
use super::sample::{Sample, encode};
use super::target::rows_at;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::tokens::{Encoding, Input, Limit};
use crate::trace::{Intervention, Recorder};

/// A labelled set in the tokens of a model.
#[derive(Debug, Clone)]
pub(super) struct Encoded {
    pub labelled: Labelled,
    /// The texts of each item: two of a pair with a score, which are read apart.
    texts: Vec<Vec<Encoding>>,
    batch_size: usize,
}

impl Encoded {
    pub fn new(
        labelled: Labelled,
        name: &str,
        model: &Model,
        limit: &Limit,
        batch_size: usize,
    ) -> Result<Self> {
        let items = labelled.items.iter().zip(1..);
        let texts = items.map(|(item, number)| {
            texts(item, model, limit).map_err(|error| match error {
                Error::Input { place, why } => {
                    Error::input(format!("{name}, item {number}"), format!("{place}: {why}"))
                }
                other => other,
            })
        });
        let texts = texts.collect::<Result<_>>()?;
        Ok(Self { labelled, texts, batch_size: batch_size.max(1) })
    }

    /// All but the items at some places.
    pub fn without(&self, left: &BTreeSet<usize>) -> Self {
        let stays = |place: &usize| !left.contains(place);
        let places: Vec<usize> = (0..self.texts.len()).filter(stays).collect();
        let items = places.iter().map(|&place| self.labelled.items[place].clone()).collect();
        let texts = places.iter().map(|&place| self.texts[place].clone()).collect();
        let labelled = Labelled { items, classes: self.labelled.classes.clone() };
        Self { labelled, texts, batch_size: self.batch_size }
    }

    /// Whether classes are those of words.
    pub fn of_words(&self) -> bool {
        matches!(self.labelled.items.first(), Some(Item { label: Label::Words(_), .. }))
    }

    /// Places of the items of a part, in their order.
    pub fn part(&self, split: Split) -> Vec<usize> {
        let items = self.labelled.items.iter().enumerate();
        items.filter(|(_, item)| item.split == split).map(|(place, _)| place).collect()
    }

    /// The same, the short ones first, so that little of a batch is padding.
    pub fn by_length(&self, split: Split) -> Vec<usize> {
        let mut places = self.part(split);
        places.sort_by_key(|&place| self.texts[place].iter().map(Encoding::len).max()); // stable
        places
    }

    /// The classes of an item, each with the token that it is told at: of a text the first one, of
    /// words the first of each, where it was not cut off.
    pub fn classes(&self, place: usize) -> Vec<(usize, u32)> {
        match &self.labelled.items[place] {
            Item { label: Label::Class(class), .. } => vec![(0, *class)],
            Item { input: Input::Words(words), label: Label::Words(classes), .. } => {
                let firsts =
                    self.texts[place].first().map(|text| first_tokens(text, words)).into_iter();
                let told = firsts.flatten().zip(classes);
                told.filter_map(|(first, &class)| Some((first?, class))).collect()
            }
            _ => Vec::new(),
        }
    }

    /// How alike the texts of a pair are; 0 where there are classes.
    pub fn score(&self, place: usize) -> f64 {
        match self.labelled.items[place].label {
            Label::Score(score) => score,
            _ => 0.0,
        }
    }

    /// The least and the largest score of all items.
    pub fn range(&self) -> (f64, f64) {
        let scores = (0..self.texts.len()).map(|place| self.score(place));
        scores.fold((f64::MAX, f64::MIN), |(low, high), score| (low.min(score), high.max(score)))
    }

    /// The texts of these items, one after another, without a target.
    pub fn sample(&self, places: &[usize], pad: u32) -> Sample {
        let texts: Vec<Encoding> =
            places.iter().flat_map(|&place| self.texts[place].iter().cloned()).collect();
        Sample::new(&texts, pad, None)
    }

    /// The same in batches, each with its items.
    pub fn batches<'a>(
        &'a self,
        places: &'a [usize],
        pad: u32,
    ) -> impl Iterator<Item = (Sample, &'a [usize])> + 'a {
        places.chunks(self.batch_size).map(move |some| (self.sample(some, pad), some))
    }

    /// What a model makes of these items, a row for each class or text: its last layer's output at the
    /// first tokens of words, else the mean over a text's tokens.
    pub fn embeddings(
        &self,
        model: &Model,
        changes: &[Intervention],
        places: &[usize],
    ) -> Result<Array2<f64>> {
        let batches = self.batches(places, model.tokenizer()?.pad_id());
        if !self.of_words() {
            let samples: Vec<Sample> = batches.map(|(sample, _)| sample).collect();
            return Ok(outputs(model, &samples, changes, &[])?.embeddings);
        }
        let (mut rows, width) = (Vec::new(), model.config().hidden_size);
        for (sample, some) in batches {
            let hidden = sample.run(model, &mut Recorder::new(), changes)?;
            let items = some.iter().enumerate();
            let firsts: Vec<(usize, usize)> = items
                .flat_map(|(b, &place)| self.classes(place).into_iter().map(move |one| (b, one.0)))
                .collect();
            if !firsts.is_empty() {
                let found = rows_at(&hidden, &firsts)?.to_dtype(DType::F64)?.flatten_all()?;
                rows.extend(found.to_vec1::<f64>()?);
            }
        }
        shaped((rows.len() / width, width), rows)
    }
}

/// Pairs with scores are compared by their embeddings, so each text is read alone.
fn texts(item: &Item, model: &Model, limit: &Limit) -> Result<Vec<Encoding>> {
    match (&item.input, &item.label) {
        (Input::Pair(a, b), Label::Score(_)) => {
            let one = |text: &String| encode(model, &Input::Text(text.clone()), limit);
            Ok(vec![one(a)?, one(b)?])
        }
        (_, Label::Score(_)) => {
            Err(Error::input("score", "how alike one text is, expected text_a and text_b"))
        }
        (input, _) => Ok(vec![encode(model, input, limit)?]),
    }
}
