//! What the configs of most families have in common.

use serde_json::Value;

use super::fields::{Fields, LARGEST};
use crate::config::{Absolute, Activation, Config, Distances, Heads, NormOrder, Pooling, Task};
use crate::error::Result;

/// Keys under which a family writes its sizes.
pub(super) struct Keys {
    pub hidden: &'static str,
    pub inner: &'static str,
    pub layers: &'static str,
    pub heads: &'static str,
    pub activation: &'static str,
}

/// The keys that most use.
pub(super) const KEYS: Keys = Keys {
    hidden: "hidden_size",
    inner: "intermediate_size",
    layers: "num_hidden_layers",
    heads: "num_attention_heads",
    activation: "hidden_act",
};

/// Reads the sizes; everything else as BERT has it, for a family to change.
pub(super) fn read(fields: &Fields, model_type: &str, keys: &Keys) -> Result<Config> {
    let hidden_size = fields.size(keys.hidden)?;
    let count = fields.size(keys.heads)?;
    if hidden_size % count != 0 {
        let want = format!("a divisor of {} {hidden_size}", keys.hidden);
        return Err(fields.wrong(keys.heads, want, count.to_string()));
    }
    let layers = fields.size(keys.layers)?;
    if layers.saturating_mul(count) > LARGEST {
        let want = format!("at most {LARGEST} heads in all");
        return Err(fields.wrong(keys.layers, want, format!("{layers} × {count}")));
    }
    Ok(Config {
        model_type: model_type.into(),
        hidden_size,
        embedding_size: hidden_size,
        project_first: false,
        intermediate_size: fields.size(keys.inner)?,
        head_dim: hidden_size / count,
        head_counts: vec![count; layers],
        heads: remaining_heads(fields, layers, count)?,
        vocab_size: fields.size("vocab_size")?,
        max_positions: fields.size("max_position_embeddings")?,
        type_vocab_size: 0,
        pad_token_id: fields.count("pad_token_id")?.unwrap_or(0) as u32,
        activation: fields.activation(keys.activation)?.unwrap_or(Activation::Gelu),
        norm_eps: 1e-12,
        absolute: Absolute::Ordinal,
        distances: Distances::None,
        rotary: Vec::new(),
        windows: vec![None; layers],
        global_queries: false,
        norm_order: NormOrder::Post,
        gated: false,
        blank_padding: false,
        convolution: None,
        shared: (0..layers).collect(),
        task_heads: Heads {
            masked_lm: Activation::Gelu,
            sequence: Activation::Tanh,
            pooling: Pooling::First,
            shared: false,
        },
        optional_biases: false,
        tied: fields.flag("tie_word_embeddings")?.unwrap_or(true),
        task: Task::Encoder,
        labels: labels(fields)?,
    })
}

/// Refuses what would make the encoder a decoder.
pub(super) fn refuse_decoders(fields: &Fields) -> Result<()> {
    fields.refuse("is_decoder", "attnviz runs it as an encoder")?;
    fields.refuse("add_cross_attention", "attnviz runs it as an encoder")
}

/// `position_embedding_type` of BERT and those that followed it.
pub(super) fn positions(fields: &Fields, absolute: Absolute) -> Result<(Absolute, Distances)> {
    let embedded = |with_keys| (Absolute::None, Distances::Embedded { with_keys });
    let names = [
        ("absolute", (absolute, Distances::None)),
        // transformers keeps the absolute table in such files and never adds it
        ("relative_key", embedded(false)),
        ("relative_key_query", embedded(true)),
    ];
    Ok(fields.choice("position_embedding_type", &names)?.unwrap_or(names[0].1))
}

/// The heads that `pruned_heads` leaves, in the form that transformers 4 wrote:
/// `{"0": [1, 2], "3": [11]}`, numbers as before any pruning.
fn remaining_heads(fields: &Fields, layers: usize, count: usize) -> Result<Vec<Vec<usize>>> {
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
fn labels(fields: &Fields) -> Result<Vec<String>> {
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

/// Most tokens where positions start behind the padding id.
pub(super) fn after_pad(fields: &Fields, pad: u32) -> Result<usize> {
    let rows = fields.size("max_position_embeddings")?;
    let want = format!("more than pad_token_id {pad} + 1");
    let left = rows.checked_sub(pad as usize + 1).filter(|&left| left > 0);
    left.ok_or_else(|| fields.wrong("max_position_embeddings", want, rows.to_string()))
}
