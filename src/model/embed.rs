//! Token ids → the first residual stream.

use candle_core::{Device, Tensor};

use super::ops::{Linear, Norm, Then};
use crate::config::Absolute;
use crate::error::{Error, Result};
use crate::tokens::Batch;
use crate::weights::Table;

/// Word, position and token type embeddings, summed, normalised and, where they are narrower than
/// the model, projected. The tables stay as they are stored: an input needs a few of their rows.
#[derive(Clone)]
pub(crate) struct Embeddings {
    pub word: Table,               // [V, E]
    pub position: Option<Table>,   // [positions, E]
    pub token_type: Option<Table>, // [types, E]
    pub norm: Norm,
    pub projection: Option<Linear>, // [E, D]
    /// The projection comes before the norm.
    pub project_first: bool,
    pub absolute: Absolute,
    /// Padding becomes 0.
    pub blank_padding: bool,
    /// Most tokens of one input.
    pub max_positions: usize,
}

impl Embeddings {
    /// `batch` [B, T] → [B, T, D]. `real` [B, T] is 1 for real positions.
    ///
    /// # Errors
    /// [`Error::Input`] for ids, types or lengths beyond the tables.
    pub fn forward(&self, batch: &Batch, real: &Tensor) -> Result<Tensor> {
        let (b, t) = batch.ids.dim();
        if t > self.max_positions {
            let why = format!("{t} tokens, but the model has {} positions", self.max_positions);
            return Err(Error::input("batch", why));
        }
        let ids: Vec<u32> = batch.ids.iter().copied().collect();
        check("token id", &ids, self.word.rows)?;
        let mut sum = self.word.gather(&ids)?;
        if let Some(table) = &self.position {
            add(&mut sum, &table.gather(&self.positions(batch))?);
        }
        if let Some(table) = &self.token_type {
            let types: Vec<u32> = batch.type_ids.iter().copied().collect();
            check("token type", &types, table.rows)?;
            add(&mut sum, &table.gather(&types)?);
        }
        let sum = Tensor::from_vec(sum, (b, t, self.word.cols), &Device::Cpu)?;
        let x = self.finish(&sum.to_device(real.device())?)?;
        match self.blank_padding {
            true => Ok(x.broadcast_mul(&real.unsqueeze(2)?)?),
            false => Ok(x),
        }
    }

    /// Norm and projection, in the family's order.
    fn finish(&self, sum: &Tensor) -> Result<Tensor> {
        match &self.projection {
            None => self.norm.forward(sum),
            Some(map) if self.project_first => map.forward(sum, None, Then::Norm(&self.norm)),
            Some(map) => map.forward(&self.norm.forward(sum)?, None, Then::Nothing),
        }
    }

    /// Row of the position embedding for each token of [B, T].
    fn positions(&self, batch: &Batch) -> Vec<u32> {
        let rows = batch.ids.rows();
        match self.absolute {
            Absolute::None => Vec::new(),
            Absolute::Ordinal => rows.into_iter().flat_map(|row| 0..row.len() as u32).collect(),
            Absolute::AfterPad { pad } => {
                let row = |row: ndarray::ArrayView1<u32>| {
                    let mut last = pad;
                    let count = move |&id: &u32| match id == pad {
                        true => pad,
                        false => {
                            last += 1;
                            last
                        }
                    };
                    row.iter().map(count).collect::<Vec<_>>()
                };
                rows.into_iter().flat_map(row).collect()
            }
        }
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
