//! Token ids given directly, as reference tests hold them.

use std::path::Path;

use ndarray::{Array2, Ix2};

use super::arrays::{Array, Arrays, bad};
use crate::error::Result;
use crate::tokens::Batch;

/// Reads `input_ids` [B, T] and, where they are there, `attention_mask`, `token_type_ids` and
/// `global_attention_mask` of the same shape, from `.safetensors` or `.npz`. Without a mask every token is real; without types all
/// are 0. Padding is kept.
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
    let ids = matrix(&mut file, "input_ids", None)?;
    let mut other = |name: &str, fill: u32| {
        if names.iter().any(|n| n == name) {
            matrix(&mut file, name, Some(ids.dim()))
        } else {
            Ok(Array2::from_elem(ids.dim(), fill))
        }
    };
    let (mask, type_ids) = (other("attention_mask", 1)?, other("token_type_ids", 0)?);
    let global = "global_attention_mask";
    let global = names.iter().any(|n| n == global).then(|| other(global, 0)).transpose()?;
    if mask.iter().any(|&m| m > 1) {
        return Err(bad(path, "`attention_mask`: expected 0 and 1"));
    }
    let lengths = mask.rows().into_iter().map(|row| row.sum() as usize).collect();
    Ok(Batch { ids, mask, type_ids, global, lengths })
}

fn matrix(file: &mut Arrays, name: &str, shape: Option<(usize, usize)>) -> Result<Array2<u32>> {
    let Array::Int(array) = file.get(name)? else {
        return Err(bad(file.path(), format!("`{name}`: expected whole numbers")));
    };
    let found = array.shape().to_vec();
    let wrong =
        |want: String| bad(file.path(), format!("`{name}`: expected {want}, found {found:?}"));
    let array = array.into_dimensionality::<Ix2>().map_err(|_| wrong("[batch, tokens]".into()))?;
    if let Some(shape) = shape.filter(|&shape| shape != array.dim()) {
        return Err(wrong(format!("{shape:?}, as `input_ids`")));
    }
    if array.is_empty() {
        return Err(wrong("at least one token".into()));
    }
    if let Some(odd) = array.iter().find(|&&n| u32::try_from(n).is_err()) {
        return Err(bad(file.path(), format!("`{name}`: expected 0 or more, found {odd}")));
    }
    Ok(array.mapv(|n| u32::try_from(n).unwrap_or_default()))
}
