//! Which model.

use std::path::PathBuf;

use attnviz::Task;
use clap::Args;
use clap::builder::PossibleValuesParser;

#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Model")]
pub struct ModelArgs {
    /// Folder, .safetensors, .bin or .gguf file, Hub id, `built-in` (the default), or `built-in:kjv`,
    /// which writes
    #[arg(short, long)]
    pub model: Option<String>,
    #[command(flatten)]
    pub files: FilesArgs,
    /// Head on top, where the checkpoint does not say
    #[arg(long, value_name = "TASK")]
    #[arg(value_parser = PossibleValuesParser::new(Task::NAMES.map(|(name, _)| name)))]
    pub task: Option<String>,
}

/// Which of a model's files, and whose.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Model")]
pub struct FilesArgs {
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
}
