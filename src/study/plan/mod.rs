//! What a study is to try: a TOML file, read and checked.

mod keys;
mod page;

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::cell::Way;
use crate::config::Task;
use crate::error::{Error, Result};
use keys::Keys;
use page::Page;

/// A plan to start from: every key with what it means. `attnviz study --init` writes it.
pub const EXAMPLE: &str = include_str!("../example.toml");

/// The losses of plain texts.
pub const LOSSES: [&str; 5] = ["masked-lm", "causal-lm", "seq2seq-lm", "embedding", "logits"];

/// A checked plan. Paths in it are relative to the folder that it is in.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The file that it is from, for messages.
    pub path: PathBuf,
    /// Folder, file or Hub id; the built-in checkpoint if not given.
    pub model: Option<String>,
    /// Branch, tag or commit of a Hub model.
    pub revision: Option<String>,
    /// Another tokenizer.
    pub tokenizer: Option<PathBuf>,
    /// Head on top, where the checkpoint does not say.
    pub task: Option<Task>,
    /// What must not get worse.
    pub data: Data,
    /// For pairs with scores, [`Metric::Spearman`] or [`Metric::Pearson`].
    pub metric: Option<Metric>,
    /// Whether a probe is fitted anew to what each set of heads leaves of the part for training;
    /// else it stays as it was fitted to the unpruned model.
    pub refit: bool,
    /// Ways to remove heads.
    pub strategies: Vec<Way>,
    /// Scores to remove them by, of [`Score::NAMES`](crate::prune::Score::NAMES).
    pub scores: Vec<String>,
    /// Shares of all heads to remove, rising.
    pub fractions: Vec<f64>,
    /// One run of every strategy with every score for each.
    pub seeds: Vec<u64>,
    /// Items of the part for training, of pairs single texts, that each seed draws to score on; all if
    /// not given.
    pub items: Option<usize>,
    /// Items of the part for validation that each seed draws for greedy choices; all if not given.
    pub greedy_items: Option<usize>,
    /// Masks drawn from all heads.
    pub random: usize,
    /// For each scored run, masks with as many heads of each layer.
    pub layer_matched: usize,
    /// Scorings of the iterative strategy; one for each fraction if not given.
    pub rounds: Option<usize>,
    /// Whether scores are divided by the ℓ2 norm of their layer's.
    pub by_layer: bool,
    /// Points of the integral of the score `integrated`.
    pub steps: usize,
    /// Projections of the score `jacobian`.
    pub probes: usize,
    /// Whether a layer may lose all its heads.
    pub allow_empty_layers: bool,
    /// Texts to run at once.
    pub batch_size: usize,
    /// Most tokens of a text; longer ones are cut. As many as the model takes if not given, and
    /// longer ones are refused.
    pub max_length: Option<usize>,
    /// Resamplings behind the intervals.
    pub resamplings: usize,
    /// Folder of the results.
    pub out: PathBuf,
}

/// What a study measures on.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// A labelled set: `sentiment`, `pairs` or a file.
    Labelled(String),
    /// Plain texts, a line each.
    Texts {
        /// The file.
        file: PathBuf,
        /// One of [`LOSSES`]; by the model's head if not given.
        loss: Option<String>,
        /// Share of the tokens that is masked for `masked-lm`.
        mask_share: f64,
    },
}

/// Correlations of pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Of ranks.
    Spearman,
    /// Of the numbers themselves.
    Pearson,
}

impl Metric {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Spearman => "spearman",
            Self::Pearson => "pearson",
        }
    }
}

impl Plan {
    /// Reads and checks a plan.
    ///
    /// # Errors
    /// [`Error::Io`] where it cannot be read; [`Error::Input`] with file, line and key for what it
    /// cannot say.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(Error::io(path, "read it"))?;
        let text = String::from_utf8(bytes)
            .map_err(|_| Error::input(path.display().to_string(), "expected UTF-8"))?;
        Self::parse(&text, path)
    }

    /// Checks a plan that was read from `path`.
    ///
    /// # Errors
    /// [`Error::Input`], as [`Plan::read`].
    pub fn parse(text: &str, path: &Path) -> Result<Self> {
        let page = Page { text, path };
        page.read::<Keys>()?.plan(&page)
    }

    /// What the numbers of a run depend on, beside model and data: results made with other settings
    /// are not of this plan.
    pub fn settings(&self) -> Map<String, Value> {
        let data = match &self.data {
            Data::Labelled(_) => json!({}),
            Data::Texts { loss, mask_share, .. } => {
                json!({ "loss": loss, "mask-share": mask_share })
            }
        };
        let all = json!({
            "fractions": self.fractions,
            "items": self.items,
            "greedy-items": self.greedy_items,
            "refit": self.refit,
            "texts": data,
            "rounds": self.rounds(),
            "by-layer": self.by_layer,
            "steps": self.steps,
            "probes": self.probes,
            "allow-empty-layers": self.allow_empty_layers,
            "batch-size": self.batch_size,
            "max-length": self.max_length,
            "task": self.task.map(|task| format!("{task:?}")),
        });
        all.as_object().cloned().unwrap_or_default()
    }

    /// Scorings of the iterative strategy.
    pub fn rounds(&self) -> usize {
        self.rounds.unwrap_or(self.fractions.len())
    }
}
