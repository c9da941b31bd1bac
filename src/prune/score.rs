//! The measures by which a head is scored, and their names.

use crate::train::Penalty;

/// What scores are made with, each as far as it needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scoring {
    /// Points of the rule of [`Score::Integrated`].
    pub points: usize,
    /// Projections of [`Score::Jacobian`].
    pub probes: usize,
    /// Steps in which the gates of [`Score::Learned`] are trained.
    pub gate_steps: usize,
    /// Where random numbers begin.
    pub seed: u64,
}

impl Default for Scoring {
    fn default() -> Self {
        Self { points: 10, probes: 8, gate_steps: 200, seed: 0 }
    }
}

/// How a head is scored. B examples; g is a gate, L a loss per example, f the mean embedding of the
/// last layer with length 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Score {
    /// E|∂L/∂g| (Michel et al. 2019): the absolute value of each example before the mean.
    Gradient,
    /// E(∂L/∂g)²: the empirical Fisher information of the gate.
    Fisher,
    /// E|∫₀¹ ∂L/∂g dg| with all gates of one layer going from 0 to 1 together, the others at 1; by
    /// the midpoint rule. The integrals of a layer's heads sum up to what the layer's attention
    /// changes of the loss.
    Integrated {
        /// Points of the rule; a pass forward and back for each and each layer.
        steps: usize,
    },
    /// E‖∂f/∂g‖², which needs no labels: by projections on random signs, whose squares have this
    /// mean (Hutchinson 1990).
    Jacobian {
        /// Projections; a pass back for each.
        probes: usize,
        /// Where the random signs begin.
        seed: u64,
    },
    /// The mean over tokens of the largest attention weight, special tokens left out on both sides
    /// (Voita et al. 2019). No labels.
    Confidence,
    /// The mean over real tokens of the length of the head's contribution to the residual stream. No
    /// labels.
    OutputNorm,
    /// The gate that training leaves a head, the weights held: against the loss stands the number of
    /// gates that are open, each a hard-concrete one (Louizos et al. 2018; Voita et al. 2019), or the
    /// sum of their sizes.
    Learned {
        /// Which of the two.
        penalty: Penalty,
        /// Steps, each of one sample.
        steps: usize,
        /// Where the noise of the gates begins.
        seed: u64,
    },
}

impl Score {
    /// The names of all scores, as [`Score::named`] takes them.
    pub const NAMES: [&'static str; 8] =
        ["gradient", "fisher", "integrated", "jacobian", "confidence", "output-norm", "l0", "l1"];

    /// The score of a name; `None` for a name that is none.
    pub fn named(name: &str, with: Scoring) -> Option<Self> {
        let Scoring { points, probes, gate_steps: steps, seed } = with;
        Some(match name {
            "gradient" => Self::Gradient,
            "fisher" => Self::Fisher,
            "integrated" => Self::Integrated { steps: points },
            "jacobian" => Self::Jacobian { probes, seed },
            "confidence" => Self::Confidence,
            "output-norm" => Self::OutputNorm,
            "l0" => Self::Learned { penalty: Penalty::L0, steps, seed },
            "l1" => Self::Learned { penalty: Penalty::L1, steps, seed },
            _ => return None,
        })
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gradient => "gradient",
            Self::Fisher => "fisher",
            Self::Integrated { .. } => "integrated",
            Self::Jacobian { .. } => "jacobian",
            Self::Confidence => "confidence",
            Self::OutputNorm => "output-norm",
            Self::Learned { penalty: Penalty::L0, .. } => "l0",
            Self::Learned { penalty: Penalty::L1, .. } => "l1",
        }
    }

    /// Whether it differentiates a loss.
    pub fn needs_loss(self) -> bool {
        use Score::{Fisher, Gradient, Integrated, Learned};
        matches!(self, Gradient | Fisher | Integrated { .. } | Learned { .. })
    }

    /// Whether it is of a loss's slope where every gate is 1.
    pub(crate) fn is_slope(self) -> bool {
        matches!(self, Self::Gradient | Self::Fisher)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_that_of_its_score() {
        for name in Score::NAMES {
            let score = Score::named(name, Scoring::default());
            assert_eq!(score.map(Score::name), Some(name));
        }
        assert_eq!(Score::named("random", Scoring::default()), None);
    }
}
