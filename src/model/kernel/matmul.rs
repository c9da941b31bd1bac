//! Matrix products on slices: a checked face for the `gemm` crate, the one that candle uses too.

use gemm::Parallelism;

use super::vector;

/// A matrix inside a slice: element (i, j) is `data[i * row + j * col]`.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub data: &'a [f32],
    pub row: usize,
    pub col: usize,
}

impl<'a> View<'a> {
    /// Rows of `row` elements, one after another.
    pub fn rows(data: &'a [f32], row: usize) -> Self {
        Self { data, row, col: 1 }
    }

    /// The same matrix with its axes exchanged.
    pub fn t(self) -> Self {
        Self { row: self.col, col: self.row, ..self }
    }

    fn holds(&self, rows: usize, cols: usize) -> bool {
        last(rows, self.row, cols, self.col) < self.data.len()
    }
}

/// Index of the last element of a `[rows, cols]` matrix; saturates instead of wrapping.
fn last(rows: usize, row: usize, cols: usize, col: usize) -> usize {
    (rows - 1).saturating_mul(row).saturating_add((cols - 1).saturating_mul(col))
}

/// Sizes of a product `[m, k] × [k, n]`.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub m: usize,
    pub k: usize,
    pub n: usize,
}

/// `dst = alpha · lhs × rhs`, or `dst += …` where `add` says so. `dst` has rows of `dst_row`.
///
/// # Panics
/// When a slice is too short for the sizes: a mistake in this crate, never in its input.
#[allow(unsafe_code)]
pub(crate) fn matmul(
    dst: &mut [f32],
    dst_row: usize,
    add: bool,
    (lhs, rhs): (View<'_>, View<'_>),
    Sizes { m, k, n }: Sizes,
    alpha: f32,
    threads: usize,
) {
    if m == 0 || n == 0 {
        return;
    }
    if k == 0 {
        if !add {
            dst.chunks_mut(dst_row).take(m).for_each(|row| row[..n].fill(0.0));
        }
        return;
    }
    assert!(n <= dst_row && last(m, dst_row, n, 1) < dst.len(), "product does not fit");
    assert!(lhs.holds(m, k) && rhs.holds(k, n), "factor is too short");
    if m == 1 && lhs.col == 1 {
        if !add {
            dst[..n].fill(0.0);
        }
        if vector::add_product(&mut dst[..n], &lhs.data[..k], rhs, alpha, threads) {
            return;
        }
    }
    let parallelism = match threads {
        0 | 1 => Parallelism::None,
        n => Parallelism::Rayon(n),
    };
    // SAFETY: the three assertions above bound every element that gemm reads or writes, the
    // strides are below isize::MAX because they index into slices, `dst` is borrowed mutably and
    // so overlaps neither factor.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            dst.as_mut_ptr(),
            1,
            dst_row as isize,
            add,
            lhs.data.as_ptr(),
            lhs.col as isize,
            lhs.row as isize,
            rhs.data.as_ptr(),
            rhs.col as isize,
            rhs.row as isize,
            1.0,
            alpha,
            false,
            false,
            false,
            parallelism,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_with_strides_and_accumulation() {
        let a: Vec<f32> = (0..6).map(|i| i as f32).collect(); // [2, 3]
        let b: Vec<f32> = (0..12).map(|i| (i * i) as f32).collect(); // [4, 3], used transposed
        let mut c = vec![1.0f32; 10]; // [2, 4] in rows of 5
        let factors = (View::rows(&a, 3), View::rows(&b, 3).t());
        matmul(&mut c, 5, true, factors, Sizes { m: 2, k: 3, n: 4 }, 0.5, 1);
        for i in 0..2 {
            for j in 0..4 {
                let sum: f32 = (0..3).map(|k| a[i * 3 + k] * b[j * 3 + k]).sum();
                assert_eq!(c[i * 5 + j], 1.0 + 0.5 * sum);
            }
        }
        assert_eq!(c[4], 1.0);
    }

    #[test]
    #[should_panic(expected = "too short")]
    fn a_short_factor_is_caught() {
        let mut c = [0.0; 4];
        let factors = (View::rows(&[1.0; 3], 2), View::rows(&[1.0; 4], 2));
        matmul(&mut c, 2, false, factors, Sizes { m: 2, k: 2, n: 2 }, 1.0, 1);
    }
}
