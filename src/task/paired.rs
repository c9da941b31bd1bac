//! Differences of two runs text by text: their mean, its interval, and whether chance explains it.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use statrs::distribution::{Binomial, DiscreteCDF};

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

/// p values of several tests, adjusted so that among those below a level the expected share of false
/// findings stays below it (Benjamini & Hochberg 1995), in their order.
pub fn benjamini_hochberg(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut adjusted = vec![1.0; p.len()];
    let mut smallest = 1.0f64;
    for (rank, &i) in order.iter().enumerate().rev() {
        smallest = smallest.min(p[i] * p.len() as f64 / (rank + 1) as f64);
        adjusted[i] = smallest;
    }
    adjusted
}

/// McNemar's test of two models on the same items.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct McNemar {
    /// Items that only the first has right.
    pub lost: usize,
    /// Items that only the second has right.
    pub gained: usize,
    /// How often a fair coin for each of these items is as far from half of them: the exact test, of
    /// both sides (McNemar 1947).
    pub p: f64,
}

/// McNemar's test of whether items are right before and after.
pub fn mcnemar(before: &[bool], after: &[bool]) -> McNemar {
    let count =
        |was: bool| before.iter().zip(after).filter(|&(&b, &a)| b == was && a != was).count();
    let (lost, gained) = (count(true), count(false));
    let fair = Binomial::new(0.5, (lost + gained) as u64);
    let side = fair.map_or(1.0, |fair| fair.cdf(lost.min(gained) as u64));
    McNemar { lost, gained, p: (2.0 * side).min(1.0) }
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

    fn close(a: &[f64], b: &[f64]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12)
    }

    #[test]
    fn benjamini_and_hochberg_step_up() {
        // 4/4·0.04, 4/3·0.03, 4/2·0.01, 4·0.005, each at most the next larger one
        let found = benjamini_hochberg(&[0.01, 0.04, 0.03, 0.005]);
        assert!(close(&found, &[0.02, 0.04, 0.04, 0.02]), "{found:?}");
        assert!(close(&benjamini_hochberg(&[0.6, 0.9]), &[0.9, 0.9]));
        assert!(benjamini_hochberg(&[]).is_empty());
    }

    #[test]
    fn mcnemar_counts_what_changed_sides() {
        let flags = |text: &str| text.chars().map(|c| c == '1').collect::<Vec<bool>>();
        let found = mcnemar(&flags("1111100011"), &flags("0000010011"));
        // of six items that changed five were lost: 2·(1 + 6)/2⁶
        assert_eq!((found.lost, found.gained), (5, 1));
        assert!((found.p - 14.0 / 64.0).abs() < 1e-12, "{found:?}");
        assert_eq!(mcnemar(&flags("10"), &flags("01")).p, 1.0);
        assert_eq!(mcnemar(&flags("11"), &flags("11")), McNemar { lost: 0, gained: 0, p: 1.0 });
    }

    #[test]
    fn holm_steps_down() {
        assert!(close(&holm(&[0.01, 0.04, 0.03, 0.005]), &[0.03, 0.06, 0.06, 0.02]));
        assert!(close(&holm(&[0.6, 0.5]), &[1.0, 1.0]));
    }
}
