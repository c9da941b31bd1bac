//! What `tokenizer_config.json`, `special_tokens_map.json` and `config.json` say.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use tokenizers::AddedToken;
use tokenizers::normalizers::BertNormalizer;

use super::class::{self, Class, SPECIAL};
use super::load::parse;
use crate::error::{Error, Result};
use crate::hub::{Asset, TokenizerFiles};

/// What the files beside the vocabulary say.
#[derive(Debug, Default)]
pub(super) struct Settings {
    /// Whether there is a `tokenizer_config.json`.
    pub found: bool,
    /// The tokenizer's class, if a file names one that is known.
    pub class: Option<&'static Class>,
    pub lower: Option<bool>,
    /// The setting may be absent, or null: as with `lower`.
    pub strip_accents: Option<Option<bool>>,
    pub keep_accents: Option<bool>,
    pub chinese: Option<bool>,
    /// `add_prefix_space`
    pub space_before: Option<bool>,
    pub trim_offsets: Option<bool>,
    pub split_punctuation: bool,
    pub add_bos: bool,
    pub add_eos: bool,
    /// `separate_vocabs` of Marian.
    pub separate: bool,
    /// `extra_ids` of T5.
    pub extra_ids: Option<u64>,
    /// Special tokens by their key, as the files describe them.
    named: BTreeMap<String, AddedToken>,
    /// `additional_special_tokens`, `extra_special_tokens`
    pub further: Vec<AddedToken>,
    /// Tokens with the ids that they must have.
    pub added: BTreeMap<u32, AddedToken>,
    /// Whether the tokenizer is one whose settings count for more than `tokenizer.json`.
    pub overrides: bool,
}

impl Settings {
    pub fn read(files: &TokenizerFiles) -> Result<Self> {
        let mut settings = Self::default();
        let mut class = None;
        if let Some(asset) = &files.config {
            let raw: BTreeMap<String, Value> = parse(asset)?;
            settings.found = true;
            class = raw.get("tokenizer_class").and_then(Value::as_str).map(str::to_owned);
            settings.overrides =
                !matches!(class.as_deref(), Some("PreTrainedTokenizerFast" | "TokenizersBackend"));
            settings.take_flags(asset, &raw)?;
            settings.take_names(&raw);
            if let Some(added) = raw.get("added_tokens_decoder") {
                settings.take_added(asset, added)?;
            }
        }
        // As transformers does: what `added_tokens_decoder` is there for, the map need not say.
        if let Some(asset) = files.special.as_ref().filter(|_| settings.added.is_empty()) {
            settings.take_names(&parse::<BTreeMap<String, Value>>(asset)?);
        }
        settings.class = match class.and_then(|class| class::named(&class)) {
            None => of_model(files),
            class => class,
        };
        if let Some(asset) = files.added.as_ref().filter(|_| settings.added.is_empty()) {
            settings.take_legacy(parse(asset)?);
        }
        Ok(settings)
    }

    fn take_flags(&mut self, asset: &Asset, raw: &BTreeMap<String, Value>) -> Result<()> {
        let flag = |key: &str| flag(asset, raw, key);
        self.lower = flag("do_lower_case")?;
        let accents = flag("strip_accents")?;
        self.strip_accents = raw.contains_key("strip_accents").then_some(accents);
        self.keep_accents = flag("keep_accents")?;
        self.chinese = flag("tokenize_chinese_chars")?;
        self.space_before = flag("add_prefix_space")?;
        self.trim_offsets = flag("trim_offsets")?;
        self.split_punctuation = flag("split_by_punct")?.unwrap_or(false);
        self.add_bos = flag("add_bos_token")?.unwrap_or(false);
        self.add_eos = flag("add_eos_token")?.unwrap_or(false);
        self.separate = flag("separate_vocabs")?.unwrap_or(false);
        self.extra_ids =
            match raw.get("extra_ids") {
                None | Some(Value::Null) => None,
                Some(value) => Some(value.as_u64().filter(|&n| n <= 100_000).ok_or_else(|| {
                    wrong(asset, "extra_ids", "a whole number up to 100000", value)
                })?),
            };
        Ok(())
    }

    fn take_names(&mut self, raw: &BTreeMap<String, Value>) {
        for key in SPECIAL {
            if let Some(token) = raw.get(key).and_then(token) {
                self.named.insert(key.to_owned(), token);
            }
        }
        for key in ["additional_special_tokens", "extra_special_tokens"] {
            let list = raw.get(key).and_then(Value::as_array).into_iter().flatten();
            self.further.extend(list.filter_map(token));
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

    /// `added_tokens.json` says less: a token is special if another file calls it so by name.
    fn take_legacy(&mut self, by_name: BTreeMap<String, u32>) {
        let names: Vec<String> = SPECIAL.iter().filter_map(|key| self.name(key)).collect();
        for (name, id) in by_name {
            let said = self.named.values().chain(&self.further).any(|token| token.content == name);
            let mut token = AddedToken::from(name, said);
            token.special |= names.contains(&token.content);
            self.added.insert(id, token);
        }
    }

    /// The name of a special token: what the files say, else the class's own.
    pub fn name(&self, key: &str) -> Option<String> {
        self.token(key).map(|token| token.content)
    }

    /// A special token by its key.
    pub fn token(&self, key: &str) -> Option<AddedToken> {
        if let Some(token) = self.named.get(key) {
            return Some(token.clone());
        }
        let class = self.class?;
        let (_, name) = SPECIAL.iter().zip(class.names).find(|(one, _)| **one == key)?;
        let strips = class.mask_strips && key == "mask_token";
        (!name.is_empty()).then(|| AddedToken::from(name, true).lstrip(strips))
    }

    /// Gives a special token a name unless it has one.
    pub fn call(&mut self, key: &str, name: &str) {
        if !name.is_empty() && self.token(key).is_none() {
            self.named.insert(key.to_owned(), AddedToken::from(name, true));
        }
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
}

/// The class by `config.json`, whose models have a tokenizer of their own.
fn of_model(files: &TokenizerFiles) -> Option<&'static Class> {
    #[derive(Deserialize)]
    struct Config {
        tokenizer_class: Option<Value>,
        model_type: Option<Value>,
    }
    // one that cannot be read is reported where the model is opened
    let config: Config = parse(files.model.as_ref()?).ok()?;
    let text = |value: Option<Value>| value.as_ref().and_then(Value::as_str).map(str::to_owned);
    let class = text(config.tokenizer_class).and_then(|class| class::named(&class));
    class.or_else(|| class::of_model(&text(config.model_type)?))
}

/// A special token: its name, or an object with its name and how it takes the spaces beside it.
fn token(value: &Value) -> Option<AddedToken> {
    let (name, from) = match value {
        Value::String(name) => (name, None),
        Value::Object(token) => (
            match token.get("content") {
                Some(Value::String(name)) => name,
                _ => return None,
            },
            Some(token),
        ),
        _ => return None,
    };
    let flag = |key: &str| from.and_then(|token| token.get(key)?.as_bool()).unwrap_or(false);
    Some(
        AddedToken::from(name, true)
            .lstrip(flag("lstrip"))
            .rstrip(flag("rstrip"))
            .single_word(flag("single_word"))
            .normalized(flag("normalized")),
    )
}

/// A setting that is true, false, or absent (null).
fn flag(asset: &Asset, raw: &BTreeMap<String, Value>, key: &str) -> Result<Option<bool>> {
    match raw.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(value)) => Ok(Some(*value)),
        Some(other) => Err(wrong(asset, key, "true, false or null", other)),
    }
}

fn wrong(asset: &Asset, key: &str, want: &str, found: &Value) -> Error {
    Error::Config {
        path: asset.path().to_path_buf(),
        key: key.to_owned(),
        want: want.into(),
        found: found.to_string(),
    }
}
