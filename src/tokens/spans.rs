//! Words as the user gives them.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use super::Encoding;
use crate::error::{Error, Result};

/// Words as spans of characters, by text: `[[0,2],[2,5]]`, or a list of such lists for a pair.
#[derive(Debug, Clone, PartialEq, Eq)]
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
impl fmt::Display for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |spans: &Vec<(usize, usize)>| {
            let spans = spans.iter().map(|(start, end)| format!("[{start},{end}]"));
            format!("[{}]", spans.collect::<Vec<_>>().join(","))
        };
        match self.0.as_slice() {
            [one] => f.write_str(&list(one)),
            each => write!(f, "[{}]", each.iter().map(list).collect::<Vec<_>>().join(",")),
        }
    }
}

impl FromStr for Spans {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Given {
            One(Vec<(usize, usize)>),
            Each(Vec<Vec<(usize, usize)>>),
        }
        match serde_json::from_str(text) {
            Ok(Given::One(spans)) => Ok(Self(vec![spans])),
            Ok(Given::Each(lists)) => Ok(Self(lists)),
            Err(_) => Err(Error::Usage {
                flag: "--spans".into(),
                want: "words as spans of characters, such as [[0,2],[2,5]]".into(),
                found: text.to_owned(),
            }),
        }
    }
}
