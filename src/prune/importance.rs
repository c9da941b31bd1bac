//! How much each head matters, by what it does to a loss or by what it does at all.

use std::collections::BTreeMap;

use candle_core::{DType, Tensor};
use ndarray::{Array2, Array4, s};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::gates::{Gates, Gradients, gradients, layers, running};
use super::place::StackHead;
use super::score::Score;
use super::scores::HeadScore;
use crate::config::Stack;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::select::Head;
use crate::task::{Sample, Target, embedding, unit};
use crate::tokens::Batch;
use crate::trace::{Intervention, Keep, Recorder, Site};
use crate::train::{Learning, learn_gates};

/// The score of every head that is left in the stacks that run, by stack, layer and head: the mean
/// over all examples of all samples. Of an encoder-decoder without texts to write (see
/// [`Sample::written`]) those are the encoder's. `changes` act in every run, behind the gates: with
/// gates of 0 a head counts as removed already.
///
/// # Errors
/// [`Error::Usage`] for a gradient of a loss that compares with the unpruned model itself, and for
/// a score that needs a loss without one; those of [`Sample::run`] and [`Target::losses`].
pub fn importance(
    model: &Model,
    score: Score,
    samples: &[Sample],
    changes: &[Intervention],
) -> Result<Vec<HeadScore>> {
    if let Score::Learned { penalty, steps, seed } = score {
        for sample in samples {
            loss_of(score, sample)?;
        }
        return learn_gates(model, samples, Learning { penalty, steps, seed }, changes);
    }
    let run = Run { model, changes };
    let mut sums: BTreeMap<StackHead, f64> = BTreeMap::new();
    let mut examples = 0;
    for sample in samples {
        let found = run.one(score, sample, examples)?;
        for stack in running(model.config(), sample) {
            for (layer, _, heads) in layers(model.config(), stack) {
                let Some(found) = found.layers.get(&(stack, layer)) else { continue };
                for (&head, column) in heads.iter().zip(found.columns()) {
                    let place = StackHead { stack, head: Head { layer, head } };
                    *sums.entry(place).or_default() += column.sum();
                }
            }
        }
        examples += sample.batch.ids.nrows();
    }
    let mean = |(head, sum): (StackHead, f64)| HeadScore { head, score: sum / examples as f64 };
    Ok(sums.into_iter().map(mean).collect())
}

/// A model with what is changed in it.
struct Run<'a> {
    model: &'a Model,
    changes: &'a [Intervention],
}

impl Run<'_> {
    /// What each example of a sample adds to the mean, `[B,H]` per layer; `before` come in samples
    /// before it.
    fn one(&self, score: Score, sample: &Sample, before: usize) -> Result<Gradients> {
        let each = |mut found: Gradients, f: fn(f64) -> f64| {
            found.layers.values_mut().for_each(|layer| layer.mapv_inplace(f));
            found
        };
        match score {
            Score::Gradient | Score::Fisher => {
                let target = loss_of(score, sample)?;
                let losses = |hidden: &Tensor| target.losses(self.model, hidden, sample.last());
                let (_, found) = gradients(self.model, sample, self.changes, losses)?;
                Ok(match score {
                    Score::Gradient => each(found, f64::abs),
                    _ => each(found, |x| x * x),
                })
            }
            Score::Integrated { steps } => {
                let target = loss_of(score, sample)?;
                Ok(each(self.integrated(target, sample, steps)?, f64::abs))
            }
            Score::Jacobian { probes, seed } => self.jacobian(sample, probes, (seed, before)),
            Score::Confidence => self.confidence(sample),
            Score::OutputNorm => self.output_norm(sample),
            // of all samples together
            Score::Learned { .. } => Ok(Gradients::default()),
        }
    }

    fn forward(&self, sample: &Sample, gates: &Gates<'_>) -> Result<Tensor> {
        let all = [gates.interventions(), self.changes.to_vec()].concat();
        sample.run(self.model, &mut Recorder::new(), &all)
    }

    fn integrated(&self, target: &Target, sample: &Sample, steps: usize) -> Result<Gradients> {
        let (model, config, steps) = (self.model, self.model.config(), steps.max(1));
        let mut sums: Option<Gradients> = None;
        for block in Gates::blocks(config, sample) {
            for step in 0..steps {
                let at = (step as f64 + 0.5) / steps as f64;
                let gates = Gates::new(config, sample, at, |one| one == block, model.device())?;
                let hidden = self.forward(sample, &gates)?;
                let losses = target.losses(model, &hidden, sample.last())?;
                let found = gates.gradients(&losses.sum_all()?)?;
                add(&mut sums, found, |x| x / steps as f64);
            }
        }
        Ok(sums.unwrap_or_default())
    }

    /// ‖∂f/∂g‖² of each example and head, estimated. Each example has random signs of its own, whatever
    /// batch it is in: errors that all batches had in common would not average out.
    fn jacobian(
        &self,
        sample: &Sample,
        probes: usize,
        (seed, before): (u64, usize),
    ) -> Result<Gradients> {
        let (config, probes) = (self.model.config(), probes.max(1));
        let gates = Gates::new(config, sample, 1.0, |_| true, self.model.device())?;
        let unit = unit(&embedding(&self.forward(sample, &gates)?, sample.last())?)?; // [B, D]
        let (examples, width) = unit.dims2()?;
        let own = |example: usize| {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            random.set_stream((before + example) as u64);
            random
        };
        let mut random: Vec<ChaCha8Rng> = (0..examples).map(own).collect();
        let sign = |random: &mut ChaCha8Rng| if random.next_u32() & 1 == 0 { 1.0f32 } else { -1.0 };
        let mut sums: Option<Gradients> = None;
        for _ in 0..probes {
            let rows =
                random.iter_mut().flat_map(|one| (0..width).map(|_| sign(one)).collect::<Vec<_>>());
            let signs =
                Tensor::from_vec(rows.collect::<Vec<f32>>(), (examples, width), unit.device())?;
            let found = gates.gradients(&(&unit * signs)?.sum_all()?)?;
            add(&mut sums, found, |x| x * x / probes as f64);
        }
        Ok(sums.unwrap_or_default())
    }

    /// What `of` makes of a site of every layer, `[B,H,..]`.
    fn kept(
        &self,
        sample: &Sample,
        site: Site,
        of: impl Fn(Stack, &Array4<f32>) -> Array2<f64>,
    ) -> Result<Gradients> {
        let mut recorder = Recorder::new().keep(site, Keep::All);
        sample.run(self.model, &mut recorder, self.changes)?;
        let mut found = BTreeMap::new();
        for (stack, layer, _, kept) in recorder.into_trace()?.iter() {
            let shape = kept.tensor.dims4()?;
            let values = kept.tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?;
            let values = Array4::from_shape_vec(shape, values).map_err(|error| Error::Array {
                what: format!("{site:?} of layer {layer}"),
                want: format!("{shape:?}"),
                found: error.to_string(),
            })?;
            found.insert((stack, layer), of(stack, &values));
        }
        Ok(Gradients { layers: found })
    }

    fn confidence(&self, sample: &Sample) -> Result<Gradients> {
        self.kept(sample, Site::Probs, |stack, probs| {
            let typed = |(batch, special): (&Batch, &Array2<bool>), at| {
                batch.mask[at] != 0 && special.get(at) == Some(&false)
            };
            let (queries, keys) = sides(sample, stack);
            token_means(
                probs,
                |at| typed(queries, at),
                |(example, head, token)| {
                    let row = probs.slice(s![example, head, token, ..]);
                    let seen =
                        row.iter().enumerate().filter(|(key, _)| typed(keys, (example, *key)));
                    f64::from(seen.map(|(_, &p)| p).fold(0.0, f32::max))
                },
            )
        })
    }

    fn output_norm(&self, sample: &Sample) -> Result<Gradients> {
        self.kept(sample, Site::HeadOutput, |stack, outputs| {
            let ((queries, _), _) = sides(sample, stack);
            token_means(
                outputs,
                |at| queries.mask[at] != 0,
                |(example, head, token)| {
                    let row = outputs.slice(s![example, head, token, ..]);
                    row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt()
                },
            )
        })
    }
}

/// Tokens that are queries of a stack and those that are its keys, with which of them are special.
type Side<'a> = (&'a Batch, &'a Array2<bool>);

fn sides(sample: &Sample, stack: Stack) -> (Side<'_>, Side<'_>) {
    let read = (&sample.batch, &sample.special);
    let last = sample.written.as_ref().map_or(read, |one| (&one.batch, &one.special));
    match stack {
        Stack::Encoder => (read, read),
        Stack::Decoder => (last, last),
        Stack::Cross => (last, read),
    }
}

fn add(sums: &mut Option<Gradients>, found: Gradients, share: impl Fn(f64) -> f64) {
    match sums {
        None => {
            let layers = found.layers.into_iter().map(|(at, one)| (at, one.mapv(&share)));
            *sums = Some(Gradients { layers: layers.collect() });
        }
        Some(sums) => found.layers.into_iter().for_each(|(at, one)| {
            if let Some(sum) = sums.layers.get_mut(&at) {
                *sum += &one.mapv(&share);
            }
        }),
    }
}

/// ∫₀¹ ∂L/∂g dg of each example and head, signed, along the path of [`Score::Integrated`] with
/// `steps` points: over the heads of a layer the sum is what its attention changes of the loss.
///
/// # Errors
/// Those of [`Sample::run`] and [`Target::losses`].
pub fn integrated(
    model: &Model,
    target: &Target,
    sample: &Sample,
    steps: usize,
) -> Result<Gradients> {
    Run { model, changes: &[] }.integrated(target, sample, steps)
}

fn loss_of(score: Score, sample: &Sample) -> Result<&Target> {
    let wrong = |want: &str, found: &str| Error::Usage {
        flag: format!("score {}", score.name()),
        want: want.into(),
        found: found.into(),
    };
    let target = sample.target.as_ref();
    let target = target.ok_or_else(|| {
        wrong("a loss; without labels there are jacobian, confidence and output-norm", "none")
    })?;
    if target.is_unpruned_model() && score.is_slope() {
        let want = "a loss with labels: one that compares with the unpruned model is smallest at \
                    gate 1, so its gradient there is 0; without labels there are jacobian and \
                    integrated";
        let found = match target {
            Target::Logits(_) => "divergence from the unpruned logits",
            _ => "cosine to the unpruned embeddings",
        };
        return Err(wrong(want, found));
    }
    Ok(target)
}

/// The mean of `of(example, head, token)` over the tokens that `real` names, `[B,H]`.
fn token_means(
    values: &Array4<f32>,
    real: impl Fn((usize, usize)) -> bool,
    of: impl Fn((usize, usize, usize)) -> f64,
) -> Array2<f64> {
    let (b, h, t, _) = values.dim();
    Array2::from_shape_fn((b, h), |(example, head)| {
        let tokens = (0..t).filter(|&token| real((example, token)));
        let (sum, count) =
            tokens.fold((0.0, 0usize), |(sum, n), token| (sum + of((example, head, token)), n + 1));
        if count == 0 { 0.0 } else { sum / count as f64 }
    })
}
