//! Ids with a meaning of their own.

use tokenizers::{Model, ModelWrapper};

use super::load::Inner;
use super::settings::Settings;

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

impl Special {
    /// Those of a tokenizer, under the names that the settings give them; where nothing says whose
    /// tokenizer it is, under the usual ones.
    pub fn of(inner: &Inner, settings: &Settings) -> Self {
        let id = |key: &str| match settings.name(key) {
            Some(name) => inner.token_to_id(&name),
            None if settings.class.is_some() => None,
            None => usual(key).iter().find_map(|name| inner.token_to_id(name)),
        };
        let mut special = Self {
            unknown: id("unk_token"),
            cls: id("cls_token"),
            sep: id("sep_token"),
            pad: id("pad_token"),
            mask: id("mask_token"),
            prefix: None,
        };
        match inner.get_model() {
            ModelWrapper::WordPiece(model) => {
                special.unknown = model.token_to_id(&model.unk_token);
                special.prefix = Some(model.continuing_subword_prefix.clone());
            }
            ModelWrapper::BPE(model) => {
                let own = model.unk_token.as_ref().and_then(|name| model.token_to_id(name));
                special.unknown = own.or(special.unknown);
            }
            _ => {}
        }
        special
    }
}

/// Names to look for where nothing says what a special token is called.
fn usual(key: &str) -> [&'static str; 2] {
    match key {
        "unk_token" => ["[UNK]", "<unk>"],
        "cls_token" => ["[CLS]", "<s>"],
        "sep_token" => ["[SEP]", "</s>"],
        "pad_token" => ["[PAD]", "<pad>"],
        "mask_token" => ["[MASK]", "<mask>"],
        _ => ["", ""],
    }
}
