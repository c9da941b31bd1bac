//! Token ids given directly, as reference tests hold them.

use std::path::Path;

use ndarray::{Array2, Ix2};

use super::arrays::{Array, Arrays, bad};
use crate::error::Result;
use crate::tokens::Batch;

/// Reads `input_ids` [B, T] and, where they are there, `attention_mask`, `token_type_ids` and
/// `global_attention_mask` of the same shape, from `.safetensors` or `.npz`. Without a mask every
/// token is real; without types all are 0. Padding is kept.
///
/// # Errors
/// [`Error::Input`](crate::Error::Input) when `input_ids` is missing, is not a matrix of whole
/// numbers, or holds what no vocabulary has, and when the shapes differ.
pub fn read_batch(path: &Path) -> Result<Batch> {
    let mut file = Arrays::open(path)?;
    let names = file.names();
    if !names.iter().any(|name| name == "input_ids") {
        let shown: Vec<&str> = names.iter().take(8).map(String::as_str).collect();
        let found = format!("found {} arrays: {}", names.len(), shown.join(", "));
        return Err(bad(path, format!("expected `input_ids`; {found}")));
    }
    let batch = read(&mut file, "")?;
    let ids = &batch.ids;
    let type_ids = like(&mut file, "token_type_ids", ("input_ids", ids))?;
    let global = like(&mut file, "global_attention_mask", ("input_ids", ids))?;
    Ok(Batch { type_ids: type_ids.unwrap_or(batch.type_ids), global, ..batch })
}

/// Reads what the decoder of an encoder-decoder is given: `decoder_input_ids` [B, T] and, where it
/// is there, `decoder_attention_mask`, as [`read_batch`] does. `None` where the file has no such.
///
/// # Errors
/// As of [`read_batch`].
pub fn read_decoder_batch(path: &Path) -> Result<Option<Batch>> {
    let mut file = Arrays::open(path)?;
    let there = file.names().iter().any(|name| name == "decoder_input_ids");
    there.then(|| read(&mut file, "decoder_")).transpose()
}

/// Ids and mask under names that begin with `prefix`.
fn read(file: &mut Arrays, prefix: &str) -> Result<Batch> {
    let (ids_name, mask_name) = (format!("{prefix}input_ids"), format!("{prefix}attention_mask"));
    let ids = matrix(file, &ids_name, None)?;
    let mask = like(file, &mask_name, (&ids_name, &ids))?;
    let mask = mask.unwrap_or_else(|| Array2::ones(ids.dim()));
    if mask.iter().any(|&m| m > 1) {
        return Err(bad(file.path(), format!("`{mask_name}`: expected 0 and 1")));
    }
    Ok(Batch::from_ids(ids, mask))
}

/// A matrix of the shape of another, where it is there.
fn like(file: &mut Arrays, name: &str, other: (&str, &Array2<u32>)) -> Result<Option<Array2<u32>>> {
    let there = file.names().iter().any(|one| one == name);
    there.then(|| matrix(file, name, Some(other))).transpose()
}

fn matrix(
    file: &mut Arrays,
    name: &str,
    other: Option<(&str, &Array2<u32>)>,
) -> Result<Array2<u32>> {
    let Array::Int(array) = file.get(name)? else {
        return Err(bad(file.path(), format!("`{name}`: expected whole numbers")));
    };
    let found = array.shape().to_vec();
    let wrong =
        |want: String| bad(file.path(), format!("`{name}`: expected {want}, found {found:?}"));
    let array = array.into_dimensionality::<Ix2>().map_err(|_| wrong("[batch, tokens]".into()))?;
    if let Some((other, like)) = other.filter(|(_, like)| like.dim() != array.dim()) {
        return Err(wrong(format!("{:?}, as `{other}`", like.dim())));
    }
    if array.is_empty() {
        return Err(wrong("at least one token".into()));
    }
    if let Some(odd) = array.iter().find(|&&n| u32::try_from(n).is_err()) {
        return Err(bad(file.path(), format!("`{name}`: expected 0 or more, found {odd}")));
    }
    Ok(array.mapv(|n| u32::try_from(n).unwrap_or_default()))
}
