//! Terms of attention scores that depend on the distance of query and key, for every family: rows
//! of tables, found through an index over distances.

use candle_core::{D, Tensor};

use super::kernel::relative::{Relative, Table};
use crate::error::Result;

/// Which row of the tables belongs to a distance i − j.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Index {
    /// One row per distance from −(max − 1) to max − 1.
    Plain { max: usize },
    /// One row per bucket on either side of `span`: exact near 0, logarithmic beyond (DeBERTa v2);
    /// plain distances where `buckets` is `None`.
    Log { buckets: Option<usize>, furthest: usize, span: usize },
    /// Half of `count` buckets for each direction: exact up to a quarter, logarithmic up to
    /// `furthest` (T5's encoder, MPNet).
    Halves { count: usize, furthest: usize },
    /// All of `count` buckets for keys before the query, exact up to a half (T5's decoder).
    Before { count: usize, furthest: usize },
}

impl Index {
    fn row(self, distance: isize) -> usize {
        match self {
            Self::Plain { max } => (distance + max as isize - 1).max(0) as usize,
            Self::Log { buckets, furthest, span } => {
                let near = buckets.map_or(distance, |n| log_bucket(distance, n, furthest));
                (near + span as isize).clamp(0, 2 * span as isize - 1) as usize
            }
            Self::Halves { count, furthest } => halves(distance, count, furthest),
            Self::Before { count, furthest } => bucket(distance.max(0) as usize, count, furthest),
        }
    }

    /// Rows for `t` queries behind `past` positions and `s` keys: entry `t − 1 − i + j` belongs to
    /// query i and key j.
    fn rows(self, t: usize, s: usize, past: usize) -> Vec<u32> {
        let furthest = (past + t) as isize - 1;
        (0..t + s - 1).map(|e| self.row(furthest - e as isize) as u32).collect()
    }
}

/// In float32 as the reference computes it: the logarithm is rounded up at bucket borders.
fn log_bucket(distance: isize, buckets: usize, furthest: usize) -> isize {
    let middle = buckets as isize / 2;
    if distance.abs() <= middle {
        return distance;
    }
    let ratio = (distance.unsigned_abs() as f32 / middle as f32).ln();
    let whole = ((furthest - 1) as f32 / middle as f32).ln();
    let bucket = (ratio / whole * (middle - 1) as f32).ceil() as isize + middle;
    bucket * distance.signum()
}

fn halves(distance: isize, count: usize, furthest: usize) -> usize {
    let half = count / 2;
    let side = if distance < 0 { half } else { 0 };
    side + bucket(distance.unsigned_abs(), half, furthest)
}

/// One of `count` buckets, exact for the nearer half of them.
fn bucket(far: usize, count: usize, furthest: usize) -> usize {
    let exact = count / 2;
    if far < exact {
        return far;
    }
    let ratio = (far as f32 / exact as f32).ln() / (furthest as f32 / exact as f32).ln();
    (exact + (ratio * (count - exact) as f32) as usize).min(count - 1)
}

/// The tables of one layer.
#[derive(Debug, Clone)]
pub(crate) struct Distances {
    pub index: Index,
    /// q·row is added: `[H or 1, R, K]`.
    pub query: Option<Tensor>,
    /// k·row is added: `[H or 1, R, K]`.
    pub key: Option<Tensor>,
    /// The number itself is added: `[H, R]`.
    pub bias: Option<Tensor>,
}

impl Distances {
    /// The tables: query's, key's, bias.
    pub fn tensors(&self) -> [Option<&Tensor>; 3] {
        [self.query.as_ref(), self.key.as_ref(), self.bias.as_ref()]
    }

    pub fn index(&self, t: usize, s: usize, past: usize) -> Vec<u32> {
        self.index.rows(t, s, past)
    }

    /// The tables as slices; `data` in the order of [`Distances::tensors`].
    pub fn relative<'a>(&self, index: &'a [u32], data: [Option<&'a [f32]>; 3]) -> Relative<'a> {
        let table = |i: usize| {
            let tensor = self.tensors()[i]?;
            let heads = tensor.dims()[0];
            let stride = if heads == 1 { 0 } else { tensor.elem_count() / heads };
            Some(Table { data: data[i]?, stride })
        };
        Relative { index, query: table(0), key: table(1), bias: table(2) }
    }

    /// Adds all terms to `scores` [B,H,T,S] of `query` and `key`, before they are scaled except
    /// for the bias, by candle's operations.
    pub fn add(
        &self,
        scores: &Tensor,
        query: &Tensor,
        key: &Tensor,
        (scale, past): (f64, usize),
    ) -> Result<Tensor> {
        let (b, h, t, s) = scores.dims4()?;
        let mut sum = (scores * scale)?;
        let index = Tensor::from_vec(self.rectangle(t, s, past), (1, 1, t, s), scores.device())?;
        let all = index.broadcast_as((b, h, t, s))?.contiguous()?;
        if let Some(table) = &self.query {
            let terms = query.broadcast_matmul(&table.unsqueeze(0)?.t()?)?; // [B, H, T, R]
            sum = (sum + (terms.contiguous()?.gather(&all, D::Minus1)? * scale)?)?;
        }
        if let Some(table) = &self.key {
            let terms = key.broadcast_matmul(&table.unsqueeze(0)?.t()?)?; // [B, H, S, R]
            let turned = all.transpose(2, 3)?.contiguous()?; // [B, H, S, T]
            let terms = terms.contiguous()?.gather(&turned, D::Minus1)?.transpose(2, 3)?;
            sum = (sum + (terms * scale)?)?;
        }
        if let Some(table) = &self.bias {
            let terms = table.index_select(&index.flatten_all()?, 1)?.reshape((1, h, t, s))?;
            sum = sum.broadcast_add(&terms)?;
        }
        Ok(sum)
    }

    fn rectangle(&self, t: usize, s: usize, past: usize) -> Vec<u32> {
        let line = self.index(t, s, past);
        (0..t).flat_map(|i| line[t - 1 - i..][..s].to_vec()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_agree_with_the_references() {
        // transformers 5.24: make_log_bucket_position(d, 8, 64) and (d, 256, 512)
        let small = [0, 1, 4, 5, 6, 7, 8, 9, 15, 16, 20, 31, 32, 40, 63];
        let got: Vec<isize> = small.iter().map(|&d| log_bucket(d, 8, 64)).collect();
        assert_eq!(got, [0, 1, 4, 5, 5, 5, 5, 5, 6, 6, 6, 7, 7, 7, 7]);
        for d in small {
            assert_eq!(log_bucket(-d, 8, 64), -log_bucket(d, 8, 64));
        }
        // MPNet's relative_position_bucket(-d)
        let got: Vec<usize> = [0, 1, 7, 8, 9, 11, 12, 16, 64, 127, 128, 500]
            .iter()
            .map(|&d| halves(d, 32, 128))
            .collect();
        assert_eq!(got, [0, 1, 7, 8, 8, 8, 9, 10, 14, 15, 15, 15]);
        assert_eq!(halves(-1, 32, 128), 17);
    }
}
