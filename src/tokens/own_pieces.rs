//! A SentencePiece model taken at its word, where no class says otherwise.

use std::collections::HashMap;

use tokenizers::decoders::byte_fallback::ByteFallback;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::sequence::Sequence as Decoders;
use tokenizers::decoders::strip::Strip;
use tokenizers::models::bpe::{BPE, Merges};
use tokenizers::models::unigram::Unigram;
use tokenizers::normalizers::Sequence as Normalizers;
use tokenizers::normalizers::replace::{Replace, ReplacePattern};
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::tokenizer::SplitDelimiterBehavior;
use tokenizers::{AddedToken, DecoderWrapper, NormalizerWrapper, PreTokenizerWrapper, Tokenizer};

use super::charsmap;
use super::load::Inner;
use super::pieces::{Model, NORMAL, Normalizer, Trainer, USER_DEFINED, replace};
use super::settings::Settings;

/// Encodes as SentencePiece itself would, by the settings in the model.
pub(super) fn build(
    model: &Model,
    settings: &mut Settings,
) -> Result<(Inner, Vec<AddedToken>), String> {
    let failed = |why: tokenizers::Error| why.to_string();
    let trainer = model.trainer.clone().unwrap_or_default();
    let spec = model.normalizer.clone().unwrap_or_default();
    let own = [
        ("bos_token", trainer.bos_id(), trainer.bos_piece()),
        ("eos_token", trainer.eos_id(), trainer.eos_piece()),
        ("unk_token", trainer.unk_id(), trainer.unk_piece()),
    ];
    own.iter().filter(|(_, id, _)| *id >= 0).for_each(|(key, _, name)| settings.call(key, name));
    let mut inner = match trainer.model_type() {
        1 => unigram(model, &trainer),
        2 => bpe(model, &trainer),
        other => Err(format!("expected a Unigram or BPE model, found kind {other}")),
    }?;
    let normalizer = Normalizers::new(normalizers(&spec)?);
    inner.with_normalizer(Some(normalizer)).map_err(failed)?;
    let steps = pre_tokenizers(model, &spec)?;
    if !steps.is_empty() {
        inner.with_pre_tokenizer(Some(Sequence::new(steps)));
    }
    inner.with_decoder(Some(decoder(&trainer, &spec)?));
    // pieces that the user defined come out whole by the pre-tokenizer
    let extra = model.beside().into_iter().filter(|token| token.special).collect();
    Ok((inner, extra))
}

fn unigram(model: &Model, trainer: &Trainer) -> Result<Inner, String> {
    let unknown = usize::try_from(trainer.unk_id()).ok();
    Unigram::from(model.scores(), unknown, trainer.byte_fallback())
        .map(Tokenizer::new)
        .map_err(|why| why.to_string())
}

fn bpe(model: &Model, trainer: &Trainer) -> Result<Inner, String> {
    let ids = model.pieces.iter().zip(0u32..);
    let vocabulary = ids.map(|(piece, id)| (piece.piece().to_owned(), id)).collect();
    let whole = model.pieces.iter().any(|piece| piece.kind() == USER_DEFINED);
    BPE::builder()
        .vocab_and_merges::<tokenizers::models::bpe::Vocab>(vocabulary, merges(model))
        .unk_token(trainer.unk_piece().to_owned())
        .fuse_unk(true)
        .byte_fallback(trainer.byte_fallback())
        .ignore_merges(whole)
        .build()
        .map(Tokenizer::new)
        .map_err(|why| why.to_string())
}

/// Two pieces merge when what they make is a piece, the best score first.
fn merges(model: &Model) -> Merges {
    let normal: HashMap<&str, (f32, usize)> = model
        .pieces
        .iter()
        .enumerate()
        .filter(|(_, piece)| piece.kind() == NORMAL)
        .map(|(id, piece)| (piece.piece(), (piece.score(), id)))
        .collect();
    let mut ranked = Vec::new();
    for (whole, &(score, id)) in &normal {
        for (at, _) in whole.char_indices().skip(1) {
            let (left, right) = whole.split_at(at);
            if normal.contains_key(left) && normal.contains_key(right) {
                ranked.push((score, id, left, right));
            }
        }
    }
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2, a.3).cmp(&(b.1, b.2, b.3))));
    ranked.into_iter().map(|(_, _, left, right)| (left.to_owned(), right.to_owned())).collect()
}

/// In SentencePiece's order. Only spaces count: other whitespace stays.
fn normalizers(spec: &Normalizer) -> Result<Vec<NormalizerWrapper>, String> {
    let regex = |pattern: &str| ReplacePattern::Regex(pattern.into());
    let mut steps = Vec::new();
    if !spec.charsmap().is_empty() {
        steps.push(charsmap::read(spec.charsmap())?.into());
    }
    if spec.remove_extra() {
        steps.push(replace(regex(r"\A +| +\z"), "")?);
        steps.push(replace(regex(" {2,}"), " ")?);
    }
    if spec.escape() {
        steps.push(replace(" ", "▁")?);
    }
    if spec.dummy_prefix() {
        // Metaspace leaves the prefix out where the text begins with one, SentencePiece does not
        steps.push(replace(regex(r"\A▁"), "▁▁")?);
    }
    Ok(steps)
}

fn pre_tokenizers(model: &Model, spec: &Normalizer) -> Result<Vec<PreTokenizerWrapper>, String> {
    let mut steps: Vec<PreTokenizerWrapper> = Vec::new();
    if spec.dummy_prefix() {
        steps.push(Metaspace::new('▁', PrependScheme::Always, false).into());
    }
    let defined = model.pieces.iter().filter(|piece| piece.kind() == USER_DEFINED);
    let mut defined: Vec<&str> = defined.map(|piece| piece.piece()).collect();
    defined.sort_by_key(|piece| std::cmp::Reverse(piece.chars().count()));
    if !defined.is_empty() {
        let pattern = defined.into_iter().map(escaped).collect::<Vec<_>>().join("|");
        let isolated = SplitDelimiterBehavior::Isolated;
        let split = Split::new(SplitPattern::Regex(pattern), isolated, false);
        steps.push(split.map_err(|why| why.to_string())?.into());
    }
    Ok(steps)
}

/// The other way: spaces back, bytes to characters, and the first space away that was put there.
fn decoder(trainer: &Trainer, spec: &Normalizer) -> Result<Decoders, String> {
    let spaces = Replace::new("▁", " ").map_err(|why| why.to_string())?;
    let mut steps: Vec<DecoderWrapper> = vec![spaces.into()];
    if trainer.byte_fallback() {
        steps.push(ByteFallback::default().into());
    }
    steps.push(Fuse::default().into());
    if spec.dummy_prefix() {
        steps.push(Strip::new(' ', 1, 0).into());
    }
    Ok(Decoders::new(steps))
}

/// As a pattern that matches itself alone.
fn escaped(piece: &str) -> String {
    let mut pattern = String::with_capacity(piece.len());
    for c in piece.chars() {
        if c.is_ascii_punctuation() {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}
