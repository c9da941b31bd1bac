//! Any readable checkpoint → a clean safetensors folder that attnviz and transformers load.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use safetensors::Dtype;
use serde_json::{Map, Value};

use super::cast::Cast;
use crate::error::{Error, Result};
use crate::hub::{Asset, ModelFiles};
use crate::output::prove_writable;
use crate::tokens::gguf;
use crate::weights::{Checkpoint, Number, Storage, Stored};

const WEIGHTS: &str = "model.safetensors";
const CONFIG: &str = "config.json";

/// Files of tokenizers and of generation, which go along as they are.
const COMPANIONS: [&str; 17] = [
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "spiece.model",
    "spm.model",
    "sentencepiece.model",
    "sentencepiece.bpe.model",
    "tokenizer.model",
    "source.spm",
    "target.spm",
    "target_vocab.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "generation_config.json",
];

/// How the numbers of a checkpoint are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FloatType {
    /// 32 bits (IEEE 754 single precision)
    F32,
    /// 16 bits (IEEE 754 half precision): up to 65504, 11 significant bits
    F16,
    /// 16 bits with the range of 32: 8 significant bits
    Bf16,
}

impl FloatType {
    /// The names that `--dtype` takes, each with its type.
    pub const NAMES: [(&'static str, FloatType); 3] =
        [("f32", Self::F32), ("f16", Self::F16), ("bf16", Self::Bf16)];

    fn stored(self) -> Dtype {
        match self {
            Self::F32 => Dtype::F32,
            Self::F16 => Dtype::F16,
            Self::Bf16 => Dtype::BF16,
        }
    }
}

/// What to convert to.
#[derive(Debug, Clone, Copy, Default)]
pub struct ConvertOptions {
    /// The type of all floating-point tensors; `None` leaves each as it is.
    pub dtype: Option<FloatType>,
    /// Write into a folder that holds other files; those of the same names are replaced.
    pub force: bool,
}

/// What was written.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Converted {
    /// The folder.
    pub folder: PathBuf,
    /// Its files, by name.
    pub files: Vec<String>,
    /// How many tensors `model.safetensors` holds.
    pub tensors: usize,
    /// Size of `model.safetensors` in bytes.
    pub bytes: u64,
    /// Types of its tensors, such as `F16`, each once.
    pub dtypes: Vec<String>,
    /// What was left aside or changed, one sentence each.
    pub notes: Vec<String>,
}

/// Writes `model.safetensors`, `config.json` and the tokenizer's files into the folder `out`.
///
/// Tensors keep their names and shapes, also those that attnviz does not use. Without `dtype` they
/// keep their bytes; with it, floating-point numbers are rounded to the nearest, ties to even, and
/// whole numbers stay as they are. The configuration is copied byte for byte unless its `dtype`
/// would no longer be true of the tensors. Everything is written aside and then renamed.
///
/// # Errors
/// [`Error::Output`] where `out` holds files already and `force` is off, [`Error::Io`] where it
/// cannot be written, [`Error::Checkpoint`] where the model cannot be read, has no configuration,
/// or holds a number that is too large for `dtype`.
pub fn convert(files: &ModelFiles, out: &Path, options: &ConvertOptions) -> Result<Converted> {
    claim(out, options.force)?;
    let checkpoint = Checkpoint::open(files)?;
    let config = config(files, &checkpoint, options.dtype)?;
    let write = |path: &Path, shown: &Path| weights(&checkpoint, options.dtype, path, shown);
    let (names, bytes, dtypes) = write_folder(files, out, &config, options.force, write)?;
    Ok(Converted {
        folder: out.to_path_buf(),
        files: names,
        tensors: checkpoint.names().count(),
        bytes,
        dtypes,
        notes: [files.notes.as_slice(), checkpoint.notes()].concat(),
    })
}

/// Writes a checkpoint's folder aside and renames it into place: `config`, what `weights` writes to
/// the first path that it is given, to be called by the second, and the files of the tokenizer.
/// Gives the names, the size of the weights and what `weights` gave.
pub(crate) fn write_folder<T>(
    files: &ModelFiles,
    out: &Path,
    config: &[u8],
    force: bool,
    weights: impl FnOnce(&Path, &Path) -> Result<T>,
) -> Result<(Vec<String>, u64, T)> {
    let occupied = claim(out, force)?;
    let parent = out.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(Error::io(parent, "create it"))?;
    let aside = tempfile::Builder::new().prefix(".attnviz-").tempdir_in(parent);
    let aside = aside.map_err(Error::io(out, "create it"))?;
    // a folder inside, since the outer one is its owner's alone
    let staged = aside.path().join("model");
    fs::create_dir(&staged).map_err(Error::io(out, "create it"))?;

    let done = weights(&staged.join(WEIGHTS), &out.join(WEIGHTS))?;
    let mut names = vec![WEIGHTS.to_owned(), CONFIG.to_owned()];
    let write = |name: &str, bytes: &[u8]| {
        fs::write(staged.join(name), bytes).map_err(Error::io(out.join(name), "write it"))
    };
    write(CONFIG, config)?;
    for (name, bytes) in companions(files)? {
        write(name, &bytes)?;
        names.push(name.to_owned());
    }
    let written = fs::metadata(staged.join(WEIGHTS)).map_err(Error::io(out, "read its size"))?;
    if occupied {
        merge(&staged, out, &names)?;
    } else {
        if out.exists() {
            fs::remove_dir(out).map_err(Error::io(out, "replace it"))?;
        }
        fs::rename(&staged, out).map_err(Error::io(out, "move it into place"))?;
    }
    Ok((names, written.len(), done))
}

/// Shows that a checkpoint can be written into the folder `out`, and leaves nothing behind. For calling
/// before any heavy work.
///
/// # Errors
/// [`Error::Output`] where `out` holds files already and `force` is off, [`Error::Io`] where it
/// cannot be written.
pub fn prove_folder(out: &Path, force: bool) -> Result<()> {
    claim(out, force).map(|_| ())
}

/// Whether there is something in the folder, which `force` allows.
fn claim(out: &Path, force: bool) -> Result<bool> {
    prove_writable(out)?;
    if !out.exists() {
        return Ok(false);
    }
    let mut entries = fs::read_dir(out).map_err(Error::io(out, "list it"))?;
    let occupied = entries.next().is_some();
    if occupied && !force {
        let why = "is not empty; choose another folder, or --force to replace what has the same \
                   names";
        return Err(Error::Output { path: out.into(), why: why.into() });
    }
    Ok(occupied)
}

/// Moves the files into a folder that holds others, and removes companions of another tokenizer.
fn merge(staged: &Path, out: &Path, names: &[String]) -> Result<()> {
    for name in names {
        let path = out.join(name);
        fs::rename(staged.join(name), &path).map_err(Error::io(&path, "move it into place"))?;
    }
    for stale in COMPANIONS.iter().filter(|name| !names.iter().any(|one| one == *name)) {
        let path = out.join(stale);
        if path.is_file() {
            fs::remove_file(&path).map_err(Error::io(&path, "remove it"))?;
        }
    }
    Ok(())
}

/// A file beside the weights, by name.
type Companion = (&'static str, Cow<'static, [u8]>);

/// The files that go along, under the names by which they are known.
fn companions(files: &ModelFiles) -> Result<Vec<Companion>> {
    let tokenizer = &files.tokenizer;
    if let Some(asset) = &tokenizer.gguf {
        let made = gguf::files(asset)?.into_iter();
        return Ok(made.map(|(name, bytes)| (name, Cow::Owned(bytes))).collect());
    }
    let known = [
        ("tokenizer.json", &tokenizer.json),
        ("vocab.txt", &tokenizer.vocab),
        ("vocab.json", &tokenizer.vocab_json),
        ("merges.txt", &tokenizer.merges),
        ("tokenizer_config.json", &tokenizer.config),
        ("special_tokens_map.json", &tokenizer.special),
        ("added_tokens.json", &tokenizer.added),
    ];
    // companions that are read by no name here lie beside those that are
    let assets = known.iter().filter_map(|(_, asset)| asset.as_ref());
    let assets = assets.chain(&tokenizer.pieces).chain(&files.weights);
    let mut folders = assets.filter_map(|asset| match asset {
        Asset::Disk(path) => path.parent(),
        Asset::BuiltIn { .. } => None,
    });
    let folder = folders.next();
    let named = |name: &str| known.iter().find(|(known, _)| *known == name);
    let found = |name: &'static str| -> Option<(&'static str, Asset)> {
        let asset = match named(name) {
            Some((_, asset)) => asset.as_ref().cloned(),
            None => folder.map(|folder| Asset::Disk(folder.join(name))),
        };
        let there =
            |asset: &Asset| matches!(asset, Asset::BuiltIn { .. }) || asset.path().is_file();
        Some((name, asset.filter(there)?))
    };
    let found = COMPANIONS.into_iter().filter_map(found);
    found.map(|(name, asset)| Ok((name, asset.bytes()?))).collect()
}

/// The configuration, with a `dtype` that is true of the tensors.
pub(crate) fn config(
    files: &ModelFiles,
    checkpoint: &Checkpoint,
    dtype: Option<FloatType>,
) -> Result<Cow<'static, [u8]>> {
    let (path, bytes) = match (&files.config, checkpoint.config()) {
        (Some(asset), _) => (asset.path(), asset.bytes()?),
        (None, Some((path, config))) => (path, Cow::Owned(config.to_vec())),
        (None, None) => {
            let path = checkpoint.path().with_file_name(CONFIG);
            return Err(Error::checkpoint(path, "there is no config.json"));
        }
    };
    let mut config: Map<String, Value> = serde_json::from_slice(&bytes)
        .map_err(|why| Error::checkpoint(path, format!("not a model config: {why}")))?;
    let keys = ["dtype", "torch_dtype"].into_iter().filter(|key| config.contains_key(*key));
    let mut keys: Vec<&str> = keys.collect();
    let written: Vec<Dtype> = checkpoint.tensors().map(|(_, one, _)| becomes(one, dtype)).collect();
    let mut floats = written.iter().filter_map(|dtype| torch_name(*dtype));
    let Some(name) = floats.next().filter(|first| floats.all(|other| other == *first)) else {
        return Ok(bytes);
    };
    if keys.is_empty() {
        if dtype.is_none() {
            return Ok(bytes);
        }
        let version = config.get("transformers_version").and_then(Value::as_str);
        let of_today = version.is_some_and(|version| !version.starts_with(['2', '3', '4']));
        keys.push(if of_today { "dtype" } else { "torch_dtype" });
    }
    let plain = |value: Option<&Value>| {
        value.and_then(Value::as_str).map(|text| text.trim_start_matches("torch.").to_owned())
    };
    if keys.iter().all(|key| plain(config.get(*key)).as_deref() == Some(name)) {
        return Ok(bytes);
    }
    for key in keys {
        config.insert(key.to_owned(), name.into());
    }
    let mut text = serde_json::to_vec_pretty(&config)
        .map_err(|why| Error::checkpoint(path, why.to_string()))?;
    text.push(b'\n');
    Ok(Cow::Owned(text))
}

/// A tensor in the type in which safetensors can hold it; `too_large` stays empty.
pub(crate) fn plain<'a>(
    tensor: &'a Stored,
    bytes: &'a [u8],
    too_large: &'a Mutex<Option<String>>,
) -> Cast<'a> {
    Cast { tensor, bytes, dtype: becomes(tensor, None), too_large }
}

/// The type that a tensor is written in.
fn becomes(tensor: &Stored, dtype: Option<FloatType>) -> Dtype {
    match (Number::of(tensor.dtype), dtype, tensor.dtype) {
        (Some(_), Some(dtype), _) => dtype.stored(),
        (_, _, Storage::Plain(dtype)) => dtype,
        // safetensors holds no blocks; no narrower type holds what they stand for
        (_, _, Storage::Blocks(_)) => Dtype::F32,
    }
}

fn torch_name(dtype: Dtype) -> Option<&'static str> {
    match dtype {
        Dtype::F64 => Some("float64"),
        Dtype::F32 => Some("float32"),
        Dtype::F16 => Some("float16"),
        Dtype::BF16 => Some("bfloat16"),
        _ => None,
    }
}

/// Writes the tensors one after another; gives their types.
fn weights(
    checkpoint: &Checkpoint,
    dtype: Option<FloatType>,
    path: &Path,
    shown: &Path,
) -> Result<Vec<String>> {
    let too_large = Mutex::new(None);
    let views: Vec<(&str, Cast<'_>)> = checkpoint
        .tensors()
        .map(|(name, tensor, bytes)| {
            let dtype = becomes(tensor, dtype);
            (name, Cast { tensor, bytes, dtype, too_large: &too_large })
        })
        .collect();
    let mut dtypes: Vec<String> =
        views.iter().map(|(_, view)| format!("{:?}", view.dtype)).collect();
    dtypes.sort();
    dtypes.dedup();
    // what transformers asks for before it loads a file
    let about = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    safetensors::serialize_to_file(views, Some(about), path)
        .map_err(|why| Error::Output { path: shown.into(), why: why.to_string() })?;
    match too_large.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(why) => Err(Error::checkpoint(checkpoint.path(), why)),
        None => Ok(dtypes),
    }
}
