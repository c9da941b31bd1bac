//! Several inputs as one rectangular batch.

use ndarray::Array2;

use super::Encoding;
use crate::error::{Error, Result};

/// Inputs of different lengths side by side, padded on the right to the longest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Token ids, `[B, T]`.
    pub ids: Array2<u32>,
    /// 1 for a real token, 0 for padding, `[B, T]`.
    pub mask: Array2<u32>,
    /// Token type ids, `[B, T]`; 0 for padding.
    pub type_ids: Array2<u32>,
    /// 1 for a token that sees and is seen by all, `[B, T]`, in models that have such (Longformer);
    /// `None` leaves it to the model.
    pub global: Option<Array2<u32>>,
    /// Real tokens of each input, `[B]`.
    pub lengths: Vec<usize>,
}

impl Batch {
    /// Pads with `pad_id` (see [`Tokenizer::pad_id`](super::Tokenizer::pad_id)). Where one encoding
    /// says which of its tokens are global, those that do not say have none.
    pub fn new(encodings: &[Encoding], pad_id: u32) -> Self {
        let lengths: Vec<usize> = encodings.iter().map(Encoding::len).collect();
        let shape = (lengths.len(), lengths.iter().copied().max().unwrap_or(0)); // [B, T]
        let mut ids = Array2::from_elem(shape, pad_id);
        let mut mask = Array2::zeros(shape);
        let mut type_ids = Array2::zeros(shape);
        for (b, encoding) in encodings.iter().enumerate() {
            for (t, token) in encoding.tokens.iter().enumerate() {
                ids[(b, t)] = token.id.unwrap_or(pad_id);
                mask[(b, t)] = 1;
                type_ids[(b, t)] = token.type_id;
            }
        }
        let said = encodings.iter().any(|encoding| encoding.global.is_some());
        let mut global = said.then(|| Array2::zeros(shape));
        for (b, encoding) in encodings.iter().enumerate() {
            for &t in encoding.global.iter().flatten().filter(|&&t| t < encoding.len()) {
                global.iter_mut().for_each(|marks| marks[(b, t)] = 1);
            }
        }
        Self { ids, mask, type_ids, global, lengths }
    }

    /// The same padded on the left, as prompts are that a model goes on from.
    pub fn padded_left(encodings: &[Encoding], pad_id: u32) -> Self {
        let mut batch = Self::new(encodings, pad_id);
        for (b, &length) in batch.lengths.iter().enumerate() {
            let arrays = [&mut batch.ids, &mut batch.mask, &mut batch.type_ids];
            for array in arrays.into_iter().chain(&mut batch.global) {
                let row: Vec<u32> = array.row(b).to_vec();
                let turned = row[length..].iter().chain(&row[..length]);
                array.row_mut(b).iter_mut().zip(turned).for_each(|(to, from)| *to = *from);
            }
        }
        batch
    }

    /// Ids `[B, T]` with their mask, 1 for a real token, 0 for padding on either side; all of token
    /// type 0.
    pub fn from_ids(ids: Array2<u32>, mask: Array2<u32>) -> Self {
        let real = |row: ndarray::ArrayView1<'_, u32>| row.iter().filter(|&&m| m != 0).count();
        let lengths = mask.rows().into_iter().map(real).collect();
        let type_ids = Array2::zeros(ids.dim());
        Self { ids, mask, type_ids, global: None, lengths }
    }

    /// A batch of one, `count` times.
    pub(crate) fn repeated(&self, count: usize) -> Result<Self> {
        let all = |array: &Array2<u32>| {
            let shape = (count, array.ncols());
            array.broadcast(shape).map(|view| view.to_owned())
        };
        let wrong = || Error::input("batch", "not one example");
        let again = |array| all(array).ok_or_else(wrong);
        Ok(Self {
            ids: again(&self.ids)?,
            mask: again(&self.mask)?,
            type_ids: again(&self.type_ids)?,
            global: self.global.as_ref().map(again).transpose()?,
            lengths: self.lengths.repeat(count),
        })
    }
}

/// Splits inputs of the given lengths into groups of at most `batch_size` that are close in
/// length, so that little padding is needed. Returns indices into `lengths`: shortest group
/// first, equal lengths in their original order; every index occurs once.
pub fn group_by_length(lengths: &[usize], batch_size: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&index| lengths[index]); // stable
    order.chunks(batch_size.max(1)).map(<[usize]>::to_vec).collect()
}
