//! Gradients through what `rows` computes.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::math;
use super::rows::each;
use crate::config::Activation;

/// The derivative of the activation at every element.
pub(crate) fn activation_slope(data: &mut [f32], activation: Activation) {
    // of x·σ(a·x)
    let sigmoid = |x: f32, a: f32| {
        let s = 1.0 / (1.0 + math::exp((-a * x).min(87.0)));
        s * (1.0 + a * x * (1.0 - s))
    };
    match activation {
        Activation::Gelu => each(data, |x| {
            let below = 0.5 * (1.0 + math::erf(x * std::f32::consts::FRAC_1_SQRT_2)); // Φ(x)
            (x * 0.398_942_3).mul_add(math::exp(-0.5 * x * x), below)
        }),
        Activation::GeluTanh => each(data, |x| {
            let t = math::tanh(0.797_884_6 * 0.044_715f32.mul_add(x * x * x, x));
            let inner = 0.797_884_6 * (3.0 * 0.044_715f32).mul_add(x * x, 1.0);
            0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner
        }),
        Activation::QuickGelu => each(data, |x| sigmoid(x, 1.702)),
        Activation::Silu => each(data, |x| sigmoid(x, 1.0)),
        Activation::Relu => each(data, |x| if x > 0.0 { 1.0 } else { 0.0 }),
        Activation::Tanh => each(data, |x| {
            let t = math::tanh(x);
            1.0 - t * t
        }),
    }
}

/// The gradient by the rows `x` of a norm, in place of the one by its output: with x̂ the
/// normalised row, s its scale and g the gradient times the weight,
/// `s · (g − mean(g) − x̂ · mean(g ∘ x̂))`, without `mean(g)` where no mean is taken away.
pub(crate) fn norm_back(data: &mut [f32], x: &[f32], weight: &[f32], eps: f32, centred: bool) {
    struct Back<'a>(&'a mut [f32], &'a [f32], &'a [f32], f32, bool);
    impl WithSimd for Back<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) {
            let Self(block, x, weight, eps, centred) = self;
            let width = weight.len() as f32;
            let rows = block.chunks_exact_mut(weight.len()).zip(x.chunks_exact(weight.len()));
            for (g, x) in rows {
                let mean = if centred { math::sum(x, |x| x) / width } else { 0.0 };
                let variance = math::sum(x, |x| (x - mean) * (x - mean)) / width;
                let scale = 1.0 / (variance + eps).sqrt();
                for (g, w) in g.iter_mut().zip(weight) {
                    *g *= w;
                }
                let all = math::sum(g, |g| g);
                let along = (math::dot(g, x) - mean * all) * scale / width; // mean(g ∘ x̂)
                let all = if centred { all / width } else { 0.0 };
                for (g, x) in g.iter_mut().zip(x) {
                    *g = scale * (*g - all - (x - mean) * scale * along);
                }
            }
        }
    }
    if weight.is_empty() || data.len() != x.len() {
        return;
    }
    let rows = (x.len() / weight.len()).div_ceil(4 * rayon::current_num_threads()).max(1);
    let blocks = data.par_chunks_mut(rows * weight.len()).zip(x.par_chunks(rows * weight.len()));
    blocks.for_each(|(g, x)| Arch::new().dispatch(Back(g, x, weight, eps, centred)));
}

/// The gradients by a norm's weight and bias of rows `x` with gradient `g` by its output: Σ g ∘ x̂ and
/// Σ g over all rows.
pub(crate) fn norm_parameters_back(
    g: &[f32],
    x: &[f32],
    width: usize,
    eps: f32,
    centred: bool,
) -> (Vec<f32>, Vec<f32>) {
    let none = || (vec![0.0f32; width], vec![0.0f32; width]);
    if width == 0 || g.len() != x.len() {
        return none();
    }
    let block = |(g, x): (&[f32], &[f32])| {
        let (mut weight, mut bias) = none();
        for (g, x) in g.chunks_exact(width).zip(x.chunks_exact(width)) {
            let mean = if centred { math::sum(x, |x| x) / width as f32 } else { 0.0 };
            let variance = math::sum(x, |x| (x - mean) * (x - mean)) / width as f32;
            let scale = 1.0 / (variance + eps).sqrt();
            let sums = weight.iter_mut().zip(&mut bias).zip(g.iter().zip(x));
            for ((weight, bias), (g, x)) in sums {
                *weight += g * (x - mean) * scale;
                *bias += g;
            }
        }
        (weight, bias)
    };
    // blocks of fixed size, summed in order: the same sums whatever the number of threads
    let rows = 64 * width;
    let blocks: Vec<_> = g.par_chunks(rows).zip(x.par_chunks(rows)).map(block).collect();
    blocks.into_iter().fold(none(), |mut all, one| {
        add(&mut all.0, &one.0);
        add(&mut all.1, &one.1);
        all
    })
}

/// Sum of all rows of `width` numbers: the gradient by what was added to each.
pub(crate) fn sum_of_rows(data: &[f32], width: usize) -> Vec<f32> {
    let mut sum = vec![0.0; width];
    data.chunks_exact(width.max(1)).for_each(|row| add(&mut sum, row));
    sum
}

fn add(sum: &mut [f32], row: &[f32]) {
    sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
}
