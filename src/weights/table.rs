//! Embeddings stay in their file: an input needs a few of their rows.

use std::ops::Range;
use std::sync::Arc;

use super::convert::Number;
use super::map::Bytes;
use crate::error::{Error, Result};

/// A matrix left in its file: an embedding, of which an input needs a few rows.
#[derive(Clone)]
pub(crate) struct Table {
    pub(super) bytes: Arc<Bytes>,
    pub(super) range: Range<usize>,
    pub(super) number: Number,
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

    /// `count` rows from `first` as they are stored, where that is as numbers in memory are.
    pub fn rows_stored(&self, first: usize, count: usize) -> Option<&[f32]> {
        if !matches!(self.number, Number::F32) || cfg!(target_endian = "big") {
            return None;
        }
        let numbers: &[f32] =
            bytemuck::try_cast_slice(self.bytes.slice().get(self.range.clone())?).ok()?;
        numbers.get(first * self.cols..(first + count) * self.cols)
    }

    fn decode(&self, first: usize, out: &mut [f32]) -> Result<()> {
        if first * self.cols + out.len() > self.rows * self.cols {
            return Err(Error::Array {
                what: "row of an embedding".into(),
                want: format!("below {}", self.rows),
                found: first.to_string(),
            });
        }
        if let Bytes::Nothing = *self.bytes {
            return Ok(());
        }
        let at = self.range.start + self.number.span(first * self.cols);
        self.number.decode(&self.bytes.slice()[at..self.range.end], out);
        Ok(())
    }
}
