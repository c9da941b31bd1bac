//! Words as the user gives them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Encoding;
use crate::error::{Error, Result};

/// Words as spans of characters, by text: `[[0,2],[2,5]]`, or a list of such lists for a pair.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(from = "Typed", into = "Typed")]
pub struct Spans(Vec<Vec<(usize, usize)>>);

impl Spans {
    /// Gives an encoding these words, see [`Encoding::set_words`]; a text of a pair for which there
    /// is no list keeps its own.
    ///
    /// # Errors
    /// [`Error::Input`] for a span that is empty, out of order or beyond its text, and for more
    /// lists than texts.
    pub fn apply(&self, encoding: &mut Encoding) -> Result<()> {
        let lists = self.0.iter().enumerate();
        lists.into_iter().try_for_each(|(sequence, spans)| encoding.set_words(sequence, spans))
    }
}

/// As they are typed: one list, or a list of each text's.
#[derive(Deserialize, Serialize)]
#[serde(untagged)]
enum Typed {
    One(Vec<(usize, usize)>),
    Each(Vec<Vec<(usize, usize)>>),
}

impl From<Typed> for Spans {
    fn from(typed: Typed) -> Self {
        match typed {
            Typed::One(spans) => Self(vec![spans]),
            Typed::Each(lists) => Self(lists),
        }
    }
}

impl From<Spans> for Typed {
    fn from(Spans(mut lists): Spans) -> Self {
        match lists.pop() {
            Some(one) if lists.is_empty() => Self::One(one),
            last => Self::Each(lists.into_iter().chain(last).collect()),
        }
    }
}

impl fmt::Display for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for Spans {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|_| Error::Usage {
            flag: "--spans".into(),
            want: "words as spans of characters, such as [[0,2],[2,5]]".into(),
            found: text.to_owned(),
        })
    }
}
