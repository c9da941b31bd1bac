//! A text that was written, and one that is being written.

use ndarray::{Array2, s};
use std::collections::HashSet;

use super::sampler::Choice;
use super::writer::Until;
use crate::tokens::Batch;

/// Why a text ends where it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// As many tokens as were asked for.
    Length,
    /// A token that ends texts.
    Token(u32),
    /// The caller said so.
    Stopped,
}

/// One text of the batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    /// Where its first token stands among the positions of the batch: behind padding.
    pub first: usize,
    /// How many tokens its prompt has.
    pub prompt: usize,
    /// Prompt and continuation, without padding.
    pub ids: Vec<u32>,
    /// How each new token was taken.
    pub choices: Vec<Choice>,
    /// Why it ends there.
    pub end: End,
}

impl Written {
    /// Mean entropy, in nats, of the distributions that its tokens were taken from; 0 without any.
    pub fn mean_entropy(&self) -> f64 {
        let sum: f64 = self.choices.iter().map(|choice| choice.entropy).sum();
        sum / self.choices.len().max(1) as f64
    }

    /// The share of its continuation's sequences of `n` tokens that occurred in it before; 0 where
    /// it has none of that length.
    pub fn repetition(&self, n: usize) -> f64 {
        let new: Vec<u32> = self.choices.iter().map(|choice| choice.id).collect();
        let (mut seen, mut count) = (HashSet::new(), 0usize);
        for window in new.windows(n.max(1)) {
            count += 1;
            seen.insert(window);
        }
        (count - seen.len()) as f64 / count.max(1) as f64
    }
}

/// A text that is being written: the row of the batch.
pub(super) struct Text {
    pub ids: Vec<u32>,
    pub mask: Vec<u32>,
    first: usize,
    prompt: usize,
    choices: Vec<Choice>,
    pub end: Option<End>,
}

impl Text {
    pub fn new(ids: Vec<u32>, mask: Vec<u32>) -> Self {
        let first = mask.iter().position(|&real| real != 0).unwrap_or(0);
        let prompt = ids.len() - first;
        Self { ids, mask, first, prompt, choices: Vec::new(), end: None }
    }

    /// The tokens so far, without padding.
    pub fn real(&self) -> &[u32] {
        &self.ids[self.first..]
    }

    /// Takes on a token, of which `stop` says whether it is the last.
    pub fn push(&mut self, choice: Choice, stop: bool, until: &Until) {
        self.ids.push(choice.id);
        self.mask.push(1);
        if stop {
            self.end = Some(End::Stopped);
        }
        if until.ends.contains(&choice.id) {
            self.end = Some(End::Token(choice.id));
        }
        self.choices.push(choice);
    }

    pub fn finish(self) -> Written {
        Written {
            first: self.first,
            prompt: self.prompt,
            ids: self.real().to_vec(),
            choices: self.choices,
            end: self.end.unwrap_or(End::Length),
        }
    }
}

/// All positions so far, padding behind texts that have ended.
pub(super) fn batch(texts: &[Text], prompt: &Batch, pad: u32) -> Batch {
    let width = texts.iter().map(|text| text.ids.len()).max().unwrap_or(0);
    let shape = (texts.len(), width);
    let cell = |of: fn(&Text) -> &Vec<u32>, fill: u32| {
        Array2::from_shape_fn(shape, |(b, t)| of(&texts[b]).get(t).copied().unwrap_or(fill))
    };
    let mut batch = Batch::from_ids(cell(|text| &text.ids, pad), cell(|text| &text.mask, 0));
    let types = prompt.type_ids.ncols();
    batch.type_ids.slice_mut(s![.., ..types]).assign(&prompt.type_ids);
    batch
}
