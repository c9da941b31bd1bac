//! Model argument → local files: built in, a folder, a file, or a Hub id.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

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
    /// `tokenizer_config.json`
    pub config: Option<Asset>,
    /// `special_tokens_map.json`
    pub special: Option<Asset>,
    /// `added_tokens.json`
    pub added: Option<Asset>,
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
    /// The weights: one file, or every shard that the index names.
    pub weights: Vec<Asset>,
    /// `model.safetensors.index.json` where the weights are sharded.
    pub index: Option<Asset>,
    /// The tokenizer's files.
    pub tokenizer: TokenizerFiles,
    /// What was assumed or chosen on the way, one sentence each, for the user to read.
    pub notes: Vec<String>,
}
