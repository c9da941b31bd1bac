//! Stages of a run → one file.

use std::collections::HashMap;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use candle_core::{DType, Tensor};
use serde::Serialize;
use serde_json::{Map, Value};
use tempfile::NamedTempFile;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::npy;
use crate::error::{Error, Result};
use crate::output::{prove_writable, write_aside, write_by_path};

/// Named tensors of one run, in the order of computation.
#[derive(Debug, Clone, Default)]
pub struct Stages {
    /// Names as in transformers: `hidden_states.0`, `attentions.0`, …
    pub tensors: Vec<(String, Tensor)>,
    /// What made them: model, tokens and so on. JSON text in the metadata entry `attnviz` of a
    /// safetensors file, keys beside the tensors in JSON; an npz file holds the token texts alone,
    /// as `tokens`.
    pub about: Map<String, Value>,
}

/// The file formats of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// `.safetensors`
    Safetensors,
    /// `.npz`, not compressed
    Npz,
    /// `.json`, arrays as nested lists
    Json,
}

/// A file that is going to be written.
#[derive(Debug, Clone)]
pub struct Target {
    path: PathBuf,
    format: FileFormat,
}

impl Target {
    /// Takes the format from the name and proves that the file can be written.
    ///
    /// # Errors
    /// [`Error::Usage`] for another ending, [`Error::Output`] when the file exists and `force` is
    /// off, [`Error::Io`] when its folder cannot be written.
    pub fn new(path: &Path, force: bool) -> Result<Self> {
        let format = match path.extension().and_then(|e| e.to_str()) {
            Some("safetensors") => FileFormat::Safetensors,
            Some("npz") => FileFormat::Npz,
            Some("json") => FileFormat::Json,
            _ => {
                return Err(Error::Usage {
                    flag: "--out".into(),
                    want: "a file called .safetensors, .npz or .json".into(),
                    found: path.display().to_string(),
                });
            }
        };
        if path.is_dir() {
            return Err(Error::Output { path: path.into(), why: "is a folder".into() });
        }
        if path.exists() && !force {
            let why = "exists already; --force overwrites it".into();
            return Err(Error::Output { path: path.into(), why });
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        prove_writable(folder)?;
        if !folder.as_os_str().is_empty() {
            std::fs::create_dir_all(folder).map_err(Error::io(folder, "create it"))?;
        }
        Ok(Self { path: path.into(), format })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the file aside and renames it into place.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be written, [`Error::Tensor`] when a tensor cannot be read.
    pub fn write(&self, stages: &Stages) -> Result<()> {
        match self.format {
            FileFormat::Safetensors => {
                write_by_path(&self.path, |aside| self.safetensors(aside, stages))
            }
            FileFormat::Npz => write_aside(&self.path, |file| self.npz(file, stages)),
            FileFormat::Json => write_aside(&self.path, |file| self.json(file, stages)),
        }
    }

    fn failed(&self, why: impl ToString) -> Error {
        Error::Output { path: self.path.clone(), why: why.to_string() }
    }

    fn safetensors(&self, aside: &Path, stages: &Stages) -> Result<()> {
        // one entry: the order of several would change from run to run
        let about = Value::Object(stages.about.clone()).to_string();
        let about = HashMap::from([("attnviz".to_owned(), about)]);
        let plain = stages.tensors.iter().map(|(name, one)| Ok((name.as_str(), plain(one)?.0)));
        let plain = plain.collect::<Result<Vec<_>>>()?;
        let views = plain.iter().map(|(name, tensor)| (*name, tensor));
        safetensors::serialize_to_file(views, Some(about), aside).map_err(|e| self.failed(e))
    }

    fn npz(&self, file: &mut NamedTempFile, stages: &Stages) -> Result<()> {
        let mut zip = ZipWriter::new(BufWriter::new(file));
        let mut add = |name: &str, head: Vec<u8>, data: &[u8]| -> Result<()> {
            // no time stamp and no compression: the same bytes for the same numbers
            let options = SimpleFileOptions::default()
                .compression_method(zip::CompressionMethod::Stored)
                .large_file(data.len() > u32::MAX as usize / 2);
            zip.start_file(format!("{name}.npy"), options).map_err(|e| self.failed(e))?;
            zip.write_all(&head)
                .and_then(|()| zip.write_all(data))
                .map_err(Error::io(&self.path, "write it"))
        };
        for (name, tensor) in &stages.tensors {
            let (tensor, descr) = plain(tensor)?;
            add(name, npy::write_header(descr, tensor.dims()), &bytes(&tensor)?)?;
        }
        if let Some(Value::Array(tokens)) = stages.about.get("tokens") {
            let texts: Vec<&str> = tokens.iter().map(token_text).collect();
            let (descr, data) = unicode(&texts);
            add("tokens", npy::write_header(&descr, &[texts.len()]), &data)?;
        }
        let mut inner = zip.finish().map_err(|e| self.failed(e))?;
        inner.flush().map_err(Error::io(&self.path, "write it"))
    }

    fn json(&self, file: &mut NamedTempFile, stages: &Stages) -> Result<()> {
        let mut out = BufWriter::new(file);
        let failed = || Error::io(&self.path, "write it");
        let keys = stages.about.keys().chain(stages.tensors.iter().map(|(name, _)| name));
        let starts = keys.zip(std::iter::once("{\n").chain(std::iter::repeat(",\n")));
        let starts: Vec<String> = starts
            .map(|(key, before)| format!("{before}{}: ", Value::from(key.as_str())))
            .collect();
        let (about, tensors) = starts.split_at(stages.about.len());
        for (start, value) in about.iter().zip(stages.about.values()) {
            write!(out, "{start}{value}").map_err(failed())?;
        }
        for (start, (_, tensor)) in tensors.iter().zip(&stages.tensors) {
            out.write_all(start.as_bytes()).map_err(failed())?;
            nested(&mut out, tensor)?.map_err(failed())?;
        }
        let end: &[u8] = if starts.is_empty() { b"{}\n" } else { b"\n}\n" };
        out.write_all(end).and_then(|()| out.flush()).map_err(failed())
    }
}

/// The tensor in a type that all formats know, with numpy's name for it.
fn plain(tensor: &Tensor) -> Result<(Tensor, &'static str)> {
    Ok(match tensor.dtype() {
        DType::F64 => (tensor.clone(), "<f8"),
        DType::I64 => (tensor.clone(), "<i8"),
        DType::U32 | DType::U8 => (tensor.to_dtype(DType::I64)?, "<i8"),
        _ => (tensor.to_dtype(DType::F32)?, "<f4"),
    })
}

/// The values in C order, little-endian.
fn bytes(tensor: &Tensor) -> Result<Vec<u8>> {
    let flat = tensor.flatten_all()?;
    Ok(match flat.dtype() {
        DType::F64 => flat.to_vec1::<f64>()?.iter().flat_map(|v| v.to_le_bytes()).collect(),
        DType::I64 => flat.to_vec1::<i64>()?.iter().flat_map(|v| v.to_le_bytes()).collect(),
        _ => flat.to_vec1::<f32>()?.iter().flat_map(|v| v.to_le_bytes()).collect(),
    })
}

fn token_text(token: &Value) -> &str {
    token.get("text").unwrap_or(token).as_str().unwrap_or_default()
}

/// numpy's fixed-width text: UCS-4, padded with zeros.
fn unicode(texts: &[&str]) -> (String, Vec<u8>) {
    let width = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0).max(1);
    let padded = |text: &str| {
        let codes: Vec<u32> = text.chars().map(u32::from).collect();
        codes
            .into_iter()
            .chain(std::iter::repeat(0))
            .take(width)
            .flat_map(u32::to_le_bytes)
            .collect()
    };
    (format!("<U{width}"), texts.iter().flat_map(|text| -> Vec<u8> { padded(text) }).collect())
}

/// Writes a tensor as nested lists of the shortest digits that read back as the same numbers; what
/// JSON has no number for is null.
fn nested(out: &mut impl Write, tensor: &Tensor) -> Result<std::io::Result<()>> {
    let (tensor, _) = plain(tensor)?;
    let flat = tensor.flatten_all()?;
    Ok(match flat.dtype() {
        DType::I64 => nest(out, tensor.dims(), &flat.to_vec1::<i64>()?),
        DType::F64 => nest(out, tensor.dims(), &flat.to_vec1::<f64>()?),
        _ => nest(out, tensor.dims(), &flat.to_vec1::<f32>()?),
    })
}

fn nest<T: Serialize>(out: &mut impl Write, shape: &[usize], values: &[T]) -> std::io::Result<()> {
    match (shape, values) {
        ([] | [_], values) => {
            if let ([], [only]) = (shape, values) {
                return Ok(serde_json::to_writer(out, only)?);
            }
            Ok(serde_json::to_writer(out, values)?)
        }
        ([_, inner @ ..], values) => {
            out.write_all(b"[")?;
            // an axis of no length has nothing inside
            let each = inner.iter().product::<usize>().max(1);
            for (i, part) in values.chunks(each).enumerate() {
                out.write_all(if i > 0 { b"," } else { b"" })?;
                nest(out, inner, part)?;
            }
            out.write_all(b"]")
        }
    }
}
