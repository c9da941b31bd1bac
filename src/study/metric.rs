//! What the items of a run say, as one number, each item counted as often as it was drawn.

use serde::{Deserialize, Serialize};

use super::plan::Metric;

/// What the items of a study are held against, the same for every curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Against {
    /// The metric is the sum of what was found over the sum of these: right answers over answers,
    /// or a mean where these are 1.
    Counts(Vec<f64>),
    /// The metric is a correlation of what was found with these.
    Scores(Vec<f64>),
}

impl Against {
    /// How many items.
    pub fn items(&self) -> usize {
        match self {
            Self::Counts(counts) => counts.len(),
            Self::Scores(scores) => scores.len(),
        }
    }
}

/// A draw of items, got ready for many runs over it.
pub(super) struct Drawn<'a> {
    against: &'a Against,
    metric: Metric,
    /// How often each item was drawn.
    times: &'a [f64],
    /// What the items are correlated with: scores, or their ranks among those drawn.
    scores: Vec<f64>,
}

/// What a run found, with its order, which no draw changes.
pub(super) struct Found<'a> {
    values: &'a [f64],
    order: Vec<usize>,
}

impl<'a> Found<'a> {
    pub fn new(values: &'a [f64]) -> Self {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
        Self { values, order }
    }

    /// The rank of each item among those drawn, equal values at the mean of theirs.
    fn ranks(&self, times: &[f64]) -> Vec<f64> {
        let mut ranks = vec![0.0; self.values.len()];
        let mut before = 0.0;
        for tied in self.order.chunk_by(|&a, &b| self.values[a] == self.values[b]) {
            let count: f64 = tied.iter().map(|&i| times[i]).sum();
            tied.iter().for_each(|&i| ranks[i] = before + (count - 1.0) / 2.0);
            before += count;
        }
        ranks
    }
}

impl<'a> Drawn<'a> {
    pub fn new(against: &'a Against, metric: Metric, times: &'a [f64]) -> Self {
        let scores = match (against, metric) {
            (Against::Counts(_), _) => Vec::new(),
            (Against::Scores(scores), Metric::Pearson) => scores.clone(),
            (Against::Scores(scores), Metric::Spearman) => Found::new(scores).ranks(times),
        };
        Self { against, metric, times, scores }
    }

    /// The metric of a run; 0 where nothing correlates.
    pub fn of(&self, found: &Found<'_>) -> f64 {
        let sum = |values: &[f64]| self.times.iter().zip(values).map(|(n, x)| n * x).sum::<f64>();
        match (self.against, self.metric) {
            (Against::Counts(counts), _) => match sum(counts) {
                0.0 => 0.0,
                all => sum(found.values) / all,
            },
            (_, Metric::Pearson) => self.correlation(found.values),
            (_, Metric::Spearman) => self.correlation(&found.ranks(self.times)),
        }
    }

    fn correlation(&self, values: &[f64]) -> f64 {
        let all = self.times.iter().sum::<f64>().max(1.0);
        let mean = |x: &[f64]| self.times.iter().zip(x).map(|(n, x)| n * x).sum::<f64>() / all;
        let (a, b) = (mean(values), mean(&self.scores));
        let (mut both, mut left, mut right) = (0.0, 0.0, 0.0);
        for ((n, x), y) in self.times.iter().zip(values).zip(&self.scores) {
            both += n * (x - a) * (y - b);
            left += n * (x - a) * (x - a);
            right += n * (y - b) * (y - b);
        }
        let spread = (left * right).sqrt();
        if spread > 0.0 { both / spread } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same items, written out as often as they were drawn.
    fn written_out(times: &[f64], values: &[f64]) -> Vec<f64> {
        let each = times.iter().zip(values);
        each.flat_map(|(&n, &x)| std::iter::repeat_n(x, n as usize)).collect()
    }

    fn metric(against: &Against, metric: Metric, times: &[f64], values: &[f64]) -> f64 {
        Drawn::new(against, metric, times).of(&Found::new(values))
    }

    #[test]
    fn counted_items_are_as_good_as_written_out_ones() {
        let values = [0.3, 0.1, 0.3, 0.9, 0.4, 0.1, 0.7];
        let scores = vec![2.0, 1.0, 2.5, 5.0, 2.5, 0.0, 3.0];
        let times = [2.0, 0.0, 1.0, 3.0, 1.0, 2.0, 1.0];
        let (x, y) = (written_out(&times, &values), written_out(&times, &scores));
        let against = Against::Scores(scores);
        for (kind, want) in [
            (Metric::Spearman, crate::task::spearman(&x, &y)),
            (Metric::Pearson, crate::task::pearson(&x, &y)),
        ] {
            let found = metric(&against, kind, &times, &values);
            assert!((found - want.expect("defined")).abs() < 1e-12, "{found} and {want:?}");
        }
        assert_eq!(metric(&against, Metric::Spearman, &times, &[0.5; 7]), 0.0);
    }

    #[test]
    fn shares_of_answers() {
        let against = Against::Counts(vec![1.0, 4.0, 1.0]);
        let found = metric(&against, Metric::Spearman, &[1.0, 2.0, 0.0], &[1.0, 1.0, 1.0]);
        assert_eq!(found, 3.0 / 9.0);
        assert_eq!(metric(&against, Metric::Spearman, &[0.0; 3], &[1.0; 3]), 0.0);
    }
}
