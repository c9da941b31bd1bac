//! What kind of tokenizer it is, and what it does to a text before it cuts it.

use std::fmt;

use tokenizers::{
    DecoderWrapper, ModelWrapper, NormalizedString, Normalizer, NormalizerWrapper,
    OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer, PreTokenizerWrapper,
};

use super::load::Inner;

/// How a tokenizer cuts words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The longest piece that fits comes first; `##` continues a word (BERT).
    WordPiece,
    /// Byte pairs over the bytes of the text: nothing is unknown (RoBERTa, GPT-2, ModernBERT).
    ByteLevelBpe,
    /// Byte pairs over characters (SentencePiece's other model).
    Bpe,
    /// The likeliest pieces; `▁` stands for a space (XLM-R, ALBERT, DeBERTa-v2).
    Unigram,
    /// Whole words only.
    WordLevel,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WordPiece => "WordPiece",
            Self::ByteLevelBpe => "byte-level BPE",
            Self::Bpe => "BPE",
            Self::Unigram => "Unigram",
            Self::WordLevel => "whole words",
        })
    }
}

/// What a tokenizer does to letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Behaviour {
    /// Capitals are kept.
    pub cased: bool,
    /// Accents are kept.
    pub accents: bool,
    /// Each Chinese character stands alone, whatever is beside it.
    pub chinese_split: bool,
}

impl fmt::Display for Behaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cased = if self.cased { "cased" } else { "uncased" };
        let accents = if self.accents { "kept" } else { "stripped" };
        let chinese = if self.chinese_split { "apart" } else { "not split" };
        write!(f, "{cased}, accents {accents}, Chinese characters {chinese}")
    }
}

pub(super) fn kind(inner: &Inner) -> Kind {
    match inner.get_model() {
        ModelWrapper::WordPiece(_) => Kind::WordPiece,
        ModelWrapper::Unigram(_) => Kind::Unigram,
        ModelWrapper::WordLevel(_) => Kind::WordLevel,
        ModelWrapper::BPE(_) if is_byte_level(inner) => Kind::ByteLevelBpe,
        ModelWrapper::BPE(_) => Kind::Bpe,
    }
}

fn is_byte_level(inner: &Inner) -> bool {
    fn writes_bytes(step: &PreTokenizerWrapper) -> bool {
        match step {
            PreTokenizerWrapper::ByteLevel(_) => true,
            PreTokenizerWrapper::Sequence(steps) => steps.as_ref().iter().any(writes_bytes),
            _ => false,
        }
    }
    inner.get_pre_tokenizer().is_some_and(writes_bytes)
        || matches!(inner.get_decoder(), Some(DecoderWrapper::ByteLevel(_)))
        || matches!(inner.get_normalizer(), Some(NormalizerWrapper::ByteLevel(_)))
}

/// By trial, whatever the tokenizer is made of.
pub(super) fn behaviour(inner: &Inner) -> Behaviour {
    let normal = |text: &str| {
        let mut text = NormalizedString::from(text);
        let done = inner.get_normalizer().map_or(Ok(()), |one| one.normalize(&mut text));
        done.map(|()| text.get().to_owned()).unwrap_or_default()
    };
    let mut text = PreTokenizedString::from(normal("我爱").as_str());
    let split = inner.get_pre_tokenizer().map_or(Ok(()), |one| one.pre_tokenize(&mut text));
    let parts = text.get_splits(OffsetReferential::Original, OffsetType::Char);
    Behaviour {
        cased: normal("A").contains('A'),
        accents: normal("é").contains(['é', '\u{301}']) || !normal("é").contains('e'),
        chinese_split: split.is_ok() && parts.len() > 1,
    }
}
