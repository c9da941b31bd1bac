//! Runs with activations of another run in them.

use candle_core::Tensor;

use super::metric::Metric;
use super::place::{Place, Point};
use crate::config::Stack;
use crate::error::{Error, Result};
use crate::model::{Memory, Model};
use crate::tokens::Batch;
use crate::trace::{Change, Intervention, Keep, Recorder, Trace};

/// Two runs whose metrics are no further apart than this share of them are the same to rounding.
const SAME: f64 = 1e-6;

/// What a model reads: one text or pair, and of an encoder-decoder what its decoder reads.
#[derive(Debug, Clone)]
pub struct Prompt {
    /// Read first, a batch of one without padding.
    pub read: Batch,
    /// Read by the decoder of an encoder-decoder, likewise.
    pub written: Option<Batch>,
}

/// Which run gets the other's activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The corrupted one gets the clean one's: what restores the answer?
    Denoising,
    /// The clean one gets the corrupted one's: what breaks it?
    Noising,
}

impl Direction {
    /// The names that `--direction` takes.
    pub const NAMES: [(&'static str, Direction); 2] =
        [("denoising", Self::Denoising), ("noising", Self::Noising)];

    /// What [`Patching::restored`] gives where nothing is patched: 0, or 1 when noising.
    pub fn start(self) -> f64 {
        if self == Self::Noising { 1.0 } else { 0.0 }
    }
}

/// Two runs, and what is carried from one into the other.
pub struct Patching<'m> {
    pub(super) model: &'m Model,
    pub(super) stack: Stack,
    /// What is run again, with changes.
    pub(super) base: Prompt,
    /// What a decoder reads of it where nothing is changed before.
    memory: Option<Memory>,
    /// What the other run kept, and what that one does.
    other: Trace,
    own: Trace,
    metric: Metric,
    /// What the metric is made of in the clean run.
    reference: Vec<f64>,
    clean: f64,
    corrupted: f64,
}

impl<'m> Patching<'m> {
    /// Runs both prompts and keeps `points` of the one that gives. `stack` is the attention that is
    /// patched, and [`Point::Residual`] that of its layers.
    ///
    /// # Errors
    /// [`Error::Input`] where the prompts have different numbers of tokens, and where the metric is
    /// the same for both, so that there is nothing to restore; [`Error::Usage`] for a stack that does
    /// not run and for the residual stream of [`Stack::Cross`], which is its decoder's;
    /// [`Error::Checkpoint`] where the model has no head for the metric; those of
    /// [`Model::forward`].
    pub fn new(
        model: &'m Model,
        stack: Stack,
        (clean, corrupted): (&Prompt, &Prompt),
        points: &[Point],
        metric: Metric,
        direction: Direction,
    ) -> Result<Self> {
        alike(clean, corrupted)?;
        check_stack(model, stack, clean, points)?;
        if model.config().decoder.is_some() && clean.written.is_none() && metric != Metric::Cosine {
            let why = "its head is its decoder's, which needs something to read";
            return Err(Error::input("texts", why));
        }
        let (base, giver) = match direction {
            Direction::Denoising => (corrupted, clean),
            Direction::Noising => (clean, corrupted),
        };
        let reads = |prompt| -> Result<Vec<f64>> {
            let (hidden, batch) = run(model, prompt, None, &mut Recorder::new(), &[])?;
            Ok(metric.read(model, &hidden, batch)?.into_iter().next().unwrap_or_default())
        };
        let reference = reads(clean)?;
        let values =
            (metric.value(&reference, &reference), metric.value(&reads(corrupted)?, &reference));
        let far = (values.0 - values.1).abs();
        // a NaN is no difference either
        if far.is_nan() || far <= SAME * values.0.abs().max(values.1.abs()) {
            let why = format!(
                "the {} is the same for the clean and the corrupted text ({:.6}): there is nothing to \
                 restore",
                metric.name(),
                values.0
            );
            return Err(Error::input("texts", why));
        }
        let kept = |prompt| -> Result<Trace> {
            let keep = |recorder: Recorder, point: &Point| recorder.keep(point.site(), Keep::All);
            let mut recorder = points.iter().fold(Recorder::new(), keep);
            run(model, prompt, None, &mut recorder, &[])?;
            recorder.into_trace()
        };
        let (other, own) = (kept(giver)?, kept(base)?);
        let memory = match &base.written {
            Some(_) => Some(model.encode(&base.read, &mut Recorder::new(), &[])?),
            None => None,
        };
        let base = base.clone();
        let (clean, corrupted) = values;
        Ok(Self { model, stack, base, memory, other, own, metric, reference, clean, corrupted })
    }

    /// The metric of the clean run.
    pub fn clean(&self) -> f64 {
        self.clean
    }

    /// The metric of the corrupted run.
    pub fn corrupted(&self) -> f64 {
        self.corrupted
    }

    /// A metric on the scale on which the corrupted run is 0 and the clean one 1, in either
    /// direction.
    pub fn restored(&self, value: f64) -> f64 {
        (value - self.corrupted) / (self.clean - self.corrupted)
    }

    /// How many positions a point has.
    pub fn positions(&self, point: Point) -> usize {
        let read = self.base.read.ids.ncols();
        let written = self.base.written.as_ref().map_or(read, |written| written.ids.ncols());
        match self.stack {
            Stack::Cross if point.of_keys() => read,
            Stack::Decoder | Stack::Cross => written,
            Stack::Encoder => read,
        }
    }

    /// The metric with `places` of a point patched, all of them in one run.
    ///
    /// # Errors
    /// [`Error::Usage`] for a point that was not asked for and a layer that is not there,
    /// [`Error::Array`] for a position that is not, and those of [`Model::forward`].
    pub fn value(&self, point: Point, places: &[Place]) -> Result<f64> {
        let changes = places.iter().map(|place| self.change(point, place));
        let changes = changes.collect::<Result<Vec<_>>>()?;
        let before =
            self.stack == Stack::Encoder || (self.stack == Stack::Cross && point.of_keys());
        let memory = self.memory.as_ref().filter(|_| !before);
        let (hidden, batch) = run(self.model, &self.base, memory, &mut Recorder::new(), &changes)?;
        Ok(self.read(&hidden, batch)?.first().copied().unwrap_or(f64::NAN))
    }

    /// The metric of each example of a batch, of the last layer's output `[B,T,D]`.
    pub(super) fn read(&self, hidden: &Tensor, batch: &Batch) -> Result<Vec<f64>> {
        let read = self.metric.read(self.model, hidden, batch)?;
        Ok(read.iter().map(|one| self.metric.value(one, &self.reference)).collect())
    }

    fn change(&self, point: Point, place: &Place) -> Result<Intervention> {
        self.check(point, place)?;
        Ok(Intervention {
            stack: self.stack,
            site: point.site(),
            layers: Some(vec![place.layer]),
            heads: place.heads.clone(),
            positions: place.position.map(|position| vec![position]),
            change: Change::Replace(self.kept(point, place.layer)?.other),
        })
    }

    pub(super) fn check(&self, point: Point, place: &Place) -> Result<()> {
        let count = self.positions(point);
        match place.position.filter(|&at| at >= count) {
            None => Ok(()),
            Some(position) => Err(Error::Array {
                what: format!("position of {}", point.name()),
                want: format!("below {count}"),
                found: position.to_string(),
            }),
        }
    }

    /// What both runs have at a point of a layer, as it passes there.
    pub(super) fn kept(&self, point: Point, layer: usize) -> Result<Pair> {
        let none = || Error::Usage {
            flag: "patch".into(),
            want: format!("a layer with {}", point.name()),
            found: layer.to_string(),
        };
        let kept = |trace: &Trace| trace.get(self.stack, layer, point.site()).cloned();
        let (other, own) = kept(&self.other).zip(kept(&self.own)).ok_or_else(none)?;
        // what heads share passes once for all of them, and is kept for each
        let group = if point.of_keys() { self.model.config().of(self.stack).group_size } else { 1 };
        let group = group.max(1);
        Ok(Pair {
            heads: own.heads.chunks(group).map(<[usize]>::to_vec).collect(),
            other: every(other.tensor, group)?,
            own: every(own.tensor, group)?,
        })
    }
}

/// A point of a layer in both runs.
pub(super) struct Pair {
    /// Of each place on axis 1 the heads that it serves; empty where there are no heads.
    pub heads: Vec<Vec<usize>>,
    pub other: Tensor,
    pub own: Tensor,
}

/// Each `step`-th of axis 1.
fn every(tensor: Tensor, step: usize) -> Result<Tensor> {
    if step == 1 {
        return Ok(tensor);
    }
    let firsts: Vec<u32> = (0..tensor.dim(1)? as u32).step_by(step).collect();
    let count = firsts.len();
    Ok(tensor.index_select(&Tensor::from_vec(firsts, count, tensor.device())?, 1)?)
}

/// The last layer's output, and the batch that it is of.
fn run<'p>(
    model: &Model,
    prompt: &'p Prompt,
    memory: Option<&Memory>,
    recorder: &mut Recorder,
    changes: &[Intervention],
) -> Result<(Tensor, &'p Batch)> {
    let Some(written) = &prompt.written else {
        return Ok((model.forward(&prompt.read, recorder, changes)?, &prompt.read));
    };
    let hidden = match memory {
        Some(memory) => model.decode(written, Some(memory), None, recorder, changes)?,
        None => {
            let memory = model.encode(&prompt.read, recorder, changes)?;
            model.decode(written, Some(&memory), None, recorder, changes)?
        }
    };
    Ok((hidden, written))
}

fn alike(clean: &Prompt, corrupted: &Prompt) -> Result<()> {
    let sizes = |prompt: &Prompt| {
        let written = prompt.written.as_ref().map(|written| written.ids.dim());
        (prompt.read.ids.dim(), written)
    };
    let (one, other) = (sizes(clean), sizes(corrupted));
    let single = one.0.0 == 1 && one.1.is_none_or(|(rows, _)| rows == 1);
    match single && one == other {
        true => Ok(()),
        false => {
            let why = format!(
                "expected a clean and a corrupted one of equally many tokens, found {} and {}",
                one.1.map_or(one.0.1, |written| one.0.1 + written.1),
                other.1.map_or(other.0.1, |written| other.0.1 + written.1)
            );
            Err(Error::input("texts", why))
        }
    }
}

fn check_stack(model: &Model, stack: Stack, prompt: &Prompt, points: &[Point]) -> Result<()> {
    let config = model.config();
    let runs = match prompt.written {
        Some(_) => config.decoder.is_some(),
        None => stack == config.stack(),
    };
    let usage = |want: &str, found: &str| {
        Err(Error::Usage { flag: "--stack".into(), want: want.into(), found: found.into() })
    };
    match (runs, stack) {
        (false, _) => {
            usage("a stack of this model that runs", &format!("{stack:?}").to_lowercase())
        }
        (_, Stack::Cross) if points.contains(&Point::Residual) => {
            usage("decoder, whose residual stream it is", "cross")
        }
        _ => Ok(()),
    }
}
