//! Texts with labels: classes or graded similarity of pairs, in three parts.

use std::collections::BTreeSet;
use std::path::Path;

use super::rows::{self, Known, What};
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
#[derive(Debug, Clone, PartialEq)]
pub enum Label {
    /// A place in [`Labelled::classes`].
    Class(u32),
    /// How alike the two texts are.
    Score(f64),
    /// A place in [`Labelled::classes`] for each word of an [`Input::Words`].
    Words(Vec<u32>),
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
    /// file has an object per line, a `.parquet` file rows of columns (with the feature `parquet`),
    /// any other is tab-separated with a header line. The columns or keys are `text`, or `text_a` and
    /// `text_b` (also `sentence`, `sentence1` and `sentence2`); `label`, a class, or `score`, a number;
    /// and `split`, one of `train`, `validation` and `test`. Classes of words are lists, which
    /// tab-separated files do not have: `words` (also `tokens`) and as many `labels` (also
    /// `ner_tags`).
    /// Without a `split`, of each five items in their order three are for training, and of the
    /// third and fifth one each for test and validation.
    ///
    /// # Errors
    /// [`Error::Io`] where the file cannot be read, [`Error::Input`] for a line or row that is no
    /// item, [`Error::Usage`] for a Parquet file without the feature.
    pub fn open(name: &str) -> Result<Self> {
        if let Some((name, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
            return Self::parse(text, name, false);
        }
        let path = Path::new(name);
        if path.extension().is_some_and(|ending| ending == "parquet") {
            return Self::of(parquet(path)?, name);
        }
        let text = std::fs::read_to_string(path).map_err(Error::io(path, "read it"))?;
        Self::parse(&text, name, path.extension().is_some_and(|ending| ending == "jsonl"))
    }

    fn parse(text: &str, name: &str, json: bool) -> Result<Self> {
        Self::of(rows::parse(text, name, json)?, name)
    }

    /// Names the classes and puts their places in the items.
    fn of(rows: Vec<Known>, name: &str) -> Result<Self> {
        if rows.is_empty() {
            return Err(Error::input(name, "holds no items"));
        }
        let mut kinds = [false; 3];
        let mut classes = BTreeSet::new();
        for row in &rows {
            match &row.what {
                What::Score(_) => kinds[0] = true,
                What::Class(class) => {
                    kinds[1] = true;
                    classes.insert(class.clone());
                }
                What::Words(all) => {
                    kinds[2] = true;
                    classes.extend(all.iter().cloned());
                }
            }
        }
        if kinds.iter().filter(|&&one| one).count() > 1 {
            let why = "holds classes, scores or classes of words, expected one of them";
            return Err(Error::input(name, why));
        }
        let classes: Vec<String> = classes.into_iter().collect();
        let place = |class: &String| classes.binary_search(class).unwrap_or_default() as u32;
        let item = |Known { split, input, what }: Known| {
            let label = match what {
                What::Score(score) => Label::Score(score),
                What::Class(class) => Label::Class(place(&class)),
                What::Words(all) => Label::Words(all.iter().map(place).collect()),
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

#[cfg(feature = "parquet")]
use super::parquet::read as parquet;

#[cfg(not(feature = "parquet"))]
fn parquet(path: &Path) -> Result<Vec<Known>> {
    Err(Error::Usage {
        flag: "--data".into(),
        want: "a file that ends in .jsonl or .tsv; this program was built without Parquet".into(),
        found: path.display().to_string(),
    })
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
        let json = "{\"words\": [\"a\", \"b\"], \"labels\": [\"X\", \"O\"], \"split\": \"test\"}\n\
                    {\"tokens\": [\"c\"], \"ner_tags\": [\"X\"]}";
        let found = Labelled::parse(json, "x", true).expect("reads");
        assert_eq!(found.classes, ["O", "X"]);
        assert_eq!(found.items[0].label, Label::Words(vec![1, 0]));
        assert_eq!(found.items[1].input, Input::Words(vec!["c".into()]));
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
            (
                "{\"text\": \"a\", \"label\": 1}\n{\"text\": \"a\", \"score\": 1}",
                true,
                "one of them",
            ),
            ("{\"words\": [\"a\"], \"labels\": [0, 1]}", true, "line 1: 2 labels for 1 words"),
            ("{\"words\": \"a b\", \"labels\": [0, 1]}", true, "words: expected a list"),
            ("{\"words\": [\"a\", {}], \"labels\": [0, 1]}", true, "words: expected a list"),
            ("{\"words\": [], \"labels\": []}", true, "holds no words"),
            ("{\"words\": [\"a\"]}", true, "expected labels beside words"),
        ] {
            let line = Labelled::parse(text, "x", json).expect_err(text).to_string();
            assert!(line.contains(want), "{line}");
        }
    }
}
