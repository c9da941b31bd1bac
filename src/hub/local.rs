//! A model that is already on disk: a folder, or a weights file with its companions beside it.

use std::path::{Component, Path};

use super::weights::{self, PICKLE, PICKLE_INDEX, has_suffix, is_gguf, is_pickle};
use super::{Asset, ModelFiles, TokenizerFiles, gguf};
use crate::error::{Error, Result};

pub(super) const CONFIG: &str = "config.json";
pub(super) const GENERATION: &str = "generation_config.json";
pub(super) const TOKENIZER: &str = "tokenizer.json";
pub(super) const VOCAB: &str = "vocab.txt";
pub(super) const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
pub(super) const SPECIAL: &str = "special_tokens_map.json";
pub(super) const ADDED: &str = "added_tokens.json";
pub(super) const VOCAB_JSON: &str = "vocab.json";
pub(super) const MERGES: &str = "merges.txt";
/// SentencePiece models, under the names that the families give them.
pub(super) const PIECES: [&str; 5] = [
    "sentencepiece.bpe.model",
    "spm.model",
    "spiece.model",
    "tokenizer.model",
    "sentencepiece.model",
];
/// Marian's.
pub(super) const SIDES: [&str; 3] = ["source.spm", "target.spm", "target_vocab.json"];

/// A folder, or a `.safetensors`, `.bin` or `.gguf` file.
pub(super) fn resolve(path: &Path, name: &str) -> Result<ModelFiles> {
    if path.is_dir() { folder(path, name) } else { file(path, name) }
}

fn folder(folder: &Path, name: &str) -> Result<ModelFiles> {
    if let Some(path) = gguf::only(folder)? {
        return gguf::file(&path, name);
    }
    let mut notes = Vec::new();
    let (weights, index) = weights::find(folder)?;
    let there = |file: &&&str| folder.join(file).is_file();
    if let Some(file) = [PICKLE, PICKLE_INDEX].iter().find(there)
        && !weights.iter().any(|path| is_pickle(path))
    {
        notes.push(format!("{file} ignored: the safetensors weights beside it are read"));
    }
    Ok(ModelFiles {
        name: name.to_owned(),
        revision: None,
        config: existing(folder, CONFIG),
        generation: existing(folder, GENERATION),
        weights: weights.into_iter().map(Asset::Disk).collect(),
        index: index.map(Asset::Disk),
        tokenizer: tokenizer_beside(folder),
        notes,
    })
}

fn file(path: &Path, name: &str) -> Result<ModelFiles> {
    if is_gguf(path) {
        return gguf::file(path, name);
    }
    if !has_suffix(path, &["safetensors"]) && !is_pickle(path) {
        let want = "expected a folder, a .safetensors, a .bin or a .gguf file";
        return Err(Error::checkpoint(path, want));
    }
    weights::check(path)?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    Ok(ModelFiles {
        name: name.to_owned(),
        revision: None,
        config: existing(folder, CONFIG),
        generation: existing(folder, GENERATION),
        weights: vec![Asset::Disk(path.to_path_buf())],
        index: None,
        tokenizer: tokenizer_beside(folder),
        notes: Vec::new(),
    })
}

/// Whether a relative path made of plain names, which cannot leave the folder it is joined to.
pub(super) fn stays_inside(name: &str) -> bool {
    !name.is_empty()
        && !name.contains(['\\', '\0', ':'])
        && Path::new(name).components().all(|part| matches!(part, Component::Normal(_)))
}

fn existing(folder: &Path, name: &str) -> Option<Asset> {
    let path = folder.join(name);
    path.is_file().then_some(Asset::Disk(path))
}

fn tokenizer_beside(folder: &Path) -> TokenizerFiles {
    let [source, target, target_vocab] = SIDES.map(|name| existing(folder, name));
    TokenizerFiles {
        json: existing(folder, TOKENIZER),
        vocab: existing(folder, VOCAB),
        vocab_json: existing(folder, VOCAB_JSON),
        merges: existing(folder, MERGES),
        pieces: PIECES.iter().find_map(|name| existing(folder, name)),
        source,
        target,
        target_vocab,
        model: existing(folder, CONFIG),
        config: existing(folder, TOKENIZER_CONFIG),
        special: existing(folder, SPECIAL),
        added: existing(folder, ADDED),
        gguf: None,
    }
}

/// `--tokenizer`: a folder, a `tokenizer.json`, a `vocab.json` with its `merges.txt` or
/// `source.spm`, that `source.spm`, another SentencePiece model, or a `vocab.txt` (under any name).
pub(super) fn tokenizer(path: &Path) -> Result<TokenizerFiles> {
    let files = if path.is_dir() {
        tokenizer_beside(path)
    } else if path.is_file() {
        let folder = path.parent().unwrap_or(Path::new(""));
        let beside = tokenizer_beside(folder);
        let alone = TokenizerFiles {
            json: None,
            vocab: None,
            vocab_json: None,
            merges: None,
            pieces: None,
            source: None,
            target: None,
            target_vocab: None,
            ..beside.clone()
        };
        let asset = Some(Asset::Disk(path.to_path_buf()));
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match path.extension().and_then(|suffix| suffix.to_str()) {
            Some("json") if name == VOCAB_JSON => TokenizerFiles {
                json: None,
                vocab: None,
                pieces: None,
                vocab_json: asset,
                ..beside
            },
            Some("json") => TokenizerFiles { json: asset, ..alone },
            Some("spm") if name == SIDES[0] => TokenizerFiles {
                vocab_json: beside.vocab_json,
                target: beside.target,
                target_vocab: beside.target_vocab,
                source: asset,
                ..alone
            },
            Some("model" | "spm") => TokenizerFiles { pieces: asset, ..alone },
            _ => TokenizerFiles { vocab: asset, ..alone },
        }
    } else {
        return Err(missing("--tokenizer", path));
    };
    if !files.any() {
        let why = format!(
            "no tokenizer in this folder, expected {TOKENIZER}, {VOCAB}, {VOCAB_JSON} with \
             {MERGES} or {}, or a SentencePiece model ({})",
            SIDES[0],
            PIECES.join(", ")
        );
        return Err(Error::checkpoint(path, why));
    }
    Ok(files)
}

/// `--config`: a file, or a folder that holds `config.json`.
pub(super) fn config(path: &Path) -> Result<Asset> {
    let file = if path.is_dir() { path.join(CONFIG) } else { path.to_path_buf() };
    if file.is_file() { Ok(Asset::Disk(file)) } else { Err(missing("--config", &file)) }
}

fn missing(flag: &str, path: &Path) -> Error {
    Error::ModelNotFound { model: path.display().to_string(), why: format!("{flag}: no such file") }
}
