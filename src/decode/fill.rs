//! Masks → words, by the model's masked-LM head: [`Filler`].

use candle_core::Tensor;

use super::filters::{largest, softmax};
use super::order::Order;
use super::sampler::{Choice, Sampler, entropy, top};
use super::sampling::Sampling;
use crate::config::Task;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::tokens::{Batch, Encoding, Tokenizer};
use crate::trace::Recorder;

/// What a head makes of one position.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidates {
    /// The position among the tokens, from 0.
    pub position: usize,
    /// Entropy of the distribution, in nats.
    pub entropy: f64,
    /// Tokens with their probabilities, likeliest first.
    pub tokens: Vec<(u32, f64)>,
}

/// One mask filled.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The position among the tokens, from 0.
    pub position: usize,
    /// 0 where the mask was filled, 1 and more where it was rewritten.
    pub iteration: usize,
    /// What was taken.
    pub choice: Choice,
}

/// A text whose masks are filled.
#[derive(Debug, Clone, PartialEq)]
pub struct Filled {
    /// All tokens, special ones included: `[T]`.
    pub ids: Vec<u32>,
    /// What was done, in order.
    pub steps: Vec<Step>,
}

/// Fills masks with a model that has a masked-LM head.
///
/// ```no_run
/// use attnviz::Model;
/// use attnviz::decode::{Filler, Order, Sampler, Sampling};
/// use attnviz::tokens::{Input, Limit};
///
/// let model = Model::from_pretrained("bert-base-uncased")?;
/// let filler = Filler::new(&model)?;
/// let text = Input::Text("The [MASK] sat on the [MASK].".into());
/// let encoding = model.tokenizer()?.encode(&text, &Limit::default())?;
/// let mut sampler = Sampler::new(Sampling::default(), 1)?;
/// let filled = filler.fill(&encoding, Order::Confident, 0, &mut sampler)?;
/// println!("{}", filler.spell(&encoding, &filled.ids)[0]);
/// # Ok::<(), attnviz::Error>(())
/// ```
pub struct Filler<'m> {
    pub(super) model: &'m Model,
    pub(super) tokenizer: &'m Tokenizer,
    mask: u32,
}

impl<'m> Filler<'m> {
    /// Gets ready to fill masks.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] where the model has no masked-LM head, no tokenizer, or a tokenizer
    /// without a mask.
    pub fn new(model: &'m Model) -> Result<Self> {
        let wrong = |why: String| Error::checkpoint(&model.report().name, why);
        let task = model.config().task;
        if task != Task::MaskedLm {
            return Err(wrong(format!(
                "has no masked-LM head to fill masks with, it is of the kind `{}`; one that has it \
                 is bert-base-uncased",
                task.name()
            )));
        }
        let tokenizer = model.tokenizer()?;
        let mask = tokenizer.mask_id();
        let mask = mask.ok_or_else(|| wrong("the tokenizer has no mask token".into()))?;
        Ok(Self { model, tokenizer, mask })
    }

    /// The model that fills.
    pub fn model(&self) -> &'m Model {
        self.model
    }

    /// What the tokenizer calls the mask.
    pub fn mask(&self) -> String {
        self.tokenizer.piece(self.mask).unwrap_or_default()
    }

    /// Positions of the masks among the tokens.
    ///
    /// # Errors
    /// [`Error::Input`] where there are none, naming the mask to write.
    pub fn masks(&self, encoding: &Encoding) -> Result<Vec<usize>> {
        let masks: Vec<usize> = encoding
            .tokens
            .iter()
            .enumerate()
            .filter(|(_, token)| token.id == Some(self.mask))
            .map(|(position, _)| position)
            .collect();
        if masks.is_empty() {
            let why = format!("no mask in it; write {} where a word is missing", self.mask());
            return Err(Error::input("text", why));
        }
        Ok(masks)
    }

    /// What the model makes of each mask while all are masked: the `count` likeliest of the whole
    /// vocabulary, by the distribution that a [`Choice`] of this sampling reports.
    ///
    /// # Errors
    /// Those of [`Filler::masks`], [`Sampler::new`] and [`Model::forward`].
    pub fn candidates(
        &self,
        encoding: &Encoding,
        sampling: &Sampling,
        count: usize,
    ) -> Result<Vec<Candidates>> {
        let masks = self.masks(encoding)?;
        let sampler = Sampler::new(sampling.clone(), 0)?;
        let rows = self.logits(&self.batch(encoding), &masks)?;
        candidates(&masks, &rows, &sampler, count)
    }

    /// Fills all masks in the order given, each in a run of its own; then, `iterations` times, each
    /// from left to right is masked again and filled anew.
    ///
    /// Rewriting resembles Gibbs sampling, but the conditional distributions of a masked LM are in
    /// general not those of one joint distribution, so that its texts are samples of none that the
    /// model defines. What the tokenizer or the model gives a meaning of its own, such as `[SEP]`,
    /// padding and the mask, is never taken. Penalties look at no tokens.
    ///
    /// # Errors
    /// Those of [`Filler::masks`], [`Sampler::choose`] and [`Model::forward`].
    ///
    /// # Source
    /// Wang & Cho 2019, "BERT has a Mouth, and It Must Speak".
    pub fn fill(
        &self,
        encoding: &Encoding,
        order: Order,
        iterations: usize,
        sampler: &mut Sampler,
    ) -> Result<Filled> {
        let masks = self.masks(encoding)?;
        let mut batch = self.batch(encoding);
        let mut steps = Vec::new();
        let mut open = masks.clone();
        while let Some(&first) = open.first() {
            let (position, row) = match order {
                Order::LeftToRight => (first, self.takable(&batch, &[first], encoding)?.remove(0)),
                Order::Confident => {
                    let rows = self.takable(&batch, &open, encoding)?;
                    let at = most_confident(&rows);
                    (open[at], rows[at].clone())
                }
            };
            open.retain(|&other| other != position);
            let choice = sampler.choose(&row, &[])?;
            batch.ids[(0, position)] = choice.id;
            steps.push(Step { position, iteration: 0, choice });
        }
        for iteration in 1..=iterations {
            for &position in &masks {
                batch.ids[(0, position)] = self.mask;
                let row = self.takable(&batch, &[position], encoding)?.remove(0);
                let choice = sampler.choose(&row, &[])?;
                batch.ids[(0, position)] = choice.id;
                steps.push(Step { position, iteration, choice });
            }
        }
        Ok(Filled { ids: batch.ids.iter().copied().collect(), steps })
    }

    pub(super) fn batch(&self, encoding: &Encoding) -> Batch {
        Batch::new(std::slice::from_ref(encoding), self.tokenizer.pad_id())
    }

    /// The head's logits at some positions of a batch of one: a row [V] each.
    fn logits(&self, batch: &Batch, positions: &[usize]) -> Result<Vec<Vec<f32>>> {
        let hidden = self.model.forward(batch, &mut Recorder::new(), &[])?; // [1, T, D]
        Ok(self.rows(&hidden, batch, positions)?.remove(0))
    }

    /// `hidden` [B, T, D] → for each example, for each position, its logits [V].
    pub(super) fn rows(
        &self,
        hidden: &Tensor,
        batch: &Batch,
        positions: &[usize],
    ) -> Result<Vec<Vec<Vec<f32>>>> {
        let positions: Vec<u32> = positions.iter().map(|&position| position as u32).collect();
        let positions = Tensor::new(positions, hidden.device())?;
        let hidden = hidden.index_select(&positions, 1)?; // [B, M, D]
        let logits = self.model.head(&hidden, batch)?.logits; // [B, M, V]
        let none = || Error::checkpoint(&self.model.report().name, "no masked-LM head");
        Ok(logits.ok_or_else(none)?.to_vec3()?)
    }

    /// The same, with −∞ for tokens that would not be words.
    fn takable(
        &self,
        batch: &Batch,
        positions: &[usize],
        encoding: &Encoding,
    ) -> Result<Vec<Vec<f32>>> {
        let added = encoding.tokens.iter().filter(|token| token.special).filter_map(|t| t.id);
        let never: Vec<u32> = added.chain([self.mask, self.model.config().pad_token_id]).collect();
        let mut rows = self.logits(batch, positions)?;
        for row in &mut rows {
            for &id in &never {
                if let Some(logit) = row.get_mut(id as usize) {
                    *logit = f32::NEG_INFINITY;
                }
            }
        }
        Ok(rows)
    }
}

/// The `count` likeliest tokens of each mask by its row of logits [V].
pub(super) fn candidates(
    masks: &[usize],
    rows: &[Vec<f32>],
    sampler: &Sampler,
    count: usize,
) -> Result<Vec<Candidates>> {
    let one = |(&position, row): (&usize, &Vec<f32>)| {
        let probabilities = sampler.reported(row, &[])?;
        let (entropy, tokens) = (entropy(&probabilities), top(&probabilities, count));
        Ok(Candidates { position, entropy, tokens })
    };
    masks.iter().zip(rows).map(one).collect()
}

/// The row whose likeliest token is the most probable; the first of equal ones.
fn most_confident(rows: &[Vec<f32>]) -> usize {
    let (mut at, mut most) = (0, 0.0);
    for (i, row) in rows.iter().enumerate() {
        let row: Vec<f64> = row.iter().copied().map(f64::from).collect();
        let confidence = largest(&softmax(&row));
        if confidence > most {
            (at, most) = (i, confidence);
        }
    }
    at
}
