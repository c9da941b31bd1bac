//! Any readable checkpoint → a clean safetensors folder that attnviz and transformers load.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use safetensors::Dtype;
use serde_json::{Map, Value};

use super::cast::Cast;
use super::folder::{CONFIG, prove_folder, write_folder};
use crate::error::{Error, Result};
use crate::hub::ModelFiles;
use crate::weights::{Checkpoint, Number, Storage, Stored};

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
    prove_folder(out, options.force)?;
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
