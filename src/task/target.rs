//! What a run is held against, and the loss of each example.

use std::sync::Arc;

use candle_core::{D, DType, Tensor};
use ndarray::Array2;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::probe::Probe;
use super::sample::Sample;
use crate::config::Task;
use crate::error::{Error, Result};
use crate::model::{Model, cross_entropy};
use crate::tokens::{Batch, Encoding};
use crate::trace::Recorder;

/// What the examples of one batch are held against.
#[derive(Debug, Clone)]
pub enum Target {
    /// A word or a class for some tokens, `[B,T]`: the loss is the mean cross entropy over those
    /// that have one. For masked and causal language models and for classifiers of tokens.
    Tokens(Array2<Option<u32>>),
    /// A class per text, `[B]`: cross entropy.
    Classes(Vec<u32>),
    /// A class per text, `[B]`: cross entropy of a probe on the mean embedding of length 1.
    Probed(Arc<Probe>, Vec<u32>),
    /// A class for some tokens, `[B,T]`: the mean cross entropy of a probe on the last layer's output
    /// there, of length 1.
    ProbedTokens(Arc<Probe>, Array2<Option<u32>>),
    /// How alike the texts of each pair are, from 0 to 1, `[B/2]`: the squared distance of the cosine of
    /// their mean embeddings from that. The texts of a pair are one after the other.
    Alike(Vec<f32>),
    /// The unpruned model's mean embeddings, `[B,D]`: one minus the cosine.
    Embedding(Tensor),
    /// The logarithms of the unpruned model's probabilities, `[N,C]`, of all real tokens one after
    /// another or of the texts: the Kullback-Leibler divergence from them, in nats, as the mean over
    /// an example's tokens.
    Logits(Tensor),
}

impl Target {
    /// Each real token's successor, for a causal language model.
    pub fn next_tokens(batch: &Batch) -> Self {
        let (_, t) = batch.ids.dim();
        let next = |(b, i)| {
            let real = i + 1 < t && batch.mask[(b, i)] != 0 && batch.mask[(b, i + 1)] != 0;
            real.then(|| batch.ids[(b, i + 1)])
        };
        Self::Tokens(Array2::from_shape_fn(batch.ids.dim(), next))
    }

    /// The unpruned model's embeddings of this batch.
    ///
    /// # Errors
    /// Those of [`Sample::run`].
    pub fn unpruned_embedding(model: &Model, sample: &Sample) -> Result<Self> {
        let hidden = sample.run(model, &mut Recorder::new(), &[])?;
        Ok(Self::Embedding(embedding(&hidden, sample.last())?))
    }

    /// The unpruned model's distributions for this batch.
    ///
    /// # Errors
    /// Those of [`Sample::run`]; [`Error::Checkpoint`] for a model without a head that gives
    /// logits.
    pub fn unpruned_logits(model: &Model, sample: &Sample) -> Result<Self> {
        let hidden = sample.run(model, &mut Recorder::new(), &[])?;
        Ok(Self::Logits(log_probs(model, &hidden, sample.last())?))
    }

    /// Whether it is the unpruned model itself. Such a loss is smallest where every gate is 1, so
    /// its gradient there is 0 whatever a head does.
    pub fn is_unpruned_model(&self) -> bool {
        matches!(self, Self::Embedding(_) | Self::Logits(_))
    }

    /// The loss of each example, `[B]`, of the last layer's output `hidden` `[B,T,D]`; 0 for an
    /// example without labels. It has a gradient where `hidden` has one.
    ///
    /// # Errors
    /// [`Error::Array`] where the target is of another batch or names classes that the head does
    /// not have, [`Error::Checkpoint`] where the model has no head for it.
    pub fn losses(&self, model: &Model, hidden: &Tensor, batch: &Batch) -> Result<Tensor> {
        match self {
            Self::Tokens(labels) => {
                tokens(hidden, batch, labels, |at| token_logits(model, hidden, at))
            }
            Self::Classes(classes) => {
                let probs = log_probs(model, hidden, batch)?;
                fits("classes", probs.dim(0)?, classes.len())?;
                Ok(picked(&probs, classes)?.neg()?)
            }
            Self::Probed(probe, classes) => {
                let scores = probe.scores(&unit(&embedding(hidden, batch)?)?)?;
                fits("classes", scores.dim(0)?, classes.len())?;
                let probs = candle_nn::ops::log_softmax(&scores, D::Minus1)?;
                Ok(picked(&probs, classes)?.neg()?)
            }
            Self::ProbedTokens(probe, labels) => {
                tokens(hidden, batch, labels, |at| probe.scores(&unit(&rows_at(hidden, at)?)?))
            }
            Self::Alike(scores) => {
                let found = unit(&embedding(hidden, batch)?)?;
                fits("scores", found.dim(0)?, 2 * scores.len())?;
                let pairs = found.reshape((scores.len(), 2, ()))?;
                let texts = |which: usize| pairs.narrow(1, which, 1);
                let cosine = (texts(0)? * texts(1)?)?.sum(2)?.squeeze(1)?;
                let scores = Tensor::from_slice(scores, scores.len(), found.device())?;
                Ok((cosine - scores)?.sqr()?)
            }
            Self::Embedding(unpruned) => {
                let found = embedding(hidden, batch)?;
                fits("embeddings", unpruned.dim(0)?, found.dim(0)?)?;
                let cosine = (unit(&found)? * unit(unpruned)?)?.sum(1)?;
                Ok((1.0 - cosine)?)
            }
            Self::Logits(unpruned) => {
                let found = log_probs(model, hidden, batch)?;
                fits("distributions", unpruned.dim(0)?, found.dim(0)?)?;
                let each = (unpruned.exp()? * (unpruned - found)?)?.sum(1)?;
                let rows = each.dim(0)?;
                match rows == batch.ids.nrows() && !per_token(model) {
                    true => Ok(each),
                    false => means(&each, &places(batch, |at| batch.mask[at] != 0), batch),
                }
            }
        }
    }
}

/// Whether the head gives one distribution per token rather than per text.
fn per_token(model: &Model) -> bool {
    model.config().task != Task::SequenceClassification
}

/// The mean of the last layer's output over each example's real tokens: `[B,T,D]` → `[B,D]`.
///
/// # Errors
/// [`Error::Tensor`] where `hidden` is of another batch.
pub fn embedding(hidden: &Tensor, batch: &Batch) -> Result<Tensor> {
    let (b, t) = batch.ids.dim();
    let shares = batch.mask.rows().into_iter().flat_map(|row| {
        let count = row.sum().max(1) as f32;
        row.iter().map(|&real| real as f32 / count).collect::<Vec<_>>()
    });
    let shares = Tensor::from_vec(shares.collect(), (b, t, 1), hidden.device())?;
    Ok(hidden.broadcast_mul(&shares)?.sum(1)?)
}

/// Rows of length 1.
pub(crate) fn unit(x: &Tensor) -> Result<Tensor> {
    let length = (x.sqr()?.sum_keepdim(1)? + 1e-24)?.sqrt()?;
    Ok(x.broadcast_div(&length)?)
}

/// Replaces a share of the typed tokens by the mask, at least one in each text that has any, and
/// gives what stood there: what a masked language model is asked for. The same seed chooses the
/// same tokens, whatever batch they are in.
pub fn mask_some(encodings: &mut [Encoding], mask_id: u32, share: f64, seed: u64) -> Target {
    let longest = encodings.iter().map(Encoding::len).max().unwrap_or(0);
    let mut labels = Array2::from_elem((encodings.len(), longest), None);
    for (b, encoding) in encodings.iter_mut().enumerate() {
        let typed = encoding.tokens.iter().enumerate().filter(|(_, token)| !token.special);
        let mut typed: Vec<usize> = typed.map(|(at, _)| at).collect();
        let ids = encoding.tokens.iter().filter_map(|token| token.id);
        // by the text itself, so that neither its line nor its batch matters
        let text = ids.fold(seed, |sum, id| {
            (sum ^ u64::from(id)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        });
        let mut random = ChaCha8Rng::seed_from_u64(text);
        let count = ((typed.len() as f64 * share).round() as usize).max(1).min(typed.len());
        for i in 0..count {
            let other = i + (random.next_u64() % (typed.len() - i) as u64) as usize;
            typed.swap(i, other);
            let token = &mut encoding.tokens[typed[i]];
            labels[(b, typed[i])] = token.id.replace(mask_id);
        }
    }
    Target::Tokens(labels)
}

/// Mean cross entropy of the labelled tokens of each example, by the `scores` [N, C] of these places.
fn tokens(
    hidden: &Tensor,
    batch: &Batch,
    labels: &Array2<Option<u32>>,
    scores: impl Fn(&[(usize, usize)]) -> Result<Tensor>,
) -> Result<Tensor> {
    fits("labels", batch.ids.nrows(), labels.nrows())?;
    fits("labels of a text", batch.ids.ncols(), labels.ncols())?;
    let chosen = places(batch, |at| labels[at].is_some());
    let words: Vec<u32> = labels.iter().copied().flatten().collect();
    if words.is_empty() {
        return Ok(hidden.sum((1, 2))?.affine(0.0, 0.0)?);
    }
    let logits = scores(&chosen)?;
    if logits.track_op() && logits.device().is_cpu() && logits.dtype() == DType::F32 {
        below(&words, logits.dim(1)?)?;
        return means(&cross_entropy(&logits, words)?, &chosen, batch);
    }
    let picked = picked(&candle_nn::ops::log_softmax(&logits, D::Minus1)?, &words)?;
    means(&picked.neg()?, &chosen, batch)
}

/// Places among `[B,T]` that are chosen, in order.
fn places(batch: &Batch, chosen: impl Fn((usize, usize)) -> bool) -> Vec<(usize, usize)> {
    batch.ids.indexed_iter().map(|(at, _)| at).filter(|&at| chosen(at)).collect()
}

/// The last layer's output at these places: `[B,T,D]` → `[N,D]`.
pub(super) fn rows_at(hidden: &Tensor, chosen: &[(usize, usize)]) -> Result<Tensor> {
    let width = hidden.dim(1)?;
    let rows: Vec<u32> = chosen.iter().map(|&(b, t)| (b * width + t) as u32).collect();
    let rows = Tensor::from_vec(rows, chosen.len(), hidden.device())?;
    Ok(hidden.contiguous()?.flatten(0, 1)?.index_select(&rows, 0)?)
}

/// What the head gives at these places: `[N,C]`. Only they go through it.
fn token_logits(model: &Model, hidden: &Tensor, chosen: &[(usize, usize)]) -> Result<Tensor> {
    let hidden = rows_at(hidden, chosen)?.unsqueeze(1)?;
    let ones = Array2::from_elem((chosen.len(), 1), 1);
    let found = model.head(&hidden, &Batch::from_ids(ones.clone(), ones))?;
    let logits = found.logits.ok_or_else(|| headless(model))?;
    match logits.rank() {
        3 => Ok(logits.squeeze(1)?),
        // one score per token: a class against none
        _ => Ok(Tensor::cat(&[logits.zeros_like()?, logits], 1)?),
    }
}

fn headless(model: &Model) -> Error {
    let why = "it has no head that gives logits; without one there is the label-free score";
    Error::checkpoint(&model.report().name, why)
}

/// Logarithms of the head's probabilities, `[N,C]`: of the texts, or of all real tokens.
fn log_probs(model: &Model, hidden: &Tensor, batch: &Batch) -> Result<Tensor> {
    let logits = match per_token(model) {
        true => token_logits(model, hidden, &places(batch, |at| batch.mask[at] != 0))?,
        false => model.head(hidden, batch)?.logits.ok_or_else(|| headless(model))?,
    };
    Ok(candle_nn::ops::log_softmax(&logits.to_dtype(DType::F32)?, D::Minus1)?)
}

/// One column of each row: `[N,C]` → `[N]`.
fn picked(rows: &Tensor, columns: &[u32]) -> Result<Tensor> {
    below(columns, rows.dim(1)?)?;
    let index = Tensor::from_vec(columns.to_vec(), (columns.len(), 1), rows.device())?;
    Ok(rows.contiguous()?.gather(&index, 1)?.squeeze(1)?)
}

fn below(labels: &[u32], classes: usize) -> Result<()> {
    match labels.iter().find(|&&label| label as usize >= classes) {
        None => Ok(()),
        Some(beyond) => Err(Error::Array {
            what: "label".into(),
            want: format!("below {classes}, the classes of the head"),
            found: beyond.to_string(),
        }),
    }
}

/// Means over each example's places: `[N]` → `[B]`.
fn means(each: &Tensor, places: &[(usize, usize)], batch: &Batch) -> Result<Tensor> {
    let (b, n) = (batch.ids.nrows(), places.len());
    let mut counts = vec![0usize; b];
    places.iter().for_each(|&(example, _)| counts[example] += 1);
    let mut shares = vec![0.0f32; b * n];
    for (i, &(example, _)) in places.iter().enumerate() {
        shares[example * n + i] = 1.0 / counts[example] as f32;
    }
    let shares = Tensor::from_vec(shares, (b, n), each.device())?;
    Ok(shares.matmul(&each.unsqueeze(1)?)?.squeeze(1)?)
}

fn fits(what: &str, want: usize, found: usize) -> Result<()> {
    match want == found {
        true => Ok(()),
        false => Err(Error::Array {
            what: what.into(),
            want: want.to_string(),
            found: found.to_string(),
        }),
    }
}
