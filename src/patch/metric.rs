//! One number for how far a run has the clean answer.

use candle_core::{DType, Tensor};
use ndarray::Array2;

use crate::error::{Error, Result};
use crate::model::Model;
use crate::task::embedding;
use crate::tokens::Batch;

/// What is read off a run. `at` is the position whose logits count, [`None`] for those of the whole
/// text, where the head classifies texts; `answer` and `wrong` are tokens, or classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// The logit of the answer less that of the wrong one.
    LogitDifference {
        /// Position.
        at: Option<usize>,
        /// What the clean prompt is to give.
        answer: u32,
        /// What the corrupted one is to give.
        wrong: u32,
    },
    /// The probability of the answer.
    Probability {
        /// Position.
        at: Option<usize>,
        /// What the clean prompt is to give.
        answer: u32,
    },
    /// The Kullback-Leibler divergence of the run's distribution from the clean run's, in nats.
    Divergence {
        /// Position.
        at: Option<usize>,
    },
    /// The cosine of the run's mean embedding to the clean run's. Needs no head.
    Cosine,
}

impl Metric {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::LogitDifference { .. } => "logit-difference",
            Self::Probability { .. } => "probability",
            Self::Divergence { .. } => "divergence",
            Self::Cosine => "cosine",
        }
    }

    fn at(self) -> Option<usize> {
        match self {
            Self::LogitDifference { at, .. }
            | Self::Probability { at, .. }
            | Self::Divergence { at } => at,
            Self::Cosine => None,
        }
    }

    /// What of a run the number is made of, example by example: the logits, or the embedding. `hidden`
    /// [B,T,D] is the last layer's output for `batch`.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] for a model without a head that gives logits, [`Error::Array`] for a
    /// position, token or class that is not there.
    pub(super) fn read(
        self,
        model: &Model,
        hidden: &Tensor,
        batch: &Batch,
    ) -> Result<Vec<Vec<f64>>> {
        if self == Self::Cosine {
            return rows(&embedding(hidden, batch)?);
        }
        let logits = match self.at() {
            None => model.head(hidden, batch)?.logits,
            Some(at) => {
                check("position", at, hidden.dim(1)?)?;
                let ones = Array2::ones((hidden.dim(0)?, 1));
                let hidden = hidden.narrow(1, at, 1)?.contiguous()?; // [B, 1, D]
                model.head(&hidden, &Batch::from_ids(ones.clone(), ones))?.logits
            }
        };
        let why = "it has no head that gives logits; cosine needs none";
        let logits = logits.ok_or_else(|| Error::checkpoint(&model.report().name, why))?;
        let logits = rows(&logits)?;
        let named = match self {
            Self::LogitDifference { answer, wrong, .. } => vec![answer, wrong],
            Self::Probability { answer, .. } => vec![answer],
            _ => Vec::new(),
        };
        for one in named {
            check("answer", one as usize, logits.first().map_or(0, Vec::len))?;
        }
        Ok(logits)
    }

    /// The number: `run` is what was read of a run, `clean` the same of the clean one.
    pub(super) fn value(self, run: &[f64], clean: &[f64]) -> f64 {
        match self {
            Self::LogitDifference { answer, wrong, .. } => {
                run[answer as usize] - run[wrong as usize]
            }
            Self::Probability { answer, .. } => log_probs(run)[answer as usize].exp(),
            Self::Divergence { .. } => {
                let (run, clean) = (log_probs(run), log_probs(clean));
                clean
                    .iter()
                    .zip(run)
                    .map(|(&p, q)| if p == q { 0.0 } else { p.exp() * (p - q) })
                    .sum()
            }
            Self::Cosine => {
                let dot =
                    |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
                dot(run, clean) / (dot(run, run) * dot(clean, clean)).sqrt().max(f64::MIN_POSITIVE)
            }
        }
    }
}

fn check(what: &str, found: usize, count: usize) -> Result<()> {
    if found < count {
        return Ok(());
    }
    let (what, want) = (what.into(), format!("below {count}"));
    Err(Error::Array { what, want, found: found.to_string() })
}

/// What each example has.
fn rows(tensor: &Tensor) -> Result<Vec<Vec<f64>>> {
    Ok(tensor.to_dtype(DType::F64)?.flatten_from(1)?.to_vec2()?)
}

fn log_probs(logits: &[f64]) -> Vec<f64> {
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logits.iter().map(|logit| (logit - most).exp()).sum();
    logits.iter().map(|logit| logit - most - sum.ln()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_two_distributions_by_hand() {
        let (run, clean) = ([0.0, 2f64.ln(), 0.0], [3f64.ln(), 0.0, 0.0]); // 1:2:1 and 3:1:1
        let at = None;
        let near = |metric: Metric, want: f64| {
            let found = metric.value(&run, &clean);
            assert!((found - want).abs() < 1e-12, "{metric:?}: {found}, not {want}");
        };
        near(Metric::LogitDifference { at, answer: 0, wrong: 1 }, -(2f64.ln()));
        near(Metric::Probability { at, answer: 1 }, 0.5);
        let divergence =
            0.6 * (0.6f64 / 0.25).ln() + 0.2 * (0.2f64 / 0.5).ln() + 0.2 * (0.2f64 / 0.25).ln();
        near(Metric::Divergence { at }, divergence);
        near(Metric::Cosine, 0.0);
        assert_eq!(Metric::Divergence { at }.value(&run, &run), 0.0);
    }
}
