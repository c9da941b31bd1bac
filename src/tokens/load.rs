//! Tokenizer files → a tokenizer.

use std::collections::BTreeMap;

use tokenizers::models::wordpiece::WordPiece;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::processors::template::TemplateProcessing;
use tokenizers::{
    AddedToken, DecoderWrapper, Model, ModelWrapper, NormalizerWrapper, PostProcessorWrapper,
    PreTokenizerWrapper, Tokenizer, TokenizerImpl,
};

use super::settings::{SPECIAL_NAMES, Settings};
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
        (Some(json), _) => from_json(json, &settings, &mut notes)?,
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

pub(super) fn parse<T: serde::de::DeserializeOwned>(asset: &Asset) -> Result<T> {
    serde_json::from_slice(&read(asset)?)
        .map_err(|why| Error::checkpoint(asset.path(), format!("not as expected: {why}")))
}

fn from_json(json: &Asset, settings: &Settings, notes: &mut Vec<String>) -> Result<Inner> {
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
    let corrected = match inner.get_normalizer() {
        Some(NormalizerWrapper::BertNormalizer(normalizer)) => settings.corrected(normalizer),
        _ => None,
    };
    if let Some(normalizer) = corrected {
        notes.push(format!(
            "tokenizer_config.json contradicts tokenizer.json and was followed: lower-casing {}, \
             stripping accents {}, Chinese characters apart {}",
            normalizer.lowercase,
            normalizer.strip_accents.unwrap_or(normalizer.lowercase),
            normalizer.handle_chinese_chars
        ));
        inner.with_normalizer(Some(normalizer)).map_err(failed)?;
    }
    Ok(inner)
}

/// BERT's tokenizer around a vocabulary, one piece a line.
fn from_vocab(asset: &Asset, settings: &Settings, notes: &mut Vec<String>) -> Result<Inner> {
    let failed = |why: tokenizers::Error| Error::checkpoint(asset.path(), why.to_string());
    let bytes = read(asset)?;
    let text = std::str::from_utf8(&bytes).map_err(|why| {
        Error::checkpoint(asset.path(), format!("expected UTF-8 text, found other bytes: {why}"))
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut vocab = WordPiece::read_bytes(b"").map_err(failed)?;
    for (line, id) in text.lines().zip(0u32..) {
        vocab.insert(line.to_owned(), id);
    }
    settings.say_assumed(vocab.keys().any(|piece| has_capitals(piece)), notes);
    let unknown = settings.name("unk_token", "[UNK]");
    let model = WordPiece::builder().vocab(vocab).unk_token(unknown.clone()).build();
    let mut inner = Tokenizer::new(model.map_err(failed)?);
    required(&inner, asset, &unknown)?;
    let template = template(&inner, asset, settings)?;
    inner
        .with_normalizer(Some(settings.normalizer()))
        .map_err(failed)?
        .with_pre_tokenizer(Some(BertPreTokenizer))
        .with_post_processor(Some(template));
    Ok(inner)
}

/// `[CLS] A [SEP]` and `[CLS] A [SEP] B [SEP]`, under the names that the settings give them.
fn template(inner: &Inner, asset: &Asset, settings: &Settings) -> Result<TemplateProcessing> {
    let failed = |why: String| Error::checkpoint(asset.path(), why);
    let (cls, sep) = (settings.name("cls_token", "[CLS]"), settings.name("sep_token", "[SEP]"));
    let ids = [&cls, &sep].map(|name| required(inner, asset, name).map(|id| (name.clone(), id)));
    TemplateProcessing::builder()
        .try_single(format!("{cls}:0 $A:0 {sep}:0"))
        .and_then(|builder| builder.try_pair(format!("{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1")))
        .map_err(failed)?
        .special_tokens(ids.into_iter().collect::<Result<Vec<_>>>()?)
        .build()
        .map_err(|why| failed(why.to_string()))
}

fn required(inner: &Inner, asset: &Asset, name: &str) -> Result<u32> {
    inner.token_to_id(name).ok_or_else(|| {
        let pieces = inner.get_vocab_size(false);
        let why = format!("the special token `{name}` is not among its {pieces} pieces");
        Error::checkpoint(asset.path(), why)
    })
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
    added.into_iter().try_for_each(|(id, token)| add(inner, id, token).map_err(failed))
}

/// Adds one token, which must come out with the id that its file gives it.
fn add(inner: &mut Inner, id: u32, token: AddedToken) -> Result<(), String> {
    let name = token.content.clone();
    if inner.token_to_id(&name).is_none() {
        inner.add_tokens([token]).map_err(|why| why.to_string())?;
    }
    match inner.token_to_id(&name) {
        Some(found) if found == id => Ok(()),
        found => {
            let found = found.map_or("none".to_owned(), |found| found.to_string());
            Err(format!(
                "added token `{name}` should have id {id}, but the vocabulary makes it {found}"
            ))
        }
    }
}

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
