//! Model argument → local files: built in, a folder, a file, or a Hub id.
//!
//! Everything that opens a socket is in this module, behind the feature `hub`.

mod builtin;
#[cfg(feature = "hub")]
mod cache;
#[cfg(feature = "hub")]
mod client;
mod env;
mod gguf;
mod local;
#[cfg(feature = "hub")]
mod remote;
#[cfg(feature = "hub")]
mod transfer;
pub(crate) mod weights;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

pub use builtin::BUILT_IN;
pub use env::{HubEnv, Proxies};

use crate::error::{Error, Result};
#[cfg(feature = "hub")]
use remote::resolve as remote;

/// What the user asked for: the flags that say which model to run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelRequest {
    /// `--model`: a folder, a `.safetensors`, `.bin` or `.gguf` file, a Hub id, `built-in`, `built-in:kjv`,
    /// or nothing for the first of these two.
    pub model: Option<String>,
    /// `--tokenizer`: a folder, a `tokenizer.json`, `vocab.txt`, `vocab.json` or SentencePiece model
    /// to use instead of the model's.
    pub tokenizer: Option<PathBuf>,
    /// `--config`: a `config.json`, or a folder that holds one, to use instead of the model's.
    pub config: Option<PathBuf>,
    /// `--subfolder`: where in the model's folder or repository its files are.
    pub subfolder: Option<String>,
    /// `--revision`: branch, tag or commit of a Hub model; `main` if absent.
    pub revision: Option<String>,
    /// `--token`: access token for the Hub, before `HF_TOKEN` and the token file.
    pub token: Option<String>,
}

/// How the caller hears of a download. The library itself prints nothing.
pub trait Progress {
    /// A file begins, of `total` bytes where that is known; `done` of them were there already.
    fn start(&self, file: &str, total: Option<u64>, done: u64);
    /// So many bytes more have arrived.
    fn update(&self, bytes: u64);
    /// The file is complete, or was given up.
    fn finish(&self);
}

/// Says nothing.
impl Progress for () {
    fn start(&self, _file: &str, _total: Option<u64>, _done: u64) {}
    fn update(&self, _bytes: u64) {}
    fn finish(&self) {}
}

/// Finds the local files of the model that is asked for, downloading what is not there yet.
///
/// A path that exists wins over a Hub id. A Hub model whose configuration, weights and vocabulary
/// are in the cache is used as it is, without opening a socket.
///
/// # Errors
/// [`Error::ModelNotFound`] when there is no such model or it cannot be reached,
/// [`Error::Checkpoint`] when what is there is not a model that can be read, [`Error::Usage`] for
/// flags that do not go together, [`Error::Io`] when a file cannot be read or written.
pub fn resolve(
    request: &ModelRequest,
    env: &HubEnv,
    progress: &dyn Progress,
) -> Result<ModelFiles> {
    let mut files = if let Some(name) = builtin::asked_for(request.model.as_deref()) {
        builtin::resolve(name, request)?
    } else {
        let model = request.model.as_deref().unwrap_or_default();
        let path = Path::new(model);
        if !model.is_empty() && path.exists() {
            on_disk(path, request)?
        } else {
            remote(model, request, env, progress)?
        }
    };
    if let Some(path) = &request.config {
        files.config = Some(local::config(path)?);
        files.generation = None; // of the model's own config
    }
    if let Some(path) = &request.tokenizer {
        files.tokenizer = local::tokenizer(path)?;
    }
    let replaced = request.config.is_some() && request.tokenizer.is_none();
    if replaced || files.tokenizer.model.is_none() {
        files.tokenizer.model = files.config.clone();
    }
    Ok(files)
}

fn on_disk(path: &Path, request: &ModelRequest) -> Result<ModelFiles> {
    let mut at = path.to_path_buf();
    if let Some(folder) = &request.subfolder {
        if !local::stays_inside(folder) || !path.join(folder).is_dir() {
            return Err(Error::ModelNotFound {
                model: path.display().to_string(),
                why: format!("--subfolder: no folder `{folder}` in it"),
            });
        }
        at.push(folder);
    }
    let mut files = local::resolve(&at, &at.display().to_string())?;
    if let Some(revision) = &request.revision {
        files
            .notes
            .push(format!("--revision {revision} ignored: the model is a path, not a Hub id"));
    }
    Ok(files)
}

#[cfg(not(feature = "hub"))]
fn remote(
    model: &str,
    _request: &ModelRequest,
    _env: &HubEnv,
    _progress: &dyn Progress,
) -> Result<ModelFiles> {
    let why = "no such file or folder, and this build does not read Hub models (feature `hub`)";
    Err(Error::ModelNotFound { model: model.into(), why: why.into() })
}

/// One file of a model: on disk, or inside the binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asset {
    /// A file on disk.
    Disk(PathBuf),
    /// Bytes in the binary's image, under the name they would have as a file.
    BuiltIn {
        /// Such as `built-in/config.json`.
        name: &'static str,
        /// The file's content, at least 8-byte aligned for weights.
        bytes: &'static [u8],
    },
}

impl Asset {
    /// The path to show in messages.
    pub fn path(&self) -> &Path {
        match self {
            Self::Disk(path) => path,
            Self::BuiltIn { name, .. } => Path::new(name),
        }
    }

    /// The whole content; for small files such as configs and vocabularies.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be read.
    pub fn bytes(&self) -> Result<Cow<'static, [u8]>> {
        match self {
            Self::Disk(path) => {
                std::fs::read(path).map(Cow::Owned).map_err(Error::io(path, "read it"))
            }
            Self::BuiltIn { bytes, .. } => Ok(Cow::Borrowed(bytes)),
        }
    }
}

/// The tokenizer's files, each where there is one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenizerFiles {
    /// `tokenizer.json`
    pub json: Option<Asset>,
    /// `vocab.txt`
    pub vocab: Option<Asset>,
    /// `vocab.json`
    pub vocab_json: Option<Asset>,
    /// `merges.txt`
    pub merges: Option<Asset>,
    /// A SentencePiece model: `sentencepiece.bpe.model`, `spm.model`, `spiece.model`,
    /// `tokenizer.model` or `sentencepiece.model`.
    pub pieces: Option<Asset>,
    /// `source.spm` of Marian, whose ids are in `vocab.json`
    pub source: Option<Asset>,
    /// `target.spm`, for the language that is written
    pub target: Option<Asset>,
    /// `target_vocab.json`, where that language has ids of its own
    pub target_vocab: Option<Asset>,
    /// The model's `config.json`, which says whose tokenizer it is where `tokenizer_config.json`
    /// does not.
    pub model: Option<Asset>,
    /// `tokenizer_config.json`
    pub config: Option<Asset>,
    /// `special_tokens_map.json`
    pub special: Option<Asset>,
    /// `added_tokens.json`
    pub added: Option<Asset>,
    /// The model's GGUF file, which may hold a tokenizer; the others are then not read.
    pub gguf: Option<Asset>,
}

impl TokenizerFiles {
    /// Whether there is a file to make a tokenizer from.
    pub fn any(&self) -> bool {
        let alone = [&self.json, &self.vocab, &self.pieces, &self.source, &self.gguf];
        alone.iter().any(|file| file.is_some())
            || (self.vocab_json.is_some() && self.merges.is_some())
    }
}

/// The local files of one model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFiles {
    /// What the user asked for, as shown: `all-MiniLM-L6-v2 (built in)`, a folder, a Hub id.
    pub name: String,
    /// Commit of a Hub model.
    pub revision: Option<String>,
    /// `config.json`
    pub config: Option<Asset>,
    /// `generation_config.json`: where a text that is written begins and ends, before what `config`
    /// says of it.
    pub generation: Option<Asset>,
    /// The weights: one file, or every shard that the index names.
    pub weights: Vec<Asset>,
    /// `model.safetensors.index.json` or `pytorch_model.bin.index.json`, where the weights are sharded.
    pub index: Option<Asset>,
    /// The tokenizer's files.
    pub tokenizer: TokenizerFiles,
    /// What was assumed or chosen on the way, one sentence each, for the user to read.
    pub notes: Vec<String>,
}
