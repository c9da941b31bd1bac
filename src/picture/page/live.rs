//! A page whose server runs the model anew: what it shows beside the weights, and what it asks with.

use serde::Serialize;

/// What a served page knows beside its weights. The page sends `text`, `pair`, `model`, `off`,
/// `masked` and `compare` as JSON to `run` beside its own address, and takes what
/// [`live_data`](super::live_data) gives for an answer, or `{"error": "one line"}`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Live {
    /// The models to choose from.
    pub models: Vec<LiveModel>,
    /// Which of them ran.
    pub model: usize,
    /// What was typed.
    pub text: String,
    /// The second text of a pair.
    pub pair: Option<String>,
    /// Every token as it was typed, before any was masked.
    pub tokens: Vec<LiveToken>,
    /// Positions of the masked ones.
    pub masked: Vec<usize>,
    /// Layer and head of those that are switched off.
    pub off: Vec<(usize, usize)>,
    /// The heads that the model has, by layer.
    pub heads: Vec<Vec<usize>>,
    /// The stack of those heads and tokens, where there are several.
    pub stack: Option<String>,
    /// Whether the unchanged run stands beside it, as the page's second side.
    pub compare: bool,
    /// What the model's own head makes of the text.
    pub answers: Vec<Answer>,
}

/// A model to choose.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LiveModel {
    /// As the user knows it.
    pub name: String,
    /// What a masked token becomes; none where it is hidden from attention instead.
    pub mask: Option<String>,
}

/// A token to click on.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LiveToken {
    /// As a person reads it.
    pub text: String,
    /// Whether it may be masked: special tokens stay.
    pub free: bool,
}

/// A distribution over words or classes, its likeliest ones.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Answer {
    /// What it is of: a token, the next one, or the text.
    pub of: String,
    /// Words or classes with their probabilities, likeliest first.
    pub list: Vec<(String, f64)>,
}
