//! Which layers and which heads: `0-3,-1`, `0,7-9`, `L3H1`, `5:0,3;8:10`.
//!
//! Layers and heads are zero-based; negative layers count from the end.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// One head by its original number: `L3H1` in text, `L03H01` in file names ([`Head::file_stem`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct Head {
    /// Zero-based layer.
    pub layer: usize,
    /// Zero-based head of that layer, as numbered before any pruning.
    pub head: usize,
}

impl Head {
    /// The name in file names, padded so that a folder lists in order.
    ///
    /// ```
    /// assert_eq!(attnviz::Head { layer: 3, head: 1 }.file_stem(), "L03H01");
    /// ```
    pub fn file_stem(self) -> String {
        format!("L{:02}H{:02}", self.layer, self.head)
    }
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "L{}H{}", self.layer, self.head)
    }
}

/// A list of indices and ranges such as `0-3,-1`, not yet held against a length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Indices(Vec<(isize, isize)>);

impl FromStr for Indices {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::Usage {
            flag: "index list".into(),
            want: "numbers and ranges such as 0-3,-1".into(),
            found: text.into(),
        };
        let mut ranges = Vec::new();
        for part in text.split(',').map(str::trim) {
            // a minus sign after the first character separates a range
            let split = part.char_indices().skip(1).find(|&(_, c)| c == '-').map(|(i, _)| i);
            let range = match split {
                Some(i) => (part[..i].parse(), part[i + 1..].parse()),
                None => (part.parse(), part.parse()),
            };
            match range {
                (Ok(first), Ok(last)) => ranges.push((first, last)),
                _ => return Err(wrong()),
            }
        }
        Ok(Self(ranges))
    }
}

impl Indices {
    /// The chosen indices below `count`, sorted, each once. `what` names the axis in the error.
    ///
    /// # Errors
    /// [`Error::Usage`] when an index is out of range or a range runs backwards.
    pub fn resolve(&self, what: &str, count: usize) -> Result<Vec<usize>> {
        let place = |i: isize| -> Result<usize> {
            let at = if i < 0 { i + count as isize } else { i };
            if (0..count as isize).contains(&at) {
                return Ok(at as usize);
            }
            Err(Error::Usage {
                flag: format!("--{what}"),
                want: match count {
                    0 => format!("no {what}, for there are none"),
                    n => format!("{what} 0 to {} (or -{n} to -1)", n - 1),
                },
                found: i.to_string(),
            })
        };
        let mut chosen = Vec::new();
        for &(first, last) in &self.0 {
            let (from, to) = (place(first)?, place(last)?);
            if from > to {
                return Err(Error::Usage {
                    flag: format!("--{what}"),
                    want: "a range that runs upwards".into(),
                    found: format!("{first}-{last}"),
                });
            }
            chosen.extend(from..=to);
        }
        chosen.sort_unstable();
        chosen.dedup();
        Ok(chosen)
    }
}

/// A choice of heads: the same heads in every layer (`0,7-9`) or pairs (`L3H1,L5H11`,
/// `5:0,3;8:10`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeadChoice {
    /// These heads of each layer.
    Every(Indices),
    /// Heads given layer by layer.
    Pairs(Vec<(isize, Indices)>),
}

impl FromStr for HeadChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::Usage {
            flag: "head list".into(),
            want: "heads such as 0,7-9, L3H1 or 5:0,3;8:10".into(),
            found: text.into(),
        };
        let pair = |layer: &str, heads: &str| -> Result<(isize, Indices)> {
            let layer = layer.trim().parse().map_err(|_| wrong())?;
            Ok((layer, heads.parse().map_err(|_| wrong())?))
        };
        if text.contains(':') {
            let groups = text.split(';').filter(|g| !g.trim().is_empty());
            return groups
                .map(|group| {
                    let (layer, heads) = group.split_once(':').ok_or_else(wrong)?;
                    pair(layer, heads)
                })
                .collect::<Result<_>>()
                .map(Self::Pairs);
        }
        if text.trim_start().starts_with(['L', 'l']) {
            return text
                .split([',', ';'])
                .map(|name| {
                    let name = name.trim().strip_prefix(['L', 'l']).ok_or_else(wrong)?;
                    let (layer, head) = name.split_once(['H', 'h']).ok_or_else(wrong)?;
                    pair(layer, head)
                })
                .collect::<Result<_>>()
                .map(Self::Pairs);
        }
        text.parse().map(Self::Every).map_err(|_| wrong())
    }
}

impl HeadChoice {
    /// The chosen heads, by layer, out of `counts[layer]` heads (numbered before any pruning).
    /// `Every` applies to the layers in `layers`; pairs name their own layers.
    ///
    /// # Errors
    /// [`Error::Usage`] with the valid range when a layer or head is out of range.
    pub fn resolve(
        &self,
        layers: &[usize],
        counts: &[usize],
    ) -> Result<BTreeMap<usize, Vec<usize>>> {
        let mut chosen: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        match self {
            Self::Every(heads) => {
                for &layer in layers {
                    chosen.insert(layer, heads.resolve("heads", counts[layer])?);
                }
            }
            Self::Pairs(pairs) => {
                for (layer, heads) in pairs {
                    let layer = Indices(vec![(*layer, *layer)]).resolve("layers", counts.len())?[0];
                    let more = heads.resolve("heads", counts[layer])?;
                    let list = chosen.entry(layer).or_default();
                    list.extend(more);
                    list.sort_unstable();
                    list.dedup();
                }
            }
        }
        Ok(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heads(text: &str) -> BTreeMap<usize, Vec<usize>> {
        let choice: HeadChoice = text.parse().unwrap();
        choice.resolve(&[0, 1, 2, 3, 4, 5], &[12; 6]).unwrap()
    }

    #[test]
    fn lists_ranges_and_negative_indices() {
        let indices: Indices = "0-2,-1".parse().unwrap();
        assert_eq!(indices.resolve("layers", 6).unwrap(), [0, 1, 2, 5]);
        let indices: Indices = "-3--1".parse().unwrap();
        assert_eq!(indices.resolve("layers", 6).unwrap(), [3, 4, 5]);
    }

    #[test]
    fn pairs_in_both_spellings() {
        assert_eq!(heads("L3H1"), BTreeMap::from([(3, vec![1])]));
        assert_eq!(heads("L3H1,L5H11,L3H0"), BTreeMap::from([(3, vec![0, 1]), (5, vec![11])]));
        assert_eq!(heads("5:0,3;2:10"), BTreeMap::from([(2, vec![10]), (5, vec![0, 3])]));
        assert_eq!(heads("-1:2-4"), BTreeMap::from([(5, vec![2, 3, 4])]));
        assert_eq!(heads("7").len(), 6);
    }

    #[test]
    fn out_of_range_names_the_range() {
        let choice: HeadChoice = "L3H12".parse().unwrap();
        let message = choice.resolve(&[], &[12; 6]).unwrap_err().to_string();
        assert!(message.contains("0 to 11"), "{message}");
        let choice: HeadChoice = "6:0".parse().unwrap();
        let message = choice.resolve(&[], &[12; 6]).unwrap_err().to_string();
        assert!(message.contains("0 to 5"), "{message}");
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "a", "1-", "L3", "LxH1", "3:", "1,,2", "L3H1,5", "5-3"] {
            let choice = text.parse::<HeadChoice>();
            let refused = choice.and_then(|c| c.resolve(&[0], &[12]));
            assert!(refused.is_err(), "{text}");
        }
    }
}
