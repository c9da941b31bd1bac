//! The parts of a study that run by themselves, their names, and shares of them.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use super::plan::Plan;
use crate::error::Error;

/// How heads are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Those of the lowest scores, as the whole model has them.
    OneShot,
    /// The same, scored again on the way.
    Iterative,
    /// One after another, each time the one without which validation gets worse least.
    Greedy,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::OneShot, Self::Iterative, Self::Greedy];

    /// Its name in a plan.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneShot => "one-shot",
            Self::Iterative => "iterative",
            Self::Greedy => "greedy",
        }
    }

    /// Whether it goes by scores.
    pub fn scores(self) -> bool {
        self != Self::Greedy
    }
}

/// A strategy with a score and a seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// How heads are chosen.
    pub way: Way,
    /// The score; `None` for a strategy without one.
    pub score: Option<String>,
    /// What it is drawn with.
    pub seed: u64,
}

/// One curve of a study: sets of heads, each within the next, one for every fraction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cell {
    /// Heads chosen by a strategy.
    Chosen(Choice),
    /// Heads at random, of each layer as many as the choice removes there; and which draw.
    Matched(Choice, usize),
    /// Heads at random; and which draw.
    Random(usize),
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.way.name())?;
        if let Some(score) = &self.score {
            write!(f, ".{score}")?;
        }
        write!(f, ".{}", self.seed)
    }
}

/// Its name, which is also its file's: `one-shot.gradient.0`, `one-shot.gradient.0.layers.7`,
/// `random.7`.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chosen(choice) => choice.fmt(f),
            Self::Matched(choice, draw) => write!(f, "{choice}.layers.{draw}"),
            Self::Random(draw) => write!(f, "random.{draw}"),
        }
    }
}

impl Plan {
    /// The choices of the plan, in order.
    pub fn choices(&self) -> Vec<Choice> {
        let mut all = Vec::new();
        for &way in &self.strategies {
            let scores: Vec<Option<String>> = match way.scores() {
                true => self.scores.iter().cloned().map(Some).collect(),
                false => vec![None],
            };
            for score in scores {
                let choice = |&seed: &u64| Choice { way, score: score.clone(), seed };
                all.extend(self.seeds.iter().map(choice));
            }
        }
        all
    }

    /// All cells, each choice before the masks that match it.
    pub fn cells(&self) -> Vec<Cell> {
        let mut all = Vec::new();
        for choice in self.choices() {
            all.push(Cell::Chosen(choice.clone()));
            all.extend((0..self.layer_matched).map(|draw| Cell::Matched(choice.clone(), draw)));
        }
        all.extend((0..self.random).map(Cell::Random));
        all
    }
}

/// One of so many equal shares of the cells: `2/8` is the second of eight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    part: usize,
    of: usize,
}

impl FromStr for Share {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Usage {
            flag: "--cell".into(),
            want: "a share such as 2/8, from 1/8 to 8/8".into(),
            found: text.into(),
        };
        let (part, of) = text.split_once('/').ok_or_else(wrong)?;
        let number = |text: &str| text.trim().parse::<usize>().map_err(|_| wrong());
        let share = Self { part: number(part)?, of: number(of)? };
        match (1..=share.of).contains(&share.part) {
            true => Ok(share),
            false => Err(wrong()),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.part, self.of)
    }
}

impl Share {
    /// The places of its cells among `count`. Neighbours stay together, so that masks are mostly
    /// matched where the choice that they match was made.
    pub fn of(self, count: usize) -> Range<usize> {
        let edge = |part: usize| (count as u128 * part as u128 / self.of as u128) as usize;
        edge(self.part - 1)..edge(self.part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_every_place_once() {
        for count in [0, 1, 7, 20, 211] {
            for of in [1, 2, 3, 8, 50] {
                let shares = (1..=of).map(|part| format!("{part}/{of}").parse::<Share>());
                let places: Vec<usize> =
                    shares.flat_map(|share| share.expect("share").of(count)).collect();
                assert!(places.iter().copied().eq(0..count), "{count} in {of}: {places:?}");
            }
        }
        let huge = format!("{0}/{0}", usize::MAX).parse::<Share>().expect("share");
        assert_eq!(huge.of(5), 4..5);
        for text in ["", "1", "0/4", "5/4", "1/0", "-1/4", "1/4/2", "a/b"] {
            let error = text.parse::<Share>().expect_err(text).to_string();
            assert!(error.starts_with("--cell: expected a share such as 2/8"), "{error}");
        }
    }
}
