//! A row of logits → the token that is taken: [`Sampler`].

use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::filters::{self, largest, softmax};
use super::sampling::Sampling;
use crate::error::{Error, Result};

/// The token that was taken, and the distribution that it comes from: that of the filtered logits
/// at the temperature; where the temperature is 0, the unfiltered one at temperature 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The token.
    pub id: u32,
    /// Its probability.
    pub probability: f64,
    /// Entropy of the distribution, in nats.
    pub entropy: f64,
    /// The likeliest other tokens with their probabilities, likeliest first.
    pub alternatives: Vec<(u32, f64)>,
}

/// Takes tokens, the same ones for the same logits and seed on every machine: its random numbers
/// are those of ChaCha with 12 rounds, seeded by `seed_from_u64` of the `rand_core` crate, 53 bits
/// to a draw, and a draw picks by cumulative probability in the order of ids.
///
/// ```
/// use attnviz::decode::{Sampler, Sampling};
///
/// let mut sampler = Sampler::new(Sampling::greedy(), 0)?;
/// let choice = sampler.choose(&[0.0, 2.0, 1.0], &[])?;
/// assert_eq!((choice.id, choice.alternatives[0].0), (1, 2));
/// # Ok::<(), attnviz::Error>(())
/// ```
// candle_transformers' LogitsProcessor has no min-p or penalties, cuts ties at the k-th token,
// gives no probabilities, and draws by a generator that may change with a version of rand.
#[derive(Debug, Clone)]
pub struct Sampler {
    sampling: Sampling,
    random: ChaCha12Rng,
    alternatives: usize,
}

impl Sampler {
    /// A sampler that begins its random numbers at `seed`.
    ///
    /// # Errors
    /// [`Error::Usage`] where a number of `sampling` is out of range.
    pub fn new(sampling: Sampling, seed: u64) -> Result<Self> {
        sampling.check()?;
        Ok(Self { sampling, random: ChaCha12Rng::seed_from_u64(seed), alternatives: 5 })
    }

    /// How many alternatives to list with each choice; 5 if not said.
    #[must_use]
    pub fn alternatives(self, count: usize) -> Self {
        Self { alternatives: count, ..self }
    }

    /// How tokens are taken.
    pub fn sampling(&self) -> &Sampling {
        &self.sampling
    }

    /// Takes a token by its logits `[V]`; `so_far` are the tokens before it, which penalties look
    /// at. −∞ leaves a token out.
    ///
    /// # Errors
    /// [`Error::Array`] where a logit is not a number or +∞, or no token may be taken.
    pub fn choose(&mut self, logits: &[f32], so_far: &[u32]) -> Result<Choice> {
        let probabilities = self.reported(logits, so_far)?;
        Ok(self.take(&probabilities))
    }

    /// Takes one of some tokens, all as likely, whatever else is asked for; `vocabulary` is V.
    pub(super) fn choose_among(&mut self, ids: &[u32], vocabulary: usize) -> Result<Choice> {
        let mut logits = vec![f64::NEG_INFINITY; vocabulary];
        for &id in ids {
            let logit = logits.get_mut(id as usize);
            *logit.ok_or_else(|| wrong(format!("no token {id} among {vocabulary}")))? = 0.0;
        }
        Ok(self.take(&softmax(&logits)))
    }

    fn take(&mut self, probabilities: &[f64]) -> Choice {
        let id = match self.sampling.temperature {
            0.0 => likeliest(probabilities),
            _ => self.draw(probabilities),
        };
        let mut alternatives = top(probabilities, self.alternatives.saturating_add(1));
        alternatives.retain(|(other, _)| *other as usize != id);
        alternatives.truncate(self.alternatives);
        Choice {
            id: id as u32,
            probability: probabilities[id],
            entropy: entropy(probabilities),
            alternatives,
        }
    }

    /// The distribution `[V]` that tokens are drawn from; at temperature 0 it has all in one place.
    ///
    /// # Errors
    /// As [`Sampler::choose`].
    pub fn probabilities(&self, logits: &[f32], so_far: &[u32]) -> Result<Vec<f64>> {
        let probabilities = self.reported(logits, so_far)?;
        if self.sampling.temperature > 0.0 {
            return Ok(probabilities);
        }
        let mut one = vec![0.0; probabilities.len()];
        one[likeliest(&probabilities)] = 1.0;
        Ok(one)
    }

    /// The distribution that a [`Choice`] reports.
    pub(super) fn reported(&self, logits: &[f32], so_far: &[u32]) -> Result<Vec<f64>> {
        let penalized = self.penalized(logits, so_far)?;
        Ok(match self.sampling.temperature {
            0.0 => softmax(&penalized),
            _ => self.heated(penalized),
        })
    }

    /// The logits as far as they depend on the tokens, at least one of them finite.
    fn penalized(&self, logits: &[f32], so_far: &[u32]) -> Result<Vec<f64>> {
        if let Some(id) = logits.iter().position(|l| l.is_nan() || *l == f32::INFINITY) {
            return Err(wrong(format!("{} for token {id}", logits[id])));
        }
        let mut logits: Vec<f64> = logits.iter().copied().map(f64::from).collect();
        let sampling = &self.sampling;
        if sampling.repetition_penalty != 1.0 {
            filters::penalize_repetition(&mut logits, so_far, sampling.repetition_penalty);
        }
        if sampling.no_repeat_ngram > 0 {
            let there = so_far.windows(sampling.no_repeat_ngram);
            filters::forbid_sequences(&mut logits, so_far, there);
        }
        let forbidden = sampling.forbidden.iter().map(Vec::as_slice);
        filters::forbid_sequences(&mut logits, so_far, forbidden);
        match largest(&logits).is_finite() {
            true => Ok(logits),
            false => Err(wrong(format!("none among {}", logits.len()))),
        }
    }

    /// Temperature, filters and soft-max. The largest logit is taken off first, so that no
    /// temperature, however small, makes two infinities of it.
    fn heated(&self, mut logits: Vec<f64>) -> Vec<f64> {
        let most = largest(&logits);
        for logit in &mut logits {
            *logit = (*logit - most) / self.sampling.temperature;
        }
        if let Some(k) = self.sampling.top_k {
            filters::keep_top_k(&mut logits, k);
        }
        if let Some(p) = self.sampling.top_p {
            filters::keep_top_p(&mut logits, p);
        }
        if let Some(p) = self.sampling.min_p {
            filters::keep_min_p(&mut logits, p);
        }
        softmax(&logits)
    }

    /// One token by its probability.
    fn draw(&mut self, probabilities: &[f64]) -> usize {
        let uniform = (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64; // in [0, 1)
        let mut left = uniform;
        let mut last = 0;
        for (id, &probability) in probabilities.iter().enumerate().filter(|(_, p)| **p > 0.0) {
            last = id;
            if left < probability {
                break;
            }
            left -= probability;
        }
        last // also where rounding leaves a little beyond all of them
    }
}

fn wrong(found: String) -> Error {
    let want = "numbers, at least one of a token that may be taken";
    Error::Array { what: "logits".into(), want: want.into(), found }
}

/// The first of the largest.
fn likeliest(probabilities: &[f64]) -> usize {
    let most = largest(probabilities);
    probabilities.iter().position(|&one| one == most).unwrap_or(0)
}

/// The `count` largest of the probabilities above 0, largest first, equal ones by id.
pub(crate) fn top(probabilities: &[f64], count: usize) -> Vec<(u32, f64)> {
    let mut order: Vec<(u32, f64)> =
        (0..).zip(probabilities.iter().copied()).filter(|(_, p)| *p > 0.0).collect();
    let by = |a: &(u32, f64), b: &(u32, f64)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    if count < order.len() {
        order.select_nth_unstable_by(count, by);
        order.truncate(count);
        order.shrink_to_fit(); // a choice is kept for every token, and had room for all of V
    }
    order.sort_unstable_by(by);
    order
}

/// −Σ p ln p, in nats.
pub(crate) fn entropy(probabilities: &[f64]) -> f64 {
    let terms = probabilities.iter().filter(|p| **p > 0.0).map(|p| -p * p.ln());
    terms.sum::<f64>().max(0.0)
}
