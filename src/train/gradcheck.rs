//! Analytic derivatives against central differences.

use std::collections::BTreeMap;

use candle_core::backprop::GradStore;
use candle_core::{DType, Device, Tensor, Var};
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::RngCore;

use super::{Purpose, random};
use crate::error::Result;
use crate::model::{Model, Trainable};

/// One variable, checked along one direction.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Checked {
    /// The variable.
    pub name: String,
    /// The derivative by the gradient.
    pub analytic: f64,
    /// The derivative by differences, of three lengths that agree best.
    pub numeric: f64,
    /// By how much the differences of those steps differ, and what float32 may round off.
    pub uncertainty: f64,
}

impl Checked {
    /// How far the two are apart, beyond what the differences leave open, as a share of the
    /// larger; 0 where both are 0.
    pub fn error(&self) -> f64 {
        let size = self.analytic.abs().max(self.numeric.abs());
        let off = (self.analytic - self.numeric).abs() - 3.0 * self.uncertainty;
        if size == 0.0 { 0.0 } else { off.max(0.0) / size }
    }
}

/// Lengths of the steps, from where curvature decides to where rounding does.
const STEPS: [f64; 8] = [0.02, 0.01, 0.005, 0.002, 0.001, 0.0005, 0.0002, 0.0001];

/// What is checked, and along how many directions.
pub struct Check<'a> {
    /// Where random directions begin.
    pub seed: u64,
    /// Directions per variable: its own gradient, on which a difference is largest against rounding,
    /// and random halves of the entries of that.
    pub directions: u64,
    /// Whether a variable is checked, by its name.
    pub only: &'a dyn Fn(&str) -> bool,
    /// Told how many variables are done, and of how many.
    pub progress: &'a dyn Fn(usize, usize),
}

impl Default for Check<'_> {
    fn default() -> Self {
        Self { seed: 0, directions: 3, only: &|_| true, progress: &|_, _| () }
    }
}

impl Check<'_> {
    /// Checks the gradient of the sum of `loss` by every weight of a model. Weights that the loss does
    /// not depend on are left out.
    ///
    /// # Errors
    /// Those of `loss` and of [`Trainable::model`].
    pub fn weights(
        &self,
        trainable: &Trainable,
        loss: impl Fn(&Model) -> Result<Tensor>,
    ) -> Result<Vec<Checked>> {
        let store = loss(&trainable.model()?)?.sum_all()?.backward()?;
        let value = || sum(&loss(&trainable.frozen()?)?);
        self.all(trainable.variables(), &store, &value)
    }

    /// Checks the gradient of the sum of `loss` by variables of its own, such as gates.
    ///
    /// # Errors
    /// Those of `loss`.
    pub fn variables(
        &self,
        variables: &BTreeMap<String, Var>,
        loss: impl Fn() -> Result<Tensor>,
    ) -> Result<Vec<Checked>> {
        let store = loss()?.sum_all()?.backward()?;
        self.all(variables, &store, &|| sum(&loss()?))
    }

    fn all(
        &self,
        variables: &BTreeMap<String, Var>,
        store: &GradStore,
        value: &dyn Fn() -> Result<Sum>,
    ) -> Result<Vec<Checked>> {
        let chosen: Vec<_> = variables.iter().filter(|(name, _)| (self.only)(name)).collect();
        let mut found = Vec::new();
        for (at, (name, var)) in chosen.iter().enumerate() {
            if let Some(gradient) = store.get(var.as_tensor()) {
                for direction in 0..self.directions {
                    let stream = at as u64 * self.directions + direction;
                    let random =
                        (direction > 0).then(|| random(self.seed, stream, Purpose::Examples));
                    found.extend(check(name, var, gradient, random, value)?);
                }
            }
            (self.progress)(at + 1, chosen.len());
        }
        Ok(found)
    }
}

/// Along the gradient or, by random numbers, half of its entries; nothing where that is 0.
fn check(
    name: &str,
    var: &Var,
    gradient: &Tensor,
    mut random: Option<ChaCha12Rng>,
    value: &dyn Fn() -> Result<Sum>,
) -> Result<Option<Checked>> {
    let gradient: Vec<f64> = gradient.to_dtype(DType::F64)?.flatten_all()?.to_vec1()?;
    let before: Vec<f32> = var.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?;
    let put = |values: Vec<f32>| -> Result<()> {
        let values = Tensor::from_vec(values, var.shape(), &Device::Cpu)?;
        Ok(var.set(&values.to_device(var.device())?)?)
    };
    let mut taken = || random.as_mut().is_none_or(|random| random.next_u32() & 1 == 0);
    let part: Vec<f64> = gradient.iter().map(|&g| if taken() { g } else { 0.0 }).collect();
    let length = part.iter().map(|g| g * g).sum::<f64>().sqrt();
    if length == 0.0 {
        return Ok(None);
    }
    let slope = |step: f64| -> Result<(f64, f64)> {
        let at = |sign: f64| {
            let each = before.iter().zip(&part);
            put(each.map(|(&x, g)| (f64::from(x) + sign * step * g / length) as f32).collect())?;
            value()
        };
        let (over, under) = (at(1.0)?, at(-1.0)?);
        let rounding = over.rounding.max(under.rounding) / step;
        Ok(((over.value - under.value) / (2.0 * step), rounding))
    };
    let slopes = STEPS.into_iter().map(slope).collect::<Result<Vec<_>>>();
    put(before.clone())?; // also where a value was none
    let (numeric, uncertainty) = agreed(&slopes?);
    Ok(Some(Checked { name: name.into(), analytic: length, numeric, uncertainty }))
}

/// The slope on which three neighbouring steps agree best, and how far they are apart with what
/// rounding may do: two may agree by chance where curvature turns.
fn agreed(slopes: &[(f64, f64)]) -> (f64, f64) {
    let three = slopes.windows(3).map(|three| {
        let most = |f: fn(f64, f64) -> f64| three.iter().map(|one| one.0).reduce(f);
        let (low, high) = (most(f64::min).unwrap_or(0.0), most(f64::max).unwrap_or(0.0));
        let rounding = three.iter().map(|one| one.1).fold(0.0, f64::max);
        (three[1].0, high - low + rounding)
    });
    three.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default()
}

/// A sum in float64 of numbers in float32, and what the rounding of each makes of it.
struct Sum {
    value: f64,
    rounding: f64,
}

fn sum(terms: &Tensor) -> Result<Sum> {
    let terms: Vec<f64> = terms.to_dtype(DType::F64)?.flatten_all()?.to_vec1()?;
    let length = terms.iter().map(|x| x * x).sum::<f64>().sqrt();
    Ok(Sum { value: terms.iter().sum(), rounding: length * f64::from(f32::EPSILON) })
}
