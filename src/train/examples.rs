//! What a model is trained on.

use candle_core::{DType, Tensor};
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::RngCore;

use super::{Purpose, random};
use crate::config::Task;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::task::{Sample, Set, Split, Target, mask_some};
use crate::tokens::Encoding;
use crate::trace::{Intervention, Recorder};

/// Examples by number, made into batches with what each is held against.
pub trait Examples {
    /// How many there are.
    fn count(&self) -> usize;

    /// The batch of these, whose losses are those of the target; what is drawn for it comes from
    /// `seed`.
    ///
    /// # Errors
    /// Where an example does not make an input.
    fn sample(&self, places: &[usize], seed: u64) -> Result<Sample>;
}

/// The examples of a step's batch: each once in a pass over all, in an order of the pass's own; what
/// is left at its end is too few for a batch and waits for another pass.
pub(super) fn batch(count: usize, size: usize, seed: u64, step: u64) -> Vec<usize> {
    let size = size.clamp(1, count.max(1));
    let per_pass = (count / size).max(1) as u64;
    let mut order: Vec<usize> = (0..count).collect();
    shuffle(&mut order, &mut random(seed, step / per_pass, Purpose::Order));
    let first = (step % per_pass) as usize * size;
    order.into_iter().skip(first).take(size).collect()
}

fn shuffle(order: &mut [usize], random: &mut ChaCha12Rng) {
    for i in (1..order.len()).rev() {
        let other = (random.next_u64() % (i as u64 + 1)) as usize;
        order.swap(i, other);
    }
}

/// The loss of each example of a sample, `[B]`, of pairs `[B/2]`.
pub(super) fn losses(model: &Model, sample: &Sample, changes: &[Intervention]) -> Result<Tensor> {
    let hidden = sample.run(model, &mut Recorder::new(), changes)?;
    match &sample.target {
        Some(target) => target.losses(model, &hidden, sample.last()),
        None => Ok(hidden.affine(0.0, 0.0)?.sum((1, 2))?),
    }
}

/// The mean loss of all examples, in batches of `size`, with `changes` in every run; what is drawn
/// for them comes from `seed`, so that two models are asked for the same.
///
/// # Errors
/// Those of [`Examples::sample`], [`Sample::run`] and [`Target::losses`].
pub fn mean_loss(
    model: &Model,
    examples: &dyn Examples,
    size: usize,
    seed: u64,
    changes: &[Intervention],
) -> Result<f64> {
    let places: Vec<usize> = (0..examples.count()).collect();
    let (mut sum, mut count) = (0.0, 0);
    for some in places.chunks(size.max(1)) {
        let found = losses(model, &examples.sample(some, seed)?, changes)?;
        let found = found.to_dtype(DType::F64)?.to_vec1::<f64>()?;
        sum += found.iter().sum::<f64>();
        count += found.len();
    }
    Ok(sum / count.max(1) as f64)
}

/// A part of a labelled set: classes of texts and of words by what tells them, the model's own head
/// where it has one, scores of pairs by the cosine of their embeddings.
pub struct LabelledExamples {
    set: Set,
    /// Which of its items.
    places: Vec<usize>,
    pad: u32,
}

impl LabelledExamples {
    /// The items of one part of a set that was made for `model`.
    ///
    /// # Errors
    /// [`Error::Input`] where there are no items.
    pub fn new(set: Set, split: Split, model: &Model) -> Result<Self> {
        let places = set.part(split);
        match places.is_empty() {
            true => {
                let why = format!("holds no items for {split:?}").to_lowercase();
                Err(Error::input(set.name(), why))
            }
            false => Ok(Self { places, pad: model.tokenizer()?.pad_id(), set }),
        }
    }

    /// The set that it is a part of.
    pub fn set(&self) -> &Set {
        &self.set
    }
}

impl Examples for LabelledExamples {
    fn count(&self) -> usize {
        self.places.len()
    }

    fn sample(&self, places: &[usize], _: u64) -> Result<Sample> {
        let items: Vec<usize> = places.iter().map(|&place| self.places[place]).collect();
        Ok(self.set.sample(&items, self.pad))
    }
}

/// Texts whose own tokens are asked for: masked ones, or each next one.
pub struct TextExamples {
    encodings: Vec<Encoding>,
    mask: Option<(u32, f64)>,
    pad: u32,
}

impl TextExamples {
    /// By the model's head: a masked language model is asked for `share` of the tokens, a causal one
    /// for each next one.
    ///
    /// # Errors
    /// [`Error::Usage`] for a model whose head is for neither, and where the tokenizer has no mask.
    pub fn new(encodings: Vec<Encoding>, share: f64, model: &Model) -> Result<Self> {
        let (tokenizer, task) = (model.tokenizer()?, model.config().task);
        let wrong = |found: String| Error::Usage {
            flag: "--file".into(),
            want: "a model with a head for masked or next tokens, with a mask token".into(),
            found,
        };
        let mask = match task {
            Task::CausalLm => None,
            Task::MaskedLm => {
                let mask = tokenizer.mask_id().ok_or_else(|| wrong("no mask token".into()))?;
                Some((mask, share))
            }
            other => return Err(wrong(format!("a head for {other:?}"))),
        };
        Ok(Self { encodings, mask, pad: tokenizer.pad_id() })
    }
}

impl Examples for TextExamples {
    fn count(&self) -> usize {
        self.encodings.len()
    }

    fn sample(&self, places: &[usize], seed: u64) -> Result<Sample> {
        let mut some: Vec<Encoding> = places.iter().map(|&i| self.encodings[i].clone()).collect();
        let masked = self.mask.map(|(mask, share)| mask_some(&mut some, mask, share, seed));
        let sample = Sample::new(&some, self.pad, None);
        let target = masked.unwrap_or_else(|| Target::next_tokens(&sample.batch));
        Ok(Sample { target: Some(target), ..sample })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_takes_each_example_once_in_an_order_of_its_own() {
        let pass = |first: u64| (first..first + 3).flat_map(|step| batch(10, 3, 7, step));
        let (one, two): (Vec<usize>, Vec<usize>) = (pass(0).collect(), pass(3).collect());
        for pass in [&one, &two] {
            let mut sorted = pass.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), 9, "{pass:?}");
        }
        assert_ne!(one, two);
        assert_eq!(batch(2, 8, 7, 5).len(), 2);
    }
}
