//! A file's bytes in memory, without copying: mapped from disk, or in the binary's image.

use std::fs::File;

use memmap2::Mmap;

use crate::error::{Error, Result};
use crate::hub::Asset;

/// The bytes of one weights file.
pub(super) enum Bytes {
    Mapped(Mmap),
    BuiltIn(&'static [u8]),
    /// Tensors that the file does not hold in row order.
    Owned(Vec<u8>),
    /// Not to be read: a survey.
    Nothing,
}

impl Bytes {
    #[allow(unsafe_code)]
    pub fn open(asset: &Asset) -> Result<Self> {
        let path = match asset {
            Asset::BuiltIn { bytes, .. } => return Ok(Self::BuiltIn(bytes)),
            Asset::Disk(path) => path,
        };
        let file = File::open(path).map_err(Error::io(path, "open it"))?;
        let length = file.metadata().map_err(Error::io(path, "read its size"))?.len();
        if length == 0 {
            return Err(Error::checkpoint(path, "expected weights, found an empty file"));
        }
        // SAFETY: the map is read only and private to this value. As for every mapped file, the
        // caller must not shorten the checkpoint while it is in use; header and ranges are
        // checked against the length before anything is read through them.
        let map = unsafe { Mmap::map(&file) }.map_err(Error::io(path, "map it"))?;
        Ok(Self::Mapped(map))
    }

    pub fn slice(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::BuiltIn(bytes) => bytes,
            Self::Owned(bytes) => bytes,
            Self::Nothing => &[],
        }
    }
}
