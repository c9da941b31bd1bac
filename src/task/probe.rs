//! A linear probe: what a text's embedding says of its class.

use candle_core::{Device, Tensor};
use ndarray::{Array1, Array2, Axis};

use crate::error::{Error, Result};

/// Multinomial logistic regression on embeddings of length 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    /// `[C,D]`
    pub weights: Array2<f64>,
    /// `[C]`
    pub bias: Array1<f64>,
    /// What the sum of the losses weighs against ½‖weights‖².
    pub strength: f64,
}

/// Strengths to choose from on the validation part.
pub const STRENGTHS: [f64; 5] = [0.01, 0.1, 1.0, 10.0, 100.0];

/// Steps of the fit; by then the loss changes in no digit that matters.
const STEPS: usize = 400;

impl Probe {
    /// Fits `strength` · Σ cross entropy + ½‖weights‖² (the bias is free) on rows `x` `[N,D]`, which
    /// are taken at length 1, with classes `y`, by accelerated gradient descent (Nesterov 1983).
    ///
    /// # Errors
    /// [`Error::Array`] where there are no rows, or not a class below `classes` for each.
    pub fn fit(x: &Array2<f64>, y: &[u32], classes: usize, strength: f64) -> Result<Self> {
        if x.nrows() == 0 || x.nrows() != y.len() || y.iter().any(|&y| y as usize >= classes) {
            return Err(Error::Array {
                what: "classes of a probe".into(),
                want: format!("one of {classes} for each of {} texts", x.nrows()),
                found: format!("{}", y.len()),
            });
        }
        let x = unit_rows(x);
        let (width, count) = (x.ncols(), x.nrows() as f64);
        // the curvature of the cross entropy of N rows of length 1 with a bias is at most N
        let step = 1.0 / (strength * count + 1.0);
        let mut now = Self {
            weights: Array2::zeros((classes, width)),
            bias: Array1::zeros(classes),
            strength,
        };
        let mut ahead = now.clone();
        for t in 0..STEPS {
            let mut error = ahead.probabilities(&x);
            for (i, &y) in y.iter().enumerate() {
                error[(i, y as usize)] -= 1.0;
            }
            let weights =
                &ahead.weights - &((error.t().dot(&x) * strength + &ahead.weights) * step);
            let bias = &ahead.bias - &(error.sum_axis(Axis(0)) * (strength * step));
            let momentum = t as f64 / (t as f64 + 3.0);
            ahead.weights = &weights + &((&weights - &now.weights) * momentum);
            ahead.bias = &bias + &((&bias - &now.bias) * momentum);
            (now.weights, now.bias) = (weights, bias);
        }
        Ok(now)
    }

    /// `[N,C]` of rows of length 1.
    fn probabilities(&self, x: &Array2<f64>) -> Array2<f64> {
        let mut scores = x.dot(&self.weights.t()) + &self.bias;
        for mut row in scores.rows_mut() {
            let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            row.mapv_inplace(|score| (score - most).exp());
            let sum = row.sum();
            row /= sum;
        }
        scores
    }

    /// Mean cross entropy over rows `[N,D]` of classes `y`.
    pub fn loss(&self, x: &Array2<f64>, y: &[u32]) -> f64 {
        let found = self.probabilities(&unit_rows(x));
        let of = |(i, &y): (usize, &u32)| found.get((i, y as usize)).map_or(0.0, |p| -p.ln());
        y.iter().enumerate().map(of).sum::<f64>() / y.len().max(1) as f64
    }

    /// The likeliest class of each row `[N,D]`.
    pub fn classes(&self, x: &Array2<f64>) -> Vec<u32> {
        let best = |row: ndarray::ArrayView1<'_, f64>| {
            let places = row.iter().enumerate();
            places.max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(place, _)| place as u32)
        };
        self.probabilities(&unit_rows(x)).rows().into_iter().map(best).collect()
    }

    /// Scores before the soft-max of embeddings `[B,D]` of length 1: `[B,C]`, with their gradient.
    pub(super) fn scores(&self, unit: &Tensor) -> Result<Tensor> {
        let (classes, width) = self.weights.dim();
        let weights = self.weights.t().iter().map(|&w| w as f32).collect();
        let weights = Tensor::from_vec::<_, f32>(weights, (width, classes), &Device::Cpu)?;
        let bias = self.bias.iter().map(|&b| b as f32).collect();
        let bias = Tensor::from_vec::<_, f32>(bias, (1, classes), &Device::Cpu)?;
        let device = unit.device();
        Ok(unit.matmul(&weights.to_device(device)?)?.broadcast_add(&bias.to_device(device)?)?)
    }
}

fn unit_rows(x: &Array2<f64>) -> Array2<f64> {
    let mut x = x.clone();
    for mut row in x.rows_mut() {
        let length = row.dot(&row).sqrt();
        if length > 0.0 {
            row /= length;
        }
    }
    x
}

/// How well classes are told.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Told {
    /// Share that is right.
    pub accuracy: f64,
    /// F1 of each class, averaged.
    pub f1: f64,
    /// Matthews correlation of several classes (Gorodkin 2004).
    pub matthews: f64,
}

/// Compares classes that were told with those that are.
pub fn told(found: &[u32], want: &[u32], classes: usize) -> Told {
    let mut table = Array2::<f64>::zeros((classes, classes)); // [is, told]
    for (&found, &want) in found.iter().zip(want) {
        if let Some(cell) = table.get_mut((want as usize, found as usize)) {
            *cell += 1.0;
        }
    }
    let (all, right) = (table.sum().max(1.0), table.diag().sum());
    let (are, said) = (table.sum_axis(Axis(1)), table.sum_axis(Axis(0)));
    let f1 = |class: usize| {
        let sum = are[class] + said[class];
        if sum > 0.0 { 2.0 * table[(class, class)] / sum } else { 0.0 }
    };
    let spread = (all * all - said.dot(&said)) * (all * all - are.dot(&are));
    let along = right * all - said.dot(&are);
    Told {
        accuracy: right / all,
        f1: (0..classes).map(f1).sum::<f64>() / classes.max(1) as f64,
        matthews: if spread > 0.0 { along / spread.sqrt() } else { 0.0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn a_probe_stands_where_its_gradient_is_0() {
        let x = array![[1.0, 0.2], [0.9, -0.3], [0.1, 1.0], [-0.2, 0.8], [-1.0, 0.1], [-0.7, -0.7]];
        let y = [0, 0, 1, 1, 2, 2];
        let probe = Probe::fit(&x, &y, 3, 10.0).expect("fits");
        assert_eq!(probe.classes(&x), y);
        let rows = unit_rows(&x);
        let mut error = probe.probabilities(&rows);
        y.iter().enumerate().for_each(|(i, &y)| error[(i, y as usize)] -= 1.0);
        let gradient = error.t().dot(&rows) * 10.0 + &probe.weights;
        assert!(gradient.iter().all(|g| g.abs() < 1e-3), "{gradient}");
        assert!(error.sum_axis(Axis(0)).iter().all(|g| g.abs() < 1e-4));
        assert!(
            Probe::fit(&x, &[0; 5], 3, 1.0).is_err() && Probe::fit(&x, &[3; 6], 3, 1.0).is_err()
        );
    }

    #[test]
    fn classes_are_told() {
        // of (is, told): 3 × (0, 0), 1 × (0, 1), 2 × (1, 1)
        let found = told(&[0, 0, 0, 1, 1, 1], &[0, 0, 0, 0, 1, 1], 2);
        assert!((found.accuracy - 5.0 / 6.0).abs() < 1e-12);
        assert!((found.f1 - (6.0 / 7.0 + 4.0 / 5.0) / 2.0).abs() < 1e-12);
        assert!((found.matthews - 6.0 / (4.0f64 * 2.0 * 3.0 * 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(told(&[1, 1], &[1, 1], 2).matthews, 0.0);
    }
}
