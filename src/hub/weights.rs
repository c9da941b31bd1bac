//! Which files of a folder are its weights, by their names and first bytes.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::local::stays_inside;
use crate::error::{Error, Result};

pub(super) const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
pub(super) const PICKLE: &str = "pytorch_model.bin";
pub(super) const PICKLE_INDEX: &str = "pytorch_model.bin.index.json";
/// How weights may be laid out: whole, or in the shards of an index; the first found is read.
pub(super) const LAYOUTS: [(&str, &str); 2] = [(WEIGHTS, INDEX), (PICKLE, PICKLE_INDEX)];

/// Whether a weights file is a pickle of torch, by the endings that people give those.
pub(crate) fn is_pickle(path: &Path) -> bool {
    has_suffix(path, &["bin", "pt", "pth", "ckpt"])
}

/// Whether a weights file is one of llama.cpp's.
pub(crate) fn is_gguf(path: &Path) -> bool {
    has_suffix(path, &["gguf"])
}

pub(super) fn has_suffix(path: &Path, any: &[&str]) -> bool {
    let suffix = path.extension().and_then(|suffix| suffix.to_str()).unwrap_or_default();
    any.iter().any(|one| suffix.eq_ignore_ascii_case(one))
}

/// The weights of a folder: one file, or every shard that its index names; safetensors first.
pub(super) fn find(folder: &Path) -> Result<(Vec<PathBuf>, Option<PathBuf>)> {
    for (single, index) in LAYOUTS {
        let (single, index) = (folder.join(single), folder.join(index));
        if single.is_file() {
            check(&single)?;
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
        check(&shard)?;
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
pub(super) fn check(path: &Path) -> Result<()> {
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
