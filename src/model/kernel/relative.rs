//! What scores gain by the distance of query and key, from tables.

use super::attend::Inputs;
use super::matmul::{Sizes, View, matmul};

/// Terms of the score that depend on the distance of query and key. They are looked up in rows of
/// tables; `index[T − 1 − i + j]` is the row for new query i and key j.
#[derive(Clone, Copy)]
pub(crate) struct Relative<'a> {
    pub index: &'a [u32],
    /// Adds q_i·row: `[H or 1, R, K]`.
    pub query: Option<Table<'a>>,
    /// Adds k_j·row: `[H or 1, R, K]`.
    pub key: Option<Table<'a>>,
    /// Adds the number itself, unscaled: `[H, R]`.
    pub bias: Option<Table<'a>>,
}

/// A table of each head, or one for all where `stride` is 0.
#[derive(Clone, Copy)]
pub(crate) struct Table<'a> {
    pub data: &'a [f32],
    pub stride: usize,
}

/// The terms by distance of one head, for the rows of the tables that its distances reach.
pub(super) struct Terms<'a> {
    index: &'a [u32],
    /// First row reached, and how many.
    lowest: usize,
    rows: usize,
    query: Option<&'a [f32]>,
    bias: Option<&'a [f32]>,
    /// k_j·row for each key: `[S, rows]`.
    key: Option<Vec<f32>>,
}

impl<'a> Terms<'a> {
    pub fn new(inputs: &Inputs<'a>, relative: Relative<'a>, head: usize, key: &[f32]) -> Self {
        let [_, _, _, s, k] = inputs.sizes;
        let lowest = relative.index.iter().min().map_or(0, |&row| row as usize);
        let highest = relative.index.iter().max().map_or(0, |&row| row as usize);
        let rows = highest + 1 - lowest;
        let part = |table: Table<'a>, width: usize| {
            &table.data[head * table.stride + lowest * width..][..rows * width]
        };
        let key = relative.key.map(|table| {
            let mut terms = vec![0.0; s * rows];
            let factors = (View::rows(key, k), View::rows(part(table, k), k).t());
            matmul(&mut terms, rows, false, factors, Sizes { m: s, k, n: rows }, inputs.scale, 1);
            terms
        });
        let (query, bias) = (relative.query, relative.bias);
        let (query, bias) = (query.map(|t| part(t, k)), bias.map(|t| part(t, 1)));
        Self { index: relative.index, lowest, rows, query, bias, key }
    }

    /// Adds them to the scores of the queries from position `first` on.
    pub fn add(&self, inputs: &Inputs<'_>, query: &[f32], first: usize, block: &mut [f32]) {
        let [_, _, t, s, k] = inputs.sizes;
        let (count, rows) = (block.len() / s, self.rows);
        let by_query = self.query.map(|table| {
            let mut terms = vec![0.0; count * rows];
            let factors = (View::rows(query, k), View::rows(table, k).t());
            let sizes = Sizes { m: count, k, n: rows };
            matmul(&mut terms, rows, false, factors, sizes, inputs.scale, 1);
            terms
        });
        for (i, row) in block.chunks_exact_mut(s).enumerate() {
            let index = &self.index[t - 1 - (first + i)..][..s];
            let own = by_query.as_ref().map(|terms| &terms[i * rows..][..rows]);
            for (j, (x, &at)) in row.iter_mut().zip(index).enumerate() {
                let at = at as usize - self.lowest;
                *x += own.map_or(0.0, |terms| terms[at])
                    + self.key.as_ref().map_or(0.0, |terms| terms[j * rows + at])
                    + self.bias.map_or(0.0, |terms| terms[at]);
            }
        }
    }
}
