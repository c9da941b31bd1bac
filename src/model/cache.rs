//! Keys and values of positions that were read: of a decoder's own, which grow step by step, and of
//! an encoder's output, computed once for each input.

use candle_core::{DType, Tensor};
use ndarray::{Array2, Axis, Slice, concatenate};

use crate::error::{Error, Result};

/// Positions that a cache makes room for at first.
const ROOM: usize = 64;

/// Keys and values of one layer, one head of them for each group of query heads. Room is doubled
/// when it runs out, and given back to nobody when positions are taken away.
///
/// candle-nn's cache grows by a fixed step, past its maximum, and cannot be rewound.
#[derive(Debug, Default)]
pub(crate) struct KeyValues {
    room: Option<(Tensor, Tensor)>, // each [B, G, room, K]
    length: usize,
}

impl KeyValues {
    /// Appends `key` and `value` [B, G, T, K] and gives all there are: [B, G, S, K], views.
    pub fn append(&mut self, key: &Tensor, value: &Tensor) -> Result<(Tensor, Tensor)> {
        let (new, old) = (key.dim(2)?, self.length);
        let (keys, values) = self.room_for(key, old + new)?;
        keys.slice_set(&key.contiguous()?, 2, old)?;
        values.slice_set(&value.contiguous()?, 2, old)?;
        let all = (keys.narrow(2, 0, old + new)?, values.narrow(2, 0, old + new)?);
        self.room = Some((keys, values));
        self.length = old + new;
        Ok(all)
    }

    /// Tensors with room for `length` positions, which hold what was there.
    fn room_for(&mut self, like: &Tensor, length: usize) -> Result<(Tensor, Tensor)> {
        let (b, g, _, k) = like.dims4()?;
        let have = self.room.take();
        if let Some((keys, values)) = have {
            let room = keys.dim(2)?;
            if room >= length {
                return Ok((keys, values));
            }
            let grow = |old: &Tensor| -> Result<Tensor> {
                let shape = (b, g, length.max(2 * room), k);
                let new = Tensor::zeros(shape, old.dtype(), old.device())?;
                new.slice_set(&old.narrow(2, 0, self.length)?.contiguous()?, 2, 0)?;
                Ok(new)
            };
            return Ok((grow(&keys)?, grow(&values)?));
        }
        let empty = || Tensor::zeros((b, g, length.max(ROOM), k), DType::F32, like.device());
        Ok((empty()?, empty()?))
    }
}

/// What a decoder has read: keys and values of every layer, and which positions are real. Layers
/// without heads have none.
#[derive(Debug)]
pub struct Cache {
    pub(crate) layers: Vec<KeyValues>,
    mask: Array2<u32>, // [B, S]
}

impl Cache {
    pub(super) fn new(layers: usize) -> Self {
        let layers = (0..layers).map(|_| KeyValues::default()).collect();
        Self { layers, mask: Array2::zeros((0, 0)) }
    }

    /// S: positions that were read, padding among them.
    pub fn len(&self) -> usize {
        self.mask.ncols()
    }

    /// Whether nothing was read yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// 1 for real positions, 0 for padding: `[B, S]`.
    pub fn mask(&self) -> &Array2<u32> {
        &self.mask
    }

    /// Forgets all but the first `length` positions, so that another text can go on from there.
    pub fn rewind(&mut self, length: usize) {
        let length = length.min(self.len());
        for layer in &mut self.layers {
            layer.length = layer.length.min(length);
        }
        let kept = self.mask.slice_axis(Axis(1), Slice::from(..length)).to_owned();
        self.mask = kept;
    }

    /// Takes note of new positions, before their keys and values come: all that are real now.
    ///
    /// # Errors
    /// [`Error::Input`] for another number of examples than were read before.
    pub(super) fn extend(&mut self, mask: &Array2<u32>) -> Result<()> {
        if self.is_empty() {
            self.mask = mask.clone();
            return Ok(());
        }
        self.mask = concatenate(Axis(1), &[self.mask.view(), mask.view()]).map_err(|_| {
            let (had, has) = (self.mask.nrows(), mask.nrows());
            Error::input("batch", format!("{has} examples, but the cache has {had}"))
        })?;
        Ok(())
    }
}

/// An encoder's output and what the decoder's cross-attention makes of it, for one batch.
#[derive(Debug)]
pub struct Memory {
    /// The encoder's last layer, `[B, S, D]`.
    pub hidden: Tensor,
    /// Keys and values per layer of the decoder, `[B, G, S, K]`; `None` where a layer has no heads.
    pub(crate) layers: Vec<Option<(Tensor, Tensor)>>,
    /// `[B, S]`: 0 where a position is real, `f32::MIN` where padding.
    pub(crate) bias: Tensor,
}
