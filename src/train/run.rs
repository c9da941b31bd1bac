//! The loop: step after step of a seeded run, which goes on from where it was.

use std::collections::BTreeMap;

use candle_core::{DType, Tensor};
use serde::{Deserialize, Serialize};

use super::adamw::{AdamW, norm};
use super::dropout::{Dropout, dropout};
use super::examples::{Examples, batch, losses};
use super::gated::Gated;
use super::gates::{Gating, LearnedGates};
use super::schedule::Schedule;
use super::store::{part, put, set, values};
use crate::error::{Error, Result};
use crate::model::{Model, Trainable};
use crate::trace::Intervention;

/// How a run goes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The learning rate of weights by step.
    pub schedule: Schedule,
    /// Examples of a step.
    pub batch_size: usize,
    /// Share of a matrix that a step of rate 1 takes away.
    pub weight_decay: f64,
    /// The length to which longer gradients are cut, all variables together.
    pub clip: Option<f64>,
    /// Shares that are dropped.
    pub dropout: Dropout,
    /// Where all random numbers begin.
    pub seed: u64,
    /// Gates that are trained with the weights.
    pub gating: Option<Gating>,
    /// The learning rate of gates, in proportion to that of weights.
    pub gate_rate: f64,
    /// Steps between two looks at the part for validation.
    pub every: u64,
    /// Looks without a better one after which the run ends; `None` for all steps.
    pub patience: Option<u64>,
}

/// What a step or a look at the part for validation gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Steps done.
    pub step: u64,
    /// Mean loss since the last point.
    pub loss: f64,
    /// What validation gives, the larger the better.
    pub worth: f64,
    /// Heads whose gates are open, where there are gates.
    pub open: Option<usize>,
}

/// A run in progress: everything that a later step depends on.
pub struct Run {
    plan: Plan,
    trainable: Trainable,
    optimizer: AdamW,
    gated: Option<Gated>,
    /// Steps done.
    step: u64,
    /// Sum of losses and steps since the last point.
    since: (f64, u64),
    /// All points, one after another.
    points: Vec<Point>,
    best: Option<(f64, BTreeMap<String, Tensor>)>,
}

impl Run {
    /// A run at its start.
    ///
    /// # Errors
    /// None in practice: [`Error::Tensor`](crate::Error::Tensor) is candle's.
    pub fn new(plan: Plan, trainable: Trainable) -> Result<Self> {
        let gated = plan.gating.map(|gating| Gated::new(&trainable, gating)).transpose()?;
        Ok(Self {
            optimizer: AdamW::new(plan.weight_decay),
            gated,
            plan,
            trainable,
            step: 0,
            since: (0.0, 0),
            points: Vec::new(),
            best: None,
        })
    }

    /// How it goes.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The weights as they are.
    pub fn trainable(&self) -> &Trainable {
        &self.trainable
    }

    /// Steps done.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// What was seen on the way.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The gates, where there are any.
    pub fn gates(&self) -> Option<&LearnedGates> {
        self.gated.as_ref().map(|gated| &gated.gates)
    }

    /// Whether all steps are done, or validation has been without a better look for too long.
    pub fn is_done(&self) -> bool {
        let best = self.points.iter().map(|point| point.worth).fold(f64::NEG_INFINITY, f64::max);
        let since = self.points.iter().rev().take_while(|point| point.worth < best).count() as u64;
        self.step >= self.plan.schedule.steps
            || self.plan.patience.is_some_and(|patience| since >= patience)
    }

    /// One step; its loss.
    ///
    /// # Errors
    /// [`Error::Array`] where the loss or its gradient is not finite, before anything is changed;
    /// those of the examples, of [`Sample::run`](crate::task::Sample::run) and of
    /// [`Target::losses`](crate::task::Target::losses).
    pub fn advance(&mut self, examples: &dyn Examples) -> Result<f64> {
        let plan = &self.plan;
        let places = batch(examples.count(), plan.batch_size, plan.seed, self.step);
        let sample = examples.sample(&places, plan.seed.wrapping_add(self.step))?;
        let model = self.trainable.model()?;
        let mut changes = dropout(plan.dropout, model.config(), &sample, plan.seed, self.step)?;
        if let Some(gates) = self.gates() {
            // gates stand before what is dropped behind them
            changes.extend(gates.interventions(Some((plan.seed, self.step)))?);
        }
        let loss = losses(&model, &sample, &changes)?.mean_all()?;
        let whole = match self.gates() {
            Some(gates) => (&loss + gates.penalty()?)?,
            None => loss.clone(),
        };
        let store = whole.backward()?;
        let (variables, rate) = (self.trainable.variables(), plan.schedule.at(self.step));
        let loss = f64::from(loss.to_dtype(DType::F32)?.to_scalar::<f32>()?);
        let length = norm(variables, &store)?;
        finite("loss", self.step, loss)?;
        finite("length of the gradient", self.step, length)?;
        let scale = plan.clip.map_or(1.0, |most| if length > most { most / length } else { 1.0 });
        self.optimizer.step(variables, &store, rate, scale)?;
        if let Some(gated) = &mut self.gated {
            gated.step(&self.trainable, &store, rate * plan.gate_rate)?;
        }
        self.since = (self.since.0 + loss, self.since.1 + 1);
        self.step += 1;
        Ok(loss)
    }

    /// Whether it is time to look at the part for validation.
    pub fn is_due(&self) -> bool {
        self.step > self.points.last().map_or(0, |point| point.step)
            && (self.step.is_multiple_of(self.plan.every.max(1)) || self.is_done())
    }

    /// Looks at the part for validation: `worth` of the model without noise, the larger the better.
    /// The best weights so far are kept, of a run with gates the last ones.
    ///
    /// # Errors
    /// [`Error::Array`] where `worth` is not finite, and those of `worth`.
    pub fn look(
        &mut self,
        worth: impl Fn(&Model, &[Intervention]) -> Result<f64>,
    ) -> Result<&Point> {
        let (model, changes) = (self.trainable.frozen()?, self.changes()?);
        let worth = worth(&model, &changes)?;
        finite("validation", self.step, worth)?;
        let open = self.gates().map(|gates| -> Result<usize> {
            Ok(gates.values()?.iter().filter(|one| one.score != 0.0).count())
        });
        let (sum, count) = std::mem::take(&mut self.since);
        let point = Point {
            step: self.step,
            loss: sum / count.max(1) as f64,
            worth,
            open: open.transpose()?,
        };
        let better = self.best.as_ref().is_none_or(|(best, _)| worth > *best);
        if better || self.gated.is_some() {
            let mut copies = BTreeMap::new();
            for (name, var) in self.trainable.variables() {
                copies.insert(name.clone(), var.as_detached_tensor().copy()?);
            }
            self.best = Some((worth, copies));
        }
        self.points.push(point);
        Ok(&self.points[self.points.len() - 1])
    }

    /// Puts the best weights that were seen in place of the last ones.
    ///
    /// # Errors
    /// None in practice: [`Error::Tensor`](crate::Error::Tensor) is candle's.
    pub fn take_best(&mut self) -> Result<()> {
        if let Some((_, best)) = &self.best {
            set(self.trainable.variables(), best)?;
        }
        Ok(())
    }

    /// The gates as they are without noise, as changes of a run.
    ///
    /// # Errors
    /// As [`Run::take_best`].
    pub fn changes(&self) -> Result<Vec<Intervention>> {
        self.gates().map_or(Ok(Vec::new()), |gates| gates.interventions(None))
    }

    /// Everything that a later step depends on, but for the plan and the start.
    pub(super) fn state(&self) -> Result<(State, BTreeMap<String, Tensor>)> {
        let mut tensors = BTreeMap::new();
        put(&mut tensors, "weights", values(self.trainable.variables()));
        put(&mut tensors, "moments", self.optimizer.tensors()?);
        if let Some(gated) = &self.gated {
            gated.save(&mut tensors)?;
        }
        if let Some((_, best)) = &self.best {
            put(&mut tensors, "best", best.clone());
        }
        let state = State {
            plan: self.plan.clone(),
            step: self.step,
            since: self.since,
            points: self.points.clone(),
            best: self.best.as_ref().map(|(worth, _)| *worth),
        };
        Ok((state, tensors))
    }

    /// A run that goes on from a state.
    pub(super) fn resumed(
        trainable: Trainable,
        state: State,
        tensors: &BTreeMap<String, Tensor>,
    ) -> Result<Self> {
        let mut run = Self::new(state.plan, trainable)?;
        set(run.trainable.variables(), &part(tensors, "weights"))?;
        run.optimizer.restore(state.step, &part(tensors, "moments"))?;
        if let Some(gated) = &mut run.gated {
            gated.take(state.step, tensors)?;
        }
        run.best = state.best.map(|worth| (worth, part(tensors, "best")));
        (run.step, run.since, run.points) = (state.step, state.since, state.points);
        Ok(run)
    }
}

/// Refuses a number of a step that no step can follow.
fn finite(what: &str, step: u64, found: f64) -> Result<()> {
    match found.is_finite() {
        true => Ok(()),
        false => Err(Error::Array {
            what: format!("{what} after {step} steps"),
            want: "a finite number, which a smaller learning rate may give".into(),
            found: found.to_string(),
        }),
    }
}

/// What of a run's state is not tensors.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct State {
    pub plan: Plan,
    step: u64,
    since: (f64, u64),
    points: Vec<Point>,
    best: Option<f64>,
}
