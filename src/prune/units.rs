//! Heads in the units in which they can go, and how many may.

use std::collections::{BTreeMap, BTreeSet};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::place::{StackHead, heads_left, left};
use super::scores::HeadScore;
use crate::config::{Config, Stack};

/// Heads that go together: those of layers that share a block, and those that share keys and values.
pub(super) fn units(config: &Config, heads: &BTreeSet<StackHead>) -> Vec<Vec<StackHead>> {
    let mut units: BTreeMap<(Stack, usize, usize), Vec<StackHead>> = BTreeMap::new();
    for &one in heads {
        let of = config.of(one.stack);
        let Some(&block) = of.shared.get(one.head.layer) else { continue };
        units.entry((one.stack, block, of.key_value_head(one.head.head))).or_default().push(one);
    }
    units.into_values().collect()
}

/// The units of these heads, those of the lowest mean score first.
pub(super) fn by_score(config: &Config, scores: &[HeadScore]) -> Vec<Vec<StackHead>> {
    let score: BTreeMap<StackHead, f64> = scores.iter().map(|one| (one.head, one.score)).collect();
    let mean = |unit: &Vec<StackHead>| {
        unit.iter().filter_map(|one| score.get(one)).sum::<f64>() / unit.len() as f64
    };
    let units = units(config, &score.keys().copied().collect());
    let mut order: Vec<(f64, Vec<StackHead>)> =
        units.into_iter().map(|unit| (mean(&unit), unit)).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0)); // stable
    order.into_iter().map(|(_, unit)| unit).collect()
}

/// How many heads are gone of some stacks, and whether more can go.
pub(super) struct Room {
    /// All heads of the stacks before any pruning.
    all: usize,
    /// How many of them the checkpoint has lost already.
    before: usize,
    gone: BTreeSet<StackHead>,
    /// Heads left per layer.
    left: BTreeMap<(Stack, usize), usize>,
    allow_empty: bool,
}

impl Room {
    /// Nothing is gone yet of the stacks that `heads` are of.
    pub fn new(config: &Config, heads: &BTreeSet<StackHead>, allow_empty: bool) -> Self {
        let stacks: BTreeSet<Stack> = heads.iter().map(|one| one.stack).collect();
        let (mut all, mut there, mut per_layer) = (0, 0, BTreeMap::new());
        for &stack in &stacks {
            all += config.of(stack).head_counts.iter().sum::<usize>();
            for (layer, heads) in left(config, stack).into_iter().flatten().enumerate() {
                there += heads.len();
                per_layer.insert((stack, layer), heads.len());
            }
        }
        let before = all - there.min(all);
        Self { all, before, gone: BTreeSet::new(), left: per_layer, allow_empty }
    }

    /// The share of all heads that is gone.
    pub fn share_gone(&self) -> f64 {
        (self.before + self.gone.len()) as f64 / self.all.max(1) as f64
    }

    /// How many heads of the checkpoint are to be gone at a fraction of all before any pruning.
    pub fn target(&self, fraction: f64) -> usize {
        let all = (self.all as f64 * fraction.clamp(0.0, 1.0)).round() as usize;
        all.saturating_sub(self.before)
    }

    /// The fraction at which so many heads of the checkpoint are to be gone.
    pub fn fraction(&self, count: usize) -> f64 {
        ((self.before + count) as f64 / self.all.max(1) as f64).min(1.0)
    }

    pub fn gone(&self) -> &BTreeSet<StackHead> {
        &self.gone
    }

    /// Whether a unit can go without taking more than `target` heads in all, or the last one of a
    /// layer where that is not allowed.
    pub fn fits(&self, unit: &[StackHead], target: usize) -> bool {
        let takes = |at: (Stack, usize)| {
            unit.iter().filter(|one| (one.stack, one.head.layer) == at).count()
        };
        let empties = |one: &StackHead| {
            let at = (one.stack, one.head.layer);
            self.left.get(&at).is_none_or(|&left| left <= takes(at))
        };
        let room = self.gone.len() + unit.len() <= target;
        let new = !unit.iter().any(|one| self.gone.contains(one));
        room && new && (self.allow_empty || !unit.iter().any(empties))
    }

    pub fn take(&mut self, unit: &[StackHead]) {
        for &one in unit {
            if self.gone.insert(one)
                && let Some(left) = self.left.get_mut(&(one.stack, one.head.layer))
            {
                *left = left.saturating_sub(1);
            }
        }
    }
}

/// The heads of the lowest scores, about `fraction` of all heads before any pruning of the stacks
/// that the scores are of, those that `off` names among them.
///
/// Heads go in the units in which they can: those of layers that share a block together, and those
/// that share keys and values together, by the mean of their scores. A unit that would take more
/// heads than are to go, or the last of a layer unless `allow_empty` says so, stays.
pub fn lowest(
    scores: &[HeadScore],
    config: &Config,
    fraction: f64,
    allow_empty: bool,
    off: &BTreeSet<StackHead>,
) -> BTreeSet<StackHead> {
    let heads = scores.iter().map(|one| one.head).collect();
    let mut room = Room::new(config, &heads, allow_empty);
    room.take(&off.iter().copied().collect::<Vec<_>>());
    let target = room.target(fraction);
    for unit in by_score(config, scores) {
        if room.fits(&unit, target) {
            room.take(&unit);
        }
    }
    room.gone
}

/// A score at random for every head that is left: what scored pruning is compared with.
pub fn random_scores(config: &Config, seed: u64) -> Vec<HeadScore> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let score = |head| HeadScore { head, score: f64::from(random.next_u32()) };
    heads_left(config).into_iter().map(score).collect()
}
