//! Longformer (Beltagy et al. 2020): RoBERTa with a sliding window and global queries.

use serde_json::Value;

use super::Family;
use super::bert::BODY;
use super::common::{self, KEYS};
use super::fields::Fields;
use super::roberta::{HEADS, ROBERTA};
use crate::config::{Absolute, Config, Task};
use crate::error::Result;

pub(super) const LONGFORMER: Family = Family {
    model_type: "longformer",
    prefix: "longformer.",
    modules: &[
        BODY,
        HEADS,
        &[
            ("encoder.layer.{}.attention.self.query_global", "layers.{}.attention.query_global"),
            ("encoder.layer.{}.attention.self.key_global", "layers.{}.attention.key_global"),
            ("encoder.layer.{}.attention.self.value_global", "layers.{}.attention.value_global"),
        ],
    ],
    ignorable: &["attention_mode", "ignore_attention_mask", "onnx_export"],
    classes: &[
        ("LongformerModel", Task::Encoder),
        ("LongformerForMaskedLM", Task::MaskedLm),
        ("LongformerForSequenceClassification", Task::SequenceClassification),
        ("LongformerForTokenClassification", Task::TokenClassification),
    ],
    read,
    ..ROBERTA
};

fn read(fields: &Fields) -> Result<Config> {
    common::refuse_decoders(fields)?;
    let base = common::read(fields, "longformer", &KEYS)?;
    let pad_token_id = fields.count("pad_token_id")?.unwrap_or(1) as u32;
    Ok(Config {
        pad_token_id,
        max_positions: common::after_pad(fields, pad_token_id)?,
        type_vocab_size: fields.count("type_vocab_size")?.unwrap_or(2),
        norm_eps: fields.epsilon("layer_norm_eps")?.unwrap_or(1e-12),
        absolute: Absolute::AfterPad { pad: pad_token_id },
        windows: windows(fields, base.layers())?,
        global_queries: true,
        ..base
    })
}

/// Half of `attention_window`, one number or one per layer, to either side.
fn windows(fields: &Fields, layers: usize) -> Result<Vec<Option<usize>>> {
    let wrong = |found: String| {
        fields.wrong("attention_window", format!("an even number, or {layers} of them"), found)
    };
    let radius = |value: &Value| match value.as_u64() {
        Some(window) if window > 0 && window % 2 == 0 => Ok(Some((window / 2) as usize)),
        _ => Err(wrong(value.to_string())),
    };
    match fields.get("attention_window") {
        None => Ok(vec![Some(256); layers]),
        Some(Value::Array(list)) if list.len() == layers => list.iter().map(radius).collect(),
        Some(Value::Array(list)) => Err(wrong(format!("{} of them", list.len()))),
        Some(one) => Ok(vec![radius(one)?; layers]),
    }
}
