//! BERT (Devlin et al. 2019), as `BertModel` and its heads in transformers write it.

use super::common::{self, KEYS};
use super::fields::Fields;
use super::{Family, Names};
use crate::config::{Absolute, Config, Heads, Task};
use crate::error::Result;

/// The encoder, as those that followed call it too.
pub(super) const BODY: Names = &[
    ("embeddings.word_embeddings", "embeddings.word"),
    ("embeddings.position_embeddings", "embeddings.position"),
    ("embeddings.token_type_embeddings", "embeddings.type"),
    ("embeddings.LayerNorm", "embeddings.norm"),
    ("encoder.layer.{}.attention.self.query", "layers.{}.attention.query"),
    ("encoder.layer.{}.attention.self.key", "layers.{}.attention.key"),
    ("encoder.layer.{}.attention.self.value", "layers.{}.attention.value"),
    ("encoder.layer.{}.attention.self.distance_embedding", "layers.{}.attention.distance"),
    ("encoder.layer.{}.attention.output.dense", "layers.{}.attention.output"),
    ("encoder.layer.{}.attention.output.LayerNorm", "layers.{}.attention.norm"),
    ("encoder.layer.{}.intermediate.dense", "layers.{}.mlp.up"),
    ("encoder.layer.{}.output.dense", "layers.{}.mlp.down"),
    ("encoder.layer.{}.output.LayerNorm", "layers.{}.mlp.norm"),
];

pub(super) const BERT: Family = Family {
    model_type: "bert",
    prefix: "bert.",
    modules: &[
        BODY,
        &[
            ("pooler.dense", "pooler"),
            ("cls.predictions.transform.dense", "lm.transform"),
            ("cls.predictions.transform.LayerNorm", "lm.norm"),
            ("cls.predictions.decoder", "lm.decoder"),
            ("cls.predictions.bias", "lm.bias"),
            ("classifier", "classifier"),
        ],
    ],
    turned: false,
    buffers: &["embeddings.position_ids", "embeddings.token_type_ids"],
    ignorable: &[
        "directionality",
        "pooler_fc_size",
        "pooler_num_attention_heads",
        "pooler_num_fc_layers",
        "pooler_size_per_head",
        "pooler_type",
    ],
    classes: &[
        ("BertModel", Task::Encoder),
        ("BertForMaskedLM", Task::MaskedLm),
        ("BertForPreTraining", Task::MaskedLm),
        ("BertLMHeadModel", Task::CausalLm),
        ("BertForSequenceClassification", Task::SequenceClassification),
        ("BertForTokenClassification", Task::TokenClassification),
    ],
    read,
};

fn read(fields: &Fields) -> Result<Config> {
    fields.refuse("add_cross_attention", "attnviz runs no BERT with an encoder of its own")?;
    let base = common::read(fields, "bert", &KEYS)?;
    let (absolute, distances) = common::positions(fields, Absolute::Ordinal)?;
    Ok(Config {
        causal: fields.flag("is_decoder")?.unwrap_or(false),
        type_vocab_size: fields.count("type_vocab_size")?.unwrap_or(2),
        norm_eps: fields.epsilon("layer_norm_eps")?.unwrap_or(1e-12),
        absolute,
        distances,
        task_heads: Heads { masked_lm: base.activation, ..base.task_heads },
        ..base
    })
}
