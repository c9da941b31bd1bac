//! Matrices that stay as their file stores them: rows are decoded a few at a time, each time that
//! they are multiplied. Inputs keep their precision, so that the result is that of the decoded
//! matrix; candle's `QMatMul` would round them to eight bits, after which a cached step differs
//! from a full pass, and holds a second copy of some types.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use candle_core::{Device, Tensor};
use rayon::prelude::*;

use super::kernel::matmul::{Sizes, View, matmul};
use crate::error::Result;
use crate::weights::Table;

/// Rows that one task multiplies by a single row of input, and by several.
const FEW: usize = 64;
const MANY: usize = 512;

/// Numbers that are decoded at once for a single row of input, to stay in the first-level cache;
/// several rows of input read them often, and take all of a task's.
const DECODED: usize = 1 << 13;

/// Matrices side by side, each stored as [outputs, in].
#[derive(Clone)]
pub(crate) struct Stored {
    tables: Arc<[Table]>,
    inputs: usize,
}

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stored{:?}", self.sizes())
    }
}

impl Stored {
    pub fn new(tables: Vec<Table>, inputs: usize) -> Self {
        Self { tables: tables.into(), inputs }
    }

    /// [in, out]
    pub fn sizes(&self) -> (usize, usize) {
        (self.inputs, self.tables.iter().map(|table| table.rows).sum())
    }

    /// Decoded: [in, out].
    pub fn dense(&self) -> Result<Tensor> {
        let all = self.tables.iter().map(|table| table.rows_range(0, table.rows));
        let all = all.collect::<Result<Vec<_>>>()?.concat();
        let (inputs, outputs) = self.sizes();
        Ok(Tensor::from_vec(all, (outputs, inputs), &Device::Cpu)?.t()?.contiguous()?)
    }

    /// `out` [m, out] += alpha · `x` [m, in] · W.
    pub fn add_product(&self, out: &mut [f32], x: &[f32], alpha: f32) -> Result<()> {
        let (_, outputs) = self.sizes();
        let mut first = 0;
        for table in self.tables.iter() {
            let columns = first..first + table.rows;
            add_product(table, (out, outputs, columns), x, alpha)?;
            first += table.rows;
        }
        Ok(())
    }
}

/// Adds alpha · `x` [m, k] · the transposed rows of `table` [n, k] to n columns of `out`, whose
/// rows have `stride` numbers.
pub(crate) fn add_product(
    table: &Table,
    (out, stride, columns): (&mut [f32], usize, Range<usize>),
    x: &[f32],
    alpha: f32,
) -> Result<()> {
    let (width, m) = (table.cols, x.len() / table.cols.max(1));
    let product = |first: usize, part: &mut [f32], rows: usize| -> Result<()> {
        let step = if m == 1 { (DECODED / width.max(1)).clamp(1, rows) } else { rows };
        for at in (0..rows).step_by(step) {
            let some = step.min(rows - at);
            let matrix = decoded(table, first + at, some)?; // [some, k]
            let factors = (View::rows(x, width), View::rows(&matrix, width).t());
            let sizes = Sizes { m, k: width, n: some };
            matmul(&mut part[at..], rows, true, factors, sizes, alpha, 1);
        }
        Ok(())
    };
    if m == 1 {
        let parts = out[columns].par_chunks_mut(FEW).enumerate();
        return parts.try_for_each(|(i, part)| product(i * FEW, part, part.len()));
    }
    let block = |first: usize| -> Result<(usize, Vec<f32>)> {
        let rows = MANY.min(table.rows - first);
        let mut part = vec![0.0; m * rows];
        product(first, &mut part, rows)?;
        Ok((first, part))
    };
    let blocks = (0..table.rows).into_par_iter().step_by(MANY).map(block);
    for (first, part) in blocks.collect::<Result<Vec<_>>>()? {
        let rows = part.len() / m.max(1);
        let lines = out.chunks_exact_mut(stride.max(1)).zip(part.chunks_exact(rows.max(1)));
        for (line, part) in lines {
            let line = &mut line[columns.start + first..][..rows];
            line.iter_mut().zip(part).for_each(|(sum, y)| *sum += y);
        }
    }
    Ok(())
}

/// Adds alpha · `gradient` [m, n] · the rows of `table` [n, k] to `out` [m, k]: the gradient by what
/// [`add_product`] multiplied.
pub(crate) fn add_product_back(
    table: &Table,
    out: &mut [f32],
    gradient: &[f32],
    alpha: f32,
) -> Result<()> {
    let (n, k, m) = (table.rows, table.cols, out.len() / table.cols.max(1));
    for first in (0..n).step_by(MANY).take_while(|_| m > 0) {
        let some = MANY.min(n - first);
        let matrix = decoded(table, first, some)?; // [some, k]
        let factors = (View::rows(&gradient[first..], n), View::rows(&matrix, k));
        let sizes = Sizes { m, k: some, n: k };
        matmul(out, k, true, factors, sizes, alpha, rayon::current_num_threads());
    }
    Ok(())
}

/// Rows as numbers, decoded where they are not stored as such.
fn decoded(table: &Table, first: usize, count: usize) -> Result<Cow<'_, [f32]>> {
    match table.rows_stored(first, count) {
        Some(stored) => Ok(Cow::Borrowed(stored)),
        None => table.rows_range(first, count).map(Cow::Owned),
    }
}
