//! Named arrays in a file: npz, npy or safetensors.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use ndarray::{ArrayD, IxDyn, ShapeBuilder};
use safetensors::{Dtype, SafeTensors};
use zip::ZipArchive;

use super::npy;
use crate::error::{Error, Result};

/// No single array may unpack to more than this, whatever its file promises.
const LIMIT: u64 = 4 << 30;

/// One array, widened to the two types that are used here.
#[derive(Debug, Clone, PartialEq)]
pub enum Array {
    /// From half, single or double precision.
    Float(ArrayD<f32>),
    /// From whole numbers of up to 64 bits, those without a sign of up to 32, and booleans.
    Int(ArrayD<i64>),
}

/// An open file of named arrays; each is read when it is asked for.
pub struct Arrays {
    path: PathBuf,
    source: Source,
}

enum Source {
    Zip(ZipArchive<BufReader<File>>),
    Npy(Vec<u8>),
    Tensors(Vec<u8>),
}

impl Arrays {
    /// Opens a `.npz`, `.npy` or `.safetensors` file.
    ///
    /// # Errors
    /// [`Error::Input`] when it is not such a file, [`Error::Io`] when it cannot be read.
    pub fn open(path: &Path) -> Result<Self> {
        let bytes = || std::fs::read(path).map_err(Error::io(path, "read it"));
        let source = match path.extension().and_then(|e| e.to_str()) {
            Some("npz") => {
                let file = File::open(path).map_err(Error::io(path, "read it"))?;
                Source::Zip(ZipArchive::new(BufReader::new(file)).map_err(|e| bad(path, e))?)
            }
            Some("npy") => Source::Npy(bytes()?),
            Some("safetensors") => {
                let bytes = bytes()?;
                SafeTensors::deserialize(&bytes).map_err(|e| bad(path, e))?;
                Source::Tensors(bytes)
            }
            _ => return Err(bad(path, "expected a file called .npz, .npy or .safetensors")),
        };
        Ok(Self { path: path.into(), source })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The names in the file, sorted; an `.npy` file holds one array without a name.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = match &self.source {
            Source::Zip(zip) => {
                let names = zip.file_names();
                names
                    .filter_map(|name| name.ok()?.strip_suffix(".npy").map(str::to_owned))
                    .collect()
            }
            Source::Npy(_) => vec![String::new()],
            Source::Tensors(bytes) => match SafeTensors::deserialize(bytes) {
                Ok(tensors) => tensors.names().into_iter().map(str::to_owned).collect(),
                Err(_) => Vec::new(),
            },
        };
        names.sort();
        names
    }

    /// The text entries beside the tensors of a safetensors file.
    pub fn metadata(&self) -> HashMap<String, String> {
        match &self.source {
            Source::Tensors(bytes) => SafeTensors::read_metadata(bytes)
                .ok()
                .and_then(|(_, metadata)| metadata.metadata().clone())
                .unwrap_or_default(),
            _ => HashMap::new(),
        }
    }

    /// Reads one array.
    ///
    /// # Errors
    /// [`Error::Input`] when it is not there or cannot be understood.
    pub fn get(&mut self, name: &str) -> Result<Array> {
        let path = &self.path;
        match &mut self.source {
            Source::Npy(bytes) => npy_array(path, name, bytes),
            Source::Zip(zip) => {
                let entry = zip.by_name(&format!("{name}.npy"));
                let entry = entry.map_err(|e| bad(path, format!("`{name}`: {e}")))?;
                let mut bytes = Vec::new();
                let read = entry.take(LIMIT + 1).read_to_end(&mut bytes);
                read.map_err(|e| bad(path, format!("`{name}`: {e}")))?;
                if bytes.len() as u64 > LIMIT {
                    return Err(bad(path, format!("`{name}`: expected at most {LIMIT} bytes")));
                }
                npy_array(path, name, &bytes)
            }
            Source::Tensors(bytes) => {
                let tensors = SafeTensors::deserialize(bytes).map_err(|e| bad(path, e))?;
                let tensor =
                    tensors.tensor(name).map_err(|e| bad(path, format!("`{name}`: {e}")))?;
                decode(tensor.dtype(), tensor.shape(), false, tensor.data())
                    .map_err(|why| bad(path, format!("`{name}`: {why}")))
            }
        }
    }
}

pub(super) fn bad(path: &Path, why: impl ToString) -> Error {
    Error::input(path.display().to_string(), why.to_string())
}

fn npy_array(path: &Path, name: &str, bytes: &[u8]) -> Result<Array> {
    let read = || {
        let (header, data) = npy::read_header(bytes)?;
        decode(header.dtype, &header.shape, header.fortran, data)
    };
    let label = if name.is_empty() { String::new() } else { format!("`{name}`: ") };
    read().map_err(|why| bad(path, format!("{label}{why}")))
}

/// Little-endian bytes → numbers.
fn decode(dtype: Dtype, shape: &[usize], fortran: bool, data: &[u8]) -> Result<Array, String> {
    fn each<const N: usize, T>(data: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
        data.as_chunks::<N>().0.iter().map(|&bytes| read(bytes)).collect()
    }
    let count = shape.iter().try_fold(1_usize, |n, &axis| n.checked_mul(axis));
    let want = count.and_then(|n| n.checked_mul(dtype.bitsize() / 8));
    if want != Some(data.len()) {
        return Err(format!("expected {want:?} bytes for shape {shape:?}, found {}", data.len()));
    }
    let order = IxDyn(shape).set_f(fortran);
    let float = |values| ArrayD::from_shape_vec(order.clone(), values).map(Array::Float);
    let int = |values| ArrayD::from_shape_vec(order.clone(), values).map(Array::Int);
    match dtype {
        Dtype::F16 => float(each(data, |b| f16::from_le_bytes(b).to_f32())),
        Dtype::BF16 => float(each(data, |b| bf16::from_le_bytes(b).to_f32())),
        Dtype::F32 => float(each(data, f32::from_le_bytes)),
        Dtype::F64 => float(each(data, |b| f64::from_le_bytes(b) as f32)),
        Dtype::I8 => int(each(data, |[b]: [u8; 1]| i64::from(b.cast_signed()))),
        Dtype::I16 => int(each(data, |b| i64::from(i16::from_le_bytes(b)))),
        Dtype::U16 => int(each(data, |b| i64::from(u16::from_le_bytes(b)))),
        Dtype::I32 => int(each(data, |b| i64::from(i32::from_le_bytes(b)))),
        Dtype::U32 => int(each(data, |b| i64::from(u32::from_le_bytes(b)))),
        Dtype::I64 => int(each(data, i64::from_le_bytes)),
        Dtype::U8 | Dtype::BOOL => int(each(data, |[b]: [u8; 1]| i64::from(b))),
        other => return Err(format!("expected real or whole numbers, found {other:?}")),
    }
    .map_err(|e| format!("shape {shape:?}: {e}"))
}
