//! Scores of heads: normalised by layer, and compared by rank.

use std::collections::BTreeMap;

use super::place::StackHead;
use crate::config::Stack;
use crate::task::spearman;

/// How much a head matters by one measure.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct HeadScore {
    /// Stack, layer and head, as numbered before any pruning.
    pub head: StackHead,
    /// The larger, the more the measure says it matters.
    pub score: f64,
}

/// Each score divided by the ℓ2 norm of its layer's (Molchanov et al. 2017, as Michel et al. 2019
/// use it): heads then compete within layers rather than across them. A decoder's self-attention and
/// its cross-attention are two layers.
pub fn by_layer(scores: &[HeadScore]) -> Vec<HeadScore> {
    let layer = |one: &HeadScore| (one.head.stack, one.head.head.layer);
    let mut sums: BTreeMap<(Stack, usize), f64> = BTreeMap::new();
    for one in scores {
        *sums.entry(layer(one)).or_default() += one.score * one.score;
    }
    let norm = |one| sums.get(&layer(one)).copied().unwrap_or_default().sqrt() + 1e-20;
    scores.iter().map(|one| HeadScore { score: one.score / norm(one), ..*one }).collect()
}

/// Spearman's rank correlation of two measures of the same heads in the same order; equal scores
/// share the mean of their ranks. `None` for fewer than two heads, for lists of different lengths,
/// and where a measure tells no heads apart.
pub fn rank_correlation(a: &[HeadScore], b: &[HeadScore]) -> Option<f64> {
    if a.len() != b.len() || a.len() < 2 || a.iter().zip(b).any(|(a, b)| a.head != b.head) {
        return None;
    }
    let scores = |list: &[HeadScore]| list.iter().map(|one| one.score).collect::<Vec<f64>>();
    spearman(&scores(a), &scores(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select::Head;

    fn scores(values: &[f64]) -> Vec<HeadScore> {
        let place = |(i, &score): (usize, &f64)| {
            let head = Head { layer: i / 2, head: i % 2 };
            HeadScore { head: StackHead { stack: Stack::Encoder, head }, score }
        };
        values.iter().enumerate().map(place).collect()
    }

    #[test]
    fn ranks_and_their_correlation() {
        let a = scores(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        // 1 − 6·Σd²/(n(n² − 1)) without ties: d = (0, 1, 1, 1, 1), so 1 − 24/120
        let b = scores(&[10.0, 30.0, 20.0, 50.0, 40.0]);
        let found = rank_correlation(&a, &b).expect("defined");
        assert!((found - 0.8).abs() < 1e-12, "{found}");
        assert!(rank_correlation(&a, &a).is_some_and(|r| (r - 1.0).abs() < 1e-12));
        assert_eq!(rank_correlation(&a, &scores(&[7.0; 5])), None);
        assert_eq!(rank_correlation(&a, &scores(&[1.0, 2.0])), None);
    }

    #[test]
    fn layers_have_norm_1() {
        let found = by_layer(&scores(&[3.0, 4.0, 0.0, 0.0]));
        let values: Vec<f64> = found.iter().map(|one| one.score).collect();
        assert_eq!(values, [0.6, 0.8, 0.0, 0.0]);
    }
}
