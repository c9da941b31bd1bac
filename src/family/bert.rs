//! BERT (Devlin et al. 2019), as `BertModel` and its heads in transformers write it.

use serde_json::Value;

use super::Family;
use super::fields::{Fields, LARGEST};
use crate::config::{Activation, Config, Positions, Task};
use crate::error::Result;

pub(super) const BERT: Family = Family {
    model_type: "bert",
    prefix: "bert.",
    modules: &[
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
        ("pooler.dense", "pooler"),
        ("cls.predictions.transform.dense", "mlm.transform"),
        ("cls.predictions.transform.LayerNorm", "mlm.norm"),
        ("cls.predictions.decoder", "mlm.decoder"),
        ("cls.predictions.bias", "mlm.bias"),
        ("classifier", "classifier"),
    ],
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
        ("BertForSequenceClassification", Task::SequenceClassification),
        ("BertForTokenClassification", Task::TokenClassification),
    ],
    read,
};

fn read(fields: &Fields) -> Result<Config> {
    fields.refuse("is_decoder", "attnviz runs BERT as an encoder")?;
    fields.refuse("add_cross_attention", "attnviz runs BERT as an encoder")?;
    let hidden_size = fields.size("hidden_size")?;
    let count = fields.size("num_attention_heads")?;
    if hidden_size % count != 0 {
        let want = format!("a divisor of hidden_size {hidden_size}");
        return Err(fields.wrong("num_attention_heads", want, count.to_string()));
    }
    let layers = fields.size("num_hidden_layers")?;
    let positions = [
        ("absolute", Positions::Absolute),
        ("relative_key", Positions::RelativeKey),
        ("relative_key_query", Positions::RelativeKeyQuery),
    ];
    Ok(Config {
        model_type: "bert".into(),
        hidden_size,
        intermediate_size: fields.size("intermediate_size")?,
        head_dim: hidden_size / count,
        head_counts: vec![count; layers],
        heads: remaining_heads(fields, layers, count)?,
        vocab_size: fields.size("vocab_size")?,
        max_positions: fields.size("max_position_embeddings")?,
        type_vocab_size: fields.count("type_vocab_size")?.unwrap_or(2),
        pad_token_id: fields.count("pad_token_id")?.unwrap_or(0) as u32,
        activation: fields.choice("hidden_act", &Activation::NAMES)?.unwrap_or(Activation::Gelu),
        norm_eps: fields.number("layer_norm_eps")?.unwrap_or(1e-12),
        positions: fields
            .choice("position_embedding_type", &positions)?
            .unwrap_or(Positions::Absolute),
        tied: fields.flag("tie_word_embeddings")?.unwrap_or(true),
        task: Task::Encoder,
        labels: labels(fields)?,
    })
}

/// The heads that `pruned_heads` leaves, in the form that transformers 4 wrote:
/// `{"0": [1, 2], "3": [11]}`, numbers as before any pruning.
pub(super) fn remaining_heads(
    fields: &Fields,
    layers: usize,
    count: usize,
) -> Result<Vec<Vec<usize>>> {
    if layers.saturating_mul(count) > LARGEST {
        let want = format!("at most {LARGEST} heads in all");
        return Err(fields.wrong("num_hidden_layers", want, format!("{layers} × {count}")));
    }
    let mut heads = vec![(0..count).collect::<Vec<_>>(); layers];
    let Some(pruned) = fields.get("pruned_heads") else { return Ok(heads) };
    let want = || format!("{{layer: [heads]}} with layers below {layers}, heads below {count}");
    let wrong = |found: String| fields.wrong("pruned_heads", want(), found);
    let pruned = pruned.as_object().ok_or_else(|| wrong("something else".into()))?;
    for (layer, gone) in pruned {
        let kept = layer.parse().ok().and_then(|layer: usize| heads.get_mut(layer));
        let kept = kept.ok_or_else(|| wrong(format!("layer `{layer}`")))?;
        for head in gone.as_array().ok_or_else(|| wrong(format!("no list for {layer}")))? {
            let number = head.as_u64().map(|n| n as usize).filter(|&n| n < count);
            let number = number.ok_or_else(|| wrong(format!("head {head} of layer {layer}")))?;
            kept.retain(|&one| one != number);
        }
    }
    Ok(heads)
}

/// Class names in order of their ids: `id2label`, whose keys are strings; `label2id` repeats it.
pub(super) fn labels(fields: &Fields) -> Result<Vec<String>> {
    fields.get("label2id");
    let Some(named) = fields.get("id2label") else { return Ok(Vec::new()) };
    let wrong = || fields.wrong("id2label", "{id: name}", "something else");
    let named = named.as_object().ok_or_else(wrong)?;
    let mut labels = Vec::new();
    for (id, name) in named {
        let id: u64 = id.parse().map_err(|_| wrong())?;
        let name = match name {
            Value::String(name) => name.clone(),
            other => other.to_string(),
        };
        labels.push((id, name));
    }
    labels.sort();
    Ok(labels.into_iter().map(|(_, name)| name).collect())
}
