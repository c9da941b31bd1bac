//! `attnviz html`.

use std::path::PathBuf;

use attnviz::Indices;
use attnviz::picture::page::View;
use clap::{Args, ValueEnum};

use super::{ArrayArgs, ChoiceArgs, Given, InputArgs, ManyArgs, ModelArgs, RunArgs, TalkArgs};

#[derive(Debug, Args)]
pub struct HtmlArgs {
    #[command(flatten)]
    pub input: InputArgs,
    /// What the decoder of an encoder-decoder reads, behind its start token; without it the
    /// encoder alone is shown
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["file", "attention"])]
    pub target: Option<String>,
    #[command(flatten)]
    pub many: ManyArgs,
    #[command(flatten)]
    pub arrays: ArrayArgs,
    #[command(flatten)]
    pub choice: ChoiceArgs,
    /// Layers whose queries and keys go into the page, for the neuron view
    #[arg(long, value_name = "LAYERS", allow_hyphen_values = true, conflicts_with = "attention")]
    pub neuron: Option<Given<Indices>>,
    /// Weights in 16 bits in place of 8
    #[arg(long)]
    pub exact: bool,
    /// Share of a token's own residual in attention rollout
    #[arg(long, value_name = "SHARE", default_value_t = attnviz::analysis::RESIDUAL)]
    pub residual: f64,
    /// View that the page opens with
    #[arg(long, value_name = "VIEW", default_value = "head")]
    pub view: ViewName,
    /// Another text beside the first, and their difference
    #[arg(long, value_name = "TEXT")]
    #[arg(conflicts_with_all = ["file", "attention", "compare_model", "compare_layers"])]
    pub compare: Option<String>,
    /// The same text under another model
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["file", "attention", "compare_layers"])]
    pub compare_model: Option<String>,
    /// Two layers side by side, such as 3,5
    #[arg(long, value_name = "A,B", allow_hyphen_values = true)]
    pub compare_layers: Option<Given<Indices>>,
    /// File to write, called .html, or a folder for pages named after their texts
    #[arg(short, long, value_name = "PATH", default_value = "notebooks-out")]
    pub out: PathBuf,
    /// Overwrite a file that is there
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub talk: TalkArgs,
}

/// The views by the names of their tabs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ViewName {
    Head,
    Model,
    Neuron,
    Matrix,
    Flow,
}

impl From<ViewName> for View {
    fn from(name: ViewName) -> Self {
        match name {
            ViewName::Head => Self::Head,
            ViewName::Model => Self::Model,
            ViewName::Neuron => Self::Neuron,
            ViewName::Matrix => Self::Matrix,
            ViewName::Flow => Self::Flow,
        }
    }
}
