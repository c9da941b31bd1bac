//! What a model makes of the items of a labelled set.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::correlation::{pearson, spearman};
use super::probe::{Told, told};

/// What a model says of each item, with what is so.
#[derive(Debug, Clone, PartialEq)]
pub enum Answers {
    /// Classes that were told, with those that are: one of a text, or one for each word of it.
    Classes {
        /// Per item, (told, is).
        items: Vec<Vec<(u32, u32)>>,
        /// How many classes there are.
        count: usize,
    },
    /// Per pair of texts, the cosine of their embeddings and how alike they are.
    Pairs(Vec<(f64, f64)>),
}

/// What a model reaches on a part of a labelled set.
#[derive(Debug, Clone, PartialEq)]
pub struct Reached {
    /// Item by item, in one order for all runs over a part.
    pub answers: Answers,
}

impl Reached {
    /// How many items.
    pub fn items(&self) -> usize {
        match &self.answers {
            Answers::Classes { items, .. } => items.len(),
            Answers::Pairs(pairs) => pairs.len(),
        }
    }

    /// The name of [`metric`](Self::metric).
    pub fn metric_name(&self) -> &'static str {
        match self.answers {
            Answers::Classes { .. } => "accuracy",
            Answers::Pairs(_) => "Spearman",
        }
    }

    /// The one number that must not fall: the share of classes that are right, or Spearman's rank
    /// correlation of pairs, 0 where nothing correlates.
    pub fn metric(&self) -> f64 {
        let all: Vec<usize> = (0..self.items()).collect();
        self.metric_over(&all)
    }

    /// The same over some items, each as often as it is named: what a bootstrap asks for. Items that
    /// are not there are left out.
    pub fn metric_over(&self, chosen: &[usize]) -> f64 {
        match &self.answers {
            Answers::Classes { items, .. } => {
                let answers = chosen.iter().filter_map(|&i| items.get(i)).flatten();
                let (right, all) = answers.fold((0usize, 0usize), |(right, all), (told, is)| {
                    (right + usize::from(told == is), all + 1)
                });
                right as f64 / all.max(1) as f64
            }
            Answers::Pairs(pairs) => {
                let (a, b): (Vec<f64>, Vec<f64>) =
                    chosen.iter().filter_map(|&i| pairs.get(i)).copied().unzip();
                spearman(&a, &b).unwrap_or(0.0)
            }
        }
    }

    /// The 95 % interval of the metric by the bootstrap over items (Efron 1979), percentiles of
    /// `rounds` resamplings from `seed`.
    pub fn interval(&self, rounds: usize, seed: u64) -> (f64, f64) {
        let found = bootstrap(self.items(), rounds, seed, |items| self.metric_over(items));
        found.unwrap_or_else(|| (self.metric(), self.metric()))
    }

    /// What another model, over the same items, changes of the metric, with the 95 % interval of the
    /// difference by the bootstrap over items: both models have the same ones each time.
    pub fn change(&self, after: &Self, rounds: usize, seed: u64) -> (f64, (f64, f64)) {
        let difference = |items: &[usize]| after.metric_over(items) - self.metric_over(items);
        let all: Vec<usize> = (0..self.items()).collect();
        let whole = difference(&all);
        (whole, bootstrap(self.items(), rounds, seed, difference).unwrap_or((whole, whole)))
    }

    /// Item by item whether its class is right; `None` for pairs and where items have several classes,
    /// which are no independent trials.
    pub fn flags(&self) -> Option<Vec<bool>> {
        let Answers::Classes { items, .. } = &self.answers else { return None };
        let flag = |answers: &Vec<(u32, u32)>| match answers.as_slice() {
            [(told, is)] => Some(told == is),
            _ => None,
        };
        items.iter().map(flag).collect()
    }

    /// Per item, the share of its classes that are right; empty for pairs.
    pub fn right(&self) -> Vec<f64> {
        let Answers::Classes { items, .. } = &self.answers else { return Vec::new() };
        let share = |answers: &Vec<(u32, u32)>| {
            let right = answers.iter().filter(|(told, is)| told == is).count();
            right as f64 / answers.len().max(1) as f64
        };
        items.iter().map(share).collect()
    }

    /// Accuracy, F1 and Matthews correlation of classes; `None` for pairs.
    pub fn told(&self) -> Option<Told> {
        let Answers::Classes { items, count } = &self.answers else { return None };
        let (found, want): (Vec<u32>, Vec<u32>) = items.iter().flatten().copied().unzip();
        Some(told(&found, &want, *count))
    }

    /// Spearman's and Pearson's correlation of pairs; `None` for classes, and where nothing
    /// correlates.
    pub fn correlations(&self) -> Option<(f64, f64)> {
        let Answers::Pairs(pairs) = &self.answers else { return None };
        let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        spearman(&a, &b).zip(pearson(&a, &b))
    }
}

/// The middle 95 % of a number over items that are drawn with replacement.
fn bootstrap(
    count: usize,
    rounds: usize,
    seed: u64,
    of: impl Fn(&[usize]) -> f64,
) -> Option<(f64, f64)> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut drawn: Vec<f64> = (0..rounds)
        .map(|_| {
            let one = |_| (random.next_u64() % count.max(1) as u64) as usize;
            of(&(0..count).map(one).collect::<Vec<_>>())
        })
        .collect();
    drawn.sort_by(f64::total_cmp);
    let quantile = |share: f64| {
        let at = (share * drawn.len().saturating_sub(1) as f64).round() as usize;
        drawn.get(at).copied()
    };
    quantile(0.025).zip(quantile(0.975))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_over_items_and_their_intervals() {
        let items = vec![vec![(0, 0)], vec![(1, 0), (1, 1)], vec![(2, 2)]];
        let classes = Reached { answers: Answers::Classes { items, count: 3 } };
        assert_eq!((classes.items(), classes.metric()), (3, 0.75));
        assert_eq!(classes.right(), [1.0, 0.5, 1.0]);
        assert_eq!(classes.metric_over(&[1, 1, 0, 9]), 0.6);
        assert!(classes.told().is_some_and(|told| told.accuracy == 0.75));
        let (low, high) = classes.interval(500, 1);
        assert!((0.5..0.75).contains(&low) && high == 1.0, "{low} {high}");

        let pairs = Reached { answers: Answers::Pairs(vec![(0.1, 1.0), (0.2, 3.0), (0.3, 2.0)]) };
        assert!((pairs.metric() - 0.5).abs() < 1e-12 && pairs.right().is_empty());
        let same = pairs.change(&pairs, 100, 1);
        assert!(same == (0.0, (0.0, 0.0)) && pairs.flags().is_none());
        let single = |told| vec![(told, 0)];
        let of = |told: [u32; 4]| Reached {
            answers: Answers::Classes { items: told.map(single).to_vec(), count: 2 },
        };
        let (before, after) = (of([0, 0, 0, 1]), of([0, 1, 1, 1]));
        assert_eq!(before.flags(), Some(vec![true, true, true, false]));
        let (change, (low, high)) = before.change(&after, 500, 1);
        assert!(change == -0.5 && low == -1.0 && high == 0.0, "{change} {low} {high}");
        assert_eq!(classes.flags(), None);
        assert_eq!((pairs.metric_name(), pairs.metric_over(&[0, 0])), ("Spearman", 0.0));
    }
}
