//! What the configs of most families have in common.

use serde_json::Value;

use super::fields::{Fields, LARGEST};
use super::{CROSS_PRUNED, PRUNED, generation};
use crate::config::{
    Absolute, Activation, Config, Distances, Heads, NormKind, NormOrder, Pooling, Task,
};
use crate::error::Result;

/// Keys under which a family writes its sizes.
pub(super) struct Keys {
    pub hidden: &'static str,
    pub inner: &'static str,
    pub layers: &'static str,
    pub heads: &'static str,
    pub activation: &'static str,
    /// Where K may be given; it is else `hidden` / `heads`.
    pub head_dim: Option<&'static str>,
    /// `None` for models that take inputs of any length.
    pub positions: Option<&'static str>,
    /// Where the heads are named that were cut out.
    pub pruned: &'static str,
    /// What `inner` is times `hidden`, where a config may leave it out.
    pub inner_times: Option<usize>,
}

/// The keys that most use.
pub(super) const KEYS: Keys = Keys {
    hidden: "hidden_size",
    inner: "intermediate_size",
    layers: "num_hidden_layers",
    heads: "num_attention_heads",
    activation: "hidden_act",
    head_dim: None,
    positions: Some("max_position_embeddings"),
    pruned: PRUNED,
    inner_times: None,
};

/// Reads the sizes; everything else as BERT has it, for a family to change.
pub(super) fn read(fields: &Fields, model_type: &str, keys: &Keys) -> Result<Config> {
    let hidden_size = fields.size(keys.hidden)?;
    let count = fields.size(keys.heads)?;
    let head_dim = match keys.head_dim.map(|key| fields.count(key)).transpose()?.flatten() {
        Some(width) if width > 0 => width,
        _ if hidden_size % count == 0 => hidden_size / count,
        _ => {
            let want = format!("a divisor of {} {hidden_size}", keys.hidden);
            return Err(fields.wrong(keys.heads, want, count.to_string()));
        }
    };
    let intermediate_size = match (fields.count(keys.inner)?, keys.inner_times) {
        (None, Some(times)) => times * hidden_size,
        _ => fields.size(keys.inner)?,
    };
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
        intermediate_size,
        head_dim,
        head_counts: vec![count; layers],
        heads: remaining_heads(fields, keys.pruned, layers, count)?,
        cross_heads: Vec::new(),
        vocab_size: fields.size("vocab_size")?,
        max_positions: keys.positions.map_or(Ok(LARGEST), |key| fields.size(key))?,
        type_vocab_size: 0,
        pad_token_id: fields.count("pad_token_id")?.unwrap_or(0) as u32,
        activation: fields.activation(keys.activation)?.unwrap_or(Activation::Gelu),
        norm: NormKind::Layer,
        norm_eps: 1e-12,
        embedding_norm: true,
        embedding_scale: 1.0,
        absolute: Absolute::Ordinal,
        distances: Distances::None,
        rotary: Vec::new(),
        causal: false,
        cross: false,
        group_size: 1,
        score_scales: vec![1.0 / (head_dim as f64).sqrt(); layers],
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
        logit_scale: 1.0,
        generation: generation::read(fields)?,
        decoder: None,
        task: Task::Encoder,
        labels: labels(fields)?,
    })
}

/// Refuses logarithmic buckets that leave nothing between the exact ones and the furthest: the
/// reference divides by the logarithm of that.
pub(super) fn log_buckets(fields: &Fields, count: Option<usize>, furthest: usize) -> Result<()> {
    let Some(count) = count.filter(|&count| count < 4 || furthest <= count / 2 + 1) else {
        return Ok(());
    };
    let want = format!("4 or more, half of them below {furthest} − 1 positions");
    Err(fields.wrong("position_buckets", want, count.to_string()))
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

/// The heads that `pruned_heads`, or another key, leaves, in the form that transformers 4 wrote:
/// `{"0": [1, 2], "3": [11]}`, numbers as before any pruning.
fn remaining_heads(
    fields: &Fields,
    key: &str,
    layers: usize,
    count: usize,
) -> Result<Vec<Vec<usize>>> {
    let mut heads = vec![(0..count).collect::<Vec<_>>(); layers];
    let Some(pruned) = fields.get(key) else { return Ok(heads) };
    let want = || format!("{{layer: [heads]}} with layers below {layers}, heads below {count}");
    let wrong = |found: String| fields.wrong(key, want(), found);
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

/// The decoder of an encoder-decoder: causal, and before any pruning each layer with as many heads
/// over the encoder's output as over its own positions.
pub(super) fn decoder(fields: &Fields, config: Config) -> Result<Config> {
    let count = config.head_counts.first().copied().unwrap_or(0);
    let cross_heads = remaining_heads(fields, CROSS_PRUNED, config.layers(), count)?;
    Ok(Config { causal: true, cross: true, cross_heads, ..config })
}
