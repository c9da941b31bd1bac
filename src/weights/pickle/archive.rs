//! The two containers of `torch.save`: a zip archive since torch 1.6, a run of pickles before.

use std::collections::HashMap;
use std::io::Cursor;
use std::ops::Range;

use candle_core::pickle::Object;
use zip::{CompressionMethod, ZipArchive};

use super::read::object;
use super::state::State;

/// A state dict and where its storages lie in the file.
pub(super) struct Archive {
    pub state: State,
    pub storages: HashMap<String, Range<usize>>,
    pub big_endian: bool,
}

/// What a file of torch before 1.6 starts with: the magic number, itself a pickle.
const MAGIC: &[u8] = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";

pub(super) fn open(bytes: &[u8]) -> Result<Archive, String> {
    if let Some(rest) = bytes.strip_prefix(MAGIC) {
        return old(bytes.len(), rest);
    }
    if bytes.starts_with(b"PK\x03\x04") {
        return zipped(bytes);
    }
    if bytes.get(257..262) == Some(b"ustar") {
        let how = "load it with any torch of today and save it again";
        return Err(format!("written by torch before 0.2 (a tar archive): {how}"));
    }
    Err("not a file of torch.save: expected a zip archive or a pickle with torch's mark".into())
}

fn zipped(bytes: &[u8]) -> Result<Archive, String> {
    let mut zip = ZipArchive::new(Cursor::new(bytes)).map_err(|_| {
        format!("the file is truncated or damaged: {} bytes without a zip directory", bytes.len())
    })?;
    let mut entries: HashMap<String, Range<usize>> = HashMap::new();
    for i in 0..zip.len() {
        let (name, range) = entry(&mut zip, i, bytes.len())?;
        if entries.insert(name.clone(), range).is_some() {
            return Err(format!("the archive holds `{name}` twice"));
        }
    }
    let mut roots = entries.keys().filter_map(|name| name.strip_suffix("data.pkl"));
    let root = match (roots.next(), roots.next()) {
        (Some(root), None) => root.to_owned(),
        (None, _) => return Err("a zip archive without data.pkl, so not torch's".into()),
        _ => return Err("a zip archive with several data.pkl".into()),
    };
    let content = |name: &str| entries.get(&format!("{root}{name}")).map(|at| &bytes[at.clone()]);
    let mut pickle = content("data.pkl").unwrap_or_default();
    let state = State::read(object(&mut pickle)?)?;
    let big_endian = content("byteorder") == Some(b"big");
    let folder = format!("{root}data/");
    let named = |(name, at): (String, _)| Some((name.strip_prefix(&folder)?.to_owned(), at));
    Ok(Archive { state, storages: entries.into_iter().filter_map(named).collect(), big_endian })
}

/// Name of an entry and where its content lies, which must be stored as it is.
fn entry(
    zip: &mut ZipArchive<Cursor<&[u8]>>,
    index: usize,
    length: usize,
) -> Result<(String, Range<usize>), String> {
    let damaged = |_| "the archive is damaged".to_string();
    let file = zip.by_index_raw(index).map_err(damaged)?;
    let name = file.name().map_err(damaged)?.into_owned();
    if file.compression() != CompressionMethod::Stored || file.encrypted() {
        let what = if file.encrypted() { "encrypted" } else { "compressed" };
        return Err(format!("`{name}` is {what}; torch stores its tensors as they are"));
    }
    let start = file.data_start().and_then(|at| usize::try_from(at).ok());
    let end = start.zip(usize::try_from(file.size()).ok()).and_then(|(at, n)| at.checked_add(n));
    match start.zip(end).filter(|&(_, end)| end <= length) {
        Some((start, end)) => Ok((name, start..end)),
        None => Err(format!("the file is truncated: `{name}` ends beyond its {length} bytes")),
    }
}

/// Version, system, state dict and storage names, each a pickle; then each storage with its length
/// before it.
fn old(length: usize, mut rest: &[u8]) -> Result<Archive, String> {
    if object(&mut rest)? != Object::Int(1001) {
        return Err("written by torch before 1.6 in a version of its format not known here".into());
    }
    let Object::Dict(system) = object(&mut rest)? else {
        return Err("its pickle is damaged".into());
    };
    let big_endian = system.iter().any(|(key, value)| {
        *key == Object::Unicode("little_endian".into()) && *value == Object::Bool(false)
    });
    let state = State::read(object(&mut rest)?)?;
    let Object::List(keys) = object(&mut rest)? else {
        return Err("its pickle is damaged".into());
    };
    let mut storages = HashMap::new();
    for key in keys {
        let known = match key {
            Object::Unicode(key) => {
                state.storages.get(&key).map(|dtype| (key, dtype.bitsize() / 8))
            }
            _ => None,
        };
        let (key, size) = known.ok_or("it lists a storage that no tensor has")?;
        let truncated = || format!("the file is truncated: storage `{key}` ends beyond its end");
        let (count, after) = rest.split_first_chunk().ok_or_else(truncated)?;
        let count = match big_endian {
            true => u64::from_be_bytes(*count),
            false => u64::from_le_bytes(*count),
        };
        let bytes = usize::try_from(count).ok().and_then(|count| count.checked_mul(size));
        let bytes = bytes.filter(|&n| n <= after.len()).ok_or_else(truncated)?;
        let start = length - after.len();
        rest = &after[bytes..];
        storages.insert(key, start..start + bytes);
    }
    Ok(Archive { state, storages, big_endian })
}
