//! Lines of a labelled set, as they are written down.

use serde_json::Value;

use super::labelled::Split;
use crate::error::{Error, Result};
use crate::tokens::Input;

/// An item whose classes still go by name.
pub(super) struct Known {
    pub split: Split,
    pub input: Input,
    pub what: What,
}

/// What is known of it.
pub(super) enum What {
    Score(f64),
    Class(String),
    /// A class for each word.
    Words(Vec<String>),
}

/// The items of a text: of objects line by line, or of fields between tabs below a header.
pub(super) fn parse(text: &str, name: &str, json: bool) -> Result<Vec<Known>> {
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
    Ok(rows)
}

/// Names of the lists of words, and of those of their classes.
const WORDS: [&str; 2] = ["words", "tokens"];
const LABELS: [&str; 2] = ["labels", "ner_tags"];

/// What a line holds, by the names of its columns.
#[derive(Default)]
pub(super) struct Row {
    split: Option<String>,
    texts: [Option<String>; 2],
    label: Option<String>,
    score: Option<String>,
    words: Option<Vec<String>>,
    labels: Option<Vec<String>>,
}

impl Row {
    pub fn set(&mut self, key: &str, value: String) {
        match key {
            "split" => self.split = Some(value),
            "text" | "text_a" | "sentence" | "sentence1" => self.texts[0] = Some(value),
            "text_b" | "sentence2" => self.texts[1] = Some(value),
            "label" => self.label = Some(value),
            "score" => self.score = Some(value),
            _ => {}
        }
    }

    /// A list; `None` is one that holds other things than text and numbers, or is none.
    pub fn set_list(&mut self, key: &str, values: Option<Vec<String>>) -> Result<(), String> {
        let slot = match key {
            key if WORDS.contains(&key) => &mut self.words,
            key if LABELS.contains(&key) => &mut self.labels,
            _ => return Ok(()),
        };
        let want = || format!("{key}: expected a list of text or numbers");
        *slot = Some(values.ok_or_else(want)?);
        Ok(())
    }

    /// The item that a row is, the `number`th of its file.
    pub fn checked(self, number: usize) -> Result<Known, String> {
        let split = match self.split.as_deref() {
            None => Split::of(number),
            Some("train") => Split::Train,
            Some("validation" | "dev") => Split::Validation,
            Some("test") => Split::Test,
            Some(other) => {
                return Err(format!("split: expected train, validation or test, found `{other}`"));
            }
        };
        if let Some(words) = self.words {
            let labels = self.labels.ok_or("expected labels beside words")?;
            if words.is_empty() {
                return Err("holds no words".into());
            }
            if labels.len() != words.len() {
                return Err(format!("{} labels for {} words", labels.len(), words.len()));
            }
            return Ok(Known { split, input: Input::Words(words), what: What::Words(labels) });
        }
        let input = match self.texts {
            [Some(a), Some(b)] => Input::Pair(a, b),
            [Some(text), None] => Input::Text(text),
            _ => return Err("expected text, or text_a and text_b".into()),
        };
        let what = match (self.score, self.label) {
            (Some(score), _) => {
                let number = score.trim().parse::<f64>().ok().filter(|score| score.is_finite());
                let number =
                    number.ok_or_else(|| format!("score: expected a number, found `{score}`"));
                What::Score(number?)
            }
            (None, Some(class)) => What::Class(class),
            (None, None) => return Err("expected label or score".into()),
        };
        Ok(Known { split, input, what })
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
        if WORDS.contains(&key.as_str()) || LABELS.contains(&key.as_str()) {
            row.set_list(&key, value.as_array().and_then(|list| list.iter().map(plain).collect()))?;
            continue;
        }
        match plain(&value) {
            Some(text) => row.set(&key, text),
            None if value.is_null() => {}
            None => row.set(&key, value.to_string()),
        }
    }
    Ok(row)
}

/// Text, or a number as text.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}
