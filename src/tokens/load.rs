//! Tokenizer files → a tokenizer.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::BertNormalizer;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::processors::template::TemplateProcessing;
use tokenizers::{
    AddedToken, DecoderWrapper, Model, ModelWrapper, NormalizerWrapper, PostProcessorWrapper,
    PreTokenizerWrapper, Tokenizer, TokenizerImpl,
};

use crate::error::{Error, Result};
use crate::hub::local::{LFS_POINTER, is_lfs_pointer};
use crate::hub::{Asset, TokenizerFiles};

pub(super) type Inner = Tokenizer;

type WordPieceTokenizer = TokenizerImpl<
    WordPiece,
    NormalizerWrapper,
    PreTokenizerWrapper,
    PostProcessorWrapper,
    DecoderWrapper,
>;

/// Ids with a meaning of their own, where the vocabulary has them.
#[derive(Debug, Clone, Default)]
pub(super) struct Special {
    pub unknown: Option<u32>,
    pub cls: Option<u32>,
    pub sep: Option<u32>,
    pub pad: Option<u32>,
    pub mask: Option<u32>,
    /// What a piece that continues a word starts with.
    pub prefix: Option<String>,
}

pub(super) struct Loaded {
    pub inner: Inner,
    pub special: Special,
    pub notes: Vec<String>,
}

pub(super) fn open(files: &TokenizerFiles) -> Result<Loaded> {
    let settings = Settings::read(files)?;
    let mut notes = Vec::new();
    let mut inner = match (&files.json, &files.vocab) {
        (Some(json), _) => from_json(json)?,
        (None, Some(vocab)) => from_vocab(vocab, &settings, &mut notes)?,
        (None, None) => {
            return Err(Error::checkpoint(
                "tokenizer.json",
                "the model has no tokenizer.json and no vocab.txt: give one with --tokenizer",
            ));
        }
    };
    add_tokens(&mut inner, files, &settings)?;
    let special = special(&inner, &settings);
    Ok(Loaded { inner, special, notes })
}

fn read(asset: &Asset) -> Result<std::borrow::Cow<'static, [u8]>> {
    let bytes = asset.bytes()?;
    if is_lfs_pointer(&bytes) {
        return Err(Error::checkpoint(asset.path(), LFS_POINTER));
    }
    Ok(bytes)
}

fn parse<T: serde::de::DeserializeOwned>(asset: &Asset) -> Result<T> {
    serde_json::from_slice(&read(asset)?)
        .map_err(|why| Error::checkpoint(asset.path(), format!("not as expected: {why}")))
}

fn from_json(json: &Asset) -> Result<Inner> {
    let failed = |why: tokenizers::Error| {
        Error::checkpoint(json.path(), format!("not a tokenizer that can be read: {why}"))
    };
    let bytes = read(json)?;
    // Read as WordPiece at once, not as whichever model fits, which takes twice as long.
    let mut inner = match serde_json::from_slice::<WordPieceTokenizer>(&bytes) {
        Ok(tokenizer) => Tokenizer::from(tokenizer),
        Err(_) => Tokenizer::from_bytes(&bytes).map_err(failed)?,
    };
    // What was typed is what is shown: no rows of padding, none lost without being asked.
    inner.with_padding(None);
    inner.with_truncation(None).map_err(failed)?;
    Ok(inner)
}

/// BERT's tokenizer around a vocabulary, one piece a line.
fn from_vocab(asset: &Asset, settings: &Settings, notes: &mut Vec<String>) -> Result<Inner> {
    let failed = |why: String| Error::checkpoint(asset.path(), why);
    let bytes = read(asset)?;
    let text = std::str::from_utf8(&bytes)
        .map_err(|why| failed(format!("expected UTF-8 text, found other bytes: {why}")))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut vocab = WordPiece::read_bytes(b"").map_err(|why| failed(why.to_string()))?;
    for (line, id) in text.lines().zip(0u32..) {
        vocab.insert(line.trim_end_matches('\r').to_owned(), id);
    }
    let id = |name: &str| {
        let why = format!("the special token `{name}` is not among its {} pieces", vocab.len());
        vocab.get(name).copied().ok_or_else(|| failed(why))
    };
    let (cls, sep) = (settings.name("cls_token", "[CLS]"), settings.name("sep_token", "[SEP]"));
    let unknown = settings.name("unk_token", "[UNK]");
    id(&unknown)?;
    let ids = vec![(cls.clone(), id(&cls)?), (sep.clone(), id(&sep)?)];
    let template = TemplateProcessing::builder()
        .try_single(format!("{cls}:0 $A:0 {sep}:0"))
        .and_then(|builder| builder.try_pair(format!("{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1")))
        .map_err(|why| failed(why.to_string()))?
        .special_tokens(ids)
        .build()
        .map_err(|why| failed(why.to_string()))?;
    settings.say_assumed(vocab.keys().any(|piece| has_capitals(piece)), notes);
    let model = WordPiece::builder().vocab(vocab).unk_token(unknown).build();
    let mut inner = Tokenizer::new(model.map_err(|why| failed(why.to_string()))?);
    inner
        .with_normalizer(Some(BertNormalizer::new(
            true,
            settings.chinese.unwrap_or(true),
            settings.strip_accents,
            settings.lower.unwrap_or(true),
        )))
        .map_err(|why| failed(why.to_string()))?
        .with_pre_tokenizer(Some(BertPreTokenizer))
        .with_post_processor(Some(template));
    Ok(inner)
}

/// An ordinary piece with a capital letter; `[CLS]` and its like are not.
fn has_capitals(piece: &str) -> bool {
    !piece.starts_with(['[', '<']) && piece.chars().any(char::is_uppercase)
}

/// Puts tokens beside the vocabulary: the special ones, and those that were added later.
fn add_tokens(inner: &mut Inner, files: &TokenizerFiles, settings: &Settings) -> Result<()> {
    let failed = |why: String| {
        let asset = files.added.as_ref().or(files.json.as_ref()).or(files.vocab.as_ref());
        Error::checkpoint(asset.map_or("tokenizer.json".as_ref(), Asset::path), why)
    };
    if files.json.is_none() {
        let special = SPECIAL_NAMES
            .iter()
            .map(|(key, name)| settings.name(key, name))
            .filter(|name| inner.token_to_id(name).is_some())
            .map(|name| AddedToken::from(name, true))
            .collect::<Vec<_>>();
        inner.add_special_tokens(special).map_err(|why| failed(why.to_string()))?;
    }
    let mut added = settings.added.clone();
    if let Some(asset) = &files.added {
        let by_name: BTreeMap<String, u32> = parse(asset)?;
        for (name, id) in by_name {
            added.entry(id).or_insert_with(|| AddedToken::from(name, false));
        }
    }
    for (id, token) in added {
        let name = token.content.clone();
        if inner.token_to_id(&name).is_none() {
            inner.add_tokens([token]).map_err(|why| failed(why.to_string()))?;
        }
        match inner.token_to_id(&name) {
            Some(found) if found == id => {}
            found => {
                let found = found.map_or("none".to_owned(), |found| found.to_string());
                return Err(failed(format!(
                    "added token `{name}` should have id {id}, but the vocabulary makes it {found}"
                )));
            }
        }
    }
    Ok(())
}

/// Names of the special tokens in `tokenizer_config.json`, and BERT's own.
const SPECIAL_NAMES: [(&str, &str); 5] = [
    ("pad_token", "[PAD]"),
    ("unk_token", "[UNK]"),
    ("cls_token", "[CLS]"),
    ("sep_token", "[SEP]"),
    ("mask_token", "[MASK]"),
];

fn special(inner: &Inner, settings: &Settings) -> Special {
    let id = |key: &str, name: &str| inner.token_to_id(&settings.name(key, name));
    let mut special = Special {
        unknown: id("unk_token", "[UNK]"),
        cls: id("cls_token", "[CLS]"),
        sep: id("sep_token", "[SEP]"),
        pad: id("pad_token", "[PAD]"),
        mask: id("mask_token", "[MASK]"),
        prefix: None,
    };
    if let ModelWrapper::WordPiece(model) = inner.get_model() {
        special.unknown = model.token_to_id(&model.unk_token);
        special.prefix = Some(model.continuing_subword_prefix.clone());
    }
    special
}

/// What `tokenizer_config.json` and `special_tokens_map.json` say.
#[derive(Debug, Default)]
struct Settings {
    found: bool,
    lower: Option<bool>,
    strip_accents: Option<bool>,
    chinese: Option<bool>,
    names: BTreeMap<String, String>,
    added: BTreeMap<u32, AddedToken>,
}

impl Settings {
    fn read(files: &TokenizerFiles) -> Result<Self> {
        let mut settings = Self::default();
        if let Some(asset) = &files.special {
            settings.take_names(&parse::<BTreeMap<String, Value>>(asset)?);
        }
        if let Some(asset) = &files.config {
            let raw: BTreeMap<String, Value> = parse(asset)?;
            settings.found = true;
            settings.take_names(&raw);
            settings.lower = flag(asset, &raw, "do_lower_case")?;
            settings.strip_accents = flag(asset, &raw, "strip_accents")?;
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

    fn name(&self, key: &str, default: &str) -> String {
        self.names.get(key).map_or(default, String::as_str).to_owned()
    }

    fn say_assumed(&self, capitals: bool, notes: &mut Vec<String>) {
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
