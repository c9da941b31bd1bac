//! In which order heads go.

use std::collections::{BTreeMap, BTreeSet};

use super::importance::importance;
use super::place::{StackHead, off};
use super::score::Score;
use super::scores::{HeadScore, by_layer};
use super::units::{Room, by_score, lowest, random_scores, units};
use crate::error::{Error, Result};
use crate::model::Model;
use crate::task::Sample;
use crate::trace::Intervention;

/// How the heads that go are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Strategy {
    /// Those of the lowest scores, which are made once, with all heads there.
    OneShot,
    /// The same with new scores after each of so many equal parts of the way, made without the heads
    /// that are gone by then.
    Iterative {
        /// Parts of the way to the last fraction; one is [`Strategy::OneShot`].
        rounds: usize,
    },
    /// One after another, each time the one without which [`Chooser::worth`] stays largest. It looks
    /// at every head that could go, so k of n heads cost n + (n − 1) + … passes over what `worth`
    /// runs on, about k·(n − k/2): 1,962 for half of 72 heads. No scores are made.
    Greedy,
    /// At random: what the others are compared with.
    Random {
        /// Where the random numbers begin.
        seed: u64,
    },
    /// At random, but of each layer as many as other masks take, one mask for each fraction: what of
    /// a choice is in the layers and what in the heads.
    RandomLike {
        /// Where the random numbers begin.
        seed: u64,
        /// The masks to match, each of which holds the one before it.
        masks: Vec<BTreeSet<StackHead>>,
    },
}

impl Strategy {
    /// Its name on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Self::OneShot => "one-shot",
            Self::Iterative { .. } => "iterative",
            Self::Greedy => "greedy",
            Self::Random { .. } => "random",
            Self::RandomLike { .. } => "random-like",
        }
    }

    /// Whether heads go by a score.
    pub fn scores(&self) -> bool {
        matches!(self, Self::OneShot | Self::Iterative { .. })
    }
}

/// What heads are chosen by.
pub struct Chooser<'a> {
    /// The model, whose weights stay as they are: heads that are gone have gates of 0.
    pub model: &'a Model,
    /// What a head is scored by, where the strategy asks for scores.
    pub score: Score,
    /// Scores are divided by the norm of their layer's, see [`by_layer`].
    pub by_layer: bool,
    /// What heads are scored on: the part of the data for training.
    pub samples: &'a [Sample],
    /// What the model is worth with these changes, the larger the better, on the part of the data for
    /// choices; see [`Set::worth`](crate::task::Set::worth). Asked by [`Strategy::Greedy`] alone.
    pub worth: &'a dyn Fn(&[Intervention]) -> Result<f64>,
    /// Lets a layer lose all its heads.
    pub allow_empty: bool,
    /// Told how many steps are done, and of about how many: passes over what `worth` runs on for
    /// [`Strategy::Greedy`], scorings for the others.
    pub progress: &'a dyn Fn(usize, usize),
}

impl Chooser<'_> {
    /// The heads that go for each of the `fractions` of all heads before any pruning, in the stacks
    /// that the samples run through; each set holds the one before it. A set is smaller than its
    /// fraction where no further head can go.
    ///
    /// Heads go in the units in which they can: those of layers that share a block together (ALBERT),
    /// and those that share keys and values together.
    ///
    /// # Errors
    /// [`Error::Usage`] for fractions that do not ascend from 0 to 1, those of
    /// [`importance`](fn@importance) and of `worth`.
    pub fn masks(
        &self,
        strategy: &Strategy,
        fractions: &[f64],
    ) -> Result<Vec<BTreeSet<StackHead>>> {
        let share = |fraction: &f64| (0.0..=1.0).contains(fraction);
        if !fractions.iter().all(share) || !fractions.is_sorted() {
            return Err(Error::Usage {
                flag: "fractions".into(),
                want: "shares from 0 to 1, each at least the one before".into(),
                found: format!("{fractions:?}"),
            });
        }
        match strategy {
            Strategy::OneShot => self.in_rounds(1, fractions),
            Strategy::Iterative { rounds } => self.in_rounds((*rounds).max(1), fractions),
            Strategy::Greedy => self.greedy(fractions),
            Strategy::Random { seed } => {
                let scores = self.random(*seed);
                Ok(self.nested(fractions, |fraction, off| self.lowest(&scores, fraction, off)))
            }
            Strategy::RandomLike { seed, masks } => Ok(self.like(masks, *seed)),
        }
    }

    fn lowest(
        &self,
        scores: &[HeadScore],
        fraction: f64,
        off: &BTreeSet<StackHead>,
    ) -> BTreeSet<StackHead> {
        lowest(scores, self.model.config(), fraction, self.allow_empty, off)
    }

    fn nested(
        &self,
        fractions: &[f64],
        next: impl Fn(f64, &BTreeSet<StackHead>) -> BTreeSet<StackHead>,
    ) -> Vec<BTreeSet<StackHead>> {
        let mut gone = BTreeSet::new();
        let mut grow = |&fraction: &f64| {
            gone = next(fraction, &gone);
            gone.clone()
        };
        fractions.iter().map(&mut grow).collect()
    }

    fn scored(&self, gone: &BTreeSet<StackHead>) -> Result<Vec<HeadScore>> {
        let scores = importance(self.model, self.score, self.samples, &off(gone))?;
        Ok(if self.by_layer { by_layer(&scores) } else { scores })
    }

    fn in_rounds(&self, rounds: usize, fractions: &[f64]) -> Result<Vec<BTreeSet<StackHead>>> {
        let mut scores = self.scored(&BTreeSet::new())?;
        (self.progress)(1, rounds);
        let heads: BTreeSet<StackHead> = scores.iter().map(|one| one.head).collect();
        let before = Room::new(self.model.config(), &heads, true).share_gone();
        let last = fractions.last().copied().unwrap_or(0.0);
        let end = |round: usize| before + (last - before).max(0.0) * round as f64 / rounds as f64;
        let (mut gone, mut masks, mut round) = (BTreeSet::new(), Vec::new(), 1);
        for &fraction in fractions {
            while round < rounds && end(round) < fraction {
                gone = self.lowest(&scores, end(round), &gone);
                scores = self.scored(&gone)?;
                round += 1;
                (self.progress)(round, rounds);
            }
            gone = self.lowest(&scores, fraction, &gone);
            masks.push(gone.clone());
        }
        Ok(masks)
    }

    /// The heads of the stacks that run.
    pub(super) fn heads(&self) -> BTreeSet<StackHead> {
        let config = self.model.config();
        let stacks = self.samples.iter().flat_map(|sample| super::gates::running(config, sample));
        let stacks: BTreeSet<_> = stacks.collect();
        let all = super::place::heads_left(config).into_iter();
        // without samples there is nothing to run, and all heads are there to choose from
        all.filter(|one| stacks.is_empty() || stacks.contains(&one.stack)).collect()
    }

    fn random(&self, seed: u64) -> Vec<HeadScore> {
        let heads = self.heads();
        let scores = random_scores(self.model.config(), seed).into_iter();
        scores.filter(|one| heads.contains(&one.head)).collect()
    }

    fn greedy(&self, fractions: &[f64]) -> Result<Vec<BTreeSet<StackHead>>> {
        let heads = self.heads();
        let mut open: Vec<Vec<StackHead>> = units(self.model.config(), &heads);
        let mut room = Room::new(self.model.config(), &heads, self.allow_empty);
        let goal = fractions.last().map_or(0, |&last| room.target(last));
        // units are mostly of one size; each that goes is one less to try
        let steps = (goal * open.len()).div_ceil(heads.len().max(1));
        let all = (0..steps).map(|gone| open.len() - gone).sum();
        let (mut masks, mut runs) = (Vec::new(), 0);
        for &fraction in fractions {
            let target = room.target(fraction);
            loop {
                let mut best: Option<(f64, usize)> = None;
                for (place, unit) in open.iter().enumerate().filter(|(_, u)| room.fits(u, target)) {
                    let without = room.gone().iter().chain(unit).copied().collect();
                    let worth = self.worth_of(&without)?;
                    runs += 1;
                    (self.progress)(runs, all);
                    if best.is_none_or(|(most, _)| worth > most) {
                        best = Some((worth, place));
                    }
                }
                let Some((_, place)) = best else { break };
                room.take(&open.remove(place));
            }
            masks.push(room.gone().clone());
        }
        Ok(masks)
    }

    /// # Errors
    /// [`Error::Array`] for what is no number: it compares with nothing.
    fn worth_of(&self, gone: &BTreeSet<StackHead>) -> Result<f64> {
        let worth = (self.worth)(&off(gone))?;
        match worth.is_nan() {
            false => Ok(worth),
            true => Err(Error::Array {
                what: format!("what the model is worth with {} heads off", gone.len()),
                want: "a number".into(),
                found: worth.to_string(),
            }),
        }
    }

    /// As many of each block as the masks take, in one random order.
    fn like(&self, masks: &[BTreeSet<StackHead>], seed: u64) -> Vec<BTreeSet<StackHead>> {
        let config = self.model.config();
        let block = |one: &StackHead| {
            let shared = &config.of(one.stack).shared;
            (one.stack, shared.get(one.head.layer).copied().unwrap_or(one.head.layer))
        };
        let order = by_score(config, &self.random(seed));
        let mask = |mask: &BTreeSet<StackHead>| {
            let mut wanted: BTreeMap<_, usize> = BTreeMap::new();
            mask.iter().for_each(|one| *wanted.entry(block(one)).or_default() += 1);
            let mut gone = BTreeSet::new();
            for unit in &order {
                let Some(some) = unit.first().and_then(|one| wanted.get_mut(&block(one))) else {
                    continue;
                };
                if unit.len() <= *some {
                    *some -= unit.len();
                    gone.extend(unit.iter().copied());
                }
            }
            gone
        };
        masks.iter().map(mask).collect()
    }
}
