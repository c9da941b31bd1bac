//! What `tokenizer_config.json` and `special_tokens_map.json` say.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use tokenizers::AddedToken;
use tokenizers::normalizers::BertNormalizer;

use super::load::parse;
use crate::error::{Error, Result};
use crate::hub::{Asset, TokenizerFiles};

/// Names of the special tokens in `tokenizer_config.json`, and BERT's own.
pub(super) const SPECIAL_NAMES: [(&str, &str); 5] = [
    ("pad_token", "[PAD]"),
    ("unk_token", "[UNK]"),
    ("cls_token", "[CLS]"),
    ("sep_token", "[SEP]"),
    ("mask_token", "[MASK]"),
];

/// What `tokenizer_config.json` and `special_tokens_map.json` say.
#[derive(Debug, Default)]
pub(super) struct Settings {
    found: bool,
    pub lower: Option<bool>,
    /// The setting may be absent, or null: as with `lower`.
    pub strip_accents: Option<Option<bool>>,
    pub chinese: Option<bool>,
    names: BTreeMap<String, String>,
    pub added: BTreeMap<u32, AddedToken>,
    /// Whether the tokenizer is one whose settings count for more than `tokenizer.json`.
    pub overrides: bool,
}

impl Settings {
    pub fn read(files: &TokenizerFiles) -> Result<Self> {
        let mut settings = Self::default();
        if let Some(asset) = &files.special {
            settings.take_names(&parse::<BTreeMap<String, Value>>(asset)?);
        }
        if let Some(asset) = &files.config {
            let raw: BTreeMap<String, Value> = parse(asset)?;
            settings.found = true;
            let class = raw.get("tokenizer_class").and_then(Value::as_str).unwrap_or_default();
            settings.overrides = !matches!(class, "PreTrainedTokenizerFast" | "TokenizersBackend");
            settings.take_names(&raw);
            settings.lower = flag(asset, &raw, "do_lower_case")?;
            let accents = flag(asset, &raw, "strip_accents")?;
            settings.strip_accents = raw.contains_key("strip_accents").then_some(accents);
            settings.chinese = flag(asset, &raw, "tokenize_chinese_chars")?;
            if let Some(added) = raw.get("added_tokens_decoder") {
                settings.take_added(asset, added)?;
            }
        }
        Ok(settings)
    }

    fn take_names(&mut self, raw: &BTreeMap<String, Value>) {
        for (key, _) in SPECIAL_NAMES {
            let name = match raw.get(key) {
                Some(Value::String(name)) => name,
                Some(Value::Object(token)) => match token.get("content") {
                    Some(Value::String(name)) => name,
                    _ => continue,
                },
                _ => continue,
            };
            self.names.insert(key.to_owned(), name.clone());
        }
    }

    fn take_added(&mut self, asset: &Asset, raw: &Value) -> Result<()> {
        let by_id = BTreeMap::<String, AddedToken>::deserialize(raw).map_err(|why| {
            Error::checkpoint(asset.path(), format!("`added_tokens_decoder`: {why}"))
        })?;
        for (id, token) in by_id {
            let id = id.parse().map_err(|_| Error::Config {
                path: asset.path().to_path_buf(),
                key: "added_tokens_decoder".into(),
                want: "token ids as keys".into(),
                found: format!("`{id}`"),
            })?;
            self.added.insert(id, token);
        }
        Ok(())
    }

    pub fn name(&self, key: &str, default: &str) -> String {
        self.names.get(key).map_or(default, String::as_str).to_owned()
    }

    /// BERT's normalizer for a vocabulary that has none written down.
    pub fn normalizer(&self) -> BertNormalizer {
        BertNormalizer::new(
            true,
            self.chinese.unwrap_or(true),
            self.strip_accents.flatten(),
            self.lower.unwrap_or(true),
        )
    }

    /// The normalizer of `tokenizer.json` with the settings that contradict it, as transformers'
    /// BERT tokenizer takes them; `None` where there are none.
    pub fn corrected(&self, from: &BertNormalizer) -> Option<BertNormalizer> {
        let corrected = BertNormalizer::new(
            from.clean_text,
            self.chinese.unwrap_or(from.handle_chinese_chars),
            self.strip_accents.unwrap_or(from.strip_accents),
            self.lower.unwrap_or(from.lowercase),
        );
        let key = |n: &BertNormalizer| (n.handle_chinese_chars, n.strip_accents, n.lowercase);
        (self.overrides && key(&corrected) != key(from)).then_some(corrected)
    }

    /// Notes what the tokenizer was made from and what had to be assumed.
    pub fn say_assumed(&self, capitals: bool, notes: &mut Vec<String>) {
        let from = if self.found {
            "no tokenizer.json: BERT's tokenizer was made from vocab.txt and tokenizer_config.json"
        } else {
            "no tokenizer.json: BERT's tokenizer was made from vocab.txt"
        };
        notes.push(from.to_owned());
        if self.lower.is_none() {
            let doubt = if capitals {
                ", although the vocabulary has pieces with capitals (\"do_lower_case\": false in \
                 tokenizer_config.json would keep them)"
            } else {
                ""
            };
            notes.push(format!("assumed lower-cased text, as BERT's default is{doubt}"));
        }
    }
}

/// A setting that is true, false, or absent (null).
fn flag(asset: &Asset, raw: &BTreeMap<String, Value>, key: &str) -> Result<Option<bool>> {
    match raw.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(value)) => Ok(Some(*value)),
        Some(other) => Err(Error::Config {
            path: asset.path().to_path_buf(),
            key: key.to_owned(),
            want: "true, false or null".into(),
            found: other.to_string(),
        }),
    }
}
