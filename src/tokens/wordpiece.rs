//! WordPiece from `vocab.txt`.

use tokenizers::Tokenizer;
use tokenizers::decoders::wordpiece::WordPiece as Decoder;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;

use super::class::Class;
use super::ends::required;
use super::load::{Inner, read as read_asset};
use super::settings::Settings;
use crate::error::{Error, Result};
use crate::hub::Asset;

/// BERT's tokenizer around a vocabulary, one piece a line; special tokens come later.
pub(super) fn read(
    asset: &Asset,
    class: &Class,
    settings: &Settings,
    notes: &mut Vec<String>,
) -> Result<Inner> {
    let failed = |why: tokenizers::Error| Error::checkpoint(asset.path(), why.to_string());
    let bytes = read_asset(asset)?;
    let text = std::str::from_utf8(&bytes).map_err(|why| {
        Error::checkpoint(asset.path(), format!("expected UTF-8 text, found other bytes: {why}"))
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut vocab = WordPiece::read_bytes(b"").map_err(failed)?;
    for (line, id) in text.lines().zip(0u32..) {
        vocab.insert(line.to_owned(), id);
    }
    say_assumed(class, settings, vocab.keys().any(|piece| has_capitals(piece)), notes);
    let unknown = settings.name("unk_token").unwrap_or_default();
    let model = WordPiece::builder().vocab(vocab).unk_token(unknown.clone()).build();
    let mut inner = Tokenizer::new(model.map_err(failed)?);
    required(&inner, asset, &unknown)?;
    inner
        .with_normalizer(Some(settings.normalizer()))
        .map_err(failed)?
        .with_pre_tokenizer(Some(BertPreTokenizer))
        .with_decoder(Some(Decoder::default()));
    Ok(inner)
}

/// An ordinary piece with a capital letter; `[CLS]` and its like are not.
fn has_capitals(piece: &str) -> bool {
    !piece.starts_with(['[', '<']) && piece.chars().any(char::is_uppercase)
}

/// Notes what the tokenizer was made from and what had to be assumed.
fn say_assumed(class: &Class, settings: &Settings, capitals: bool, notes: &mut Vec<String>) {
    let owner = class.owner;
    let and = if settings.found { " and tokenizer_config.json" } else { "" };
    notes.push(format!("no tokenizer.json: {owner}'s tokenizer was made from vocab.txt{and}"));
    if settings.lower.is_none() {
        let doubt = if capitals {
            ", although the vocabulary has pieces with capitals (\"do_lower_case\": false in \
             tokenizer_config.json would keep them)"
        } else {
            ""
        };
        notes.push(format!("assumed lower-cased text, as {owner}'s default is{doubt}"));
    }
}
