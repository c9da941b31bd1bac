//! AdamW (Loshchilov and Hutter 2019) whose moments can be saved: those of candle-nn's are private.

use std::collections::BTreeMap;

use candle_core::backprop::GradStore;
use candle_core::{DType, Device, Tensor, Var};
use rayon::prelude::*;

use crate::error::{Error, Result};

/// Which variables decay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decay {
    /// All but biases and norms: those of two axes and more.
    Matrices,
    /// None.
    Nothing,
}

/// The optimizer of a set of named variables, with its moments.
#[derive(Debug, Clone)]
pub struct AdamW {
    /// Decay rates of the moments.
    pub betas: (f64, f64),
    /// Added to the root of the second moment.
    pub epsilon: f64,
    /// Share of a variable that a step of rate 1 takes away.
    pub weight_decay: f64,
    /// Which variables that is.
    pub decay: Decay,
    /// Steps taken.
    pub steps: u64,
    moments: BTreeMap<String, (Vec<f32>, Vec<f32>)>,
}

impl AdamW {
    /// With the usual rates 0.9 and 0.999, ε = 1e-8, and this weight decay of matrices.
    pub fn new(weight_decay: f64) -> Self {
        Self {
            betas: (0.9, 0.999),
            epsilon: 1e-8,
            weight_decay,
            decay: Decay::Matrices,
            steps: 0,
            moments: BTreeMap::new(),
        }
    }

    /// One step at `rate` against the gradients, each multiplied by `scale` first (clipping).
    /// Variables that nothing depends on stay as they are.
    ///
    /// # Errors
    /// [`Error::Tensor`] where a gradient is not of its variable's shape.
    pub fn step(
        &mut self,
        variables: &BTreeMap<String, Var>,
        gradients: &GradStore,
        rate: f64,
        scale: f64,
    ) -> Result<()> {
        self.steps += 1;
        let (first, second) = self.betas;
        let power = self.steps.min(i32::MAX as u64) as i32;
        // m̂ / (√v̂ + ε) with both corrections taken out of the loop
        let corrections = (1.0 - first.powi(power), 1.0 - second.powi(power));
        for (name, var) in variables {
            let Some(gradient) = gradients.get(var.as_tensor()) else { continue };
            let gradient = numbers(gradient)?;
            let decays = self.decay == Decay::Matrices && var.rank() > 1;
            let kept = if decays { 1.0 - rate * self.weight_decay } else { 1.0 };
            let moments = self.moments.entry(name.clone());
            let zeros = || (vec![0.0; gradient.len()], vec![0.0; gradient.len()]);
            let (m, v) = moments.or_insert_with(zeros);
            let mut values = numbers(&var.as_detached_tensor())?;
            let each = values.par_iter_mut().zip(&gradient).zip(m.par_iter_mut().zip(v));
            each.with_min_len(1 << 14).for_each(|((x, g), (m, v))| {
                let g = f64::from(*g) * scale;
                *m = (first * f64::from(*m) + (1.0 - first) * g) as f32;
                *v = (second * f64::from(*v) + (1.0 - second) * g * g) as f32;
                let root = (f64::from(*v) / corrections.1).sqrt() + self.epsilon;
                let step = rate * f64::from(*m) / corrections.0 / root;
                *x = (f64::from(*x) * kept - step) as f32;
            });
            var.set(
                &Tensor::from_vec(values, var.shape(), &Device::Cpu)?.to_device(var.device())?,
            )?;
        }
        Ok(())
    }

    /// The moments as tensors, `NAME.first` and `NAME.second` of each variable.
    ///
    /// # Errors
    /// None in practice: [`Error::Tensor`] is candle's.
    pub fn tensors(&self) -> Result<BTreeMap<String, Tensor>> {
        let mut all = BTreeMap::new();
        for (name, (first, second)) in &self.moments {
            for (end, values) in [("first", first), ("second", second)] {
                let tensor = Tensor::from_slice(values, values.len(), &Device::Cpu)?;
                all.insert(format!("{name}.{end}"), tensor);
            }
        }
        Ok(all)
    }

    /// Puts moments back that [`AdamW::tensors`] gave.
    ///
    /// # Errors
    /// [`Error::Array`] where one of a pair is missing or they differ in length.
    pub fn restore(&mut self, steps: u64, tensors: &BTreeMap<String, Tensor>) -> Result<()> {
        self.steps = steps;
        self.moments.clear();
        for (name, first) in tensors {
            let Some(name) = name.strip_suffix(".first") else { continue };
            let second = tensors.get(&format!("{name}.second"));
            let second = second.map(numbers).transpose()?.unwrap_or_default();
            let first = numbers(first)?;
            if first.len() != second.len() {
                return Err(Error::Array {
                    what: format!("second moment of {name}"),
                    want: format!("{} numbers", first.len()),
                    found: second.len().to_string(),
                });
            }
            self.moments.insert(name.to_owned(), (first, second));
        }
        Ok(())
    }
}

/// The length of all gradients together.
pub(super) fn norm(variables: &BTreeMap<String, Var>, gradients: &GradStore) -> Result<f64> {
    let mut sum = 0.0;
    for var in variables.values() {
        if let Some(gradient) = gradients.get(var.as_tensor()) {
            sum += numbers(gradient)?.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>();
        }
    }
    Ok(sum.sqrt())
}

fn numbers(tensor: &Tensor) -> Result<Vec<f32>> {
    Ok(tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?)
}
