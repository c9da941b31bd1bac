//! Weights files → tensors under the names that the files give them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use safetensors::{SafeTensorError, SafeTensors};

use super::convert::Storage;
use super::gguf;
use super::map::Bytes;
use super::pickle::{self, Place};
use super::{File, Weights};
use crate::error::{Error, Result};
use crate::hub::weights::{LFS_POINTER, is_gguf, is_lfs_pointer, is_pickle};
use crate::hub::{Asset, ModelFiles};

/// One tensor of a file, not yet read.
pub(crate) struct Stored {
    /// Its name in the file.
    pub raw: String,
    pub shape: Vec<usize>,
    pub dtype: Storage,
    pub(super) file: usize,
    pub(super) range: Range<usize>,
    /// Width of the heads whose rows the file has in pairs.
    paired: Option<usize>,
    pub(super) used: AtomicBool,
}

impl Stored {
    /// Its bytes, from those in the file, with rows in the order that models expect.
    pub fn in_order<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        match (self.paired, self.shape.first()) {
            (Some(head_dim), Some(&rows)) => Cow::Owned(gguf::unpaired(bytes, rows, head_dim)),
            _ => Cow::Borrowed(bytes),
        }
    }
}

/// The tensors of a checkpoint under the names that its files give them.
pub(crate) struct Checkpoint {
    files: Vec<File>,
    tensors: BTreeMap<String, Stored>,
    notes: Vec<String>,
    /// The configuration, where it is in the file of the weights.
    config: Option<Vec<u8>>,
    survey: bool,
}

impl Checkpoint {
    /// Maps every weights file and reads what is in it.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] for a file that is not whole, for a pickle of anything but tensors,
    /// and for a tensor that two shards hold.
    pub fn open(files: &ModelFiles) -> Result<Self> {
        let mut checkpoint = Self {
            files: Vec::new(),
            tensors: BTreeMap::new(),
            notes: Vec::new(),
            config: None,
            survey: false,
        };
        for asset in &files.weights {
            let (path, bytes) = (asset.path(), Bytes::open(asset)?);
            match (is_gguf(path), is_pickle(path)) {
                (true, _) => checkpoint.add_gguf(asset, bytes)?,
                (_, true) => checkpoint.add_pickle(path, bytes)?,
                _ => checkpoint.add(path, bytes)?,
            }
        }
        Ok(checkpoint)
    }

    /// For looking alone: what is asked of it is noted, nothing is read, and what is missing does
    /// not stop the loading.
    pub fn surveyed(self) -> Self {
        Self { survey: true, ..self }
    }

    fn add(&mut self, path: &Path, bytes: Bytes) -> Result<()> {
        let (header, metadata) = SafeTensors::read_metadata(bytes.slice())
            .map_err(|error| Error::checkpoint(path, explain(bytes.slice(), &error)))?;
        let file = self.push(path, bytes);
        for (raw, info) in metadata.tensors() {
            let (from, to) = info.data_offsets;
            let range = header + 8 + from..header + 8 + to;
            let dtype = Storage::Plain(info.dtype);
            self.insert(raw, info.shape.clone(), dtype, (file, range))?;
        }
        Ok(())
    }

    fn add_pickle(&mut self, path: &Path, bytes: Bytes) -> Result<()> {
        if is_lfs_pointer(bytes.slice()) {
            return Err(Error::checkpoint(path, LFS_POINTER));
        }
        let found = pickle::read(bytes.slice()).map_err(|why| Error::checkpoint(path, why))?;
        let notes = found.notes.iter().map(|note| format!("{}: {note}", path.display()));
        self.notes.extend(notes);
        let file = self.push(path, bytes);
        for one in found.tensors {
            let at = match one.place {
                Place::InFile(range) => (file, range),
                Place::Copied(bytes) => {
                    let length = bytes.len();
                    (self.push(path, Bytes::Owned(bytes)), 0..length)
                }
            };
            self.insert(one.name, one.shape, Storage::Plain(one.dtype), at)?;
        }
        Ok(())
    }

    fn add_gguf(&mut self, asset: &Asset, bytes: Bytes) -> Result<()> {
        if is_lfs_pointer(bytes.slice()) {
            return Err(Error::checkpoint(asset.path(), LFS_POINTER));
        }
        let found = gguf::read(asset, &bytes)?;
        self.notes.extend(found.notes);
        self.config = Some(found.config);
        let file = self.push(asset.path(), bytes);
        for one in found.tensors {
            let stored = Stored {
                raw: one.raw,
                shape: one.shape,
                dtype: one.storage,
                file,
                range: one.range,
                paired: one.paired,
                used: AtomicBool::new(false),
            };
            self.put(one.name, stored)?;
        }
        Ok(())
    }

    fn push(&mut self, path: &Path, bytes: Bytes) -> usize {
        self.files.push((path.to_path_buf(), Arc::new(bytes)));
        self.files.len() - 1
    }

    fn insert(
        &mut self,
        raw: String,
        shape: Vec<usize>,
        dtype: Storage,
        (file, range): (usize, Range<usize>),
    ) -> Result<()> {
        let (paired, used) = (None, AtomicBool::new(false));
        let stored = Stored { raw: raw.clone(), shape, dtype, file, range, paired, used };
        self.put(raw, stored)
    }

    fn put(&mut self, name: String, stored: Stored) -> Result<()> {
        let file = stored.file;
        match self.tensors.entry(name) {
            Slot::Vacant(slot) => slot.insert(stored),
            Slot::Occupied(slot) => {
                let (path, first) = (&self.files[file].0, &self.files[slot.get().file].0);
                let why = match path == first {
                    true => format!("tensor `{}` is in it twice", slot.key()),
                    false => format!("tensor `{}` is in {} too", slot.key(), first.display()),
                };
                return Err(Error::checkpoint(path, why));
            }
        };
        Ok(())
    }

    /// Names as the files give them, of a GGUF file as transformers would.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Everything by its name, with its bytes in the file.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &Stored, &[u8])> {
        let bytes = |one: &Stored| &self.files[one.file].1.slice()[one.range.clone()];
        self.tensors.iter().map(move |(name, one)| (name.as_str(), one, bytes(one)))
    }

    /// The configuration that is in the file of the weights, with that file's path.
    pub fn config(&self) -> Option<(&Path, &[u8])> {
        self.config.as_deref().map(|config| (self.path(), config))
    }

    /// What was left aside, one sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
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
        Ok((Weights::new(path, self.files, tensors, self.survey), left))
    }
}

/// Why a file is not safetensors, as its owner would put it.
fn explain(bytes: &[u8], error: &SafeTensorError) -> String {
    if is_lfs_pointer(bytes) {
        return LFS_POINTER.into();
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
