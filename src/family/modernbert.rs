//! ModernBERT (Warner et al. 2024): rotary positions, alternating local and global layers, gated
//! linear maps, norms first.

use serde_json::Value;

use super::Family;
use super::common::{self, KEYS, Keys};
use super::fields::Fields;
use super::roberta::ROBERTA;
use crate::config::{
    Absolute, Activation, Config, Heads, NormOrder, Pooling, Rope, RopeScaling, Task,
};
use crate::error::Result;

pub(super) const MODERNBERT: Family = Family {
    model_type: "modernbert",
    prefix: "model.",
    modules: &[&[
        ("embeddings.tok_embeddings", "embeddings.word"),
        ("embeddings.norm", "embeddings.norm"),
        ("layers.{}.attn_norm", "layers.{}.attention.norm"),
        ("layers.{}.attn.Wqkv", "layers.{}.attention.qkv"),
        ("layers.{}.attn.Wo", "layers.{}.attention.output"),
        ("layers.{}.mlp_norm", "layers.{}.mlp.norm"),
        ("layers.{}.mlp.Wi", "layers.{}.mlp.up"),
        ("layers.{}.mlp.Wo", "layers.{}.mlp.down"),
        ("final_norm", "final.norm"),
        ("head.dense", "lm.transform"),
        ("head.norm", "lm.norm"),
        ("decoder", "lm.decoder"),
        ("classifier", "classifier"),
    ]],
    // biases are there or not in the file, and are taken from it
    ignorable: &[
        "attention_bias",
        "attention_dropout",
        "classifier_bias",
        "cls_token_id",
        "decoder_bias",
        "deterministic_flash_attn",
        "embedding_dropout",
        "initializer_cutoff_factor",
        "mlp_bias",
        "mlp_dropout",
        "norm_bias",
        "reference_compile",
        "repad_logits_with_grad",
        "sparse_pred_ignore_index",
        "sparse_prediction",
    ],
    classes: &[
        ("ModernBertModel", Task::Encoder),
        ("ModernBertForMaskedLM", Task::MaskedLm),
        ("ModernBertForSequenceClassification", Task::SequenceClassification),
        ("ModernBertForTokenClassification", Task::TokenClassification),
    ],
    read,
    ..ROBERTA
};

fn rope(base: f64) -> Rope {
    Rope { base, scaling: RopeScaling::None }
}

const GLOBAL: &str = "full_attention";
const LOCAL: &str = "sliding_attention";

fn read(fields: &Fields) -> Result<Config> {
    let keys = Keys { activation: "hidden_activation", ..KEYS };
    let base = common::read(fields, "modernbert", &keys)?;
    if base.head_dim % 2 != 0 {
        let want = "heads of an even width, for rotary positions";
        return Err(fields.wrong("hidden_size", want, base.hidden_size.to_string()));
    }
    let local = layer_types(fields, base.layers())?;
    let theta = [
        base_of(fields, GLOBAL, "global_rope_theta", 160_000.0)?,
        base_of(fields, LOCAL, "local_rope_theta", 10_000.0)?,
    ];
    let radius = fields.count("local_attention")?.unwrap_or(128) / 2;
    let act = fields.activation("classifier_activation")?.unwrap_or(Activation::Gelu);
    let poolings = [("cls", Pooling::First), ("mean", Pooling::Mean)];
    let pooling = fields.choice("classifier_pooling", &poolings)?.unwrap_or(Pooling::First);
    Ok(Config {
        norm_eps: fields.epsilon("norm_eps")?.unwrap_or(1e-5),
        absolute: Absolute::None,
        rotary: local.iter().map(|&local| rope(theta[usize::from(local)])).collect(),
        windows: local.iter().map(|&local| local.then_some(radius)).collect(),
        norm_order: NormOrder::Pre,
        gated: true,
        optional_biases: true,
        task_heads: Heads { masked_lm: act, sequence: act, pooling, shared: true },
        ..base
    })
}

/// Whether each layer is local: `layer_types` as transformers 5 writes it, or every n-th layer
/// global as 4 did.
fn layer_types(fields: &Fields, layers: usize) -> Result<Vec<bool>> {
    let every = fields.count("global_attn_every_n_layers")?.unwrap_or(3).max(1);
    let Some(types) = fields.get("layer_types") else {
        return Ok((0..layers).map(|layer| layer % every != 0).collect());
    };
    let wrong = |found: String| {
        fields.wrong("layer_types", format!("{layers} of {GLOBAL}, {LOCAL}"), found)
    };
    let types = types.as_array().ok_or_else(|| wrong("no list".into()))?;
    if types.len() != layers {
        return Err(wrong(types.len().to_string()));
    }
    let local = |one: &Value| match one.as_str() {
        Some(GLOBAL) => Ok(false),
        Some(LOCAL) => Ok(true),
        _ => Err(wrong(one.to_string())),
    };
    types.iter().map(local).collect()
}

/// Base of the rotary embedding: in `rope_parameters` (transformers 5) or under a key of its own.
fn base_of(fields: &Fields, kind: &str, old: &str, default: f64) -> Result<f64> {
    let old_value = fields.number(old)?;
    let parameters = fields.get("rope_parameters").and_then(|all| all.get(kind));
    let Some(parameters) = parameters.filter(|one| !one.is_null()) else {
        return positive(fields, old, old_value.unwrap_or(default));
    };
    let rope = parameters.get("rope_type").and_then(Value::as_str).unwrap_or("default");
    if rope != "default" {
        return Err(fields.wrong("rope_parameters", "rope_type default", format!("`{rope}`")));
    }
    let theta = parameters.get("rope_theta").and_then(Value::as_f64);
    positive(fields, "rope_parameters", theta.or(old_value).unwrap_or(default))
}

fn positive(fields: &Fields, key: &str, base: f64) -> Result<f64> {
    match base > 0.0 {
        true => Ok(base),
        false => Err(fields.wrong(key, "a rotary base above 0", base.to_string())),
    }
}
