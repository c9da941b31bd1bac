//! Differences of two runs text by text: their mean, its interval, and whether chance explains it.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// What a change does to the texts, as the mean of the differences text by text.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Effect {
    /// The mean difference.
    pub mean: f64,
    /// Its 95 % interval by the bootstrap over texts (Efron 1979), percentiles.
    pub interval: (f64, f64),
    /// Cohen's d for pairs: the mean over the standard deviation; 0 where nothing differs.
    pub size: f64,
    /// How often signs at random give a mean as far from 0: a permutation test of pairs.
    pub p: f64,
}

/// The effect of differences text by text, by `rounds` resamplings from `seed`.
pub fn effect(differences: &[f64], rounds: usize, seed: u64) -> Effect {
    let count = differences.len().max(1) as f64;
    let mean = differences.iter().sum::<f64>() / count;
    let spread = differences.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>();
    let deviation = (spread / (count - 1.0).max(1.0)).sqrt();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut means: Vec<f64> = (0..rounds)
        .map(|_| {
            let draw = |_| {
                let at = random.next_u64() % differences.len().max(1) as u64;
                differences.get(at as usize).copied().unwrap_or(0.0)
            };
            (0..differences.len()).map(draw).sum::<f64>() / count
        })
        .collect();
    means.sort_by(f64::total_cmp);
    let quantile = |share: f64| {
        let at = (share * means.len().saturating_sub(1) as f64).round() as usize;
        means.get(at).copied().unwrap_or(mean)
    };
    let as_far = (0..rounds)
        .filter(|_| {
            let signed =
                differences.iter().map(|x| if random.next_u32() & 1 == 0 { *x } else { -x });
            (signed.sum::<f64>() / count).abs() >= mean.abs() * (1.0 - 1e-12)
        })
        .count();
    Effect {
        mean,
        interval: (quantile(0.025), quantile(0.975)),
        size: if deviation > 0.0 { mean / deviation } else { 0.0 },
        p: (as_far + 1) as f64 / (rounds + 1) as f64, // the signs as they are count too
    }
}

/// p values of several tests, adjusted so that the chance of any false finding stays below the level
/// (Holm 1979), in their order.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut adjusted = vec![1.0; p.len()];
    let mut largest = 0.0f64;
    for (rank, &i) in order.iter().enumerate() {
        largest = largest.max((p[i] * (p.len() - rank) as f64).min(1.0));
        adjusted[i] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_and_their_tests() {
        let clear: Vec<f64> = (0..40).map(|i| 1.0 + f64::from(i % 5) / 10.0).collect();
        let found = effect(&clear, 999, 1);
        assert!((found.mean - 1.2).abs() < 1e-12 && found.p == 1.0 / 1000.0, "{found:?}");
        assert!(found.interval.0 > 1.1 && found.interval.1 < 1.3 && found.size > 5.0, "{found:?}");
        let none: Vec<f64> = (0..40).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let found = effect(&none, 999, 1);
        assert!(found.mean == 0.0 && found.p == 1.0, "{found:?}");
        assert!(found.interval.0 < 0.0 && found.interval.1 > 0.0, "{found:?}");
        assert_eq!(effect(&clear, 99, 7), effect(&clear, 99, 7));
        // of four pairs of one sign, two of 16 sign patterns are as far: p near 1/8
        let few = effect(&[1.0, 2.0, 3.0, 4.0], 9999, 5);
        assert!((few.p - 0.125).abs() < 0.015, "{few:?}");
        assert_eq!(effect(&[], 9, 1).mean, 0.0);
    }

    #[test]
    fn holm_steps_down() {
        let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12);
        assert!(close(&holm(&[0.01, 0.04, 0.03, 0.005]), &[0.03, 0.06, 0.06, 0.02]));
        assert!(close(&holm(&[0.6, 0.5]), &[1.0, 1.0]));
    }
}
