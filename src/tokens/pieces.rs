//! SentencePiece models: the file, and the tokenizers that transformers makes of it by class.

use prost::Message;
use tokenizers::models::unigram::Unigram;
use tokenizers::normalizers::replace::ReplacePattern;
use tokenizers::normalizers::{
    Lowercase, NFC, NFKD, Replace, Sequence as Normalizers, Strip, StripAccents,
};
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::pre_tokenizers::punctuation::Punctuation;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::whitespace::WhitespaceSplit;
use tokenizers::tokenizer::SplitDelimiterBehavior;
use tokenizers::{AddedToken, NormalizerWrapper, PreTokenizerWrapper, Tokenizer};

use super::class::{Class, Pieces, Vocabulary};
use super::load::{Inner, read as read_asset};
use super::settings::Settings;
use super::{charsmap, own_pieces};
use crate::error::{Error, Result};
use crate::hub::Asset;

/// The parts of `sentencepiece_model.proto` that matter here.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Model {
    #[prost(message, repeated, tag = "1")]
    pub pieces: Vec<Piece>,
    #[prost(message, optional, tag = "2")]
    pub trainer: Option<Trainer>,
    #[prost(message, optional, tag = "3")]
    pub normalizer: Option<Normalizer>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Piece {
    #[prost(string, optional, tag = "1")]
    pub piece: Option<String>,
    #[prost(float, optional, tag = "2")]
    pub score: Option<f32>,
    #[prost(int32, optional, tag = "3", default = "1")]
    pub kind: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Trainer {
    /// 1 Unigram, 2 BPE, 3 whole words, 4 characters.
    #[prost(int32, optional, tag = "3", default = "1")]
    pub model_type: Option<i32>,
    #[prost(bool, optional, tag = "35", default = "false")]
    pub byte_fallback: Option<bool>,
    #[prost(int32, optional, tag = "40", default = "0")]
    pub unk_id: Option<i32>,
    #[prost(int32, optional, tag = "41", default = "1")]
    pub bos_id: Option<i32>,
    #[prost(int32, optional, tag = "42", default = "2")]
    pub eos_id: Option<i32>,
    #[prost(string, optional, tag = "45", default = "<unk>")]
    pub unk_piece: Option<String>,
    #[prost(string, optional, tag = "46", default = "<s>")]
    pub bos_piece: Option<String>,
    #[prost(string, optional, tag = "47", default = "</s>")]
    pub eos_piece: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Normalizer {
    #[prost(bytes = "vec", optional, tag = "2")]
    pub charsmap: Option<Vec<u8>>,
    #[prost(bool, optional, tag = "3", default = "true")]
    pub dummy_prefix: Option<bool>,
    #[prost(bool, optional, tag = "4", default = "true")]
    pub remove_extra: Option<bool>,
    #[prost(bool, optional, tag = "5", default = "true")]
    pub escape: Option<bool>,
}

/// Kinds of pieces that are more than pieces: never merged, never learnt.
pub(super) const NORMAL: i32 = 1;
pub(super) const UNKNOWN: i32 = 2;
pub(super) const CONTROL: i32 = 3;
pub(super) const USER_DEFINED: i32 = 4;
pub(super) const UNUSED: i32 = 5;

impl Model {
    /// Pieces that stand beside the vocabulary: control pieces are special, those that the user
    /// defined are not.
    pub fn beside(&self) -> Vec<AddedToken> {
        let beside = |piece: &&Piece| [CONTROL, USER_DEFINED].contains(&piece.kind());
        self.pieces
            .iter()
            .filter(beside)
            .map(|piece| AddedToken::from(piece.piece(), piece.kind() == CONTROL).normalized(false))
            .collect()
    }

    pub fn scores(&self) -> Vec<(String, f64)> {
        let one = |piece: &Piece| (piece.piece().to_owned(), f64::from(piece.score()));
        self.pieces.iter().map(one).collect()
    }
}

/// A SentencePiece model from its file.
pub(super) fn parse(asset: &Asset) -> Result<Model> {
    let failed =
        |why: &str| Error::checkpoint(asset.path(), format!("not a SentencePiece model: {why}"));
    let model = Model::decode(&*read_asset(asset)?).map_err(|why| failed(&why.to_string()))?;
    match model.pieces.is_empty() {
        true => Err(failed("it holds no pieces")),
        false => Ok(model),
    }
}

/// The tokenizer without special tokens, and the tokens that the model puts beside its vocabulary.
pub(super) fn read(
    asset: &Asset,
    class: &Class,
    settings: &mut Settings,
) -> Result<(Inner, Vec<AddedToken>)> {
    let failed = |why: String| Error::checkpoint(asset.path(), why);
    let model = parse(asset)?;
    let kind = match class.vocabulary {
        Vocabulary::Pieces(kind) => kind,
        _ => Pieces::Own,
    };
    let (inner, extra) = if kind == Pieces::Own {
        own_pieces::build(&model, settings)
    } else {
        build(&model, kind, settings).map(|inner| (inner, model.beside()))
    }
    .map_err(failed)?;
    let sentinels = (0..if kind == Pieces::T5 { sentinels(settings) } else { 0 })
        .map(|index| AddedToken::from(format!("<extra_id_{index}>"), true));
    Ok((inner, extra.into_iter().chain(sentinels).collect()))
}

fn sentinels(settings: &Settings) -> u64 {
    settings.extra_ids.unwrap_or(100)
}

/// The vocabulary as the class arranges it, and the id of the unknown piece.
fn vocabulary(model: &Model, kind: Pieces, settings: &Settings) -> (Vec<(String, f64)>, usize) {
    let scores = model.scores();
    let name = |key: &str| (settings.name(key).unwrap_or_default(), 0.0);
    let after = |first: usize| scores.iter().skip(first).cloned();
    match kind {
        // fairseq's four tokens come before the pieces, whose own three stand in their place
        Pieces::XlmRoberta => {
            let first = ["bos_token", "pad_token", "eos_token", "unk_token"].map(name);
            (first.into_iter().chain(after(3)).chain([name("mask_token")]).collect(), 3)
        }
        Pieces::Camembert => {
            let unused = |name: &str, score| (format!("{name}NOTUSED"), score);
            let first = [unused("<s>", 0.0), name("pad_token"), unused("</s>", 0.0)];
            let second = [name("unk_token"), unused("<unk>", -100.0)];
            let whole = first.into_iter().chain(second).chain(after(1));
            (whole.chain([name("mask_token")]).collect(), 3)
        }
        Pieces::Albert => (scores, 1),
        Pieces::T5 => {
            let sentinel = |index| (format!("<extra_id_{index}>"), 0.0);
            (after(0).chain((0..sentinels(settings)).rev().map(sentinel)).collect(), 2)
        }
        Pieces::DebertaV2 | Pieces::Own => {
            let (unknown, _) = name("unk_token");
            let own = model.trainer.as_ref().map_or(0, Trainer::unk_id);
            let named = scores.iter().position(|(name, score)| *name == unknown && *score == 0.0);
            (scores, named.or(usize::try_from(own).ok()).unwrap_or(0))
        }
    }
}

fn build(model: &Model, kind: Pieces, settings: &Settings) -> Result<Inner, String> {
    let failed = |why: tokenizers::Error| why.to_string();
    if model.trainer.as_ref().is_some_and(|trainer| trainer.model_type() != 1) {
        return Err("expected a Unigram model, found another kind".into());
    }
    let (vocabulary, unknown) = vocabulary(model, kind, settings);
    let mut inner =
        Tokenizer::new(Unigram::from(vocabulary, Some(unknown), false).map_err(failed)?);
    if let Some(normalizer) = normalizer(model, kind, settings)? {
        inner.with_normalizer(Some(normalizer)).map_err(failed)?;
    }
    let spaces = Metaspace::new('▁', scheme(kind, settings), true);
    inner
        .with_pre_tokenizer(Some(pre_tokenizer(kind, settings, spaces.clone())))
        .with_decoder(Some(spaces));
    Ok(inner)
}

fn normalizer(
    model: &Model,
    kind: Pieces,
    settings: &Settings,
) -> Result<Option<NormalizerWrapper>, String> {
    let bytes = model.normalizer.as_ref().map_or(&[][..], Normalizer::charsmap);
    let map = (!bytes.is_empty()).then(|| charsmap::read(bytes).map(NormalizerWrapper::from));
    let map = map.transpose()?;
    let mut steps: Vec<NormalizerWrapper> = Vec::new();
    match kind {
        Pieces::Albert => {
            steps.push(replace("``", "\"")?);
            steps.push(replace("''", "\"")?);
            if !settings.keep_accents.unwrap_or(false) {
                steps.extend([NormalizerWrapper::from(NFKD), StripAccents.into()]);
            }
            if settings.lower.unwrap_or(true) {
                steps.push(Lowercase.into());
            }
            steps.extend(map);
        }
        // transformers 5 leaves the character map of these models aside
        Pieces::DebertaV2 => {
            if settings.lower.unwrap_or(false) {
                steps.push(Lowercase.into());
            }
            steps.push(replace(ReplacePattern::Regex(r"\s{2,}|[\n\r\t]".into()), " ")?);
            steps.extend([NormalizerWrapper::from(NFC), Strip::new(false, true).into()]);
        }
        _ => return Ok(map),
    }
    Ok(Some(Normalizers::new(steps).into()))
}

pub(super) fn replace(
    pattern: impl Into<ReplacePattern>,
    by: &str,
) -> Result<NormalizerWrapper, String> {
    Replace::new(pattern, by).map(Into::into).map_err(|why| why.to_string())
}

/// Whether `▁` comes before words that no space comes before.
fn scheme(kind: Pieces, settings: &Settings) -> PrependScheme {
    match (settings.space_before.unwrap_or(true), kind) {
        (true, _) | (_, Pieces::T5) => PrependScheme::Always,
        (false, Pieces::DebertaV2) => PrependScheme::First,
        (false, _) => PrependScheme::Never,
    }
}

/// Words apart, each with `▁` before it.
fn pre_tokenizer(kind: Pieces, settings: &Settings, spaces: Metaspace) -> PreTokenizerWrapper {
    let first: Option<PreTokenizerWrapper> = match kind {
        Pieces::DebertaV2 => settings
            .split_punctuation
            .then(|| Punctuation::new(SplitDelimiterBehavior::Isolated).into()),
        _ => Some(WhitespaceSplit.into()),
    };
    Sequence::new(first.into_iter().chain([spaces.into()]).collect()).into()
}
