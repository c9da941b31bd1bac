//! Scores of heads: normalised by layer, and compared by rank.

use crate::select::Head;

/// How much a head matters by one measure.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct HeadScore {
    /// Layer and head, as numbered before any pruning.
    pub head: Head,
    /// The larger, the more the measure says it matters.
    pub score: f64,
}

/// Each score divided by the ℓ2 norm of its layer's (Molchanov et al. 2017, as Michel et al. 2019
/// use it): heads then compete within layers rather than across them.
pub fn by_layer(scores: &[HeadScore]) -> Vec<HeadScore> {
    let norm = |layer: usize| {
        let own = scores.iter().filter(|one| one.head.layer == layer);
        own.map(|one| one.score * one.score).sum::<f64>().sqrt() + 1e-20
    };
    let layers = scores.iter().map(|one| one.head.layer + 1).max().unwrap_or(0);
    let norms: Vec<f64> = (0..layers).map(norm).collect();
    let divided = |one: &HeadScore| HeadScore { score: one.score / norms[one.head.layer], ..*one };
    scores.iter().map(divided).collect()
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

/// Spearman's rank correlation of two lists; ties share the mean of their ranks. `None` as for
/// [`rank_correlation`].
pub fn spearman(a: &[f64], b: &[f64]) -> Option<f64> {
    pearson(&ranks(a), &ranks(b))
}

/// Pearson's correlation of two lists; `None` for lists of different lengths or of less than two
/// numbers, and for one of equal numbers.
pub fn pearson(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.len() != b.len() || a.len() < 2 {
        return None;
    }
    let centred = |list: &[f64]| -> Vec<f64> {
        let mean = list.iter().sum::<f64>() / list.len() as f64;
        list.iter().map(|x| x - mean).collect()
    };
    let (a, b) = (centred(a), centred(b));
    let sum = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let spread = (sum(&a, &a) * sum(&b, &b)).sqrt();
    (spread > 0.0).then(|| sum(&a, &b) / spread)
}

/// Ranks from 0, ties at the mean of theirs.
fn ranks(numbers: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    order.sort_by(|&i, &j| numbers[i].total_cmp(&numbers[j]));
    let mut ranks = vec![0.0; numbers.len()];
    let mut first = 0;
    for tied in order.chunk_by(|&i, &j| numbers[i] == numbers[j]) {
        let rank = first as f64 + (tied.len() - 1) as f64 / 2.0;
        tied.iter().for_each(|&i| ranks[i] = rank);
        first += tied.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(values: &[f64]) -> Vec<HeadScore> {
        let place = |(i, &score): (usize, &f64)| {
            let head = Head { layer: i / 2, head: i % 2 };
            HeadScore { head, score }
        };
        values.iter().enumerate().map(place).collect()
    }

    #[test]
    fn ranks_and_their_correlation() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0]), [2.5, 0.0, 2.5, 1.0]);
        let a = scores(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        // 1 − 6·Σd²/(n(n² − 1)) without ties: d = (0, 1, 1, 1, 1), so 1 − 24/120
        let b = scores(&[10.0, 30.0, 20.0, 50.0, 40.0]);
        let found = rank_correlation(&a, &b).expect("defined");
        assert!((found - 0.8).abs() < 1e-12, "{found}");
        assert!(rank_correlation(&a, &a).is_some_and(|r| (r - 1.0).abs() < 1e-12));
        assert!(
            pearson(&[1.0, 2.0, 4.0], &[-1.0, -2.0, -4.0]).is_some_and(|r| (r + 1.0).abs() < 1e-12)
        );
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
