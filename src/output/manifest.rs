//! `manifest.json`: what made a folder, and the names of its files.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::slug::hash8;

const TOOL: &str = "attnviz";
/// More than any manifest of ours takes.
const LIMIT: u64 = 256 << 20;

/// What made a folder. No time stamp: the same command gives the same bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// `attnviz`: what marks a folder as ours.
    pub tool: String,
    /// The version of attnviz.
    pub version: String,
    /// The model as the user knows it.
    pub model: String,
    /// Commit of a Hub model.
    pub revision: Option<String>,
    /// The number format that the weights are stored in.
    #[serde(default)]
    pub dtype: Option<String>,
    /// What was read: `{"text": …}`, `{"text": …, "text_b": …}`, `{"words": […]}`, …
    pub input: Value,
    /// The options that decide what the pictures show.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// The tokens: a list, or `{"queries": […], "keys": […]}` where the two differ; of an
    /// encoder-decoder `{"encoder": […], "decoder": […]}`, cross-attention being of the decoder's
    /// over the encoder's.
    #[serde(default)]
    pub tokens: Value,
    /// By head name, per row: the share of weight that special tokens had, where they are left out.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub lost: Map<String, Value>,
    /// By head name, where query heads share keys and values: the head of those that it reads.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub key_value_heads: Map<String, Value>,
    /// What the reader of the pictures should know, one sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The files beside this one.
    pub files: Vec<String>,
}

impl Manifest {
    /// A manifest of this version, with the rest to be filled in.
    pub fn new(model: impl Into<String>, revision: Option<String>, input: Value) -> Self {
        Self {
            tool: TOOL.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            model: model.into(),
            revision,
            dtype: None,
            input,
            arguments: Map::new(),
            tokens: Value::Null,
            lost: Map::new(),
            key_value_heads: Map::new(),
            notes: Vec::new(),
            files: Vec::new(),
        }
    }

    /// The manifest at `path`, if it is one of ours.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let mut bytes = Vec::new();
        std::fs::File::open(path).ok()?.take(LIMIT).read_to_end(&mut bytes).ok()?;
        serde_json::from_slice::<Self>(&bytes).ok().filter(|manifest| manifest.tool == TOOL)
    }

    /// Whether both are of the same text and model.
    pub(super) fn same_source(&self, other: &Self) -> bool {
        self.source() == other.source()
    }

    fn source(&self) -> (&str, Option<&str>, &Value) {
        (&self.model, self.revision.as_deref(), &self.input)
    }

    /// Tells sources apart in a folder name.
    pub(super) fn hash8(&self) -> String {
        hash8(&serde_json::to_string(&self.source()).unwrap_or_default())
    }

    /// The listed files that can be ours; anything else in the list is not obeyed.
    pub(super) fn own_files(&self) -> BTreeSet<String> {
        self.files.iter().filter(|name| is_own_name(name)).cloned().collect()
    }
}

/// Whether a file name is one that attnviz gives to pictures: `L03H01`, `L03-mean` or `grid`, of an
/// encoder-decoder behind `encoder-`, `decoder-` or `cross-`, or `patch-` and small letters; as `.png`
/// or `.svg`. Never a path.
pub fn is_own_name(name: &str) -> bool {
    let digits = |text: &str| {
        (2..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let Some((stem, "png" | "svg")) = name.rsplit_once('.') else { return false };
    let word = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b"-_".contains(&b))
    };
    if let Some(rest) = stem.strip_prefix("patch-") {
        return word(rest);
    }
    let stem = match stem.split_once('-') {
        Some(("encoder" | "decoder" | "cross", rest)) => rest,
        _ => stem,
    };
    match stem.strip_prefix('L') {
        None => stem == "grid",
        Some(rest) => match (rest.strip_suffix("-mean"), rest.split_once('H')) {
            (Some(layer), _) => digits(layer),
            (None, Some((layer, head))) => digits(layer) && digits(head),
            (None, None) => false,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::is_own_name;

    #[test]
    fn only_names_of_our_pictures_are_ours() {
        assert!(is_own_name("patch-head_output-by-position.png"));
        assert!(!is_own_name("patch-.png") && !is_own_name("patch-../a.png"));
        for name in ["L03H01.png", "L03H01.svg", "L11-mean.png", "grid.png", "L100H12.png"] {
            assert!(is_own_name(&format!("cross-{name}")), "{name}");
            assert!(!is_own_name(&format!("cross-cross-{name}")), "{name}");
            assert!(is_own_name(name), "{name}");
        }
        for name in [
            "",
            ".",
            "..",
            "../L03H01.png",
            "a/grid.png",
            "/grid.png",
            "grid.txt",
            "manifest.json",
            "LH.png",
            "L03H01",
            "L03H01.png/..",
            "notes.png",
            "L-mean.png",
        ] {
            assert!(!is_own_name(name), "{name}");
        }
    }
}
