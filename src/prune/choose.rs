//! Which heads go, given how much each matters.

use std::collections::{BTreeMap, BTreeSet};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::place::StackHead;
use super::scores::HeadScore;
use crate::config::Config;
use crate::select::Head;

/// The heads of the lowest scores, about `fraction` of all heads before any pruning, those that
/// `off` names among them.
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
    let stack = config.stack();
    // (block, group) → its heads and the sum of their scores
    let mut units: BTreeMap<(usize, usize), (Vec<Head>, f64)> = BTreeMap::new();
    for one in scores {
        let Some(&block) = config.shared.get(one.head.layer) else { continue };
        let unit = units.entry((block, config.key_value_head(one.head.head))).or_default();
        unit.0.push(one.head);
        unit.1 += one.score;
    }
    let mut order: Vec<(f64, Vec<Head>)> =
        units.into_values().map(|(heads, sum)| (sum / heads.len() as f64, heads)).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0)); // stable
    let all: usize = config.head_counts.iter().sum();
    let before: usize = all - config.heads.iter().map(Vec::len).sum::<usize>();
    let target = (all as f64 * fraction.clamp(0.0, 1.0)).round() as usize;
    let mut gone = off.clone();
    let mut left: Vec<usize> = config.heads.iter().map(Vec::len).collect();
    for one in &gone {
        if let Some(left) = left.get_mut(one.head.layer) {
            *left = left.saturating_sub(1);
        }
    }
    for (_, heads) in order {
        let place = |&head: &Head| StackHead { stack, head };
        let fits = before + gone.len() + heads.len() <= target;
        if !fits || heads.iter().any(|head| gone.contains(&place(head))) {
            continue;
        }
        let takes = |layer: usize| heads.iter().filter(|head| head.layer == layer).count();
        let empties = heads.iter().any(|head| left.get(head.layer) == Some(&takes(head.layer)));
        if empties && !allow_empty {
            continue;
        }
        for head in &heads {
            if let Some(left) = left.get_mut(head.layer) {
                *left -= 1;
            }
            gone.insert(place(head));
        }
    }
    gone
}

/// A score at random for every head that is left: what scored pruning is compared with.
pub fn random_scores(config: &Config, seed: u64) -> Vec<HeadScore> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let layers = config.heads.iter().enumerate();
    let heads =
        layers.flat_map(|(layer, heads)| heads.iter().map(move |&head| Head { layer, head }));
    heads.map(|head| HeadScore { head, score: f64::from(random.next_u32()) }).collect()
}
