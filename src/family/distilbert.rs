//! DistilBERT (Sanh et al. 2019): BERT without token types and pooler, with names of its own.

use super::Family;
use super::common::{self, Keys};
use super::fields::Fields;
use crate::config::{Activation, Config, Heads, Task};
use crate::error::Result;

pub(super) const DISTILBERT: Family = Family {
    model_type: "distilbert",
    prefix: "distilbert.",
    modules: &[&[
        ("embeddings.word_embeddings", "embeddings.word"),
        ("embeddings.position_embeddings", "embeddings.position"),
        ("embeddings.LayerNorm", "embeddings.norm"),
        ("transformer.layer.{}.attention.q_lin", "layers.{}.attention.query"),
        ("transformer.layer.{}.attention.k_lin", "layers.{}.attention.key"),
        ("transformer.layer.{}.attention.v_lin", "layers.{}.attention.value"),
        ("transformer.layer.{}.attention.out_lin", "layers.{}.attention.output"),
        ("transformer.layer.{}.sa_layer_norm", "layers.{}.attention.norm"),
        ("transformer.layer.{}.ffn.lin1", "layers.{}.mlp.up"),
        ("transformer.layer.{}.ffn.lin2", "layers.{}.mlp.down"),
        ("transformer.layer.{}.output_layer_norm", "layers.{}.mlp.norm"),
        ("vocab_transform", "lm.transform"),
        ("vocab_layer_norm", "lm.norm"),
        ("vocab_projector", "lm.decoder"),
        ("pre_classifier", "sequence.transform"),
        ("classifier", "classifier"),
    ]],
    turned: false,
    buffers: &["embeddings.position_ids"],
    // a sinusoidal table is stored in the file like a learnt one
    ignorable: &[
        "attention_dropout",
        "dropout",
        "qa_dropout",
        "seq_classif_dropout",
        "sinusoidal_pos_embds",
    ],
    classes: &[
        ("DistilBertModel", Task::Encoder),
        ("DistilBertForMaskedLM", Task::MaskedLm),
        ("DistilBertForSequenceClassification", Task::SequenceClassification),
        ("DistilBertForTokenClassification", Task::TokenClassification),
    ],
    read,
};

const KEYS: Keys = Keys {
    hidden: "dim",
    inner: "hidden_dim",
    layers: "n_layers",
    heads: "n_heads",
    activation: "activation",
    ..common::KEYS
};

fn read(fields: &Fields) -> Result<Config> {
    let base = common::read(fields, "distilbert", &KEYS)?;
    let task_heads =
        Heads { masked_lm: base.activation, sequence: Activation::Relu, ..base.task_heads };
    Ok(Config { task_heads, ..base })
}
