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
    pub word: Rows,               // [V, E]
    pub position: Option<Rows>,   // [positions, E]
    pub token_type: Option<Rows>, // [types, E]
    pub norm: Option<Norm>,
    pub projection: Option<Linear>, // [E, D]
    /// The projection comes before the norm.
    pub project_first: bool,
    pub absolute: Absolute,
    /// What word embeddings are multiplied by.
    pub scale: f32,
    /// Padding becomes 0.
    pub blank_padding: bool,
    /// Most tokens of one input.
    pub max_positions: usize,
}

impl Embeddings {
    /// `batch` [B, T] → [B, T, D]. `real` [B, T] is 1 for real positions, and `positions` says
    /// which one each is, row after row.
    ///
    /// # Errors
    /// [`Error::Input`] for ids, types or positions beyond the tables.
    pub fn forward(&self, batch: &Batch, real: &Tensor, positions: &[u32]) -> Result<Tensor> {
        let (b, t) = batch.ids.dim();
        let last = positions.iter().max().map_or(0, |&last| last as usize);
        if last >= self.max_positions {
            let most = self.max_positions;
            let why = format!("{} tokens, but the model has {most} positions", last + 1);
            return Err(Error::input("batch", why));
        }
        let ids: Vec<u32> = batch.ids.iter().copied().collect();
        check("token id", &ids, self.word.count())?;
        let mut sum = self.word.gather(&ids)?;
        if self.scale != 1.0 {
            sum = sum.scaled(self.scale)?;
        }
        if let Some(table) = &self.position {
            sum.add(table.gather(&self.rows(batch, positions))?);
        }
        if self.absolute == Absolute::Sinusoidal {
            sum.add(Terms { stored: waves(positions, self.word.width()), live: Vec::new() });
        }
        if let Some(table) = &self.token_type {
            let types: Vec<u32> = batch.type_ids.iter().copied().collect();
            check("token type", &types, table.count())?;
            sum.add(table.gather(&types)?);
        }
        let sum = sum.total((b, t, self.word.width()), real.device())?;
        let x = self.finish(&sum)?;
        match self.blank_padding {
            true => Ok(x.broadcast_mul(&real.unsqueeze(2)?)?),
            false => Ok(x),
        }
    }

    /// Norm and projection, in the family's order.
    fn finish(&self, sum: &Tensor) -> Result<Tensor> {
        let normed = |x: &Tensor| self.norm.as_ref().map_or(Ok(x.clone()), |norm| norm.forward(x));
        match &self.projection {
            None => normed(sum),
            Some(map) if self.project_first => normed(&map.forward(sum, None, Then::Nothing)?),
            Some(map) => map.forward(&normed(sum)?, None, Then::Nothing),
        }
    }

    /// Row of the position embedding for each token of [B, T].
    fn rows(&self, batch: &Batch, positions: &[u32]) -> Vec<u32> {
        match self.absolute {
            Absolute::None | Absolute::Sinusoidal | Absolute::Ordinal => positions.to_vec(),
            Absolute::Shifted { by } => positions.iter().map(|position| position + by).collect(),
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
                batch.ids.rows().into_iter().flat_map(row).collect()
            }
        }
    }
}

/// Rows that ids look up.
#[derive(Clone)]
pub(crate) enum Rows {
    /// In their file.
    Stored(Table),
    /// What is trained: [rows, width].
    Live(Tensor),
}

impl Rows {
    /// How many there are.
    pub fn count(&self) -> usize {
        match self {
            Self::Stored(table) => table.rows,
            Self::Live(tensor) => tensor.dims()[0],
        }
    }

    fn width(&self) -> usize {
        match self {
            Self::Stored(table) => table.cols,
            Self::Live(tensor) => tensor.dims()[1],
        }
    }

    fn gather(&self, ids: &[u32]) -> Result<Terms> {
        match self {
            Self::Stored(table) => Ok(Terms { stored: table.gather(ids)?, live: Vec::new() }),
            Self::Live(tensor) => {
                let ids = Tensor::from_slice(ids, ids.len(), tensor.device())?;
                let rows = tensor.contiguous()?.index_select(&ids, 0)?;
                Ok(Terms { stored: Vec::new(), live: vec![rows] })
            }
        }
    }
}

/// Terms of a sum [N, E]: numbers, which may be none, and tensors that are trained.
struct Terms {
    stored: Vec<f32>,
    live: Vec<Tensor>,
}

impl Terms {
    fn scaled(mut self, by: f32) -> Result<Self> {
        self.stored.iter_mut().for_each(|x| *x *= by);
        let live = self.live.iter().map(|x| Ok((x * f64::from(by))?)).collect::<Result<_>>()?;
        Ok(Self { live, ..self })
    }

    fn add(&mut self, other: Self) {
        match self.stored.is_empty() {
            true => self.stored = other.stored,
            false => self.stored.iter_mut().zip(&other.stored).for_each(|(x, y)| *x += y),
        }
        self.live.extend(other.live);
    }

    fn total(self, shape: (usize, usize, usize), device: &Device) -> Result<Tensor> {
        let mut live = self.live.into_iter();
        let mut sum = match self.stored.is_empty() {
            false => Tensor::from_vec(self.stored, shape, &Device::Cpu)?.to_device(device)?,
            true => match live.next() {
                Some(first) => first.reshape(shape)?,
                None => Tensor::zeros(shape, candle_core::DType::F32, device)?,
            },
        };
        for term in live {
            sum = (sum + term.reshape(shape)?)?;
        }
        Ok(sum)
    }
}

/// Sines and cosines of positions times frequencies from 1 down to 1/10000 (Vaswani et al. 2017,
/// section 3.5), all sines before all cosines: `[positions, width]`.
fn waves(positions: &[u32], width: usize) -> Vec<f32> {
    let half = width.div_ceil(2);
    let wave = |position: u32, i: usize| {
        let power = 2.0 * (i % half) as f64 / width as f64;
        let angle = f64::from(position) / 10_000f64.powf(power);
        (if i < half { angle.sin() } else { angle.cos() }) as f32
    };
    positions.iter().flat_map(|&p| (0..width).map(move |i| wave(p, i))).collect()
}

fn check(what: &str, ids: &[u32], rows: usize) -> Result<()> {
    match ids.iter().find(|&&id| id as usize >= rows) {
        None => Ok(()),
        Some(id) => Err(Error::input("batch", format!("{what} {id}, but the model has {rows}"))),
    }
}
