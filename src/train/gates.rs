//! Gates that are trained, to learn which heads a task needs (Voita et al. 2019).

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor, Var};

use super::adamw::AdamW;
use super::examples::losses;
use super::{Purpose, random, uniform};
use crate::config::{Config, Stack};
use crate::error::Result;
use crate::model::Model;
use crate::prune::{HeadScore, StackHead, layers, running, stacks};
use crate::select::Head;
use crate::task::Sample;
use crate::trace::{Change, Intervention, Site};

/// What is asked of the gates besides the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Penalty {
    /// Σ|g|, each gate a number that starts at 1.
    L1,
    /// The expected number of open gates, each a stochastic hard-concrete one (Louizos et al. 2018).
    L0,
}

/// A penalty with its weight.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Gating {
    /// Which penalty.
    pub penalty: Penalty,
    /// What the mean penalty of a head weighs against the task's loss.
    pub weight: f64,
}

/// Temperature and stretch of the hard-concrete distribution, as Louizos et al. set them.
const BETA: f64 = 2.0 / 3.0;
const STRETCH: (f64, f64) = (-0.1, 1.1);
/// Where log α starts: a gate that is open 0.95 of the time or so.
const OPEN: f64 = 2.0;

/// A gate for every head of every block, of all stacks.
pub struct LearnedGates {
    gating: Gating,
    variables: BTreeMap<String, Var>,
    /// Each layer with heads: its place, its variable and the original numbers of its heads.
    layers: Vec<(Stack, usize, String, Vec<usize>)>,
}

impl LearnedGates {
    /// Gates that are open.
    ///
    /// # Errors
    /// None in practice: [`Error::Tensor`](crate::Error::Tensor) is candle's.
    pub fn new(config: &Config, gating: Gating, device: &Device) -> Result<Self> {
        let start = if gating.penalty == Penalty::L0 { OPEN } else { 1.0 };
        let (mut variables, mut places) = (BTreeMap::new(), Vec::new());
        for stack in stacks(config) {
            for (layer, block, heads) in layers(config, stack).filter(|(.., h)| !h.is_empty()) {
                let name = format!("gates.{}.{block}", crate::prune::stack_name(stack));
                if !variables.contains_key(&name) {
                    let start = Tensor::full(start as f32, heads.len(), device)?;
                    variables.insert(name.clone(), Var::from_tensor(&start)?);
                }
                places.push((stack, layer, name, heads.clone()));
            }
        }
        Ok(Self { gating, variables, layers: places })
    }

    /// The variables, such as `gates.encoder.3` of the encoder's block 3.
    pub fn variables(&self) -> &BTreeMap<String, Var> {
        &self.variables
    }

    /// The gates as changes of a run at `step`; `None` for their values without noise.
    ///
    /// # Errors
    /// As [`LearnedGates::new`].
    pub fn interventions(&self, noise: Option<(u64, u64)>) -> Result<Vec<Intervention>> {
        let mut random = noise.map(|(seed, step)| random(seed, step, Purpose::Gates));
        let mut gates = BTreeMap::new();
        for (name, var) in &self.variables {
            let count = var.elem_count();
            let noise = random.as_mut().map(|random| {
                let draw = |_| uniform(random).clamp(1e-6, 1.0 - 1e-6);
                (0..count).map(draw).collect::<Vec<f32>>()
            });
            let gate = self.gate(var.as_tensor(), noise)?.reshape((1, count, 1, 1))?;
            gates.insert(name, gate);
        }
        let one = |(stack, layer, name, _): &(Stack, usize, String, Vec<usize>)| {
            let change = Change::Multiply(gates.get(name)?.clone());
            let (layers, site) = (Some(vec![*layer]), Site::Context);
            Some(Intervention { stack: *stack, site, layers, heads: None, positions: None, change })
        };
        Ok(self.layers.iter().filter_map(one).collect())
    }

    /// A block's gates [H], of uniform noise where there is any.
    fn gate(&self, var: &Tensor, noise: Option<Vec<f32>>) -> Result<Tensor> {
        if self.gating.penalty == Penalty::L1 {
            return Ok(var.clone());
        }
        let open = match noise {
            None => candle_nn::ops::sigmoid(var)?,
            Some(noise) => {
                let logit = |u: f32| (u / (1.0 - u)).ln();
                let logits: Vec<f32> = noise.into_iter().map(logit).collect();
                let logits = Tensor::from_vec(logits, var.shape(), var.device())?;
                candle_nn::ops::sigmoid(&((var + logits)? / BETA)?)?
            }
        };
        let (low, high) = STRETCH;
        Ok(open.affine(high - low, low)?.clamp(0f32, 1f32)?)
    }

    /// The penalty times its weight, as the mean over heads: a number.
    ///
    /// # Errors
    /// As [`LearnedGates::new`].
    pub fn penalty(&self) -> Result<Tensor> {
        let (low, high) = STRETCH;
        let shift = BETA * (-low / high).ln();
        let each = self.variables.values().map(|var| match self.gating.penalty {
            Penalty::L1 => Ok(var.abs()?),
            // the probability that the gate is not 0
            Penalty::L0 => Ok(candle_nn::ops::sigmoid(&(var.as_tensor() - shift)?)?),
        });
        let all = Tensor::cat(&each.collect::<Result<Vec<_>>>()?, 0)?;
        Ok((all.mean_all()? * self.gating.weight)?)
    }

    /// How far open every gate is, by layer and head: σ(log α) of hard-concrete ones, which no two
    /// share as they share 0 and 1, else the size.
    pub(super) fn openness(&self) -> Result<Vec<HeadScore>> {
        let open = |var: &Tensor| match self.gating.penalty {
            Penalty::L0 => candle_nn::ops::sigmoid(var),
            Penalty::L1 => var.abs(),
        };
        self.scores(|var| Ok(open(var)?))
    }

    /// The value of every gate without noise, by layer and head: what is left of a head.
    ///
    /// # Errors
    /// As [`LearnedGates::new`].
    pub fn values(&self) -> Result<Vec<HeadScore>> {
        self.scores(|var| self.gate(var, None))
    }

    fn scores(&self, of: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Vec<HeadScore>> {
        let mut all = Vec::new();
        for (stack, layer, name, heads) in &self.layers {
            let Some(var) = self.variables.get(name) else { continue };
            let gates = of(&var.as_detached_tensor())?.to_dtype(DType::F64)?.to_vec1::<f64>()?;
            all.extend(heads.iter().zip(gates).map(|(&head, score)| HeadScore {
                head: StackHead { stack: *stack, head: Head { layer: *layer, head } },
                score,
            }));
        }
        Ok(all)
    }
}

/// How gates are learnt while the weights are held.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Learning {
    pub penalty: Penalty,
    pub steps: usize,
    pub seed: u64,
}

/// What the mean penalty of a head weighs against the loss, and the rate of the steps, where gates
/// alone are learnt.
const WEIGHT: f64 = 1.0;
const RATE: f64 = 0.05;

/// Learns gates on samples with losses, one sample a step and over again, with `changes` in every run;
/// how far open each is at the end, of the stacks that run.
pub(crate) fn learn_gates(
    model: &Model,
    samples: &[Sample],
    Learning { penalty, steps, seed }: Learning,
    changes: &[Intervention],
) -> Result<Vec<HeadScore>> {
    let gating = Gating { penalty, weight: WEIGHT };
    let gates = LearnedGates::new(model.config(), gating, model.device())?;
    let mut optimizer = AdamW::new(0.0);
    for (step, sample) in samples.iter().cycle().take(steps).enumerate() {
        let noise = Some((seed, step as u64));
        let all = [gates.interventions(noise)?, changes.to_vec()].concat();
        let loss = losses(model, sample, &all)?.mean_all()?;
        let store = (loss + gates.penalty()?)?.backward()?;
        optimizer.step(&gates.variables, &store, RATE, 1.0)?;
    }
    let runs = |stack| samples.iter().any(|s| running(model.config(), s).contains(&stack));
    let mut found = gates.openness()?;
    found.retain(|one| runs(one.head.stack));
    Ok(found)
}
