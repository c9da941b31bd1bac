//! Texts with labels: classes or graded similarity of pairs, in three parts.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::tokens::Input;

/// The part of the data that an item is for: scores come from the first, choices from the second,
/// reports from the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// To fit and to score on.
    Train,
    /// To choose by.
    Validation,
    /// To report on.
    Test,
}

impl Split {
    /// The part of an item that says none, by its place: of each five in their order three are for
    /// training, and of the third and fifth one each for test and validation.
    pub fn of(place: usize) -> Self {
        PARTS[place % PARTS.len()]
    }
}

/// What is known of an item.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Label {
    /// A place in [`Labelled::classes`].
    Class(u32),
    /// How alike the two texts are.
    Score(f64),
}

/// A text or a pair with its label.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Which part it belongs to.
    pub split: Split,
    /// The text or pair.
    pub input: Input,
    /// What is known of it.
    pub label: Label,
}

/// A labelled set.
#[derive(Debug, Clone, PartialEq)]
pub struct Labelled {
    /// All items, in the order of the file.
    pub items: Vec<Item>,
    /// Names of the classes, sorted; empty where items have scores.
    pub classes: Vec<String>,
}

/// The sets that are in the binary, with the names that ask for them.
const BUILT_IN: [(&str, &str); 2] = [
    ("sentiment", include_str!("../../assets/sentiment.tsv")),
    ("pairs", include_str!("../../assets/pairs.tsv")),
];

/// Parts of items without one, over and over in their order.
const PARTS: [Split; 5] =
    [Split::Train, Split::Train, Split::Test, Split::Train, Split::Validation];

impl Labelled {
    /// Reads a set by name: `sentiment` or `pairs`, which come with the program, or a file. A `.jsonl`
    /// file has an object per line, any other is tab-separated with a header line. The columns or
    /// keys are `text`, or `text_a` and `text_b` (also `sentence`, `sentence1` and `sentence2`);
    /// `label`, a class, or `score`, a number; and `split`, one of `train`, `validation` and `test`.
    /// Without a `split`, of each five items in their order three are for training, and of the
    /// third and fifth one each for test and validation.
    ///
    /// # Errors
    /// [`Error::Io`] where the file cannot be read, [`Error::Input`] for a line that is no item.
    pub fn open(name: &str) -> Result<Self> {
        if let Some((name, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
            return Self::parse(text, name, false);
        }
        let path = Path::new(name);
        let text = std::fs::read_to_string(path).map_err(Error::io(path, "read it"))?;
        Self::parse(&text, name, path.extension().is_some_and(|ending| ending == "jsonl"))
    }

    fn parse(text: &str, name: &str, json: bool) -> Result<Self> {
        let text = text.trim_start_matches('\u{feff}');
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let header: Vec<&str> = match json {
            true => Vec::new(),
            false => lines.next().map(|(_, line)| line.split('\t').collect()).unwrap_or_default(),
        };
        let mut rows = Vec::new();
        for (number, line) in lines {
            let wrong = |why: String| Error::input(format!("{name}, line {}", number + 1), why);
            let row = match json {
                true => of_object(line).map_err(wrong)?,
                false => of_fields(&header, line).map_err(wrong)?,
            };
            rows.push(row.checked(rows.len()).map_err(wrong)?);
        }
        if rows.is_empty() {
            return Err(Error::input(name, "holds no items"));
        }
        let classes: BTreeSet<&String> =
            rows.iter().filter_map(|row| row.2.as_ref().err()).collect();
        let classes: Vec<String> = classes.into_iter().cloned().collect();
        if !classes.is_empty() && rows.iter().any(|row| row.2.is_ok()) {
            return Err(Error::input(name, "holds classes and scores, expected one of them"));
        }
        let item = |(split, input, label): (Split, Input, Result<f64, String>)| {
            let place = |class: &String| classes.iter().position(|one| one == class);
            let label = match label {
                Ok(score) => Label::Score(score),
                Err(class) => Label::Class(place(&class).unwrap_or_default() as u32),
            };
            Item { split, input, label }
        };
        let items = rows.into_iter().map(item).collect();
        Ok(Self { items, classes })
    }

    /// The items of a part.
    pub fn part(&self, split: Split) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(move |item| item.split == split)
    }
}

/// What a line holds, by the names of its columns.
#[derive(Default)]
struct Row {
    split: Option<String>,
    texts: [Option<String>; 2],
    label: Option<String>,
    score: Option<String>,
}

impl Row {
    fn set(&mut self, key: &str, value: String) {
        match key {
            "split" => self.split = Some(value),
            "text" | "text_a" | "sentence" | "sentence1" => self.texts[0] = Some(value),
            "text_b" | "sentence2" => self.texts[1] = Some(value),
            "label" => self.label = Some(value),
            "score" => self.score = Some(value),
            _ => {}
        }
    }

    /// Part, input, and a score or the name of a class.
    fn checked(self, number: usize) -> Result<(Split, Input, Result<f64, String>), String> {
        let split = match self.split.as_deref() {
            None => Split::of(number),
            Some("train") => Split::Train,
            Some("validation" | "dev") => Split::Validation,
            Some("test") => Split::Test,
            Some(other) => {
                return Err(format!("split: expected train, validation or test, found `{other}`"));
            }
        };
        let input = match self.texts {
            [Some(a), Some(b)] => Input::Pair(a, b),
            [Some(text), None] => Input::Text(text),
            _ => return Err("expected text, or text_a and text_b".into()),
        };
        let label = match (self.score, self.label) {
            (Some(score), _) => {
                let number = score.trim().parse::<f64>().ok().filter(|score| score.is_finite());
                Ok(number.ok_or_else(|| format!("score: expected a number, found `{score}`"))?)
            }
            (None, Some(class)) => Err(class),
            (None, None) => return Err("expected label or score".into()),
        };
        Ok((split, input, label))
    }
}

fn of_fields(header: &[&str], line: &str) -> Result<Row, String> {
    let fields: Vec<&str> = line.split('\t').collect();
    if fields.len() != header.len() {
        let (want, found) = (header.len(), fields.len());
        return Err(format!(
            "expected {want} fields between tabs, as in the header, found {found}"
        ));
    }
    let mut row = Row::default();
    header.iter().zip(fields).for_each(|(key, value)| row.set(key.trim(), value.to_owned()));
    Ok(row)
}

fn of_object(line: &str) -> Result<Row, String> {
    let object: serde_json::Map<String, Value> =
        serde_json::from_str(line).map_err(|why| format!("expected a JSON object: {why}"))?;
    let mut row = Row::default();
    for (key, value) in object {
        match value {
            Value::String(text) => row.set(&key, text),
            Value::Null => {}
            other => row.set(&key, other.to_string()),
        }
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sets_that_come_along() {
        let sentiment = Labelled::open("sentiment").expect("reads");
        assert_eq!(sentiment.classes, ["negative", "positive"]);
        let count = |split| sentiment.part(split).count();
        assert_eq!(
            (count(Split::Train), count(Split::Validation), count(Split::Test)),
            (539, 179, 179)
        );
        let pairs = Labelled::open("pairs").expect("reads");
        assert!(pairs.classes.is_empty() && pairs.items.len() == 910);
        assert!(pairs.items.iter().all(|item| matches!(item.label, Label::Score(s) if s <= 5.0)));
    }

    #[test]
    fn lines_of_either_kind_and_what_is_wrong_with_them() {
        let json = "{\"sentence\": \"a\", \"label\": 1}\n\n{\"sentence\": \"b\", \"label\": 0}\n";
        let found = Labelled::parse(json, "x", true).expect("reads");
        assert_eq!(found.classes, ["0", "1"]);
        assert_eq!(found.items[0].label, Label::Class(1));
        let tabs = "text_a\ttext_b\tscore\tsplit\na\tb\t2.5\tdev\n";
        let found = Labelled::parse(tabs, "x", false).expect("reads");
        let input = Input::Pair("a".into(), "b".into());
        assert_eq!(
            found.items[0],
            Item { split: Split::Validation, input, label: Label::Score(2.5) }
        );
        for (text, json, want) in [
            ("", false, "x: holds no items"),
            ("text\tlabel\na\n", false, "x, line 2: expected 2 fields"),
            ("text\tscore\na\thigh\n", false, "score: expected a number, found `high`"),
            ("text\nab\n", false, "expected label or score"),
            ("[1]\n", true, "x, line 1: expected a JSON object"),
            ("text\tlabel\tsplit\na\tb\tc\n", false, "split: expected train"),
        ] {
            let line = Labelled::parse(text, "x", json).expect_err(text).to_string();
            assert!(line.contains(want), "{line}");
        }
    }
}
