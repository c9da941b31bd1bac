//! Stages of a run → one file.

use std::collections::HashMap;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use candle_core::{DType, Tensor};
use serde_json::{Map, Value};
use tempfile::NamedTempFile;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::npy;
use crate::error::{Error, Result};
use crate::output::{prove_writable, write_aside};

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
        write_aside(&self.path, |file| match self.format {
            FileFormat::Safetensors => self.safetensors(file, stages),
            FileFormat::Npz => self.npz(file, stages),
            FileFormat::Json => self.json(file, stages),
        })
    }

    fn failed(&self, why: impl ToString) -> Error {
        Error::Output { path: self.path.clone(), why: why.to_string() }
    }

    fn safetensors(&self, file: &mut NamedTempFile, stages: &Stages) -> Result<()> {
        // one entry: the order of several would change from run to run
        let about = Value::Object(stages.about.clone()).to_string();
        let about = HashMap::from([("attnviz".to_owned(), about)]);
        let plain = stages.tensors.iter().map(|(name, one)| Ok((name.as_str(), plain(one)?.0)));
        let plain = plain.collect::<Result<Vec<_>>>()?;
        let views = plain.iter().map(|(name, tensor)| (*name, tensor));
        safetensors::serialize_to_file(views, Some(about), file.path()).map_err(|e| self.failed(e))
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
        let mut separator = "{\n";
        let mut add = |name: &str, value: &str| -> Result<()> {
            let line = format!("{}{}: {value}", separator, Value::from(name));
            separator = ",\n";
            out.write_all(line.as_bytes()).map_err(Error::io(&self.path, "write it"))
        };
        for (key, value) in &stages.about {
            add(key, &value.to_string())?;
        }
        for (name, tensor) in &stages.tensors {
            add(name, &nested(tensor)?)?;
        }
        let empty = stages.about.is_empty() && stages.tensors.is_empty();
        let end: &[u8] = if empty { b"{}\n" } else { b"\n}\n" };
        out.write_all(end).and_then(|()| out.flush()).map_err(Error::io(&self.path, "write it"))
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

/// A tensor as nested lists; what is not a number is null.
fn nested(tensor: &Tensor) -> Result<String> {
    let (tensor, _) = plain(tensor)?;
    let flat = tensor.flatten_all()?;
    let numbers: Vec<String> = match flat.dtype() {
        DType::I64 => flat.to_vec1::<i64>()?.iter().map(i64::to_string).collect(),
        DType::F64 => flat.to_vec1::<f64>()?.iter().map(json_number).collect(),
        _ => flat.to_vec1::<f32>()?.iter().map(json_number).collect(),
    };
    let mut text = String::new();
    let mut rest = numbers.iter();
    nest(tensor.dims(), &mut rest, &mut text);
    Ok(text)
}

/// The shortest digits that read back as the same number; `null` for what JSON does not have.
fn json_number(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".into())
}

fn nest<'a>(shape: &[usize], numbers: &mut impl Iterator<Item = &'a String>, out: &mut String) {
    let Some((&length, inner)) = shape.split_first() else {
        out.push_str(numbers.next().map_or("null", String::as_str));
        return;
    };
    out.push('[');
    for i in 0..length {
        if i > 0 {
            out.push(',');
        }
        nest(inner, numbers, out);
    }
    out.push(']');
}
