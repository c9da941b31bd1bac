//! How much of a model may stay, in place of how many heads go.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use super::operations::operations;
use super::place::{StackHead, without};
use super::source::parameters;
use super::strategy::Chooser;
use super::units::{Room, units};
use crate::config::Stack;
use crate::error::{Error, Result};
use crate::hub::ModelFiles;

/// Tokens of the text whose arithmetic is counted.
const TOKENS: usize = 128;

/// What a budget is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Heads of the stacks that are chosen from.
    Heads,
    /// Numbers in all tensors of the checkpoint.
    Parameters,
    /// [`operations`](fn@operations) of a pass over 128 tokens.
    Operations,
}

/// The most that may stay: `heads=36`, `params=18M`, `flops=80%`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// Of what.
    pub of: Quantity,
    most: Most,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Most {
    Number(f64),
    /// Of what the checkpoint has.
    Share(f64),
}

const NAMES: [(&str, Quantity); 3] =
    [("heads", Quantity::Heads), ("params", Quantity::Parameters), ("flops", Quantity::Operations)];

impl FromStr for Budget {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::Usage {
            flag: "--budget".into(),
            want: "the most that may stay, as in heads=36, params=18M or flops=80%".into(),
            found: text.into(),
        };
        let (name, amount) = text.split_once('=').ok_or_else(wrong)?;
        let of = NAMES.iter().find(|(known, _)| *known == name.trim()).ok_or_else(wrong)?.1;
        let (digits, unit) = match amount.trim().char_indices().next_back() {
            Some((end, unit)) if !unit.is_ascii_digit() => (&amount.trim()[..end], Some(unit)),
            _ => (amount.trim(), None),
        };
        let number: f64 = digits.trim().parse().map_err(|_| wrong())?;
        let most = match unit {
            Some('%') if number <= 100.0 => Most::Share(number / 100.0),
            None => Most::Number(number),
            Some('K' | 'k') => Most::Number(number * 1e3),
            Some('M') => Most::Number(number * 1e6),
            Some('G') => Most::Number(number * 1e9),
            Some(_) => return Err(wrong()),
        };
        match number.is_finite() && number >= 0.0 {
            true => Ok(Self { of, most }),
            false => Err(wrong()),
        }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, of)| *of == self.of).map_or("", |(name, _)| name);
        match self.most {
            Most::Number(number) => write!(f, "{name}={number}"),
            Most::Share(share) => write!(f, "{name}={}%", share * 100.0),
        }
    }
}

/// What is there, and what each head saves of it.
struct Costs {
    whole: f64,
    /// Per head, by stack: they are alike within one.
    savings: BTreeMap<Stack, f64>,
}

impl Costs {
    fn left(&self, gone: &BTreeSet<StackHead>) -> f64 {
        let saved = gone.iter().filter_map(|one| self.savings.get(&one.stack));
        self.whole - saved.sum::<f64>()
    }
}

/// How far strategies have to go for a budget, see [`Chooser::allowance`].
pub struct Allowance {
    budget: Budget,
    costs: Costs,
    limit: f64,
    /// Fractions of all heads before any pruning, ascending, among which one is enough: a single one
    /// unless heads of different stacks save different amounts or go several at a time.
    pub fractions: Vec<f64>,
    /// Whether every layer keeps a head.
    keeps: bool,
}

impl Allowance {
    /// The place of the first of these masks without whose heads no more than the budget stays.
    ///
    /// # Errors
    /// [`Error::Usage`] where more stays without any of them, naming the least.
    pub fn first(&self, masks: &[BTreeSet<StackHead>]) -> Result<usize> {
        let enough = |mask| self.costs.left(mask) <= self.limit * (1.0 + 1e-12);
        masks.iter().position(enough).ok_or_else(|| {
            let left = masks.iter().map(|mask| self.costs.left(mask));
            let least = left.fold(self.costs.whole, f64::min);
            let stays = if self.keeps { ", with a head left in each layer" } else { "" };
            Error::Usage {
                flag: "--budget".into(),
                want: format!("{} or more{stays}", least.ceil()),
                found: self.budget.to_string(),
            }
        })
    }
}

impl Chooser<'_> {
    /// What [`masks`](Self::masks) is to be asked for so that no more than the budget stays of the
    /// checkpoint in `files`, which the chooser's model was loaded from.
    ///
    /// # Errors
    /// Those of opening the checkpoint.
    pub fn allowance(&self, budget: &Budget, files: &ModelFiles) -> Result<Allowance> {
        let (config, heads) = (self.model.config(), self.heads());
        let units = units(config, &heads);
        let costs = self.costs(budget.of, files, &heads, &units)?;
        let limit = match budget.most {
            Most::Number(number) => number,
            Most::Share(share) => share * costs.whole,
        };
        let excess = costs.whole - limit;
        let room = Room::new(config, &heads, self.allow_empty);
        let saved = |best: fn(f64, f64) -> f64| costs.savings.values().copied().reduce(best);
        let count = |saving: Option<f64>| match saving {
            Some(saving) if excess > 0.0 => (excess / saving * (1.0 - 1e-12)).ceil() as usize,
            _ => 0,
        };
        let largest = units.iter().map(Vec::len).max().unwrap_or(1);
        let last = match count(saved(f64::min)) {
            0 => 0,
            count => (count + largest - 1).min(heads.len()),
        };
        let first = count(saved(f64::max)).min(last);
        let fractions = (first..=last).map(|count| room.fraction(count)).collect();
        Ok(Allowance { budget: *budget, costs, limit, fractions, keeps: !self.allow_empty })
    }

    fn costs(
        &self,
        of: Quantity,
        files: &ModelFiles,
        heads: &BTreeSet<StackHead>,
        units: &[Vec<StackHead>],
    ) -> Result<Costs> {
        let config = self.model.config();
        let cost = |gone: &BTreeSet<StackHead>| -> Result<f64> {
            Ok(match of {
                Quantity::Heads => (heads.len() - gone.len()) as f64,
                Quantity::Parameters => parameters(files, gone)?.1 as f64,
                Quantity::Operations => operations(&without(config, gone), TOKENS),
            })
        };
        let whole = cost(&BTreeSet::new())?;
        let mut savings = BTreeMap::new();
        for unit in units {
            let Some(first) = unit.first() else { continue };
            if let Entry::Vacant(none) = savings.entry(first.stack) {
                let saved = whole - cost(&unit.iter().copied().collect())?;
                none.insert(saved / unit.len() as f64);
            }
        }
        Ok(Costs { whole, savings })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_of_every_spelling() {
        for (text, of, most) in [
            ("heads=36", Quantity::Heads, Most::Number(36.0)),
            ("params=18M", Quantity::Parameters, Most::Number(18e6)),
            ("flops = 0.5 G", Quantity::Operations, Most::Number(5e8)),
            ("flops=80%", Quantity::Operations, Most::Share(0.8)),
        ] {
            let found: Budget = text.parse().expect(text);
            assert_eq!(found, Budget { of, most });
        }
        for text in ["", "36", "heads", "heads=", "head=3", "params=18X", "flops=120%", "heads=-1"]
        {
            let line = text.parse::<Budget>().expect_err(text).to_string();
            assert!(line.starts_with("--budget: expected the most that may stay"), "{line}");
        }
    }
}
