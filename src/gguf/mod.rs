//! The header of a GGUF file: what llama.cpp calls metadata, and where each tensor is. Format:
//! <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>. candle has a reader too, which
//! divides by an alignment that the file may set to 0 and does not say which tensor has a type
//! that it does not know.

mod read;
mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::hub::Asset;
use read::Reader;
pub(crate) use value::Value;

/// The first four bytes of such a file.
const MAGIC: [u8; 4] = *b"GGUF";

/// Where data begins, in multiples of this, unless `general.alignment` says otherwise.
const ALIGNMENT: u64 = 32;

/// What a file says of itself.
pub(crate) struct Header {
    path: PathBuf,
    metadata: BTreeMap<String, Value>,
    pub tensors: Vec<Place>,
    /// Where the tensors begin in the file.
    pub data: u64,
}

/// A tensor of the file.
pub(crate) struct Place {
    pub name: String,
    /// Rows before columns, as everywhere else here; the file has it the other way round.
    pub shape: Vec<u64>,
    /// As ggml numbers its types.
    pub kind: u32,
    /// From where the tensors begin.
    pub offset: u64,
}

impl Header {
    /// Reads a file up to its tensors.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] for a file that is no GGUF or not whole, [`Error::Io`] for one that
    /// cannot be read.
    pub fn open(asset: &Asset) -> Result<Self> {
        let path = asset.path();
        let wrong = |why: String| Error::checkpoint(path, why);
        match asset {
            Asset::BuiltIn { bytes, .. } => {
                let mut reader = Reader::new(*bytes, bytes.len() as u64);
                Self::read(path, &mut reader).map_err(wrong)
            }
            Asset::Disk(path) => {
                let file = File::open(path).map_err(Error::io(path, "open it"))?;
                let length = file.metadata().map_err(Error::io(path, "read its size"))?.len();
                let mut reader = Reader::new(BufReader::with_capacity(1 << 20, file), length);
                Self::read(path, &mut reader).map_err(wrong)
            }
        }
    }

    fn read(path: &Path, reader: &mut Reader<impl std::io::Read>) -> Result<Self, String> {
        begin(reader)?;
        let (tensors, pairs) = (reader.u64()?, reader.u64()?);
        // at least: a key's length, a type and a byte; a name's length, axes, a type and an offset
        reader.expect(pairs.saturating_mul(13).saturating_add(tensors.saturating_mul(24)))?;
        let mut metadata = BTreeMap::new();
        for _ in 0..pairs {
            let key = reader.name()?;
            let kind = reader.u32()?;
            let value = Value::read(reader, kind, true).map_err(|why| format!("`{key}`: {why}"))?;
            if metadata.contains_key(&key) {
                return Err(format!("`{key}` is in it twice"));
            }
            metadata.insert(key, value);
        }
        let (mut seen, mut places) = (BTreeSet::new(), Vec::new());
        for _ in 0..tensors {
            let place = place(reader)?;
            if !seen.insert(place.name.clone()) {
                return Err(format!("tensor `{}` is in it twice", place.name));
            }
            places.push(place);
        }
        let alignment = match metadata.get("general.alignment") {
            None => ALIGNMENT,
            Some(value) => value.whole().filter(|&n| n > 0 && n <= 1 << 20).ok_or_else(|| {
                format!("`general.alignment`: expected 1 to {}, found {value}", 1 << 20)
            })?,
        };
        let data = reader.position().next_multiple_of(alignment);
        Ok(Self { path: path.to_path_buf(), metadata, tensors: places, data })
    }

    /// The file, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        self.metadata.get(key)
    }

    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.metadata.keys().map(String::as_str)
    }

    /// A value that is not what it has to be; `None` for one that is missing.
    pub fn wrong(&self, key: &str, want: &str, found: Option<&Value>) -> Error {
        Error::Config {
            path: self.path.clone(),
            key: key.into(),
            want: want.into(),
            found: found.map_or("nothing".into(), Value::to_string),
        }
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        want: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        let value = self.get(key);
        value.map(|v| read(v).ok_or_else(|| self.wrong(key, want, Some(v)))).transpose()
    }

    pub fn text(&self, key: &str) -> Result<Option<&str>> {
        self.typed(key, "a string", Value::text)
    }

    pub fn whole(&self, key: &str) -> Result<Option<u64>> {
        self.typed(key, "a whole number", Value::whole)
    }

    pub fn number(&self, key: &str) -> Result<Option<f64>> {
        self.typed(key, "a number", |value| value.number().filter(|x| x.is_finite()))
    }

    pub fn flag(&self, key: &str) -> Result<Option<bool>> {
        self.typed(key, "true or false", Value::flag)
    }

    pub fn list(&self, key: &str) -> Result<Option<&[Value]>> {
        self.typed(key, "a list", Value::list)
    }
}

/// Magic and version.
fn begin(reader: &mut Reader<impl std::io::Read>) -> Result<(), String> {
    if reader.array()? != MAGIC {
        return Err("not a GGUF file: it does not begin with `GGUF`".into());
    }
    match reader.u32()? {
        2 | 3 => Ok(()),
        version if version.swap_bytes() <= 3 => {
            Err("big-endian, expected a little-endian GGUF file".into())
        }
        version => Err(format!("GGUF of version {version}, expected 2 or 3")),
    }
}

fn place(reader: &mut Reader<impl std::io::Read>) -> Result<Place, String> {
    let name = reader.name()?;
    let axes = reader.u32()?;
    if axes > 4 {
        return Err(format!("tensor `{name}` has {axes} axes, expected at most 4"));
    }
    let mut shape = (0..axes).map(|_| reader.u64()).collect::<Result<Vec<_>, _>>()?;
    shape.reverse();
    Ok(Place { name, shape, kind: reader.u32()?, offset: reader.u64()? })
}
