//! `attnviz inspect` and `attnviz convert`.

use std::path::PathBuf;

use attnviz::export::FloatType;
use clap::Args;
use clap::builder::PossibleValuesParser;

use super::{FilesArgs, ModelArgs, TalkArgs};

#[derive(Debug, Args)]
pub struct InspectArgs {
    /// Folder, .safetensors, .bin or .gguf file, Hub id, or `built-in` (the default)
    #[arg(value_name = "MODEL", conflicts_with = "model")]
    pub target: Option<String>,
    /// Also count the floating-point operations of a pass over N tokens
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "128")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub flops: Option<u32>,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub talk: TalkArgs,
}

#[derive(Debug, Args)]
pub struct ConvertArgs {
    /// Folder, .safetensors, .bin or .gguf file, Hub id, or `built-in`
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
    #[command(flatten)]
    pub files: FilesArgs,
    #[command(flatten)]
    pub talk: TalkArgs,
}
