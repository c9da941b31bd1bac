//! Weight files → tensors under canonical names, every one accounted for.

mod convert;
mod map;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use safetensors::{Dtype, SafeTensorError, SafeTensors};

use crate::error::{Error, Result};
use crate::hub::ModelFiles;
pub(crate) use convert::Number;
use map::Bytes;

/// One tensor of a file, not yet read.
pub(crate) struct Stored {
    /// Its name in the file.
    pub raw: String,
    pub shape: Vec<usize>,
    dtype: Dtype,
    file: usize,
    range: Range<usize>,
    used: AtomicBool,
}

/// The tensors of a checkpoint under the names that its files give them.
pub(crate) struct Checkpoint {
    files: Vec<(PathBuf, Arc<Bytes>)>,
    tensors: BTreeMap<String, Stored>,
}

impl Checkpoint {
    /// Maps every weights file and reads the headers.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] for a file that is not whole safetensors and for a tensor that two
    /// shards hold.
    pub fn open(files: &ModelFiles) -> Result<Self> {
        let mut checkpoint = Self { files: Vec::new(), tensors: BTreeMap::new() };
        for asset in &files.weights {
            let bytes = Bytes::open(asset)?;
            checkpoint.add(asset.path(), bytes)?;
        }
        Ok(checkpoint)
    }

    fn add(&mut self, path: &Path, bytes: Bytes) -> Result<()> {
        let (header, metadata) = SafeTensors::read_metadata(bytes.slice())
            .map_err(|error| Error::checkpoint(path, explain(bytes.slice(), &error)))?;
        let file = self.files.len();
        for (raw, info) in metadata.tensors() {
            let (from, to) = info.data_offsets;
            let stored = Stored {
                raw: raw.clone(),
                shape: info.shape.clone(),
                dtype: info.dtype,
                file,
                range: header + 8 + from..header + 8 + to,
                used: AtomicBool::new(false),
            };
            match self.tensors.entry(raw) {
                Slot::Vacant(slot) => slot.insert(stored),
                Slot::Occupied(slot) => {
                    let first = self.files[slot.get().file].0.display();
                    let why = format!("tensor `{}` is in {first} too", slot.key());
                    return Err(Error::checkpoint(path, why));
                }
            };
        }
        self.files.push((path.to_path_buf(), Arc::new(bytes)));
        Ok(())
    }

    /// Names as the files give them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// The file to name where none in particular is at fault.
    pub fn path(&self) -> &Path {
        self.files.first().map_or(Path::new("model.safetensors"), |(path, _)| path)
    }

    /// Renames every tensor; those without a canonical name are left aside, by their own names.
    pub fn rename(
        self,
        canonical: impl Fn(&str) -> Option<String>,
    ) -> Result<(Weights, Vec<String>)> {
        let mut left = Vec::new();
        let mut tensors: BTreeMap<String, Stored> = BTreeMap::new();
        for (raw, stored) in self.tensors {
            let Some(name) = canonical(&raw) else {
                left.push(raw);
                continue;
            };
            match tensors.entry(name) {
                Slot::Vacant(slot) => slot.insert(stored),
                Slot::Occupied(slot) => {
                    let why = format!("holds both `{}` and `{raw}`, which are one", slot.get().raw);
                    return Err(Error::checkpoint(&self.files[stored.file].0, why));
                }
            };
        }
        let path = self.files.first().map_or_else(PathBuf::new, |(path, _)| path.clone());
        Ok((Weights { path, files: self.files, tensors }, left))
    }
}

/// Why a file is not safetensors, as its owner would put it.
fn explain(bytes: &[u8], error: &SafeTensorError) -> String {
    if bytes.starts_with(b"version https://git-lfs") {
        return "this is a git-lfs pointer, not the weights; fetch them with `git lfs pull`".into();
    }
    if let SafeTensorError::MetadataIncompleteBuffer = error
        && let Some(want) = promised(bytes)
    {
        return match bytes.len() < want {
            true => format!(
                "the file is truncated: its header promises {want} bytes, found {}",
                bytes.len()
            ),
            false => format!(
                "the file has {} bytes, but its header accounts for {want} only",
                bytes.len()
            ),
        };
    }
    format!("not a whole safetensors file: {error}")
}

/// The file length that a safetensors header implies.
fn promised(bytes: &[u8]) -> Option<usize> {
    let length = u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?);
    let end = usize::try_from(length).ok()?.checked_add(8)?;
    let header: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(bytes.get(8..end)?).ok()?;
    let ends = header.values().filter_map(|info| info["data_offsets"][1].as_u64());
    end.checked_add(usize::try_from(ends.max()?).ok()?)
}

/// The tensors of a checkpoint under canonical names; remembers which were used.
pub(crate) struct Weights {
    path: PathBuf,
    files: Vec<(PathBuf, Arc<Bytes>)>,
    tensors: BTreeMap<String, Stored>,
}

impl Weights {
    /// Whether a tensor is there; asking does not count as using it.
    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// The shape of a tensor that is there.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(|stored| stored.shape.as_slice())
    }

    /// Names and shapes of everything.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &Stored)> {
        self.tensors.iter().map(|(name, stored)| (name.as_str(), stored))
    }

    /// The file to name where none in particular is at fault.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Marks a tensor as accounted for without reading it.
    pub fn account(&self, name: &str) {
        if let Some(stored) = self.tensors.get(name) {
            stored.used.store(true, Ordering::Relaxed);
        }
    }

    /// Names, as the files give them, of the tensors that nothing used.
    pub fn unused(&self) -> Vec<String> {
        let unused = self.tensors.values().filter(|one| !one.used.load(Ordering::Relaxed));
        unused.map(|one| one.raw.clone()).collect()
    }

    /// Storage types of the tensors in use, such as `F16`, each once.
    pub fn dtypes(&self) -> Vec<String> {
        let used = self.tensors.values().filter(|one| one.used.load(Ordering::Relaxed));
        let mut names: Vec<String> = used.map(|one| format!("{:?}", one.dtype)).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Numbers in the tensors in use.
    pub fn parameters(&self) -> usize {
        let used = self.tensors.values().filter(|one| one.used.load(Ordering::Relaxed));
        used.map(|one| one.shape.iter().product::<usize>()).sum()
    }

    fn find(&self, name: &str, want: &[usize]) -> Result<(&Stored, Number)> {
        let Some(stored) = self.tensors.get(name) else {
            return Err(Error::MissingTensor {
                path: self.path.clone(),
                tensor: name.into(),
                want: want.to_vec(),
            });
        };
        let path = &self.files[stored.file].0;
        stored.used.store(true, Ordering::Relaxed);
        if stored.shape != want {
            return Err(Error::Shape {
                path: path.clone(),
                tensor: stored.raw.clone(),
                want: want.to_vec(),
                found: stored.shape.clone(),
            });
        }
        let number = match stored.dtype {
            Dtype::F16 => Number::F16,
            Dtype::BF16 => Number::Bf16,
            Dtype::F32 => Number::F32,
            Dtype::F64 => Number::F64,
            other => {
                let why =
                    format!("tensor `{}` is {other:?}, expected F32, F16, BF16 or F64", stored.raw);
                return Err(Error::checkpoint(path, why));
            }
        };
        Ok((stored, number))
    }

    /// Checks that a tensor is there with this shape and can be read.
    pub fn expect(&self, name: &str, want: &[usize]) -> Result<()> {
        self.find(name, want).map(|_| ())
    }

    fn bytes(&self, stored: &Stored) -> &[u8] {
        &self.files[stored.file].1.slice()[stored.range.clone()]
    }

    /// A vector of `want` numbers.
    pub fn vector(&self, name: &str, want: usize) -> Result<Vec<f32>> {
        let (stored, number) = self.find(name, &[want])?;
        let mut out = vec![0.0; want];
        number.decode(self.bytes(stored), &mut out);
        Ok(out)
    }

    /// A tensor of any shape as stored.
    pub fn values(&self, name: &str, want: &[usize]) -> Result<Vec<f32>> {
        let (stored, number) = self.find(name, want)?;
        let mut out = vec![0.0; want.iter().product()];
        number.decode(self.bytes(stored), &mut out);
        Ok(out)
    }

    /// A matrix `[rows, cols]` as stored.
    pub fn matrix(&self, name: &str, rows: usize, cols: usize) -> Result<Vec<f32>> {
        self.table(name, rows, cols)?.rows_range(0, rows)
    }

    /// A stored `[rows, cols]` matrix turned into columns `first..first + rows` of `out`, whose
    /// rows have `stride` numbers: several may share one `out`.
    pub fn turned(
        &self,
        name: &str,
        (rows, cols): (usize, usize),
        out: &mut [f32],
        (first, stride): (usize, usize),
    ) -> Result<()> {
        let (stored, number) = self.find(name, &[rows, cols])?;
        if rows > 0 && cols > 0 {
            number.decode_turned(self.bytes(stored), (rows, cols), &mut out[first..], stride);
        }
        Ok(())
    }

    /// A matrix `[rows, cols]` that stays as it is stored; rows are converted when asked for.
    pub fn table(&self, name: &str, rows: usize, cols: usize) -> Result<Table> {
        let (stored, number) = self.find(name, &[rows, cols])?;
        let bytes = Arc::clone(&self.files[stored.file].1);
        Ok(Table { bytes, range: stored.range.clone(), number, rows, cols })
    }
}

/// A matrix left in its file: an embedding, of which an input needs a few rows.
#[derive(Clone)]
pub(crate) struct Table {
    bytes: Arc<Bytes>,
    range: Range<usize>,
    number: Number,
    pub rows: usize,
    pub cols: usize,
}

impl Table {
    /// The rows `ids`, one after another: `[ids.len(), cols]`.
    ///
    /// # Errors
    /// [`Error::Array`] for an id beyond the table.
    pub fn gather(&self, ids: &[u32]) -> Result<Vec<f32>> {
        let mut out = vec![0.0; ids.len() * self.cols];
        if self.cols > 0 {
            for (&id, row) in ids.iter().zip(out.chunks_exact_mut(self.cols)) {
                self.decode(id as usize, row)?;
            }
        }
        Ok(out)
    }

    /// `count` rows from `first`: `[count, cols]`.
    pub fn rows_range(&self, first: usize, count: usize) -> Result<Vec<f32>> {
        let mut out = vec![0.0; count * self.cols];
        if !out.is_empty() {
            self.decode(first, &mut out)?;
        }
        Ok(out)
    }

    fn decode(&self, first: usize, out: &mut [f32]) -> Result<()> {
        if first * self.cols + out.len() > self.rows * self.cols {
            return Err(Error::Array {
                what: "row of an embedding".into(),
                want: format!("below {}", self.rows),
                found: first.to_string(),
            });
        }
        let at = self.range.start + first * self.cols * self.number.size();
        self.number.decode(&self.bytes.slice()[at..self.range.end], out);
        Ok(())
    }
}
