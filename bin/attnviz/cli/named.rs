//! What an input and a model are called, in files and in what is said about them.

use attnviz::Model;
use attnviz::tokens::{Encoding, Input};
use serde_json::{Value, json};

/// Where the weights come from, for titles and the manifest.
pub struct Source {
    pub model: String,
    pub revision: Option<String>,
    pub dtype: Option<String>,
}

impl Source {
    pub fn of(model: &Model) -> Self {
        let report = model.report();
        Self {
            model: report.name.clone(),
            revision: report.revision.clone(),
            dtype: Some(report.dtypes.join(", ")),
        }
    }
}

/// What one input is called in files and reports.
pub struct Named {
    /// As in the manifest: `{"text": …}` and so on.
    pub input: Value,
    /// What the folder is named after.
    pub text: String,
    /// What to say in the manifest and under the pictures.
    pub notes: Vec<String>,
}

impl Named {
    pub fn new(input: &Input, encoding: &Encoding, notes: Vec<String>) -> Self {
        Self { input: as_json(input), text: encoding.texts.join(" "), notes }
    }
}

/// An input as in a JSONL line.
pub fn as_json(input: &Input) -> Value {
    match input {
        Input::Text(text) => json!({ "text": text }),
        Input::Pair(a, b) => json!({ "text": a, "text_b": b }),
        Input::Words(words) => json!({ "words": words }),
        Input::Tokens(tokens) => json!({ "tokens": tokens }),
    }
}
