//! Weights as whole numbers of 8 or 16 bits with a scale per row.
//!
//! A weight w of a row is the code c = round(√(w/m)·L), m being the row's largest weight and L the
//! largest code, and is read as s·(c/L)². The square root gives small weights finer steps. The
//! scale s is not m but what makes the row sum to what it summed to.

use ndarray::{Array2, ArrayView1};
use serde::Serialize;

/// What the codes cost.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Errors {
    /// Largest difference of a weight.
    pub weight: f64,
    /// Largest difference of a row's sum.
    pub sum: f64,
}

impl Errors {
    pub(super) fn join(self, other: Self) -> Self {
        Self { weight: self.weight.max(other.weight), sum: self.sum.max(other.sum) }
    }
}

/// One head in codes.
#[derive(Debug, Default)]
pub(super) struct Coded {
    /// A scale per row.
    pub scales: Vec<f32>,
    /// A code per weight, row after row, little-endian.
    pub codes: Vec<u8>,
    pub errors: Errors,
}

/// `weights` [T, S], finite and not negative.
pub(super) fn encode(weights: &Array2<f32>, exact: bool) -> Coded {
    let largest: u16 = if exact { u16::MAX } else { u8::MAX.into() };
    let mut coded = Coded::default();
    coded.codes.reserve(weights.len() * if exact { 2 } else { 1 });
    for row in weights.rows() {
        let (scale, codes) = encode_row(row, largest);
        coded.errors = coded.errors.join(errors(row, scale, &codes, largest));
        coded.scales.push(scale);
        match exact {
            true => coded.codes.extend(codes.iter().flat_map(|code| code.to_le_bytes())),
            false => coded.codes.extend(codes.iter().map(|&code| code as u8)),
        }
    }
    coded
}

fn encode_row(row: ArrayView1<'_, f32>, largest: u16) -> (f32, Vec<u16>) {
    let most = row.iter().fold(0.0_f32, |most, &weight| most.max(weight));
    if most == 0.0 {
        return (0.0, vec![0; row.len()]);
    }
    let top = f64::from(largest);
    let code = |&w: &f32| ((f64::from(w) / f64::from(most)).sqrt() * top).round() as u16;
    let codes: Vec<u16> = row.iter().map(code).collect();
    let sum: f64 = row.iter().map(|&weight| f64::from(weight)).sum();
    let squares: f64 = codes.iter().map(|&code| (f64::from(code) / top).powi(2)).sum();
    ((sum / squares) as f32, codes)
}

/// The weight that the page reads.
fn decode(scale: f32, code: u16, largest: u16) -> f32 {
    (f64::from(scale) * (f64::from(code) / f64::from(largest)).powi(2)) as f32
}

fn errors(row: ArrayView1<'_, f32>, scale: f32, codes: &[u16], largest: u16) -> Errors {
    let (mut weight, mut sum) = (0.0_f64, 0.0_f64);
    for (&want, &code) in row.iter().zip(codes) {
        let off = f64::from(decode(scale, code, largest)) - f64::from(want);
        weight = weight.max(off.abs());
        sum += off;
    }
    Errors { weight, sum: sum.abs() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn rows_keep_their_sums_and_small_weights_their_size() {
        let mut row = vec![0.5_f32];
        row.extend((1..512).map(|i| 0.5 / 511.0 * (1.0 + 0.3 * (i as f32).sin())));
        let weights = Array2::from_shape_vec((1, 512), row).unwrap();
        for exact in [false, true] {
            // half a step beside the largest weight, and a quarter of that for the row's sum
            let top = if exact { 65535.0 } else { 255.0 };
            let most = 1.25 * 0.5 / top;
            let coded = encode(&weights, exact);
            assert!(coded.errors.weight < most, "{:?}", coded.errors);
            assert!(coded.errors.sum < 1e-6, "{:?}", coded.errors);
            let largest = if exact { u16::MAX } else { 255 };
            let code = |i: usize| match exact {
                true => u16::from_le_bytes([coded.codes[2 * i], coded.codes[2 * i + 1]]),
                false => coded.codes[i].into(),
            };
            for (i, want) in weights.iter().enumerate() {
                let got = decode(coded.scales[0], code(i), largest);
                // half a step of a square root is 1 / code of the weight; then the row's sum
                let relative = 1.0 / (top as f32 * (want / 0.5).sqrt()) + 2.5 / top as f32;
                assert!((got / want - 1.0).abs() < relative, "{i}: {got} for {want}");
            }
        }
    }

    #[test]
    fn a_row_of_zeros_stays_one() {
        let coded = encode(&array![[0.0, 0.0], [1.0, 0.0]], false);
        assert_eq!((coded.scales, coded.codes), (vec![0.0, 1.0], vec![0, 0, 255, 0]));
        assert_eq!(coded.errors, Errors::default());
    }
}
