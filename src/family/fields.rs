//! Reading a config.json: each value is honoured, known to change nothing at inference, refused,
//! or reported.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::config::Activation;
use crate::error::{Error, Result};

/// Most layers, heads or any other count whose size decides an allocation.
pub(super) const LARGEST: usize = 1 << 20;

/// Keys that every family's config may hold and that change nothing at inference.
const IGNORABLE: &[&str] = &[
    "_attn_implementation_autoset",
    "_name_or_path",
    "attention_probs_dropout_prob",
    "bos_token_id",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "cross_attention_hidden_size",
    "do_sample", // how to write is chosen by who writes
    "dtype",
    "early_stopping",
    "eos_token_id",
    "finetuning_task",
    "gradient_checkpointing",
    "hidden_dropout_prob",
    "initializer_range",
    "is_encoder_decoder",
    "language",
    "length_penalty",
    "mask_token_id",
    "max_length",
    "min_length",
    "name",
    "no_repeat_ngram_size",
    "num_beams",
    "num_labels",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "prefix",
    "problem_type",
    "repetition_penalty",
    "return_dict",
    "sep_token_id",
    "task_specific_params",
    "temperature",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "use_cache",
    "use_return_dict",
];

/// The values of one config.json, which remembers what was asked for.
pub(crate) struct Fields {
    path: PathBuf,
    values: Map<String, Value>,
    asked: RefCell<BTreeSet<String>>,
}

impl Fields {
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self> {
        let broken = |why: String| Error::checkpoint(path, format!("not a model config: {why}"));
        match serde_json::from_slice(bytes).map_err(|e| broken(e.to_string()))? {
            Value::Object(values) => {
                Ok(Self { path: path.into(), values, asked: RefCell::default() })
            }
            other => Err(broken(format!("expected a JSON object, found {}", kind(&other)))),
        }
    }

    /// The file that it is read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The value under `key`; null counts as absent.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.asked.borrow_mut().insert(key.to_string());
        self.values.get(key).filter(|value| !value.is_null())
    }

    pub fn wrong(&self, key: &str, want: impl Into<String>, found: impl Into<String>) -> Error {
        Error::Config {
            path: self.path.clone(),
            key: key.into(),
            want: want.into(),
            found: found.into(),
        }
    }

    fn typed<T>(
        &self,
        key: &str,
        want: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>> {
        let value = self.get(key);
        value.map(|v| read(v).ok_or_else(|| self.wrong(key, want, short(v)))).transpose()
    }

    /// A count from 0 to a million or so.
    pub fn count(&self, key: &str) -> Result<Option<usize>> {
        self.typed(key, &format!("a whole number up to {LARGEST}"), |v| {
            v.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|&n| n <= LARGEST)
        })
    }

    /// A size that must be there and must not be 0.
    pub fn size(&self, key: &str) -> Result<usize> {
        match self.count(key)? {
            None => Err(self.wrong(key, "a whole number above 0", "nothing")),
            Some(0) => Err(self.wrong(key, "a whole number above 0", "0")),
            Some(n) => Ok(n),
        }
    }

    pub fn number(&self, key: &str) -> Result<Option<f64>> {
        self.typed(key, "a number", |v| v.as_f64().filter(|x| x.is_finite()))
    }

    /// What a norm adds to a variance: below 0 it would make numbers that are none.
    pub fn epsilon(&self, key: &str) -> Result<Option<f64>> {
        self.typed(key, "a number, 0 or more", |v| {
            v.as_f64().filter(|x| x.is_finite() && *x >= 0.0)
        })
    }

    pub fn flag(&self, key: &str) -> Result<Option<bool>> {
        self.typed(key, "true or false", Value::as_bool)
    }

    pub fn text(&self, key: &str) -> Result<Option<String>> {
        self.typed(key, "a string", |v| v.as_str().map(str::to_string))
    }

    /// Names in lower case: a list or, in older files, one text of them joined by `|`.
    pub fn names(&self, key: &str) -> Result<Vec<String>> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let names: Option<Vec<&str>> = match value {
            Value::String(text) => Some(text.split('|').collect()),
            Value::Array(list) => list.iter().map(Value::as_str).collect(),
            _ => None,
        };
        let names = names.ok_or_else(|| self.wrong(key, "a list of names", "another"))?;
        let names = names.iter().map(|name| name.trim().to_lowercase());
        Ok(names.filter(|name| !name.is_empty()).collect())
    }

    /// One of a table's names.
    pub fn choice<T: Copy>(&self, key: &str, names: &[(&str, T)]) -> Result<Option<T>> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        match names.iter().find(|(name, _)| *name == text) {
            Some((_, value)) => Ok(Some(*value)),
            None => {
                let known: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
                Err(self.wrong(key, format!("one of {}", known.join(", ")), format!("`{text}`")))
            }
        }
    }

    /// An activation by any of its names.
    pub fn activation(&self, key: &str) -> Result<Option<Activation>> {
        self.choice(key, &Activation::NAMES)
    }

    /// Refuses a flag that is on, because it would change the result.
    pub fn refuse(&self, key: &str, why: &str) -> Result<()> {
        match self.flag(key)? {
            Some(true) => Err(self.wrong(key, format!("false ({why})"), "true")),
            _ => Ok(()),
        }
    }

    /// Keys that nobody asked for and nobody knows.
    pub fn unknown(&self, ignorable: &[&str]) -> Vec<String> {
        let asked = self.asked.borrow();
        let known =
            |key: &str| asked.contains(key) || IGNORABLE.contains(&key) || ignorable.contains(&key);
        self.values.keys().filter(|key| !known(key)).cloned().collect()
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// A value as it fits into a one-line message.
fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
