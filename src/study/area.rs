//! Areas under curves, and what the resampling of items and of masks says of their differences.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use rayon::prelude::*;

use super::metric::{Against, Drawn, Found};
use super::plan::Metric;
use super::store::Curve;

/// A number with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Estimate {
    /// Of all items and curves, each once.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// What is averaged and compared: the places of curves. Each seed has its own, with the masks that
/// match it.
#[derive(Debug, Clone, Default)]
pub(super) struct Group {
    /// Per seed, the curve of the choice.
    pub chosen: Vec<usize>,
    /// Per seed, the curves that match it; none where none was drawn.
    pub matched: Vec<Vec<usize>>,
}

/// What all draws say of one group, or of the random masks. Each list is of the points and, last, of
/// the area.
#[derive(Debug, Clone, Default)]
pub(super) struct Said {
    pub chosen: Vec<Estimate>,
    pub matched: Vec<Estimate>,
    /// Chosen less random ones.
    pub to_random: Vec<Estimate>,
    /// Chosen less matching ones.
    pub to_matched: Vec<Estimate>,
}

/// The mean height of a curve over the shares of heads that it spans: the area under it by the
/// trapezoid rule over its width. `points` are (share kept, metric) in any order; of a curve
/// without width the mean.
pub fn area(points: &[(f64, f64)]) -> f64 {
    let mut points = points.to_vec();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let width = match (points.first(), points.last()) {
        (Some(first), Some(last)) => last.0 - first.0,
        _ => return 0.0,
    };
    if width <= 0.0 {
        return points.iter().map(|point| point.1).sum::<f64>() / points.len() as f64;
    }
    let strip = |pair: &[(f64, f64)]| (pair[1].0 - pair[0].0) * (pair[0].1 + pair[1].1) / 2.0;
    points.windows(2).map(strip).sum::<f64>() / width
}

/// Curves with the items behind them.
pub(super) struct Curves<'a> {
    against: &'a Against,
    metric: Metric,
    /// Per curve and point: the share of heads kept, and what was found.
    points: Vec<Vec<(f64, Found<'a>)>>,
}

impl<'a> Curves<'a> {
    pub fn new(curves: &'a [Curve], against: &'a Against, metric: Metric) -> Self {
        let point = |curve: &'a Curve| {
            let heads = curve.about.heads.max(1) as f64;
            let point =
                move |p: &'a super::store::Point| (p.kept as f64 / heads, Found::new(&p.found));
            curve.points.iter().map(point).collect()
        };
        Self { against, metric, points: curves.iter().map(point).collect() }
    }

    /// The metric at each point of each curve, and last its area, with items counted so often.
    pub fn values(&self, times: &[f64]) -> Vec<Vec<f64>> {
        let drawn = Drawn::new(self.against, self.metric, times);
        let curve = |points: &Vec<(f64, Found<'_>)>| {
            let points: Vec<(f64, f64)> =
                points.iter().map(|(kept, found)| (*kept, drawn.of(found))).collect();
            let mut values: Vec<f64> = points.iter().map(|point| point.1).collect();
            values.push(area(&points));
            values
        };
        self.points.iter().map(curve).collect()
    }

    /// What the groups are, with intervals by `rounds` resamplings: of the items, the same for every
    /// curve, so that differences are paired; of the random masks; of the seeds, and of the masks
    /// that match each. The last of the answer is of the random masks alone.
    pub fn compare(&self, groups: &[Group], random: &[usize], rounds: usize) -> Vec<Said> {
        let items = self.against.items();
        let plain = self.values(&vec![1.0; items]);
        let all = Picked::all(groups, random);
        let once = all.said(&plain);
        let resampled: Vec<Vec<[Vec<f64>; 4]>> = (0..rounds as u64)
            .into_par_iter()
            .map(|round| {
                let mut dice = Dice::new(round);
                let mut times = vec![0.0; items];
                (0..items).for_each(|_| times[dice.below(items)] += 1.0);
                Picked::drawn(groups, random, &mut dice).said(&self.values(&times))
            })
            .collect();
        let said = |(group, once): (usize, [Vec<f64>; 4])| {
            let [chosen, matched, to_random, to_matched] = [0, 1, 2, 3].map(|kind| {
                let estimate = |(place, &value): (usize, &f64)| {
                    // seeds without masks that match may be all that a round draws
                    let round = |round: &Vec<[Vec<f64>; 4]>| round[group][kind].get(place).copied();
                    let mut drawn: Vec<f64> = resampled.iter().filter_map(round).collect();
                    let (low, high) = quantiles(&mut drawn, 0.025, value);
                    Estimate { value, low, high }
                };
                once[kind].iter().enumerate().map(estimate).collect::<Vec<_>>()
            });
            Said { chosen, matched, to_random, to_matched }
        };
        once.into_iter().enumerate().map(said).collect()
    }
}

/// What is below and above all but a share at either end, by nearest rank.
pub(super) fn quantiles(values: &mut [f64], share: f64, without: f64) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1) as f64;
    let at = |share: f64| values.get((share * last).round() as usize).copied().unwrap_or(without);
    (at(share), at(1.0 - share))
}

/// Random numbers of one round.
struct Dice(ChaCha8Rng);

impl Dice {
    fn new(round: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(0);
        random.set_stream(round);
        Self(random)
    }

    fn below(&mut self, count: usize) -> usize {
        (self.0.next_u64() % count.max(1) as u64) as usize
    }

    fn some(&mut self, of: &[usize]) -> Vec<usize> {
        of.iter().map(|_| of[self.below(of.len())]).collect()
    }
}

/// The curves that count in one round.
struct Picked {
    groups: Vec<(Vec<usize>, Vec<usize>)>,
    random: Vec<usize>,
}

impl Picked {
    fn all(groups: &[Group], random: &[usize]) -> Self {
        let all = |group: &Group| (group.chosen.clone(), group.matched.concat());
        Self { groups: groups.iter().map(all).collect(), random: random.to_vec() }
    }

    fn drawn(groups: &[Group], random: &[usize], dice: &mut Dice) -> Self {
        let random = dice.some(random);
        let one = |group: &Group| {
            let seeds: Vec<usize> = (0..group.chosen.len()).collect();
            let seeds = dice.some(&seeds);
            let chosen = seeds.iter().map(|&seed| group.chosen[seed]).collect();
            let matched = seeds.iter().filter_map(|&seed| group.matched.get(seed));
            let matched: Vec<&Vec<usize>> = matched.collect();
            (chosen, matched.into_iter().flat_map(|masks| dice.some(masks)).collect())
        };
        Self { groups: groups.iter().map(one).collect(), random }
    }

    /// Means of the groups and their differences, in the order of [`Said`]; last the random masks.
    fn said(&self, values: &[Vec<f64>]) -> Vec<[Vec<f64>; 4]> {
        let mean = |curves: &[usize]| -> Vec<f64> {
            let Some(&first) = curves.first() else { return Vec::new() };
            // from the first on, so that the mean of equal numbers is that number
            let place = |(place, &first): (usize, &f64)| {
                let rest = curves.iter().map(|&curve| values[curve][place] - first);
                first + rest.sum::<f64>() / curves.len() as f64
            };
            values[first].iter().enumerate().map(place).collect()
        };
        let less =
            |a: &[f64], b: &[f64]| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| a - b).collect() };
        let random = mean(&self.random);
        let group = |(chosen, matched): &(Vec<usize>, Vec<usize>)| {
            let (chosen, matched) = (mean(chosen), mean(matched));
            let (to_random, to_matched) = (less(&chosen, &random), less(&chosen, &matched));
            [chosen, matched, to_random, to_matched]
        };
        let mut said: Vec<_> = self.groups.iter().map(group).collect();
        said.push([random, Vec::new(), Vec::new(), Vec::new()]);
        said
    }
}
