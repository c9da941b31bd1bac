//! A model that is already on disk: a folder, or a weights file with its companions beside it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use super::{Asset, ModelFiles, TokenizerFiles, gguf};
use crate::error::{Error, Result};

pub(super) const CONFIG: &str = "config.json";
pub(super) const GENERATION: &str = "generation_config.json";
pub(super) const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
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
const PICKLE: &str = "pytorch_model.bin";
const PICKLE_INDEX: &str = "pytorch_model.bin.index.json";
/// How weights may be laid out: whole, or in the shards of an index; the first found is read.
pub(super) const LAYOUTS: [(&str, &str); 2] = [(WEIGHTS, INDEX), (PICKLE, PICKLE_INDEX)];

/// A folder, or a `.safetensors`, `.bin` or `.gguf` file.
pub(super) fn resolve(path: &Path, name: &str) -> Result<ModelFiles> {
    if path.is_dir() { folder(path, name) } else { file(path, name) }
}

fn folder(folder: &Path, name: &str) -> Result<ModelFiles> {
    if let Some(path) = gguf::only(folder)? {
        return gguf::file(&path, name);
    }
    let mut notes = Vec::new();
    let (weights, index) = weights(folder)?;
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
    check_weights(path)?;
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

/// Whether a weights file is a pickle of torch, by the endings that people give those.
pub(crate) fn is_pickle(path: &Path) -> bool {
    has_suffix(path, &["bin", "pt", "pth", "ckpt"])
}

/// Whether a weights file is one of llama.cpp's.
pub(crate) fn is_gguf(path: &Path) -> bool {
    has_suffix(path, &["gguf"])
}

fn has_suffix(path: &Path, any: &[&str]) -> bool {
    let suffix = path.extension().and_then(|suffix| suffix.to_str()).unwrap_or_default();
    any.iter().any(|one| suffix.eq_ignore_ascii_case(one))
}

/// The weights of a folder: one file, or every shard that its index names; safetensors first.
fn weights(folder: &Path) -> Result<(Vec<PathBuf>, Option<PathBuf>)> {
    for (single, index) in LAYOUTS {
        let (single, index) = (folder.join(single), folder.join(index));
        if single.is_file() {
            check_weights(&single)?;
            return Ok((vec![single], None));
        }
        if index.is_file() {
            let shards = shard_paths(folder, &index)?;
            return Ok((shards, Some(index)));
        }
    }
    Err(no_weights(folder))
}

fn shard_paths(folder: &Path, index: &Path) -> Result<Vec<PathBuf>> {
    let names = shard_names(index)?;
    let count = names.len();
    let mut shards = Vec::with_capacity(count);
    for name in names {
        let shard = folder.join(&name);
        if !shard.is_file() {
            let why = format!("names {count} shards, but `{name}` is not in {}", folder.display());
            return Err(Error::checkpoint(index, why));
        }
        check_weights(&shard)?;
        shards.push(shard);
    }
    Ok(shards)
}

/// The files that an index's `weight_map` names, each once, in order.
pub(super) fn shard_names(index: &Path) -> Result<Vec<String>> {
    #[derive(serde::Deserialize)]
    struct Index {
        weight_map: std::collections::BTreeMap<String, String>,
    }
    let bytes = std::fs::read(index).map_err(Error::io(index, "read it"))?;
    if is_lfs_pointer(&bytes) {
        return Err(Error::checkpoint(index, LFS_POINTER));
    }
    let parsed: Index = serde_json::from_slice(&bytes)
        .map_err(|why| Error::checkpoint(index, format!("not a weights index: {why}")))?;
    let names: BTreeSet<String> = parsed.weight_map.into_values().collect();
    if names.is_empty() {
        return Err(Error::checkpoint(index, "its `weight_map` names no file"));
    }
    match names.iter().find(|name| !stays_inside(name)) {
        Some(name) => {
            let why = format!("`weight_map` names `{name}`, which is outside the model's folder");
            Err(Error::checkpoint(index, why))
        }
        None => Ok(names.into_iter().collect()),
    }
}

/// Whether a relative path made of plain names, which cannot leave the folder it is joined to.
pub(super) fn stays_inside(name: &str) -> bool {
    !name.is_empty()
        && !name.contains(['\\', '\0', ':'])
        && Path::new(name).components().all(|part| matches!(part, Component::Normal(_)))
}

/// Says what the folder holds instead of weights.
fn no_weights(folder: &Path) -> Error {
    let mut found: Vec<String> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    found.sort();
    let has = |name: &str| found.iter().any(|file| file == name);
    let why = if let Some(shard) = found.iter().find(|file| is_shard(file)) {
        let index = if is_pickle(Path::new(shard)) { PICKLE_INDEX } else { INDEX };
        format!("found the shard `{shard}`, but no {index}, which says what is in it")
    } else if has("snapshots") && has("refs") {
        "this is a model's folder in the Hub cache: give its Hub id, or a folder in snapshots/"
            .into()
    } else if let Some(file) = found.iter().find(|file| is_weights(file)) {
        format!("expected {WEIGHTS} or {PICKLE}; to read `{file}`, give that file as --model")
    } else {
        format!("no weights in this folder, expected {WEIGHTS} or {PICKLE}, or the index of shards")
    };
    Error::checkpoint(folder, why)
}

fn is_shard(file: &str) -> bool {
    is_weights(file)
        && file.contains("-of-")
        && ["model-", "pytorch_model-"].iter().any(|start| file.starts_with(start))
}

/// By its name alone; `training_args.bin` and its like hold settings.
fn is_weights(file: &str) -> bool {
    let settings = ["training_args", "optimizer", "scheduler", "rng_state"];
    file.ends_with(".safetensors")
        || is_pickle(Path::new(file)) && !settings.iter().any(|start| file.starts_with(start))
}

pub(crate) const LFS_POINTER: &str =
    "this is a git-lfs pointer, not the file itself: run `git lfs pull` in its folder";

/// Whether the content is what git leaves when it has not fetched a large file.
pub(crate) fn is_lfs_pointer(bytes: &[u8]) -> bool {
    bytes.starts_with(b"version https://git-lfs.github.com/spec/")
}

/// Refuses files that are no weights at all, before anything maps them.
pub(super) fn check_weights(path: &Path) -> Result<()> {
    let mut start = Vec::with_capacity(64);
    let file = File::open(path).map_err(Error::io(path, "open it"))?;
    file.take(64).read_to_end(&mut start).map_err(Error::io(path, "read it"))?;
    if is_lfs_pointer(&start) {
        return Err(Error::checkpoint(path, LFS_POINTER));
    }
    if start.len() <= 8 {
        let format = match (is_pickle(path), is_gguf(path)) {
            (true, _) => "pickled",
            (_, true) => "GGUF",
            _ => "safetensors",
        };
        let why = format!("{} bytes long, expected {format} weights", start.len());
        return Err(Error::checkpoint(path, why));
    }
    Ok(())
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
