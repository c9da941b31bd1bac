//! Byte-level BPE from `vocab.json` and `merges.txt`.

use std::collections::BTreeMap;

use tokenizers::models::bpe::{BPE, Merges, Vocab};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::processors::roberta::RobertaProcessing;
use tokenizers::{PostProcessorWrapper, PreTokenizerWrapper, Tokenizer};

use super::class::Vocabulary;
use super::load::{Inner, parse, read as read_asset};
use super::settings::Settings;
use crate::error::{Error, Result};
use crate::hub::Asset;

/// The tokenizer of RoBERTa and GPT-2 around a vocabulary; special tokens come later.
pub(super) fn read(vocab: &Asset, merges: &Asset, settings: &Settings) -> Result<Inner> {
    let failed = |why: tokenizers::Error| Error::checkpoint(merges.path(), why.to_string());
    let pieces: Vocab = parse::<BTreeMap<String, u32>>(vocab)?.into_iter().collect();
    let model = BPE::builder()
        .vocab_and_merges(pieces, pairs(merges)?)
        .continuing_subword_prefix(String::new())
        .end_of_word_suffix(String::new())
        .build()
        .map_err(failed)?;
    let mut inner = Tokenizer::new(model);
    let space = settings.space_before.unwrap_or(false);
    inner
        .with_pre_tokenizer(Some(ByteLevel::new(space, true, true)))
        .with_decoder(Some(ByteLevel::default()));
    Ok(inner)
}

/// One merge a line, the two pieces apart; a first line may give the version.
fn pairs(asset: &Asset) -> Result<Merges> {
    let bytes = read_asset(asset)?;
    let text = std::str::from_utf8(&bytes).map_err(|why| {
        Error::checkpoint(asset.path(), format!("expected UTF-8 text, found other bytes: {why}"))
    })?;
    let lines = text.lines().zip(1..).filter(|(line, _)| !line.starts_with("#version"));
    lines
        .filter(|(line, _)| !line.is_empty())
        .map(|(line, number)| match line.split_once(' ') {
            Some((left, right)) if !right.contains(' ') => Ok((left.to_owned(), right.to_owned())),
            _ => {
                let why = format!("line {number}: expected two pieces, found `{line}`");
                Err(Error::checkpoint(asset.path(), why))
            }
        })
        .collect()
}

/// As in transformers, the classes with byte-level BPE take `add_prefix_space` from
/// `tokenizer_config.json`, and false where that is silent, whatever `tokenizer.json` holds.
pub(super) fn correct(inner: &mut Inner, settings: &Settings, notes: &mut Vec<String>) {
    let byte_level = settings.class.is_some_and(|one| one.vocabulary == Vocabulary::ByteLevel);
    let Some(PreTokenizerWrapper::ByteLevel(found)) = inner.get_pre_tokenizer() else { return };
    let wanted = settings.space_before.unwrap_or(false);
    if !byte_level || !settings.overrides || found.add_prefix_space == wanted {
        return;
    }
    let corrected = found.add_prefix_space(wanted);
    inner.with_pre_tokenizer(Some(corrected));
    if let Some(PostProcessorWrapper::Roberta(from)) = inner.get_post_processor() {
        let processor = RobertaProcessing::new(from.get_sep_copy(), from.get_cls_copy())
            .trim_offsets(settings.trim_offsets.unwrap_or(true))
            .add_prefix_space(wanted);
        inner.with_post_processor(Some(processor));
    }
    notes.push(format!(
        "tokenizer_config.json contradicts tokenizer.json and was followed: a space before the \
         text {wanted}"
    ));
}
