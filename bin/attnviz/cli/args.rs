//! Every flag, in groups that the subcommands share.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::OnceLock;

use attnviz::export::FloatType;
use attnviz::picture::{Colormap, Format, Scale, Style};
use attnviz::tokens::Spans;
use attnviz::{HeadChoice, Indices, Task};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};

use super::pictures::Picture;

const EXAMPLES: &str = "\
Examples:
  attnviz \"The animal didn't cross the street because it was too tired\"
  attnviz --words --heads L3H1,L5H11 \"The cat sat on the mat because it was warm\"
  attnviz --pair \"A man is eating.\" \"Someone eats.\" --format png,svg
  attnviz --model bert-base-uncased --layers 0-3,-1 --out pictures \"Some text\"
  attnviz --file texts.txt --batch-size 16
  attnviz --attention weights.npz --tokens tokens.json
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
    /// Write the stages of a run as safetensors, npz or JSON, named as in transformers
    #[command(arg_required_else_help = true)]
    Export(Box<ExportArgs>),
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
            Self::Export(args) => args.talk,
            Self::Inspect(args) => args.talk,
            Self::Convert(args) => args.talk,
            Self::Completions { .. } => TalkArgs::default(),
        }
    }
}

#[derive(Debug, Args)]
pub struct ViewArgs {
    #[command(flatten)]
    pub input: InputArgs,
    #[command(flatten)]
    pub many: ManyArgs,
    #[command(flatten)]
    pub arrays: ArrayArgs,
    #[command(flatten)]
    pub choice: ChoiceArgs,
    #[command(flatten)]
    pub picture: PictureArgs,
    /// Folder that gets a folder per text
    #[arg(short, long, value_name = "DIR", default_value = "notebooks-out")]
    pub out: PathBuf,
    /// Write into a folder that attnviz did not make
    #[arg(long)]
    pub force: bool,
    /// How many links to list
    #[arg(long, value_name = "N", default_value = "10")]
    pub top: NonZeroUsize,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub talk: TalkArgs,
}

#[derive(Debug, Args)]
pub struct ExportArgs {
    #[command(flatten)]
    pub input: InputArgs,
    /// Token ids from a .safetensors or .npz file: input_ids and, if there, attention_mask and
    /// token_type_ids, all [B,T]; padding is kept
    #[arg(long, value_name = "FILE", conflicts_with_all = ["text", "pair", "spans"])]
    pub inputs: Option<PathBuf>,
    /// File to write, by its ending: .safetensors, .npz or .json
    #[arg(short, long, value_name = "FILE")]
    pub out: PathBuf,
    /// Overwrite the file
    #[arg(long)]
    pub force: bool,
    /// Further stages, by layer: query,key,value,scores,context,head_output
    #[arg(long, value_name = "STAGES", value_delimiter = ',')]
    #[arg(value_parser = PossibleValuesParser::new(super::export::FURTHER.map(|(name, _)| name)))]
    pub include: Vec<String>,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub talk: TalkArgs,
}

#[derive(Debug, Args)]
pub struct InspectArgs {
    /// Folder, .safetensors or .bin file, Hub id, or `built-in` (the default)
    #[arg(value_name = "MODEL", conflicts_with = "model")]
    pub target: Option<String>,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub talk: TalkArgs,
}

#[derive(Debug, Args)]
pub struct ConvertArgs {
    /// Folder, .safetensors or .bin file, Hub id, or `built-in`
    #[arg(value_name = "MODEL")]
    pub source: String,
    /// Folder to write
    #[arg(value_name = "OUT")]
    pub out: PathBuf,
    /// Number format of the floating-point tensors; as they are if not given
    #[arg(long, value_name = "DTYPE")]
    #[arg(value_parser = PossibleValuesParser::new(FloatType::NAMES.map(|(name, _)| name)))]
    pub dtype: Option<String>,
    /// Write into a folder that holds files, replacing those of the same names
    #[arg(long)]
    pub force: bool,
    /// Another tokenizer: folder, tokenizer.json or vocab.txt
    #[arg(long, value_name = "PATH", help_heading = "Model")]
    pub tokenizer: Option<PathBuf>,
    /// Another config.json
    #[arg(long, value_name = "PATH", help_heading = "Model")]
    pub config: Option<PathBuf>,
    /// Where in the model's folder its files are
    #[arg(long, value_name = "NAME", help_heading = "Model")]
    pub subfolder: Option<String>,
    /// Branch, tag or commit of a Hub model
    #[arg(long, value_name = "NAME", help_heading = "Model")]
    pub revision: Option<String>,
    /// Hub access token, before HF_TOKEN
    #[arg(long, help_heading = "Model")]
    pub token: Option<String>,
    #[command(flatten)]
    pub talk: TalkArgs,
}

#[derive(Debug, Args)]
pub struct InputArgs {
    /// The text, as one argument
    #[arg(value_name = "TEXT")]
    pub text: Option<String>,
    /// Words that someone forgot to quote
    #[arg(hide = true)]
    pub loose: Vec<String>,
    /// Two texts, read as one pair
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with = "text")]
    pub pair: Option<Vec<String>>,
    /// Words as spans of characters, in place of the text's own: [[0,2],[2,5]]; for a pair a list
    /// of such lists
    #[arg(long, value_name = "JSON")]
    pub spans: Option<Spans>,
}

#[derive(Debug, Args)]
pub struct ManyArgs {
    /// One text per line; .jsonl for lines with text, text_b, words or tokens; - for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["text", "pair", "spans"])]
    pub file: Option<PathBuf>,
    /// Texts of a file to run at once
    #[arg(long, value_name = "N", default_value = "8")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub batch_size: u16,
}

#[derive(Debug, Args)]
pub struct ArrayArgs {
    /// Draw these arrays instead of running a model: [L,H,Q,K] or one [H,Q,K] per layer, from
    /// .npz, .npy or .safetensors
    #[arg(long, value_name = "FILE", conflicts_with_all = ["text", "pair", "file", "spans"])]
    pub attention: Option<PathBuf>,
    /// JSON list of the tokens of --attention
    #[arg(long, value_name = "FILE", requires = "attention")]
    pub tokens: Option<PathBuf>,
}

/// A value with the text that gave it.
#[derive(Debug, Clone)]
pub struct Given<T> {
    pub text: String,
    pub value: T,
}

impl<T: FromStr> FromStr for Given<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        Ok(Self { text: text.into(), value: text.parse()? })
    }
}

#[derive(Debug, Args)]
pub struct ChoiceArgs {
    /// Layers to show: 0-3,-1 (from 0; negative from the end)
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub layers: Option<Given<Indices>>,
    /// Heads to show: 0,7-9 of each layer, or L3H1,L5H11, or 3:1;5:0,11
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub heads: Option<Given<HeadChoice>>,
    /// Words instead of pieces: sum over pieces attended to, mean over pieces attending
    #[arg(long)]
    pub words: bool,
    /// Leave [CLS], [SEP] and the like out and let rows sum to 1 again
    #[arg(long)]
    pub no_special: bool,
}

#[derive(Debug, Args)]
pub struct PictureArgs {
    /// Palette
    #[arg(long, value_name = "NAME", default_value = Style::default().cmap.name())]
    #[arg(value_parser = PossibleValuesParser::new(Colormap::ALL.map(Colormap::name))
        .try_map(|name| name.parse::<Colormap>()))]
    pub cmap: Colormap,
    /// Range of the palette: head, layer, global, or fixed as in 0:1
    #[arg(long, value_name = "SCALE", default_value = "head", allow_hyphen_values = true)]
    pub scale: Given<Scale>,
    /// Write the numbers into the cells
    #[arg(long)]
    pub annotate: bool,
    /// Light on dark
    #[arg(long)]
    pub dark: bool,
    /// Resolution
    #[arg(long, value_name = "N", default_value_t = Style::default().dpi)]
    #[arg(value_parser = clap::value_parser!(u32)
        .range(i64::from(Style::DPI.0)..=i64::from(Style::DPI.1)))]
    pub dpi: u32,
    /// File formats: png, svg, or both as png,svg
    #[arg(long, value_name = "LIST", default_value = "png", value_delimiter = ',')]
    pub format: Vec<Format>,
    /// Draw only these: heads, means, grid
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub only: Vec<Picture>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub struct ModelArgs {
    /// Folder, .safetensors or .bin file, Hub id, or `built-in` (the default)
    #[arg(short, long)]
    pub model: Option<String>,
    /// Another tokenizer: folder, tokenizer.json, vocab.txt, vocab.json or SentencePiece model
    #[arg(long, value_name = "PATH")]
    pub tokenizer: Option<PathBuf>,
    /// Another config.json
    #[arg(long, value_name = "PATH")]
    pub config: Option<PathBuf>,
    /// Where in the model's folder its files are
    #[arg(long, value_name = "NAME")]
    pub subfolder: Option<String>,
    /// Branch, tag or commit of a Hub model
    #[arg(long, value_name = "NAME")]
    pub revision: Option<String>,
    /// Hub access token, before HF_TOKEN
    #[arg(long)]
    pub token: Option<String>,
    /// Head on top, where the checkpoint does not say
    #[arg(long, value_name = "TASK")]
    #[arg(value_parser = PossibleValuesParser::new(Task::NAMES.map(|(name, _)| name)))]
    pub task: Option<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Running")]
pub struct RunArgs {
    /// Cut a text that is too long instead of refusing it; the final [SEP] stays
    #[arg(long)]
    pub truncate: bool,
    /// Most tokens of a text, if fewer than the model takes
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(2..))]
    pub max_length: Option<u32>,
    /// Threads, at most one per core; all cores if not given
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
    /// Where to compute: cpu, cuda, cuda:N or metal, as far as built in
    #[arg(long, default_value = "cpu")]
    pub device: String,
}

#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "Talking")]
pub struct TalkArgs {
    /// Say only where the results are
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say more
    #[arg(short, long)]
    pub verbose: bool,
    /// Results as JSON
    #[arg(long)]
    pub json: bool,
}

/// The version with what was built in.
pub fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    let features = [
        ("embedded", cfg!(feature = "embedded")),
        ("hub", cfg!(feature = "hub")),
        ("cuda", cfg!(feature = "cuda")),
        ("metal", cfg!(feature = "metal")),
    ];
    VERSION.get_or_init(|| {
        let on: Vec<&str> = features.iter().filter(|(_, on)| *on).map(|(name, _)| *name).collect();
        let on = if on.is_empty() { "none".into() } else { on.join(", ") };
        format!("{} (features: {on})", env!("CARGO_PKG_VERSION"))
    })
}
