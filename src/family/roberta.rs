//! RoBERTa (Liu et al. 2019) and those that only retrained it: XLM-RoBERTa (Conneau et al. 2020) and
//! CamemBERT (Martin et al. 2020).

use super::bert::BODY;
use super::common::{self, KEYS};
use super::fields::Fields;
use super::{Family, Names};
use crate::config::{Absolute, Config, Task};
use crate::error::Result;

/// What is on top, as those that followed call it too.
pub(super) const HEADS: Names = &[
    ("pooler.dense", "pooler"),
    ("lm_head.dense", "lm.transform"),
    ("lm_head.layer_norm", "lm.norm"),
    ("lm_head.decoder", "lm.decoder"),
    ("lm_head.bias", "lm.bias"),
    ("classifier.dense", "sequence.transform"),
    ("classifier.out_proj", "classifier"),
    ("classifier", "classifier"),
];

pub(super) const ROBERTA: Family = Family {
    model_type: "roberta",
    prefix: "roberta.",
    modules: &[BODY, HEADS],
    turned: false,
    buffers: &["embeddings.position_ids", "embeddings.token_type_ids"],
    ignorable: &[],
    classes: &[
        ("RobertaModel", Task::Encoder),
        ("RobertaForMaskedLM", Task::MaskedLm),
        ("RobertaForSequenceClassification", Task::SequenceClassification),
        ("RobertaForTokenClassification", Task::TokenClassification),
    ],
    read: |fields| read(fields, "roberta"),
};

pub(super) const XLM_ROBERTA: Family = Family {
    model_type: "xlm-roberta",
    classes: &[
        ("XLMRobertaModel", Task::Encoder),
        ("XLMRobertaForMaskedLM", Task::MaskedLm),
        ("XLMRobertaForSequenceClassification", Task::SequenceClassification),
        ("XLMRobertaForTokenClassification", Task::TokenClassification),
    ],
    read: |fields| read(fields, "xlm-roberta"),
    ..ROBERTA
};

pub(super) const CAMEMBERT: Family = Family {
    model_type: "camembert",
    classes: &[
        ("CamembertModel", Task::Encoder),
        ("CamembertForMaskedLM", Task::MaskedLm),
        ("CamembertForSequenceClassification", Task::SequenceClassification),
        ("CamembertForTokenClassification", Task::TokenClassification),
    ],
    read: |fields| read(fields, "camembert"),
    ..ROBERTA
};

fn read(fields: &Fields, model_type: &str) -> Result<Config> {
    common::refuse_decoders(fields)?;
    let base = common::read(fields, model_type, &KEYS)?;
    let pad_token_id = fields.count("pad_token_id")?.unwrap_or(1) as u32;
    let absolute = Absolute::AfterPad { pad: pad_token_id };
    let (absolute, distances) = common::positions(fields, absolute)?;
    Ok(Config {
        pad_token_id,
        max_positions: common::after_pad(fields, pad_token_id)?,
        type_vocab_size: fields.count("type_vocab_size")?.unwrap_or(2),
        norm_eps: fields.epsilon("layer_norm_eps")?.unwrap_or(1e-12),
        absolute,
        distances,
        ..base
    })
}
