//! Trained weights → a checkpoint's folder, and the folder that a run with a new head starts from.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Mutex;

use candle_core::{DType, Tensor};
use safetensors::{Dtype, View};
use serde_json::{Map, Value, json};

use super::cast::Cast;
use super::convert::{ConvertOptions, config, convert, plain};
use super::folder::write_folder;
use crate::config::{Config, Task};
use crate::error::{Error, Result};
use crate::family::{self, Family, fields::Fields};
use crate::hub::ModelFiles;
use crate::model::{Inspection, LoadOptions, Trainable};
use crate::task::named;
use crate::train::{Purpose, normal_numbers, random};
use crate::weights::{Checkpoint, Storage};

/// Writes a checkpoint with the weights as they are, each in the type in which the file that it comes
/// from has it; `files` are that checkpoint's, whose configuration and tokenizer go along. Tensors
/// that the model does not use are left out.
///
/// # Errors
/// [`Error::Checkpoint`] for a number that is too large for its type, and those of
/// [`convert`](super::convert) for what cannot be written.
pub fn write_trained(
    trainable: &Trainable,
    files: &ModelFiles,
    out: &Path,
    force: bool,
) -> Result<Vec<String>> {
    let checkpoint = Checkpoint::open(files)?;
    let config = config(files, &checkpoint, None)?;
    let mut tensors: Vec<(&str, Tensor)> = Vec::new();
    for (stored, var) in trainable.stored() {
        let dtype = match stored.dtype {
            Storage::Plain(Dtype::F16) => DType::F16,
            Storage::Plain(Dtype::BF16) => DType::BF16,
            Storage::Plain(Dtype::F64) => DType::F64,
            _ => DType::F32,
        };
        let tensor = var.as_detached_tensor().to_dtype(dtype)?;
        // a layer without heads has matrices without numbers
        let values = tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?;
        if !values.iter().all(|value| value.is_finite()) {
            let why = format!("`{}` holds a number that {dtype:?} cannot", stored.raw);
            return Err(Error::checkpoint(checkpoint.path(), why));
        }
        tensors.push((&stored.raw, tensor));
    }
    let views = tensors.iter().map(|(name, tensor)| (*name, tensor));
    let (names, ..) =
        write_folder(files, out, &config, force, |path, shown| write(path, shown, views))?;
    Ok(names)
}

/// Writes the folder that training starts from: the checkpoint, with a new head for these classes of
/// texts or, by [`Task::TokenClassification`], of tokens. Its own head stays where it is for that and
/// has all classes, by name or number, in whatever order. Numbers of a new head are drawn from
/// N(0, 0.02²), its biases are 0; heads for other tasks go.
///
/// # Errors
/// [`Error::Checkpoint`] for a family whose classifier attnviz does not run, and those of
/// [`convert`](super::convert) for what cannot be read or written.
pub fn write_start(
    files: &ModelFiles,
    task: Task,
    classes: &[String],
    seed: u64,
    out: &Path,
) -> Result<()> {
    let own = Inspection::of(files, &LoadOptions::default()).config;
    if own.is_some_and(|own| own.task == task && named(classes, &own.labels).is_some()) {
        return convert(files, out, &ConvertOptions::default()).map(drop);
    }
    let checkpoint = Checkpoint::open(files)?;
    let bytes = config(files, &checkpoint, None)?;
    let path = files.config.as_ref().map_or(checkpoint.path(), |asset| asset.path());
    let fields = Fields::parse(path, &bytes)?;
    let family = match fields.text("model_type")? {
        Some(model_type) => family::of(&fields, &model_type)?,
        None => family::infer(checkpoint.path(), checkpoint.names())?,
    };
    let Some((class, _)) = family.classes.iter().find(|(_, known)| *known == task) else {
        let why = format!("attnviz runs no classifier of {}", family.model_type);
        return Err(Error::checkpoint(path, why));
    };
    let text = described(&bytes, class, classes)
        .map_err(|why| Error::checkpoint(path, why.to_string()))?;
    let head = head(family, &(family.read)(&fields)?, task, classes.len());
    let of_head = |name: &str| head.iter().any(|(part, ..)| part == name);
    let (too_large, mut parts, mut there) = (Mutex::default(), Vec::new(), BTreeSet::new());
    for (raw, tensor, bytes) in checkpoint.tensors() {
        let Some(name) = family.canonical(raw) else { continue };
        let heads = ["pooler.", "lm.", "sequence.", "classifier.", "replaced."];
        let of_any = heads.iter().any(|head| name.starts_with(head));
        if !of_any || of_head(&name) && !name.starts_with("classifier.") {
            let raw = whole_name(family, raw, &name);
            parts.push((raw, Part::Stored(plain(tensor, bytes, &too_large))));
            there.insert(name);
        }
    }
    let mut random = random(seed, 0, Purpose::Start);
    for (name, raw, shape) in head.into_iter().filter(|(name, ..)| !there.contains(name)) {
        let count = shape.iter().product();
        let values = match (shape.len(), name.ends_with("norm.weight")) {
            (_, true) => vec![1.0; count],
            (1, _) => vec![0.0; count],
            _ => normal_numbers(&mut random, count, 0.02),
        };
        let raw = raw.ok_or_else(|| {
            Error::checkpoint(path, format!("{} has no `{name}`", family.model_type))
        })?;
        parts.push((raw, Part::New(shape, values)));
    }
    write_folder(files, out, &text, true, |path, shown| write(path, shown, parts))?;
    Ok(())
}

/// The configuration of a classifier of this class that tells these.
fn described(bytes: &[u8], class: &str, classes: &[String]) -> serde_json::Result<Vec<u8>> {
    let mut text: Map<String, Value> = serde_json::from_slice(bytes)?;
    let names = classes.iter().enumerate();
    let labels = names.clone().map(|(id, name)| (id.to_string(), Value::from(name.as_str())));
    let ids = names.map(|(id, name)| (name.clone(), Value::from(id)));
    text.insert("architectures".into(), json!([class]));
    text.insert("problem_type".into(), "single_label_classification".into());
    text.insert("id2label".into(), labels.collect());
    text.insert("label2id".into(), ids.collect());
    let mut text = serde_json::to_vec_pretty(&text)?;
    text.push(b'\n');
    Ok(text)
}

/// A tensor by its name here, the one in a file, and its shape.
type Wanted = (String, Option<String>, Vec<usize>);

/// The tensors of a classifier of texts or of tokens.
fn head(family: &Family, config: &Config, task: Task, classes: usize) -> Vec<Wanted> {
    let width = config.hidden_size;
    let mut all = vec![
        ("classifier.weight".to_owned(), vec![classes, width]),
        ("classifier.bias".to_owned(), vec![classes]),
    ];
    let of_tokens = task == Task::TokenClassification;
    let own = family.raw("sequence.transform.weight").is_some();
    let transform = match (config.task_heads.shared, of_tokens, own) {
        (true, ..) => Some("lm.transform"),
        (_, true, _) => None,
        (.., true) => Some("sequence.transform"),
        (.., false) => Some("pooler"),
    };
    if let Some(transform) = transform {
        all.push((format!("{transform}.weight"), vec![width, width]));
        match config.task_heads.shared {
            // ModernBERT's maps have no biases
            true => all.push(("lm.norm.weight".into(), vec![width])),
            false => all.push((format!("{transform}.bias"), vec![width])),
        }
    }
    // that of tokens is one map in all families, that of texts a module of several in some
    let raw = |name: &str| match of_tokens && name.starts_with("classifier.") {
        true => Some(name.to_owned()),
        false => family.raw(name),
    };
    all.into_iter().map(|(name, shape)| (name.clone(), raw(&name), shape)).collect()
}

/// The name of an encoder's tensor in a file that holds a head too.
fn whole_name(family: &Family, raw: &str, canonical: &str) -> String {
    let head = ["classifier.", "sequence.", "lm.", "replaced."];
    let bare = raw.strip_prefix(family.prefix).unwrap_or(raw);
    match head.iter().any(|head| canonical.starts_with(head)) && family.prefix != bare {
        true => bare.to_owned(),
        false => format!("{}{bare}", family.prefix),
    }
}

fn write<'a, S: AsRef<str> + Ord + std::fmt::Display, V: View + 'a>(
    path: &Path,
    shown: &Path,
    parts: impl IntoIterator<Item = (S, V)>,
) -> Result<()> {
    // what transformers asks for before it loads a file
    let about = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    safetensors::serialize_to_file(parts, Some(about), path)
        .map_err(|why| Error::Output { path: shown.into(), why: why.to_string() })
}

/// A tensor of the start: as the file has it, or new.
enum Part<'a> {
    Stored(Cast<'a>),
    New(Vec<usize>, Vec<f32>),
}

impl View for Part<'_> {
    fn dtype(&self) -> Dtype {
        match self {
            Self::Stored(cast) => cast.dtype(),
            Self::New(..) => Dtype::F32,
        }
    }

    fn shape(&self) -> &[usize] {
        match self {
            Self::Stored(cast) => cast.shape(),
            Self::New(shape, _) => shape,
        }
    }

    fn data(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Stored(cast) => cast.data(),
            Self::New(_, values) => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
        }
    }

    fn data_len(&self) -> usize {
        match self {
            Self::Stored(cast) => cast.data_len(),
            Self::New(_, values) => 4 * values.len(),
        }
    }
}
