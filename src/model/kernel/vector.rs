//! One row times a matrix, the product of a decoding step: bound by reading the matrix once, which
//! takes all threads, and independent of their number, so that a seed gives the same text anywhere.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::math;
use super::matmul::View;

/// Numbers of the matrix below which a second thread costs more than it gives.
const PARALLEL: usize = 1 << 16;

/// Parts that a sum over rows is cut into, whatever the number of threads.
const PARTS: usize = 8;

/// Columns that one task takes where columns are contiguous.
const COLUMNS: usize = 256;

/// `dst += alpha · x · rhs` with `rhs` [k, n] contiguous along one of its axes; false, and nothing
/// done, for any other. `dst` has n numbers, `x` has k.
pub(crate) fn add_product(
    dst: &mut [f32],
    x: &[f32],
    rhs: View<'_>,
    alpha: f32,
    threads: usize,
) -> bool {
    let parallel = threads > 1 && x.len() * dst.len() >= PARALLEL;
    match (rhs.row, rhs.col) {
        (row, 1) => by_rows(dst, x, (rhs.data, row), alpha, parallel),
        (1, col) => by_columns(dst, x, (rhs.data, col), alpha, parallel),
        _ => return false,
    }
    true
}

/// Rows are contiguous: the sum of all rows, each times its number of `x`.
fn by_rows(
    dst: &mut [f32],
    x: &[f32],
    (data, stride): (&[f32], usize),
    alpha: f32,
    parallel: bool,
) {
    let n = dst.len();
    if !parallel {
        return Arch::new().dispatch(SumRows { dst, x, data, stride, alpha });
    }
    let part = x.len().div_ceil(PARTS).max(1);
    let partial = |(i, x): (usize, &[f32])| {
        let mut dst = vec![0.0; n];
        let data = &data[i * part * stride..];
        Arch::new().dispatch(SumRows { dst: &mut dst, x, data, stride, alpha });
        dst
    };
    let partials: Vec<Vec<f32>> = x.par_chunks(part).enumerate().map(partial).collect();
    for partial in partials {
        for (sum, y) in dst.iter_mut().zip(partial) {
            *sum += y;
        }
    }
}

struct SumRows<'a> {
    dst: &'a mut [f32],
    x: &'a [f32],
    data: &'a [f32],
    stride: usize,
    alpha: f32,
}

impl WithSimd for SumRows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { dst, x, data, stride, alpha } = self;
        let n = dst.len();
        let row = |i: usize| &data[i * stride..][..n];
        // four rows for each pass over the sums
        let whole = x.len() / 4 * 4;
        for i in (0..whole).step_by(4) {
            let [a, b, c, d] = [0, 1, 2, 3].map(|j| alpha * x[i + j]);
            let rows = row(i).iter().zip(row(i + 1)).zip(row(i + 2).iter().zip(row(i + 3)));
            for (sum, ((p, q), (r, s))) in dst.iter_mut().zip(rows) {
                *sum = d.mul_add(*s, c.mul_add(*r, b.mul_add(*q, a.mul_add(*p, *sum))));
            }
        }
        for (i, x) in x.iter().enumerate().skip(whole) {
            let factor = alpha * x;
            for (sum, y) in dst.iter_mut().zip(row(i)) {
                *sum = factor.mul_add(*y, *sum);
            }
        }
    }
}

/// Columns are contiguous: one inner product for each.
fn by_columns(
    dst: &mut [f32],
    x: &[f32],
    (data, stride): (&[f32], usize),
    alpha: f32,
    parallel: bool,
) {
    if !parallel {
        return Arch::new().dispatch(Dots { dst, x, data, stride, alpha });
    }
    dst.par_chunks_mut(COLUMNS).enumerate().for_each(|(i, dst)| {
        let data = &data[i * COLUMNS * stride..];
        Arch::new().dispatch(Dots { dst, x, data, stride, alpha });
    });
}

struct Dots<'a> {
    dst: &'a mut [f32],
    x: &'a [f32],
    data: &'a [f32],
    stride: usize,
    alpha: f32,
}

impl WithSimd for Dots<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { dst, x, data, stride, alpha } = self;
        for (i, sum) in dst.iter_mut().enumerate() {
            *sum += alpha * math::dot(x, &data[i * stride..][..x.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_layouts_at_any_size_and_number_of_threads() {
        for (k, n) in [(1, 1), (3, 5), (64, 130), (770, 300)] {
            let x: Vec<f32> = (0..k).map(|i| ((i * 7) % 11) as f32 - 5.0).collect();
            let stride = n + 3;
            let rows: Vec<f32> = (0..k * stride).map(|i| ((i * 5) % 13) as f32 - 6.0).collect();
            let want =
                |j: usize| 1.0 + 0.5 * (0..k).map(|i| x[i] * rows[i * stride + j]).sum::<f32>();
            let mut columns = vec![0.0; n * (k + 2)];
            for (i, j) in (0..k).flat_map(|i| (0..n).map(move |j| (i, j))) {
                columns[j * (k + 2) + i] = rows[i * stride + j];
            }
            for threads in [1, 2] {
                for rhs in [View::rows(&rows, stride), View::rows(&columns, k + 2).t()] {
                    let mut dst = vec![1.0; n];
                    assert!(add_product(&mut dst, &x, rhs, 0.5, threads));
                    for (j, got) in dst.iter().enumerate() {
                        assert_eq!(*got, want(j), "[{k}, {n}] column {j}");
                    }
                }
            }
        }
        let odd = View { data: &[0.0; 9], row: 2, col: 3 };
        assert!(!add_product(&mut [0.0], &[1.0], odd, 1.0, 1));
    }
}
