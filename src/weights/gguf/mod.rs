//! GGUF files of llama.cpp → tensors under the names and in the row order of transformers, and the
//! configuration that transformers would keep beside them.

mod config;
mod keys;
mod names;
mod types;

use std::ops::Range;
use std::path::Path;

use super::convert::{Number, Storage};
use super::map::Bytes;
use crate::error::{Error, Result};
use crate::gguf::{Header, Place};
use crate::hub::Asset;
use config::{Shape, config};
use keys::Architecture;
pub(super) use types::name;

/// A factor for each rotary frequency, of models whose positions are scaled.
const FACTORS: &str = "rope_freqs.weight";

/// What a file holds.
pub(super) struct Found {
    pub tensors: Vec<Tensor>,
    /// As `config.json` would be.
    pub config: Vec<u8>,
    pub notes: Vec<String>,
}

/// One tensor of the file.
pub(super) struct Tensor {
    /// Its name in the file.
    pub raw: String,
    /// Its name in transformers; its own where it has none there.
    pub name: String,
    pub shape: Vec<usize>,
    pub storage: Storage,
    pub range: Range<usize>,
    /// Width of the heads whose rows llama.cpp has put in pairs.
    pub paired: Option<usize>,
}

/// Reads what a file of a model like Llama holds.
pub(super) fn read(asset: &Asset, bytes: &Bytes) -> Result<Found> {
    let header = Header::open(asset)?;
    let architecture = Architecture::of(&header)?;
    let mut tensors = Vec::with_capacity(header.tensors.len());
    for place in &header.tensors {
        let found = tensor(place, header.data, bytes.slice().len());
        tensors.push(found.map_err(|why| Error::checkpoint(asset.path(), why))?);
    }
    let (mut notes, tied) = (Vec::new(), !tensors.iter().any(|one| one.raw == "output.weight"));
    let has_bias =
        |part: &str| tensors.iter().any(|one| one.raw.contains(part) && one.raw.ends_with(".bias"));
    let about = Shape {
        tied,
        rows: tensors.iter().find(|one| one.raw == "token_embd.weight").map(|one| one.shape[0]),
        attention_bias: has_bias(".attn_"),
        mlp_bias: has_bias(".ffn_"),
        factors: factors(&mut tensors, asset.path(), bytes)?,
    };
    let (config, head_dim) = config(&header, architecture, about, &mut notes)?;
    for one in tensors.iter_mut().filter(|_| architecture.paired) {
        pair(one, head_dim).map_err(|why| Error::checkpoint(asset.path(), why))?;
    }
    Ok(Found { tensors, config, notes })
}

/// A tensor with everything about it checked.
fn tensor(place: &Place, data: u64, length: usize) -> Result<Tensor, String> {
    let name = &place.name;
    let storage = types::storage(place.kind).map_err(|found| {
        format!("tensor `{name}` is stored as {found}, expected {}", types::known())
    })?;
    let shape: Vec<usize> =
        place.shape.iter().map(|&n| usize::try_from(n).unwrap_or(usize::MAX)).collect();
    let count = shape.iter().try_fold(1usize, |all, &n| all.checked_mul(n));
    let (block, size) = types::block(storage);
    if shape.last().is_some_and(|last| last % block != 0) || shape.is_empty() {
        return Err(format!("tensor `{name}` is {shape:?}, expected rows of {block} numbers each"));
    }
    let end = || {
        let start = data.checked_add(place.offset)?;
        let length = u64::try_from((count? / block).checked_mul(size)?).ok()?;
        Some((start, start.checked_add(length)?))
    };
    match end() {
        Some((start, end)) if end <= length as u64 => Ok(Tensor {
            raw: name.clone(),
            name: names::transformers(name).unwrap_or_else(|| name.clone()),
            shape,
            storage,
            range: start as usize..end as usize,
            paired: None,
        }),
        Some((_, end)) => Err(format!(
            "the file is truncated: tensor `{name}` ends at byte {end}, found {length} bytes"
        )),
        None => Err(format!("tensor `{name}` is {shape:?}, more than any file holds")),
    }
}

/// Takes the factors of rotary frequencies out of the tensors: they are part of the configuration.
fn factors(tensors: &mut Vec<Tensor>, path: &Path, bytes: &Bytes) -> Result<Option<Vec<f32>>> {
    let Some(at) = tensors.iter().position(|one| one.raw == FACTORS) else { return Ok(None) };
    let one = tensors.remove(at);
    let found = || format!("tensor `{FACTORS}` is {}, expected F32", name(one.storage));
    let number = Number::of(one.storage).ok_or_else(|| Error::checkpoint(path, found()))?;
    let mut out = vec![0.0; one.shape.iter().product()];
    number.decode(&bytes.slice()[one.range], &mut out);
    Ok(Some(out))
}

/// Notes which rows have to be put back: queries and keys, whose halves llama.cpp interleaves.
fn pair(one: &mut Tensor, head_dim: usize) -> Result<(), String> {
    if !names::is_paired(&one.raw) {
        return Ok(());
    }
    if !one.shape[0].is_multiple_of(head_dim)
        || (one.shape.len() < 2 && types::block(one.storage).0 > 1)
    {
        let (name, shape) = (&one.raw, &one.shape);
        return Err(format!("tensor `{name}` is {shape:?}, expected whole heads of {head_dim}"));
    }
    one.paired = Some(head_dim);
    Ok(())
}

/// Rows back in the order of transformers: the first half of each head's, then the second.
/// llama.cpp writes row i of the one and row i of the other one after another.
pub(super) fn unpaired(bytes: &[u8], rows: usize, head_dim: usize) -> Vec<u8> {
    let (size, half) = (bytes.len() / rows.max(1), head_dim / 2);
    let mut out = Vec::with_capacity(bytes.len());
    for row in 0..rows {
        let (head, place) = (row / head_dim, row % head_dim);
        let from = head * head_dim + place % half * 2 + place / half;
        out.extend_from_slice(&bytes[from * size..][..size]);
    }
    out
}
