//! The learning rate by step.

/// How the learning rate falls after the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// In a straight line to 0 at the last step.
    Linear,
    /// As half a cosine to 0 (Loshchilov and Hutter 2017).
    Cosine,
    /// Not at all.
    Constant,
}

/// A learning rate that rises in a straight line and then falls.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Schedule {
    /// The largest rate.
    pub rate: f64,
    /// Steps of the rise.
    pub warmup: u64,
    /// All steps.
    pub steps: u64,
    /// What comes after the rise.
    pub shape: Shape,
}

impl Schedule {
    /// The rate of a step, counted from 0; 0 from the last on, unless it is constant.
    pub fn at(&self, step: u64) -> f64 {
        if step < self.warmup {
            return self.rate * (step + 1) as f64 / self.warmup as f64;
        }
        let rest = self.steps.saturating_sub(self.warmup).max(1) as f64;
        let way = ((step - self.warmup) as f64 / rest).min(1.0);
        match self.shape {
            Shape::Linear => self.rate * (1.0 - way),
            Shape::Cosine => self.rate * 0.5 * (1.0 + (std::f64::consts::PI * way).cos()),
            Shape::Constant => self.rate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rises_and_falls() {
        let of = |shape| Schedule { rate: 2.0, warmup: 4, steps: 12, shape };
        let linear: Vec<f64> = (0..13).map(|step| of(Shape::Linear).at(step)).collect();
        let want = [0.5, 1.0, 1.5, 2.0, 2.0, 1.75, 1.5, 1.25, 1.0, 0.75, 0.5, 0.25, 0.0];
        assert_eq!(linear, want);
        assert!((of(Shape::Cosine).at(8) - 1.0).abs() < 1e-12);
        assert_eq!(of(Shape::Constant).at(100), 2.0);
        assert_eq!(Schedule { warmup: 0, steps: 0, ..of(Shape::Linear) }.at(0), 2.0);
    }
}
