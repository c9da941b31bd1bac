//! How much each head matters, by what it does to a loss or by what it does at all.

use candle_core::{DType, Tensor};
use ndarray::{Array2, Array4, s};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::gates::{Gates, Gradients, gradients};
use super::scores::HeadScore;
use super::target::{Target, embedding, unit};
use crate::error::{Error, Result};
use crate::model::Model;
use crate::select::Head;
use crate::tokens::{Batch, Encoding};
use crate::trace::{Intervention, Keep, Recorder, Site};

/// How a head is scored. B examples; g is a gate, L a loss per example, f the mean embedding of the
/// last layer with length 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Score {
    /// E|∂L/∂g| (Michel et al. 2019): the absolute value of each example before the mean.
    Gradient,
    /// E(∂L/∂g)²: the empirical Fisher information of the gate.
    Fisher,
    /// E|∫₀¹ ∂L/∂g dg| with all gates of one layer going from 0 to 1 together, the others at 1; by
    /// the midpoint rule. The integrals of a layer's heads sum up to what the layer's attention
    /// changes of the loss.
    Integrated {
        /// Points of the rule; a pass forward and back for each and each layer.
        steps: usize,
    },
    /// E‖∂f/∂g‖², which needs no labels: by projections on random signs, whose squares have this
    /// mean (Hutchinson 1990).
    Jacobian {
        /// Projections; a pass back for each.
        probes: usize,
        /// Where the random signs begin.
        seed: u64,
    },
    /// The mean over tokens of the largest attention weight, special tokens left out on both sides
    /// (Voita et al. 2019). No labels.
    Confidence,
    /// The mean over real tokens of the length of the head's contribution to the residual stream. No
    /// labels.
    OutputNorm,
}

impl Score {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gradient => "gradient",
            Self::Fisher => "fisher",
            Self::Integrated { .. } => "integrated",
            Self::Jacobian { .. } => "jacobian",
            Self::Confidence => "confidence",
            Self::OutputNorm => "output-norm",
        }
    }

    /// Whether it differentiates a loss.
    pub fn needs_loss(self) -> bool {
        matches!(self, Self::Gradient | Self::Fisher | Self::Integrated { .. })
    }
}

/// One batch of examples.
#[derive(Debug, Clone)]
pub struct Sample {
    /// What the model reads.
    pub batch: Batch,
    /// Which tokens were added by the tokenizer, `[B,T]`.
    pub special: Array2<bool>,
    /// What it is held against; `None` for scores that need no loss.
    pub target: Option<Target>,
}

impl Sample {
    /// The batch of these inputs, padded with `pad_id`.
    pub fn new(encodings: &[Encoding], pad_id: u32, target: Option<Target>) -> Self {
        let batch = Batch::new(encodings, pad_id);
        let special = |(b, t): (usize, usize)| {
            encodings.get(b).and_then(|one| one.tokens.get(t)).is_none_or(|token| token.special)
        };
        Self { special: Array2::from_shape_fn(batch.ids.dim(), special), batch, target }
    }
}

/// The score of every head that is left, by layer and head: the mean over all examples of all
/// samples. Of an encoder-decoder the encoder's. `changes` act in every run, behind the gates: with
/// gates of 0 a head counts as removed already.
///
/// # Errors
/// [`Error::Usage`] for a gradient of a loss that compares with the unpruned model itself, and for
/// a score that needs a loss without one; those of [`Model::forward`] and [`Target::losses`].
pub fn importance(
    model: &Model,
    score: Score,
    samples: &[Sample],
    changes: &[Intervention],
) -> Result<Vec<HeadScore>> {
    let run = Run { model, changes };
    let config = model.config();
    let mut sums: Vec<Vec<f64>> = config.heads.iter().map(|heads| vec![0.0; heads.len()]).collect();
    let mut examples = 0;
    for sample in samples {
        let found = run.one(score, sample)?;
        for (sums, found) in sums.iter_mut().zip(&found.layers) {
            for row in found.rows() {
                sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
            }
        }
        examples += sample.batch.ids.nrows();
    }
    let heads = config.heads.iter().zip(sums).enumerate();
    let scores = heads.flat_map(|(layer, (heads, sums))| {
        let score = move |(&head, sum): (&usize, f64)| HeadScore {
            head: Head { layer, head },
            score: sum / examples.max(1) as f64,
        };
        heads.iter().zip(sums).map(score)
    });
    Ok(scores.collect())
}

/// A model with what is changed in it.
struct Run<'a> {
    model: &'a Model,
    changes: &'a [Intervention],
}

impl Run<'_> {
    /// What each example of a sample adds to the mean, `[B,H]` per layer.
    fn one(&self, score: Score, sample: &Sample) -> Result<Gradients> {
        let each = |mut found: Gradients, f: fn(f64) -> f64| {
            found.layers.iter_mut().for_each(|layer| layer.mapv_inplace(f));
            found
        };
        match score {
            Score::Gradient | Score::Fisher => {
                let target = loss_of(score, sample)?;
                let losses = |hidden: &Tensor| target.losses(self.model, hidden, &sample.batch);
                let (_, found) = gradients(self.model, &sample.batch, self.changes, losses)?;
                Ok(match score {
                    Score::Gradient => each(found, f64::abs),
                    _ => each(found, |x| x * x),
                })
            }
            Score::Integrated { steps } => {
                let target = loss_of(score, sample)?;
                Ok(each(self.integrated(target, &sample.batch, steps)?, f64::abs))
            }
            Score::Jacobian { probes, seed } => self.jacobian(&sample.batch, probes, seed),
            Score::Confidence => self.confidence(sample),
            Score::OutputNorm => self.output_norm(sample),
        }
    }

    fn forward(&self, batch: &Batch, gates: &Gates) -> Result<Tensor> {
        let all = [gates.interventions(), self.changes.to_vec()].concat();
        self.model.forward(batch, &mut Recorder::new(), &all)
    }

    fn integrated(&self, target: &Target, batch: &Batch, steps: usize) -> Result<Gradients> {
        let (model, config, steps) = (self.model, self.model.config(), steps.max(1));
        let rows = batch.ids.nrows();
        let none = config.heads.iter().map(|heads| Array2::zeros((rows, heads.len())));
        let mut sums = Gradients { layers: none.collect() };
        let blocks = config.shared.iter().max().map_or(0, |last| last + 1);
        for block in (0..blocks).filter(|&block| !Gates::empty(config, block)) {
            for step in 0..steps {
                let at = (step as f64 + 0.5) / steps as f64;
                let gates = Gates::new(config, rows, at, |one| one == block, model.device())?;
                let hidden = self.forward(batch, &gates)?;
                let found = gates.gradients(&target.losses(model, &hidden, batch)?.sum_all()?)?;
                for (sum, found) in sums.layers.iter_mut().zip(found.layers) {
                    *sum += &(found / steps as f64);
                }
            }
        }
        Ok(sums)
    }

    /// ‖∂f/∂g‖² of each example and head, estimated.
    fn jacobian(&self, batch: &Batch, probes: usize, seed: u64) -> Result<Gradients> {
        let (config, probes) = (self.model.config(), probes.max(1));
        let device = self.model.device();
        let gates = Gates::new(config, batch.ids.nrows(), 1.0, |_| true, device)?;
        let unit = unit(&embedding(&self.forward(batch, &gates)?, batch)?)?; // [B, D]
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut sums: Option<Gradients> = None;
        for _ in 0..probes {
            let sign = |_| if random.next_u32() & 1 == 0 { 1.0f32 } else { -1.0 };
            let signs = (0..unit.elem_count()).map(sign).collect();
            let signs = Tensor::from_vec(signs, unit.shape(), unit.device())?;
            let found = gates.gradients(&(&unit * signs)?.sum_all()?)?;
            let squares = found.layers.into_iter().map(|one| one.mapv(|x| x * x / probes as f64));
            match &mut sums {
                None => sums = Some(Gradients { layers: squares.collect() }),
                Some(all) => all.layers.iter_mut().zip(squares).for_each(|(sum, x)| *sum += &x),
            }
        }
        Ok(sums.unwrap_or(Gradients { layers: Vec::new() }))
    }

    /// A site of every layer, `[B,H,..]`.
    fn kept(&self, batch: &Batch, site: Site) -> Result<Vec<Option<Array4<f32>>>> {
        let mut recorder = Recorder::new().keep(site, Keep::All);
        self.model.forward(batch, &mut recorder, self.changes)?;
        let trace = recorder.into_trace()?;
        let config = self.model.config();
        let layer = |layer| {
            let Some(kept) = trace.get(config.stack(), layer, site) else { return Ok(None) };
            let shape = kept.tensor.dims4()?;
            let values = kept.tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?;
            Array4::from_shape_vec(shape, values).map(Some).map_err(|error| Error::Array {
                what: format!("{site:?} of layer {layer}"),
                want: format!("{shape:?}"),
                found: error.to_string(),
            })
        };
        (0..config.layers()).map(layer).collect()
    }

    fn confidence(&self, sample: &Sample) -> Result<Gradients> {
        let probs = self.kept(&sample.batch, Site::Probs)?;
        let typed = |at| sample.batch.mask[at] != 0 && sample.special.get(at) == Some(&false);
        Ok(token_means(sample, &probs, typed, |probs, (example, head, token)| {
            let row = probs.slice(s![example, head, token, ..]);
            let keys = row.iter().enumerate().filter(|(key, _)| typed((example, *key)));
            f64::from(keys.map(|(_, &p)| p).fold(0.0, f32::max))
        }))
    }

    fn output_norm(&self, sample: &Sample) -> Result<Gradients> {
        let outputs = self.kept(&sample.batch, Site::HeadOutput)?;
        let real = |at| sample.batch.mask[at] != 0;
        Ok(token_means(sample, &outputs, real, |outputs, (example, head, token)| {
            let row = outputs.slice(s![example, head, token, ..]);
            row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt()
        }))
    }
}

/// ∫₀¹ ∂L/∂g dg of each example and head, signed, along the path of [`Score::Integrated`] with
/// `steps` points: over the heads of a layer the sum is what its attention changes of the loss.
///
/// # Errors
/// Those of [`Model::forward`] and [`Target::losses`].
pub fn integrated(
    model: &Model,
    target: &Target,
    batch: &Batch,
    steps: usize,
) -> Result<Gradients> {
    Run { model, changes: &[] }.integrated(target, batch, steps)
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
    if target.is_unpruned_model() && !matches!(score, Score::Integrated { .. }) {
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

/// The mean of `of(layer, example, head, token)` over the tokens that `real` names.
fn token_means(
    sample: &Sample,
    layers: &[Option<Array4<f32>>],
    real: impl Fn((usize, usize)) -> bool,
    of: impl Fn(&Array4<f32>, (usize, usize, usize)) -> f64,
) -> Gradients {
    let (b, t) = sample.batch.ids.dim();
    let layer = |layer: &Option<Array4<f32>>| {
        let Some(values) = layer else { return Array2::zeros((b, 0)) };
        Array2::from_shape_fn((b, values.dim().1), |(example, head)| {
            let tokens = (0..t).filter(|&token| real((example, token)));
            let (sum, count) = tokens.fold((0.0, 0usize), |(sum, count), token| {
                (sum + of(values, (example, head, token)), count + 1)
            });
            if count == 0 { 0.0 } else { sum / count as f64 }
        })
    };
    Gradients { layers: layers.iter().map(layer).collect() }
}
