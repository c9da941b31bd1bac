//! MPNet (Song et al. 2020): RoBERTa's positions, no token types, and one bias by distance for all
//! layers.

use super::Family;
use super::common::{self, KEYS};
use super::fields::Fields;
use super::roberta::{HEADS, ROBERTA};
use crate::config::{Absolute, Config, Distances, Task};
use crate::error::Result;

pub(super) const MPNET: Family = Family {
    model_type: "mpnet",
    prefix: "mpnet.",
    modules: &[
        HEADS,
        &[
            ("embeddings.word_embeddings", "embeddings.word"),
            ("embeddings.position_embeddings", "embeddings.position"),
            ("embeddings.LayerNorm", "embeddings.norm"),
            ("encoder.relative_attention_bias", "distance"),
            ("encoder.layer.{}.attention.attn.q", "layers.{}.attention.query"),
            ("encoder.layer.{}.attention.attn.k", "layers.{}.attention.key"),
            ("encoder.layer.{}.attention.attn.v", "layers.{}.attention.value"),
            ("encoder.layer.{}.attention.attn.o", "layers.{}.attention.output"),
            ("encoder.layer.{}.attention.LayerNorm", "layers.{}.attention.norm"),
            ("encoder.layer.{}.intermediate.dense", "layers.{}.mlp.up"),
            ("encoder.layer.{}.output.dense", "layers.{}.mlp.down"),
            ("encoder.layer.{}.output.LayerNorm", "layers.{}.mlp.norm"),
        ],
    ],
    classes: &[
        ("MPNetModel", Task::Encoder),
        ("MPNetForMaskedLM", Task::MaskedLm),
        ("MPNetForSequenceClassification", Task::SequenceClassification),
        ("MPNetForTokenClassification", Task::TokenClassification),
    ],
    read,
    ..ROBERTA
};

fn read(fields: &Fields) -> Result<Config> {
    let base = common::read(fields, "mpnet", &KEYS)?;
    // the reference fixes the padding id of positions and the number of buckets
    let pad = 1;
    if let Some(count) = fields.count("relative_attention_num_buckets")?.filter(|&n| n != 32) {
        let key = "relative_attention_num_buckets";
        return Err(fields.wrong(key, "32, the only number of the reference", count.to_string()));
    }
    Ok(Config {
        pad_token_id: fields.count("pad_token_id")?.unwrap_or(1) as u32,
        max_positions: common::after_pad(fields, pad)?,
        norm_eps: fields.epsilon("layer_norm_eps")?.unwrap_or(1e-12),
        absolute: Absolute::AfterPad { pad },
        distances: Distances::Buckets { count: 32, furthest: 128 },
        ..base
    })
}
