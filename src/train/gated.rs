//! Gates beside the weights of a run: what is learnt of them, how, and what is held meanwhile.

use std::collections::BTreeMap;

use candle_core::backprop::GradStore;
use candle_core::{Device, Tensor};

use super::adamw::AdamW;
use super::gates::{Gating, LearnedGates};
use super::held::Held;
use super::store::{part, put, set, values};
use crate::error::Result;
use crate::model::Trainable;

/// Gates that are trained with the weights.
pub(super) struct Gated {
    pub gates: LearnedGates,
    optimizer: AdamW,
    held: Held,
}

impl Gated {
    /// Open gates, and the scales of the weights as they are.
    pub fn new(trainable: &Trainable, gating: Gating) -> Result<Self> {
        Ok(Self {
            gates: LearnedGates::new(trainable.config(), gating, &Device::Cpu)?,
            optimizer: AdamW::new(0.0),
            held: Held::new(trainable)?,
        })
    }

    /// A step of the gates at `rate`, behind one of the weights, whose scales are put back.
    pub fn step(&mut self, trainable: &Trainable, store: &GradStore, rate: f64) -> Result<()> {
        self.optimizer.step(self.gates.variables(), store, rate, 1.0)?;
        self.held.restore(trainable)
    }

    /// Adds everything that a later step depends on to the tensors of a run's state.
    pub fn save(&self, tensors: &mut BTreeMap<String, Tensor>) -> Result<()> {
        put(tensors, "gates", values(self.gates.variables()));
        put(tensors, "gate-moments", self.optimizer.tensors()?);
        put(tensors, "held", self.held.tensors()?);
        Ok(())
    }

    /// Goes on from what [`Gated::save`] added.
    pub fn take(&mut self, steps: u64, tensors: &BTreeMap<String, Tensor>) -> Result<()> {
        set(self.gates.variables(), &part(tensors, "gates"))?;
        self.optimizer.restore(steps, &part(tensors, "gate-moments"))?;
        self.held.take(&part(tensors, "held"))
    }
}
