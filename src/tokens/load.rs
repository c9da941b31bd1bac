//! Tokenizer files → a tokenizer.

use tokenizers::models::bpe::BPE;
use tokenizers::models::unigram::Unigram;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::{
    AddedToken, DecoderWrapper, Model, NormalizerWrapper, PostProcessorWrapper,
    PreTokenizerWrapper, Tokenizer, TokenizerImpl,
};

use super::class::{self, Class, Pieces, SPECIAL, Vocabulary};
use super::ends::around;
use super::settings::Settings;
use super::special::Special;
use super::{byte_level, charsmap, gguf, marian, pieces, wordpiece};
use crate::error::{Error, Result};
use crate::hub::weights::{LFS_POINTER, is_lfs_pointer};
use crate::hub::{Asset, TokenizerFiles};

pub(super) type Inner = Tokenizer;

type Of<M> =
    TokenizerImpl<M, NormalizerWrapper, PreTokenizerWrapper, PostProcessorWrapper, DecoderWrapper>;

pub(super) struct Loaded {
    pub inner: Inner,
    pub special: Special,
    pub notes: Vec<String>,
    /// Ids that are not those of `inner`.
    pub lookup: Option<marian::Lookup>,
    /// Of the side that is written.
    pub target: Option<Box<Loaded>>,
}

pub(super) fn open(files: &TokenizerFiles) -> Result<Loaded> {
    if let Some(asset) = &files.gguf {
        return gguf::open(asset)?.ok_or_else(|| {
            Error::checkpoint(asset.path(), "holds no tokenizer: give one with --tokenizer")
        });
    }
    let mut settings = Settings::read(files)?;
    let mut notes = Vec::new();
    let inner = match &files.json {
        Some(json) => {
            let mut inner = from_json(json, &settings, &mut notes)?;
            let asset = files.added.as_ref().unwrap_or(json);
            for (id, token) in &settings.added {
                if inner.token_to_id(&token.content).is_none() {
                    add(&mut inner, token.clone(), asset)?;
                }
                check(&inner, *id, &token.content, asset)?;
            }
            inner
        }
        None if marian::is_meant(files, settings.class) => {
            let unsaid = settings.class.is_none();
            let from = made(&class::MARIAN, "source.spm and vocab.json", &settings, unsaid);
            return Ok(Loaded { notes: vec![from], ..marian::open(files, &mut settings)? });
        }
        None => from_vocabulary(files, &mut settings, &mut notes)?,
    };
    let special = Special::of(&inner, &settings);
    Ok(Loaded { inner, special, notes, lookup: None, target: None })
}

pub(super) fn read(asset: &Asset) -> Result<std::borrow::Cow<'static, [u8]>> {
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

/// Reads the tokenizer as having a model of this kind at once, not as whichever fits, which takes
/// twice as long.
fn typed<M>(bytes: &[u8]) -> Option<Inner>
where
    M: Model + serde::de::DeserializeOwned,
    Tokenizer: From<Of<M>>,
{
    serde_json::from_slice::<Of<M>>(bytes).ok().map(Tokenizer::from)
}

fn from_json(json: &Asset, settings: &Settings, notes: &mut Vec<String>) -> Result<Inner> {
    let failed = |why: tokenizers::Error| {
        Error::checkpoint(json.path(), format!("not a tokenizer that can be read: {why}"))
    };
    let bytes = read(json)?;
    charsmap::check_json(&bytes).map_err(|why| Error::checkpoint(json.path(), why))?;
    let known = typed::<WordPiece>(&bytes)
        .or_else(|| typed::<BPE>(&bytes))
        .or_else(|| typed::<Unigram>(&bytes));
    let mut inner = match known {
        Some(inner) => inner,
        None => Tokenizer::from_bytes(&bytes).map_err(failed)?,
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
    byte_level::correct(&mut inner, settings, notes);
    Ok(inner)
}

/// The files that a tokenizer is made from where there is no `tokenizer.json`.
enum Source<'a> {
    Words(&'a Asset),
    Merges(&'a Asset, &'a Asset),
    Pieces(&'a Asset),
}

/// Those that the class reads, else those that are there.
fn source<'a>(files: &'a TokenizerFiles, class: Option<&Class>) -> Result<Source<'a>> {
    let words = files.vocab.as_ref().map(Source::Words);
    let merges = files.vocab_json.as_ref().zip(files.merges.as_ref());
    let merges = merges.map(|(vocab, merges)| Source::Merges(vocab, merges));
    let pieces = files.pieces.as_ref().map(Source::Pieces);
    let by_choice = match class.map(|class| class.vocabulary) {
        Some(Vocabulary::ByteLevel) => [merges, words, pieces],
        Some(Vocabulary::Pieces(_)) => [pieces, merges, words],
        _ => [words, merges, pieces],
    };
    by_choice.into_iter().flatten().next().ok_or_else(|| {
        if let Some(vocab) = &files.vocab_json {
            return Error::checkpoint(
                vocab.path(),
                "has no merges.txt beside it, and no source.spm",
            );
        }
        Error::checkpoint(
            "tokenizer.json",
            "the model has no tokenizer.json, no vocab.txt, no vocab.json with merges.txt and no \
             SentencePiece model: give one with --tokenizer",
        )
    })
}

fn from_vocabulary(
    files: &TokenizerFiles,
    settings: &mut Settings,
    notes: &mut Vec<String>,
) -> Result<Inner> {
    let source = source(files, settings.class)?;
    let unsaid = settings.class.is_none();
    let class = match (&source, settings.class) {
        (Source::Words(_), Some(class)) if class.vocabulary == Vocabulary::WordPiece => class,
        (Source::Words(_), _) => &class::BERT,
        (Source::Merges(..), Some(class)) if class.vocabulary == Vocabulary::ByteLevel => class,
        (Source::Merges(..), _) => &class::ROBERTA,
        (Source::Pieces(_), Some(class)) if matches!(class.vocabulary, Vocabulary::Pieces(_)) => {
            class
        }
        (Source::Pieces(_), _) => &class::OWN,
    };
    settings.class = Some(class);
    let (mut inner, asset, extra) = match source {
        Source::Words(vocab) => {
            (wordpiece::read(vocab, class, settings, notes)?, vocab, Vec::new())
        }
        Source::Merges(vocab, merges) => {
            notes.push(made(class, "vocab.json and merges.txt", settings, unsaid));
            (byte_level::read(vocab, merges, settings)?, vocab, Vec::new())
        }
        Source::Pieces(model) => {
            let name = model.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
            notes.push(made(class, &name, settings, unsaid));
            let (inner, extra) = pieces::read(model, class, settings)?;
            (inner, model, extra)
        }
    };
    add_all(&mut inner, files, asset, settings, extra)?;
    let ends = around(class.ends, &inner, asset, settings)?;
    inner.with_post_processor(Some(ends));
    Ok(inner)
}

/// What the tokenizer was made from, and whether anything said which it is.
fn made(class: &Class, from: &str, settings: &Settings, unsaid: bool) -> String {
    let and = if settings.found { ", and tokenizer_config.json" } else { "" };
    let doubt = match unsaid {
        true => "; no tokenizer_class or model_type said which it is",
        false => "",
    };
    match class.vocabulary {
        Vocabulary::Pieces(Pieces::Own) => {
            format!("no tokenizer.json: the tokenizer was made from {from}{and}{doubt}")
        }
        _ => {
            let owner = class.owner;
            format!("no tokenizer.json: {owner}'s tokenizer was made from {from}{and}{doubt}")
        }
    }
}

/// Puts tokens beside the vocabulary: those that were added later, the special ones, and those of
/// a SentencePiece model; in the order of transformers, since the first description counts and
/// new tokens get new ids.
fn add_all(
    inner: &mut Inner,
    files: &TokenizerFiles,
    asset: &Asset,
    settings: &Settings,
    extra: Vec<AddedToken>,
) -> Result<()> {
    let config = files.config.as_ref().filter(|_| files.added.is_none());
    let from = files.added.as_ref().or(config).unwrap_or(asset);
    let special: Vec<AddedToken> = SPECIAL.iter().filter_map(|key| settings.token(key)).collect();
    for (id, token) in &settings.added {
        let named = special.iter().any(|one| one.content == token.content);
        add(inner, token.clone().special(token.special || named), from)?;
        check(inner, *id, &token.content, from)?;
    }
    // Only a SentencePiece model is expected to lack some, such as a mask token.
    let new = !extra.is_empty();
    let known =
        |inner: &Inner, name: &str| inner.get_added_vocabulary().get_vocab().contains_key(name);
    let further = settings.further.iter().cloned();
    for token in special.into_iter().chain(further).chain(extra) {
        let there = inner.token_to_id(&token.content).is_some();
        if (there || new) && !known(inner, &token.content) {
            add(inner, token, asset)?;
        }
    }
    Ok(())
}

pub(super) fn add(inner: &mut Inner, token: AddedToken, asset: &Asset) -> Result<()> {
    let failed = |why: tokenizers::Error| Error::checkpoint(asset.path(), why.to_string());
    inner.add_tokens([token]).map(|_| ()).map_err(failed)
}

/// Checks that an added token has the id that its file gives it.
fn check(inner: &Inner, id: u32, name: &str, asset: &Asset) -> Result<()> {
    let found = match inner.token_to_id(name) {
        Some(found) if found == id => return Ok(()),
        found => found.map_or("none".to_owned(), |found| found.to_string()),
    };
    let why =
        format!("added token `{name}` should have id {id}, but the vocabulary makes it {found}");
    Err(Error::checkpoint(asset.path(), why))
}
