//! Row by row on slices, in place: soft-max, layer norm, activation, each in one pass over memory.
//!
//! Each loop is a [`WithSimd`] value, which pulp runs with the widest instructions of the
//! processor. (A closure would do the same, but is not always inlined, and then it is scalar.)

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::math;
use crate::config::Activation;

/// Elements below which a second thread costs more than it gives.
pub(super) const PARALLEL: usize = 1 << 15;

/// Runs `f` on blocks of whole rows, on all threads where there is enough to do.
fn for_rows(data: &mut [f32], row: usize, f: impl Fn(&mut [f32]) + Sync + Send) {
    if row == 0 {
        return;
    }
    let threads = rayon::current_num_threads();
    if data.len() < PARALLEL || threads == 1 {
        return f(data);
    }
    let rows = (data.len() / row).div_ceil(4 * threads).max(1);
    data.par_chunks_mut(rows * row).for_each(f);
}

/// A copy, made by all threads where it is large: fresh memory costs more than its content.
pub(crate) fn copied(data: &[f32]) -> Vec<f32> {
    if data.len() < PARALLEL || rayon::current_num_threads() == 1 {
        return data.to_vec();
    }
    let mut copy = Vec::new();
    copy.par_extend(data.par_iter().copied());
    copy
}

/// Zeros, written by all threads where there are many.
pub(crate) fn zeros(count: usize) -> Vec<f32> {
    if count < PARALLEL || rayon::current_num_threads() == 1 {
        return vec![0.0; count];
    }
    let mut zeros = Vec::new();
    zeros.par_extend(rayon::iter::repeat_n(0.0, count));
    zeros
}

/// `[B, H, T, K]` → `[B, T, H·K]`: each position's heads side by side.
pub(crate) fn merge_heads(data: &[f32], [b, h, t, k]: [usize; 4]) -> Vec<f32> {
    let mut merged = zeros(b * h * t * k);
    let row = |(i, row): (usize, &mut [f32])| {
        for (head, part) in row.chunks_exact_mut(k).enumerate() {
            let at = (((i / t) * h + head) * t + i % t) * k;
            part.copy_from_slice(&data[at..at + k]);
        }
    };
    if h * k > 0 {
        match merged.len() < PARALLEL {
            true => merged.chunks_exact_mut(h * k).enumerate().for_each(row),
            false => merged.par_chunks_exact_mut(h * k).enumerate().for_each(row),
        }
    }
    merged
}

/// Adds a vector to every row.
pub(crate) fn add_to_rows(data: &mut [f32], vector: &[f32]) {
    for_rows(data, vector.len(), |block| {
        for values in block.chunks_exact_mut(vector.len()) {
            for (x, v) in values.iter_mut().zip(vector) {
                *x += v;
            }
        }
    });
}

/// Soft-max of each row of `row` elements, on the calling thread. A row of equal values, also of
/// `f32::MIN`, is uniform.
pub(crate) fn softmax(data: &mut [f32], row: usize) {
    struct Softmax<'a>(&'a mut [f32], usize);
    impl WithSimd for Softmax<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) {
            for values in self.0.chunks_exact_mut(self.1) {
                let max = math::max(values);
                for x in values.iter_mut() {
                    *x = math::exp(*x - max);
                }
                let scale = 1.0 / math::sum(values, |x| x);
                for x in values.iter_mut() {
                    *x *= scale;
                }
            }
        }
    }
    if row > 0 {
        Arch::new().dispatch(Softmax(data, row));
    }
}

/// Layer norm of each row (Ba et al. 2016): `(x − mean) / √(variance + eps) · weight + bias`, the
/// variance in a second pass around the mean, so that large means cost no digits.
pub(crate) fn layer_norm(data: &mut [f32], weight: &[f32], bias: &[f32], eps: f32) {
    struct Normalise<'a>(&'a mut [f32], &'a [f32], &'a [f32], f32);
    impl WithSimd for Normalise<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) {
            let Self(block, weight, bias, eps) = self;
            let width = weight.len() as f32;
            for values in block.chunks_exact_mut(weight.len()) {
                let mean = math::sum(values, |x| x) / width;
                let variance = math::sum(values, |x| (x - mean) * (x - mean)) / width;
                let scale = 1.0 / (variance + eps).sqrt();
                for ((x, w), b) in values.iter_mut().zip(weight).zip(bias) {
                    *x = ((*x - mean) * scale).mul_add(*w, *b);
                }
            }
        }
    }
    for_rows(data, weight.len(), |block| {
        Arch::new().dispatch(Normalise(block, weight, bias, eps));
    });
}

/// Root mean square norm of each row (Zhang & Sennrich 2019): `x / √(mean(x²) + eps) · weight`.
pub(crate) fn rms_norm(data: &mut [f32], weight: &[f32], eps: f32) {
    struct Scale<'a>(&'a mut [f32], &'a [f32], f32);
    impl WithSimd for Scale<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) {
            let Self(block, weight, eps) = self;
            for values in block.chunks_exact_mut(weight.len()) {
                let square = math::sum(values, |x| x * x) / weight.len() as f32;
                let scale = 1.0 / (square + eps).sqrt();
                for (x, w) in values.iter_mut().zip(weight) {
                    *x = *x * scale * w;
                }
            }
        }
    }
    for_rows(data, weight.len(), |block| Arch::new().dispatch(Scale(block, weight, eps)));
}

/// The activation of every element.
pub(crate) fn activate(data: &mut [f32], activation: Activation) {
    match activation {
        Activation::Gelu => {
            each(data, |x| 0.5 * x * (1.0 + math::erf(x * std::f32::consts::FRAC_1_SQRT_2)))
        }
        Activation::GeluTanh => each(data, |x| {
            let inner = 0.797_884_6 * 0.044_715f32.mul_add(x * x * x, x);
            0.5 * x * (1.0 + math::tanh(inner))
        }),
        Activation::QuickGelu => each(data, |x| x / (1.0 + math::exp(-1.702 * x.max(-51.0)))),
        Activation::Silu => each(data, |x| x / (1.0 + math::exp(-x.max(-87.0)))),
        Activation::Relu => each(data, |x| x.max(0.0)),
        Activation::Tanh => each(data, math::tanh),
    }
}

/// `f` of every element.
pub(super) fn each(data: &mut [f32], f: impl Fn(f32) -> f32 + Sync + Send) {
    struct Each<'a, F>(&'a mut [f32], &'a F);
    impl<F: Fn(f32) -> f32> WithSimd for Each<'_, F> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) {
            for x in self.0.iter_mut() {
                *x = (self.1)(*x);
            }
        }
    }
    for_rows(data, 16, |block| Arch::new().dispatch(Each(block, &f)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_put_side_by_side_at_any_size() {
        for [b, h, t, k] in [[1, 1, 1, 1], [2, 3, 5, 4], [2, 4, 130, 64]] {
            let at = |e: usize, head: usize, p: usize, c: usize| ((e * h + head) * t + p) * k + c;
            let data: Vec<f32> = (0..b * h * t * k).map(|i| i as f32).collect();
            let merged = merge_heads(&data, [b, h, t, k]);
            for (i, x) in merged.iter().enumerate() {
                let (c, head, p, e) = (i % k, i / k % h, i / (k * h) % t, i / (k * h * t));
                assert_eq!(*x, at(e, head, p, c) as f32);
            }
            assert_eq!(copied(&data), data);
        }
        assert_eq!(zeros(100_000), vec![0.0; 100_000]);
    }

    #[test]
    fn softmax_of_extreme_and_masked_rows() {
        let mut rows = [1e4, -1e4, 1e4, -1e4, f32::MIN, f32::MIN, f32::MIN, f32::MIN];
        softmax(&mut rows, 4);
        assert_eq!(rows, [0.5, 0.0, 0.5, 0.0, 0.25, 0.25, 0.25, 0.25]);
    }

    #[test]
    fn layer_norm_of_a_constant_row_and_of_a_far_one() {
        let mut constant = vec![7.25f32; 768];
        layer_norm(&mut constant, &[1.0; 768], &[0.5; 768], 1e-12);
        assert!(constant.iter().all(|&x| x == 0.5), "{:?}", &constant[..4]);
        // mean 1e4, deviation 1: the naive E[x²] − mean² loses everything here
        let mut far: Vec<f32> =
            (0..768).map(|i| 1e4 + if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
        layer_norm(&mut far, &[1.0; 768], &[0.0; 768], 1e-12);
        assert!(far.iter().all(|&x| (x.abs() - 1.0).abs() < 1e-3), "{:?}", &far[..4]);
    }

    #[test]
    fn rms_norm_by_its_definition() {
        let mut rows = [3.0, -4.0, 0.0, 0.0];
        rms_norm(&mut rows, &[2.0, 1.0], 0.5);
        let scale = 1.0 / 13.0f32.sqrt();
        for (got, want) in rows.iter().zip([6.0 * scale, -4.0 * scale, 0.0, 0.0]) {
            assert!((got - want).abs() < 1e-6, "{got} for {want}");
        }
    }

    #[test]
    fn activations_agree_with_their_definitions() {
        type Definition = fn(f64) -> f64;
        let tanh_gelu: Definition = |x| {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
            0.5 * x * (1.0 + inner.tanh())
        };
        let cases: [(Activation, Definition); 6] = [
            (Activation::Gelu, |x| {
                0.5 * x * (1.0 + candle_core::cpu::erf::erf_f64(x / 2f64.sqrt()))
            }),
            (Activation::GeluTanh, tanh_gelu),
            (Activation::QuickGelu, |x| x / (1.0 + (-1.702 * x).exp())),
            (Activation::Silu, |x| x / (1.0 + (-x).exp())),
            (Activation::Relu, |x| x.max(0.0)),
            (Activation::Tanh, f64::tanh),
        ];
        let grid: Vec<f32> = (-2000..2000).map(|i| i as f32 / 100.0).collect();
        for (activation, want) in cases {
            let mut got = grid.clone();
            activate(&mut got, activation);
            for (&x, &y) in grid.iter().zip(&got) {
                let off = (f64::from(y) - want(f64::from(x))).abs();
                assert!(off < 1e-6 * f64::from(x.abs().max(1.0)), "{activation:?}({x}) = {y}");
            }
        }
        let mut far = [-1e30, f32::MIN, 1e30];
        activate(&mut far, Activation::Silu);
        assert!(far.iter().all(|x| x.is_finite()), "{far:?}");
    }
}
