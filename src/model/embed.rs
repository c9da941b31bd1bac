//! Token ids → the first residual stream.

use candle_core::{Device, Tensor};

use super::ops::Norm;
use crate::error::{Error, Result};
use crate::tokens::Batch;
use crate::weights::Table;

/// Word, position and token type embeddings, summed and normalised. The tables stay as they are
/// stored: an input needs a few of their rows.
#[derive(Clone)]
pub(crate) struct Embeddings {
    pub word: Table,               // [V, D]
    pub position: Option<Table>,   // [positions, D]; None where positions act as distances
    pub token_type: Option<Table>, // [types, D]
    pub norm: Norm,
    /// Most tokens of one input.
    pub max_positions: usize,
}

impl Embeddings {
    /// `batch` [B, T] → [B, T, D].
    ///
    /// # Errors
    /// [`Error::Input`] for ids, types or lengths beyond the tables.
    pub fn forward(&self, batch: &Batch, device: &Device) -> Result<Tensor> {
        let (b, t) = batch.ids.dim();
        let width = self.word.cols;
        if t > self.max_positions {
            let why = format!("{t} tokens, but the model has {} positions", self.max_positions);
            return Err(Error::input("batch", why));
        }
        let ids: Vec<u32> = batch.ids.iter().copied().collect();
        check("token id", &ids, self.word.rows)?;
        let mut sum = self.word.gather(&ids)?;
        if let Some(table) = &self.position {
            let positions = table.rows_range(0, t)?;
            sum.chunks_exact_mut((t * width).max(1)).for_each(|one| add(one, &positions));
        }
        if let Some(table) = &self.token_type {
            let types: Vec<u32> = batch.type_ids.iter().copied().collect();
            check("token type", &types, table.rows)?;
            add(&mut sum, &table.gather(&types)?);
        }
        let sum = Tensor::from_vec(sum, (b, t, width), &Device::Cpu)?.to_device(device)?;
        self.norm.forward(&sum)
    }
}

fn add(sum: &mut [f32], terms: &[f32]) {
    for (x, y) in sum.iter_mut().zip(terms) {
        *x += y;
    }
}

fn check(what: &str, ids: &[u32], rows: usize) -> Result<()> {
    match ids.iter().find(|&&id| id as usize >= rows) {
        None => Ok(()),
        Some(id) => Err(Error::input("batch", format!("{what} {id}, but the model has {rows}"))),
    }
}
