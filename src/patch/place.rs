//! Where in a model activations are put.

use std::collections::BTreeMap;

use crate::config::{Config, Stack};
use crate::trace::Site;

/// What is put from one run into another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Point {
    /// A head's queries.
    Query,
    /// A head's keys; where heads share them, those of the whole group.
    Key,
    /// A head's values, likewise.
    Value,
    /// A head's attention probabilities: where it looks, with the values that it has.
    Pattern,
    /// A head's weighted values, and with them all that it adds to the residual stream.
    Output,
    /// The residual stream behind a layer, of all heads together.
    Residual,
}

impl Point {
    /// The names that `--site` takes, each with its point.
    pub const NAMES: [(&'static str, Point); 6] = [
        ("query", Self::Query),
        ("key", Self::Key),
        ("value", Self::Value),
        ("pattern", Self::Pattern),
        ("head_output", Self::Output),
        ("residual", Self::Residual),
    ];

    /// Its name in `--site` and in reports.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, point)| *point == self).map_or("", |(name, _)| name)
    }

    /// Whether heads have their own.
    pub fn has_heads(self) -> bool {
        self != Self::Residual
    }

    /// Whether its positions are of keys.
    pub(super) fn of_keys(self) -> bool {
        matches!(self, Self::Key | Self::Value)
    }

    pub(super) fn site(self) -> Site {
        match self {
            Self::Query => Site::Query,
            Self::Key => Site::Key,
            Self::Value => Site::Value,
            Self::Pattern => Site::Probs,
            // the output projection is linear and the same in both runs
            Self::Output => Site::Context,
            Self::Residual => Site::Residual,
        }
    }
}

/// What is told apart in a sweep over the places of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum By {
    /// Each head, at all positions.
    Head,
    /// Each layer and position, all heads.
    Position,
    /// Each head at each position.
    HeadPosition,
}

impl By {
    /// The names that `--by` takes.
    pub const NAMES: [(&'static str, By); 3] =
        [("head", Self::Head), ("position", Self::Position), ("head-position", Self::HeadPosition)];

    /// Its name in `--by` and in reports.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, by)| *by == self).map_or("", |(name, _)| name)
    }
}

/// A place in one stack of a model.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Place {
    /// From 0.
    pub layer: usize,
    /// Heads under their original numbers; [`None`] for all.
    pub heads: Option<Vec<usize>>,
    /// Position of the token: of the query, or of the key at [`Point::Key`] and [`Point::Value`];
    /// [`None`] for all.
    pub position: Option<usize>,
}

/// The places of a sweep, by layer, head and position. `heads` are those to go through, by layer;
/// heads that share keys and values are one place at [`Point::Key`] and [`Point::Value`].
pub(super) fn places(
    config: &Config,
    stack: Stack,
    point: Point,
    by: By,
    heads: &BTreeMap<usize, Vec<usize>>,
    positions: usize,
) -> Vec<Place> {
    let mut places = Vec::new();
    for (&layer, chosen) in heads {
        let heads: Vec<Option<Vec<usize>>> = match by {
            By::Position => vec![None],
            _ if !point.has_heads() => vec![None],
            _ => groups(config.of(stack), stack, point, layer, chosen),
        };
        for heads in heads {
            let all = match by {
                By::Head => vec![None],
                _ => (0..positions).map(Some).collect(),
            };
            places.extend(all.into_iter().map(|position| Place {
                layer,
                heads: heads.clone(),
                position,
            }));
        }
    }
    places
}

/// The chosen heads of a layer, each with those that it shares the point with.
fn groups(
    config: &Config,
    stack: Stack,
    point: Point,
    layer: usize,
    chosen: &[usize],
) -> Vec<Option<Vec<usize>>> {
    let there = if stack == Stack::Cross { &config.cross_heads } else { &config.heads };
    let there = there.get(layer).map_or(&[][..], Vec::as_slice);
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for &head in chosen {
        let group = match point.of_keys() {
            false => vec![head],
            true => {
                let own = config.key_value_head(head);
                there.iter().copied().filter(|&one| config.key_value_head(one) == own).collect()
            }
        };
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups.into_iter().map(Some).collect()
}
