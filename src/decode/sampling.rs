//! How a token is chosen from its logits: [`Sampling`].

use crate::error::{Error, Result};

/// What is done to a row of logits before a token is drawn from it, in this order: repetition
/// penalty, n-grams not to repeat, forbidden sequences, temperature, top-k, top-p, min-p.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// Divides the logits before the soft-max: below 1 the likely gets likelier, above 1 the
    /// distribution flattens. 0 always takes the likeliest token and draws nothing.
    pub temperature: f64,
    /// Keep so many of the likeliest tokens, and all that are as likely as the last of them.
    pub top_k: Option<usize>,
    /// Keep the fewest likeliest tokens whose probabilities add up to this, 0 to 1; one at least.
    /// Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration".
    pub top_p: Option<f64>,
    /// Keep the tokens at least this times as probable as the likeliest one, 0 to 1. Nguyen et al.
    /// 2024, "Turning Up the Heat: Min-p Sampling for Creative and Coherent LLM Outputs".
    pub min_p: Option<f64>,
    /// Positive logits of tokens that are there already are divided by this, negative ones
    /// multiplied; 1 leaves them. Keskar et al. 2019, "CTRL", section 4.1.
    pub repetition_penalty: f64,
    /// No sequence of so many tokens occurs twice; 0 allows all.
    pub no_repeat_ngram: usize,
    /// Sequences of tokens that are never completed; of one token: tokens that are never taken.
    pub forbidden: Vec<Vec<u32>>,
}

impl Default for Sampling {
    /// Draws from the model's own distribution.
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: None,
            top_p: None,
            min_p: None,
            repetition_penalty: 1.0,
            no_repeat_ngram: 0,
            forbidden: Vec::new(),
        }
    }
}

impl Sampling {
    /// Always the likeliest token.
    pub fn greedy() -> Self {
        Self { temperature: 0.0, ..Self::default() }
    }

    /// Checks every number.
    ///
    /// # Errors
    /// [`Error::Usage`] for the first that is out of range, under the name of its flag.
    pub fn check(&self) -> Result<()> {
        let finite = |flag: &str, value: f64, fits: bool, want: &str| match fits {
            true if value.is_finite() => Ok(()),
            _ => Err(usage(flag, want, value)),
        };
        let share = |flag: &str, value: Option<f64>| {
            let value = value.unwrap_or(1.0);
            finite(flag, value, (0.0..=1.0).contains(&value), "a number from 0 to 1")
        };
        let heat = self.temperature;
        finite("--temperature", heat, heat >= 0.0, "0 (the likeliest token) or a number above")?;
        if self.top_k == Some(0) {
            return Err(usage("--top-k", "a number of tokens, 1 or more", 0));
        }
        share("--top-p", self.top_p)?;
        share("--min-p", self.min_p)?;
        let penalty = self.repetition_penalty;
        finite("--repetition-penalty", penalty, penalty > 0.0, "a number above 0")
    }
}

fn usage(flag: &str, want: &str, found: impl ToString) -> Error {
    Error::Usage { flag: flag.into(), want: want.into(), found: found.to_string() }
}
