//! Heads by stack, and lists of heads to remove.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use crate::config::{Config, Stack};
use crate::error::{Error, Result};
use crate::select::{Head, HeadChoice};
use crate::trace::{Change, Intervention, Site};

/// One head of one stack: `L3H1`, `decoder:L3H1` or `cross:L3H1` in text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct StackHead {
    /// Which attention.
    pub stack: Stack,
    /// Layer and head, as numbered before any pruning.
    #[serde(flatten)]
    pub head: Head,
}

impl fmt::Display for StackHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.stack {
            Stack::Encoder => self.head.fmt(f),
            stack => write!(f, "{}:{}", name(stack), self.head),
        }
    }
}

/// The name before the colon.
pub(crate) fn name(stack: Stack) -> &'static str {
    match stack {
        Stack::Encoder => "encoder",
        Stack::Decoder => "decoder",
        Stack::Cross => "cross",
    }
}

/// A list of heads to remove, not yet held against a model: `L3H1,L5H2`, `5:0,3;8:10`, `0,7` (of each
/// layer) or, as transformers 4 wrote it, `{"5": [0, 3]}`. With `encoder:`, `decoder:` or `cross:`
/// before it the list is of that stack, else of the model's first one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    stack: Option<Stack>,
    choice: HeadChoice,
}

impl FromStr for Removal {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        let stacks = [Stack::Encoder, Stack::Decoder, Stack::Cross];
        let named = stacks.into_iter().find_map(|stack| {
            Some((stack, text.strip_prefix(name(stack))?.trim_start().strip_prefix(':')?.trim()))
        });
        let (stack, list) = named.map_or((None, text), |(stack, list)| (Some(stack), list));
        let choice = match list.starts_with('{') {
            true => from_json(list)?,
            false => list.parse()?,
        };
        Ok(Self { stack, choice })
    }
}

/// `{"5": [0, 3], "8": [10]}` → `5:0,3;8:10`.
fn from_json(text: &str) -> Result<HeadChoice> {
    let layers: BTreeMap<String, Vec<usize>> =
        serde_json::from_str(text).map_err(|_| Error::Usage {
            flag: "head list".into(),
            want: "an object of layers with lists of heads, such as {\"5\": [0, 3]}".into(),
            found: text.into(),
        })?;
    let list = |(layer, heads): (&String, &Vec<usize>)| {
        let heads: Vec<String> = heads.iter().map(usize::to_string).collect();
        format!("{layer}:{}", heads.join(","))
    };
    layers.iter().map(list).collect::<Vec<_>>().join(";").parse()
}

impl Removal {
    /// The heads of a model that the list names.
    ///
    /// # Errors
    /// [`Error::Usage`] for a stack that the model does not have and for layers or heads beyond it.
    pub fn resolve(&self, config: &Config) -> Result<Vec<StackHead>> {
        let stack = self.stack.unwrap_or_else(|| config.stack());
        let counts = counts(config, stack).ok_or_else(|| Error::Usage {
            flag: "--remove".into(),
            want: format!("heads of {}", stacks(config).map(name).collect::<Vec<_>>().join(", ")),
            found: format!("{}:", name(stack)),
        })?;
        let layers: Vec<usize> = (0..counts.len()).collect();
        let chosen = self.choice.resolve(&layers, &counts)?;
        let place = |(layer, heads): (usize, Vec<usize>)| {
            heads.into_iter().map(move |head| StackHead { stack, head: Head { layer, head } })
        };
        Ok(chosen.into_iter().flat_map(place).collect())
    }
}

/// The stacks that a model has, first the one that reads.
pub(crate) fn stacks(config: &Config) -> impl Iterator<Item = Stack> {
    [Stack::Encoder, Stack::Decoder, Stack::Cross]
        .into_iter()
        .filter(|&stack| counts(config, stack).is_some())
}

/// Heads per layer of a stack before any pruning; `None` where there is no such stack.
fn counts(config: &Config, stack: Stack) -> Option<Vec<usize>> {
    left(config, stack).map(|_| config.of(stack).head_counts.clone())
}

/// The heads that each layer of a stack still has; `None` where there is no such stack.
pub(super) fn left(config: &Config, stack: Stack) -> Option<&Vec<Vec<usize>>> {
    let of = config.of(stack);
    match stack {
        Stack::Cross => of.cross.then_some(&of.cross_heads),
        _ => (of.stack() == stack).then_some(&of.heads),
    }
}

/// All heads that are left of a model, by stack, layer and head.
pub fn heads_left(config: &Config) -> BTreeSet<StackHead> {
    let of = |stack| {
        let layers = left(config, stack).into_iter().flatten().enumerate();
        layers.flat_map(move |(layer, heads)| {
            heads.iter().map(move |&head| StackHead { stack, head: Head { layer, head } })
        })
    };
    stacks(config).flat_map(of).collect()
}

/// The sizes of a model without these heads.
pub(super) fn without(config: &Config, gone: &BTreeSet<StackHead>) -> Config {
    let mut config = config.clone();
    let thin = |stack: Stack, layers: &mut Vec<Vec<usize>>| {
        for (layer, heads) in layers.iter_mut().enumerate() {
            heads.retain(|&head| !gone.contains(&StackHead { stack, head: Head { layer, head } }));
        }
    };
    let stack = config.stack();
    thin(stack, &mut config.heads);
    let last = config.decoder.as_deref_mut();
    if let Some(decoder) = last {
        thin(Stack::Decoder, &mut decoder.heads);
        thin(Stack::Cross, &mut decoder.cross_heads);
    }
    config
}

/// Gates of 0 for these heads: they count as cut out of the weights.
pub fn off(heads: &BTreeSet<StackHead>) -> Vec<Intervention> {
    let mut layers: BTreeMap<(Stack, usize), Vec<usize>> = BTreeMap::new();
    for one in heads {
        layers.entry((one.stack, one.head.layer)).or_default().push(one.head.head);
    }
    let gate = |((stack, layer), heads): ((Stack, usize), Vec<usize>)| Intervention {
        stack,
        site: Site::Context,
        layers: Some(vec![layer]),
        heads: Some(heads),
        positions: None,
        change: Change::Zero,
    };
    layers.into_iter().map(gate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_every_spelling() {
        for (text, stack, same) in [
            ("L3H1,L5H2", None, "3:1;5:2"),
            ("decoder:L3H1", Some(Stack::Decoder), "3:1"),
            ("cross: 5:0,3;8:10", Some(Stack::Cross), "5:0,3;8:10"),
            ("encoder:0,7", Some(Stack::Encoder), "0,7"),
            ("{\"5\": [0, 3], \"8\": [10]}", None, "5:0,3;8:10"),
            ("cross:{\"5\": [0]}", Some(Stack::Cross), "5:0"),
        ] {
            let found: Removal = text.parse().expect(text);
            assert_eq!(found, Removal { stack, choice: same.parse().expect(same) });
        }
        for text in ["", "decoder:", "decoders:L0H1", "{\"5\": 3}", "{\"x\": [1]}"] {
            assert!(text.parse::<Removal>().is_err(), "{text}");
        }
    }
}
