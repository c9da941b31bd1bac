//! Weight files → tensors under canonical names, every one accounted for.

mod blocks;
mod checkpoint;
mod convert;
mod gguf;
mod map;
mod pickle;
mod table;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, Result};
pub(crate) use checkpoint::{Checkpoint, Stored};
pub(crate) use convert::{Number, Storage};
use map::Bytes;
pub(crate) use table::Table;

type File = (PathBuf, Arc<Bytes>);

/// The tensors of a checkpoint under canonical names; remembers which were used.
pub(crate) struct Weights {
    path: PathBuf,
    files: Vec<File>,
    tensors: BTreeMap<String, Stored>,
    survey: Option<Survey>,
}

/// What a checkpoint lacks, gathered by a loading that reads nothing.
struct Survey {
    wrong: Mutex<Vec<Error>>,
    /// Numbers of missing tensors that may still be stood in for: sizes come from the config.
    left: AtomicUsize,
}

impl Survey {
    /// More than this many complaints help nobody.
    const MOST: usize = 1000;
}

impl Weights {
    fn new(
        path: PathBuf,
        files: Vec<File>,
        tensors: BTreeMap<String, Stored>,
        survey: bool,
    ) -> Self {
        let survey =
            survey.then(|| Survey { wrong: Mutex::default(), left: AtomicUsize::new(1 << 28) });
        Self { path, files, tensors, survey }
    }

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

    /// Whether a tensor was read or accounted for.
    pub fn is_used(&self, name: &str) -> bool {
        self.tensors.get(name).is_some_and(|stored| stored.used.load(Ordering::Relaxed))
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

    /// What was asked for and is not there as it should be; of a survey alone.
    pub fn wrong(&self) -> Vec<String> {
        let Some(survey) = &self.survey else { return Vec::new() };
        let wrong = survey.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines: Vec<String> = wrong.iter().map(Error::to_string).collect();
        lines.sort();
        lines.dedup();
        lines
    }

    /// A tensor to read, or nothing in a survey.
    fn find(&self, name: &str, want: &[usize]) -> Result<Option<(&Stored, Number)>> {
        let found = self.checked(name, want);
        let Some(survey) = &self.survey else { return found.map(Some) };
        let Err(error) = found else { return Ok(None) };
        let size = want.iter().try_fold(1usize, |all, &n| all.checked_mul(n));
        let left = |left: usize| left.checked_sub(size?);
        let fits = survey.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).is_ok();
        let mut wrong = survey.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        if !fits || wrong.len() >= Survey::MOST {
            return Err(error);
        }
        wrong.push(error);
        Ok(None)
    }

    fn checked(&self, name: &str, want: &[usize]) -> Result<(&Stored, Number)> {
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
        let number = Number::of(stored.dtype).ok_or_else(|| {
            let (name, found) = (&stored.raw, stored.dtype);
            let why = format!("tensor `{name}` is {found:?}, expected F32, F16, BF16 or F64");
            Error::checkpoint(path, why)
        })?;
        Ok((stored, number))
    }

    /// Checks that a tensor is there with this shape and can be read.
    pub fn expect(&self, name: &str, want: &[usize]) -> Result<()> {
        self.find(name, want).map(|_| ())
    }

    fn bytes(&self, stored: &Stored) -> Cow<'_, [u8]> {
        stored.in_order(&self.files[stored.file].1.slice()[stored.range.clone()])
    }

    /// Whether a tensor is stored in blocks that are decoded as they are read.
    pub fn in_blocks(&self, name: &str) -> bool {
        let stored = self.tensors.get(name);
        stored.is_some_and(|stored| matches!(stored.dtype, Storage::Blocks(_)))
    }

    /// A tensor of any shape as stored.
    pub fn values(&self, name: &str, want: &[usize]) -> Result<Vec<f32>> {
        let found = self.find(name, want)?;
        let mut out = vec![0.0; want.iter().product()];
        if let Some((stored, number)) = found {
            number.decode(&self.bytes(stored), &mut out);
        }
        Ok(out)
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
        let found = self.find(name, &[rows, cols])?;
        if let Some((stored, number)) = found.filter(|_| rows > 0 && cols > 0) {
            number.decode_turned(&self.bytes(stored), (rows, cols), &mut out[first..], stride);
        }
        Ok(())
    }

    /// A matrix `[rows, cols]` that stays as it is stored; rows are converted when asked for.
    pub fn table(&self, name: &str, rows: usize, cols: usize) -> Result<Table> {
        let Some((stored, number)) = self.find(name, &[rows, cols])? else {
            let bytes = Arc::new(Bytes::Nothing);
            return Ok(Table { bytes, range: 0..0, number: Number::F32, rows, cols });
        };
        if let Cow::Owned(bytes) = self.bytes(stored) {
            let (range, bytes) = (0..bytes.len(), Arc::new(Bytes::Owned(bytes)));
            return Ok(Table { bytes, range, number, rows, cols });
        }
        let bytes = Arc::clone(&self.files[stored.file].1);
        Ok(Table { bytes, range: stored.range.clone(), number, rows, cols })
    }
}
