//! Every command with its flags, in groups that the commands share.

mod checkpoint;
mod fill;
mod finetune;
mod generate;
mod gradcheck;
mod html;
mod input;
mod model;
mod patch;
mod picture;
mod prune;
mod run;
mod sampling;
#[cfg(feature = "serve")]
mod serve;
mod study;
mod train;
mod view;

use std::sync::OnceLock;

use clap::{Parser, Subcommand};

pub use checkpoint::{ConvertArgs, InspectArgs};
pub use fill::FillArgs;
pub use finetune::FinetuneArgs;
pub use generate::GenerateArgs;
pub use gradcheck::GradcheckArgs;
pub use html::HtmlArgs;
pub use input::{ArrayArgs, InputArgs, ManyArgs};
pub use model::{FilesArgs, ModelArgs};
pub use patch::PatchArgs;
pub use picture::{ChoiceArgs, DrawnArgs, Given, PictureArgs};
pub use prune::{AblateArgs, ImportanceArgs, PruneArgs, ScoringArgs, TextsArgs};
pub use run::{RunArgs, TalkArgs};
pub use sampling::SamplingArgs;
#[cfg(feature = "serve")]
pub use serve::ServeArgs;
pub use study::StudyArgs;
pub use train::TrainArgs;
pub use view::{ExportArgs, ViewArgs};

const EXAMPLES: &str = "\
Examples:
  attnviz \"The animal didn't cross the street because it was too tired\"
  attnviz --words --heads L3H1,L5H11 \"The cat sat on the mat because it was warm\"
  attnviz --pair \"A man is eating.\" \"Someone eats.\" --format png,svg
  attnviz --model bert-base-uncased --layers 0-3,-1 --out pictures \"Some text\"
  attnviz --file texts.txt --batch-size 16
  attnviz --model Helsinki-NLP/opus-mt-en-de \"The cat sat\" --target \"Die Katze saß\"
  attnviz --attention weights.npz --tokens tokens.json
  attnviz fill --model bert-base-uncased \"The [MASK] sat on the [MASK].\"
  attnviz html --pair \"A man is eating.\" \"Someone eats.\" --neuron 3
  attnviz importance --file texts.txt --score jacobian,confidence
  attnviz patch \"A man is eating food\" \"A man is eating glass\" --png
  attnviz prune ./smaller --fraction 0.3 --file texts.txt
  attnviz study --init study.toml
  attnviz export \"Some text\" --out stages.safetensors
  attnviz inspect ./my-model
  attnviz convert bert-base-chinese ./bert-base-chinese --dtype f16

A first argument that is not a command is the text, as in `attnviz view TEXT`.
Exit codes: 0 fine, 1 failed while running, 2 wrong usage, 3 model not found
or offline, 4 unusable checkpoint, 5 unusable input.";

/// See the attention heads of a pretrained transformer
#[derive(Debug, Parser)]
#[command(name = "attnviz", after_help = EXAMPLES, arg_required_else_help = true)]
#[command(override_usage = "attnviz [OPTIONS] TEXT\n       attnviz COMMAND [OPTIONS]")]
pub struct Attnviz {
    #[command(subcommand)]
    pub command: Command,
}

/// Draw a heatmap for each attention head, and all of them in a grid
#[derive(Debug, Parser)]
#[command(name = "viz", arg_required_else_help = true)]
pub struct Viz {
    #[command(flatten)]
    pub view: ViewArgs,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Draw a heatmap for each attention head, and all of them in a grid
    #[command(arg_required_else_help = true)]
    View(Box<ViewArgs>),
    /// Fill the masks of a text with the words that a masked language model expects
    #[command(arg_required_else_help = true, after_help = fill::NOTES)]
    Fill(Box<FillArgs>),
    /// Go on from a prompt, token by token, and see what each token attended to
    #[command(arg_required_else_help = true, after_help = generate::NOTES)]
    Generate(Box<GenerateArgs>),
    /// Write one offline page to look at the heads in: lines, heatmaps, neurons, flow
    #[command(arg_required_else_help = true)]
    Html(Box<HtmlArgs>),
    /// Score the heads: how much each matters, by gradients or by what it does
    #[command(arg_required_else_help = true, after_help = prune::SCORE_NOTES)]
    Importance(Box<ImportanceArgs>),
    /// Switch heads off, one after another, and see what the model loses
    #[command(arg_required_else_help = true)]
    Ablate(Box<AblateArgs>),
    /// Put activations of one text's run into another's, and see what carries the answer over
    #[command(arg_required_else_help = true, after_help = patch::NOTES)]
    Patch(Box<PatchArgs>),
    /// Cut heads out of the weights and write a smaller checkpoint
    #[command(arg_required_else_help = true, after_help = prune::PRUNE_NOTES)]
    Prune(Box<PruneArgs>),
    /// Train a checkpoint further, with gates that close on heads where asked for
    #[command(arg_required_else_help = true, after_help = finetune::NOTES)]
    Finetune(Box<FinetuneArgs>),
    /// Hold the derivatives behind scores and training against differences
    #[command(arg_required_else_help = true, after_help = gradcheck::NOTES)]
    Gradcheck(Box<GradcheckArgs>),
    /// Train a small model from nothing but a text: causal, to go on from it, or masked
    #[command(arg_required_else_help = true, after_help = train::NOTES)]
    Train(Box<TrainArgs>),
    /// Try strategies and scores of pruning against random masks: one table, one picture
    #[command(arg_required_else_help = true, after_help = study::NOTES)]
    Study(Box<StudyArgs>),
    /// Write the stages of a run as safetensors, npz or JSON, named as in transformers
    #[command(arg_required_else_help = true)]
    Export(Box<ExportArgs>),
    /// Open the page on this machine with a box to type into
    #[cfg(feature = "serve")]
    #[command(after_help = serve::NOTES)]
    Serve(Box<ServeArgs>),
    /// Say what a checkpoint is: family, sizes, number format, tensor names, tokenizer
    Inspect(InspectArgs),
    /// Write a checkpoint as a clean safetensors folder, optionally in another number format
    #[command(arg_required_else_help = true)]
    Convert(ConvertArgs),
    /// Print a completion script
    Completions {
        /// Shell to complete in
        shell: clap_complete::Shell,
    },
}

impl Command {
    /// How much to say.
    pub fn talk(&self) -> TalkArgs {
        match self {
            Self::View(args) => args.talk,
            Self::Fill(args) => args.talk,
            Self::Generate(args) => args.talk,
            Self::Html(args) => args.talk,
            Self::Importance(args) => args.talk,
            Self::Ablate(args) => args.talk,
            Self::Patch(args) => args.talk,
            Self::Prune(args) => args.talk,
            Self::Finetune(args) => args.talk,
            Self::Gradcheck(args) => args.talk,
            Self::Train(args) => args.talk,
            Self::Study(args) => args.talk,
            Self::Export(args) => args.talk,
            #[cfg(feature = "serve")]
            Self::Serve(args) => args.talk,
            Self::Inspect(args) => args.talk,
            Self::Convert(args) => args.talk,
            Self::Completions { .. } => TalkArgs::default(),
        }
    }
}

/// The version with what was built in.
pub fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    let features = [
        ("embedded", cfg!(feature = "embedded")),
        ("hub", cfg!(feature = "hub")),
        ("parquet", cfg!(feature = "parquet")),
        ("serve", cfg!(feature = "serve")),
        ("cuda", cfg!(feature = "cuda")),
        ("metal", cfg!(feature = "metal")),
    ];
    VERSION.get_or_init(|| {
        let on: Vec<&str> = features.iter().filter(|(_, on)| *on).map(|(name, _)| *name).collect();
        let on = if on.is_empty() { "none".into() } else { on.join(", ") };
        format!("{} (features: {on})", env!("CARGO_PKG_VERSION"))
    })
}
