//! Branch-free exp, erf and tanh in f32: written so that the compiler makes vector code of a loop
//! over them, which it cannot do for the C library's.

/// e^x for x ≤ 88; 0 from −87.3 down, where floats lose their digits. Within 2 ulp.
///
/// Cody and Waite 1980: x = n·ln 2 + r with |r| ≤ ln 2 / 2, e^x = 2^n · e^r, and e^r by its Taylor
/// polynomial of degree 7 (remainder below 6e-9).
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    const LN2_HIGH: f32 = 0.693_359_4; // few bits, so that n · LN2_HIGH is exact
    const LN2_LOW: f32 = -2.121_944_4e-4;
    const ROUND: f32 = 12_582_912.0; // 1.5 · 2^23: adding and taking it away rounds to an integer
    let inside = x > -87.3;
    let x = if inside { x } else { 0.0 };
    let rounded = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = rounded - ROUND;
    let r = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, x));
    let mut p = 1.0f32 / 5040.0;
    for c in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        p = p.mul_add(r, c);
    }
    // the low bits of `rounded` are n; moved into the exponent they make 2^n (n ≥ −126: normal)
    let power = f32::from_bits((rounded.to_bits() << 23).wrapping_add(127 << 23));
    if inside { p * power } else { 0.0 }
}

/// Error function, within 1 ulp: an odd polynomial near 0 and 1 − e^{p(|x|)} beyond, both computed
/// and one chosen, so that there is no branch. Minimax coefficients by N. Juffa,
/// "Computing erff() accurate to 1 ulp", 2016.
#[inline(always)]
pub(crate) fn erf(x: f32) -> f32 {
    const NEAR: [f32; 6] = [
        -5.967_617e-4,
        4.991_194e-3,
        -2.676_813_5e-2,
        1.128_199_25e-1,
        -3.761_253_4e-1,
        1.283_791_7e-1,
    ];
    const FAR: [f32; 7] = [
        -1.728_534_7e-5,
        3.831_971_3e-4,
        -3.883_964_4e-3,
        2.425_462_2e-2,
        -1.067_778_8e-1,
        -6.348_467e-1,
        -1.287_175_1e-1,
    ];
    // erf rounds to 1 from 3.92 on; the bound keeps the polynomial in its range
    let t = x.abs().min(4.0);
    let near = horner(x * x, &NEAR).mul_add(x, x);
    let far = (1.0 - exp(horner(t, &FAR).mul_add(t, -t))).copysign(x);
    if t > 0.927_734_4 { far } else { near }
}

/// Hyperbolic tangent, within 2e-7: its Taylor polynomial of degree 9 near 0, and
/// (1 − e^{−2|x|})/(1 + e^{−2|x|}) beyond.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    const NEAR: [f32; 4] = [62.0 / 2835.0, -17.0 / 315.0, 2.0 / 15.0, -1.0 / 3.0];
    let t = x.abs();
    let near = (horner(x * x, &NEAR) * (x * x)).mul_add(x, x);
    let e = exp(-2.0 * t);
    let far = ((1.0 - e) / (1.0 + e)).copysign(x);
    if t > 0.25 { far } else { near }
}

#[inline(always)]
fn horner(x: f32, coefficients: &[f32]) -> f32 {
    let mut sum = 0.0f32;
    for &c in coefficients {
        sum = sum.mul_add(x, c);
    }
    sum
}

const LANES: usize = 16;

/// Sum of `f(x)` over a slice in [`LANES`] partial sums, which the compiler keeps in registers.
#[inline(always)]
pub(crate) fn sum(values: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let chunks = values.chunks_exact(LANES);
    let rest: f32 = chunks.remainder().iter().map(|&x| f(x)).sum();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane += f(x);
        }
    }
    lanes.iter().sum::<f32>() + rest
}

/// Inner product of two slices of one length, in [`LANES`] partial sums.
#[inline(always)]
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let (a_chunks, b_chunks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest = a_chunks.remainder().iter().zip(b_chunks.remainder());
    let rest: f32 = rest.map(|(x, y)| x * y).sum();
    for (x, y) in a_chunks.zip(b_chunks) {
        for ((lane, x), y) in lanes.iter_mut().zip(x).zip(y) {
            *lane = x.mul_add(*y, *lane);
        }
    }
    lanes.iter().sum::<f32>() + rest
}

/// The largest value of a slice; −∞ of an empty one.
#[inline(always)]
pub(crate) fn max(values: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if a > b { a } else { b };
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let chunks = values.chunks_exact(LANES);
    let rest = chunks.remainder().iter().fold(f32::NEG_INFINITY, |m, &x| larger(x, m));
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane = larger(x, *lane);
        }
    }
    lanes.iter().fold(rest, |m, &x| larger(x, m))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(from: f32, to: f32) -> impl Iterator<Item = f32> {
        (0..=100_000).map(move |i| from + (to - from) * i as f32 / 100_000.0)
    }

    #[test]
    fn exp_within_two_ulp() {
        assert_eq!(exp(0.0), 1.0);
        for x in grid(-87.0, 88.0) {
            let want = f64::from(x).exp();
            let off = (f64::from(exp(x)) - want).abs() / want;
            assert!(off < 2.4e-7, "exp({x}) off by {off:e}");
        }
        for x in [-88.0, -1e4, f32::MIN, f32::NEG_INFINITY] {
            assert_eq!(exp(x), 0.0, "{x}");
        }
    }

    #[test]
    fn erf_and_tanh_within_their_bounds() {
        for x in grid(-10.0, 10.0) {
            let (e, t) = (candle_core::cpu::erf::erf_f64(f64::from(x)), f64::from(x).tanh());
            assert!((f64::from(erf(x)) - e).abs() < 1.2e-7, "erf({x})");
            assert!((f64::from(tanh(x)) - t).abs() < 2e-7, "tanh({x})");
        }
    }

    #[test]
    fn sums_and_maxima_of_any_length() {
        for n in 0..70 {
            let values: Vec<f32> = (0..n).map(|i| ((i * 7) % 13) as f32).collect();
            assert_eq!(sum(&values, |x| x), values.iter().sum::<f32>());
            let want = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            assert_eq!(max(&values), want);
        }
    }
}
