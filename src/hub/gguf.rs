//! A model that is one GGUF file.

use std::path::{Path, PathBuf};

use super::weights::{self, LAYOUTS, is_gguf};
use super::{Asset, ModelFiles, TokenizerFiles};
use crate::error::{Error, Result};

/// A file that holds weights, configuration and tokenizer.
pub(super) fn file(path: &Path, name: &str) -> Result<ModelFiles> {
    weights::check(path)?;
    let asset = Asset::Disk(path.to_path_buf());
    Ok(ModelFiles {
        name: name.to_owned(),
        revision: None,
        config: None,
        generation: None,
        weights: vec![asset.clone()],
        index: None,
        tokenizer: TokenizerFiles { gguf: Some(asset), ..TokenizerFiles::default() },
        notes: Vec::new(),
    })
}

/// The GGUF file of a folder that has no other weights.
pub(super) fn only(folder: &Path) -> Result<Option<PathBuf>> {
    let layouts = LAYOUTS.iter().flat_map(|(single, index)| [single, index]);
    if layouts.into_iter().any(|file| folder.join(file).is_file()) {
        return Ok(None);
    }
    let entries = std::fs::read_dir(folder).map_err(Error::io(folder, "list it"))?;
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let mut found: Vec<PathBuf> = paths.filter(|path| is_gguf(path) && path.is_file()).collect();
    match found.len() {
        0 | 1 => Ok(found.pop()),
        count => Err(Error::checkpoint(
            folder,
            format!("holds {count} .gguf files: give the one to read as --model"),
        )),
    }
}
