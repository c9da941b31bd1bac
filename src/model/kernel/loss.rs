//! Cross-entropy on slices, row by row: what a row of scores costs, and its slope.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::math;
use super::rows::PARALLEL;

/// ln Σ exp of each row of `data`, as many rows as `classes`, less the row's number at its class.
pub(crate) fn cross_entropy(data: &[f32], classes: &[u32]) -> Vec<f32> {
    struct Loss<'a>(&'a [f32], usize);
    impl WithSimd for Loss<'_> {
        type Output = f32;

        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) -> f32 {
            let max = math::max(self.0);
            math::sum(self.0, |x| math::exp(x - max)).ln() + (max - self.0[self.1])
        }
    }
    let row = data.len() / classes.len().max(1);
    let each =
        data.par_chunks(row.max(1)).zip(classes).with_min_len((PARALLEL / 4 / row.max(1)).max(1));
    each.map(|(row, &class)| Arch::new().dispatch(Loss(row, class as usize))).collect()
}

/// The gradient of [`cross_entropy`], in place of its scores: `gradient` times p, less `gradient` at
/// the class, where ln p there is the loss.
pub(crate) fn cross_entropy_back(
    data: &mut [f32],
    classes: &[u32],
    losses: &[f32],
    gradient: &[f32],
) {
    struct Slope<'a>(&'a mut [f32], f32, f32);
    impl WithSimd for Slope<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) {
            let Self(row, all, gradient) = self;
            for x in row.iter_mut() {
                *x = math::exp(*x - all) * gradient;
            }
        }
    }
    let row = (data.len() / classes.len().max(1)).max(1);
    let given = classes.par_iter().zip(losses.par_iter().zip(gradient));
    data.par_chunks_mut(row).zip(given).for_each(|(row, (&class, (loss, &gradient)))| {
        let class = class as usize;
        let all = loss + row[class];
        Arch::new().dispatch(Slope(&mut *row, all, gradient));
        row[class] -= gradient;
    });
}
