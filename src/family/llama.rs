//! Llama (Touvron et al. 2023) and families of its shape, Mistral and Qwen2: rotary positions, heads
//! that share keys and values, root mean square norms, a gated block.

use serde_json::Value;

use super::Family;
use super::common::{self, KEYS, Keys};
use super::fields::Fields;
use super::rope;
use crate::config::{Absolute, Activation, Config, NormKind, NormOrder, Task};
use crate::error::Result;

pub(super) const LLAMA: Family = Family {
    model_type: "llama",
    prefix: "model.",
    modules: &[&[
        ("embed_tokens", "embeddings.word"),
        ("layers.{}.input_layernorm", "layers.{}.attention.norm"),
        ("layers.{}.self_attn.q_proj", "layers.{}.attention.query"),
        ("layers.{}.self_attn.k_proj", "layers.{}.attention.key"),
        ("layers.{}.self_attn.v_proj", "layers.{}.attention.value"),
        ("layers.{}.self_attn.o_proj", "layers.{}.attention.output"),
        ("layers.{}.post_attention_layernorm", "layers.{}.mlp.norm"),
        ("layers.{}.mlp.gate_proj", "layers.{}.mlp.gate"),
        ("layers.{}.mlp.up_proj", "layers.{}.mlp.up"),
        ("layers.{}.mlp.down_proj", "layers.{}.mlp.down"),
        ("norm", "final.norm"),
        ("lm_head", "lm.decoder"),
    ]],
    turned: false,
    buffers: &["rotary_emb.inv_freq"],
    // biases are there or not in the file, and are taken from it
    ignorable: &["attention_bias", "attention_dropout", "mlp_bias", "pretraining_tp"],
    classes: &[("LlamaModel", Task::Encoder), ("LlamaForCausalLM", Task::CausalLm)],
    read: |fields| read(fields, "llama"),
};

/// Mistral (Jiang et al. 2023): each position sees as many as its window.
pub(super) const MISTRAL: Family = Family {
    model_type: "mistral",
    classes: &[("MistralModel", Task::Encoder), ("MistralForCausalLM", Task::CausalLm)],
    read: |fields| {
        let window = window(fields)?;
        let base = read(fields, "mistral")?;
        Ok(Config { windows: vec![window; base.layers()], ..base })
    },
    ..LLAMA
};

/// Qwen2 (Yang et al. 2024): biases on queries, keys and values; windows in some layers, if any.
pub(super) const QWEN2: Family = Family {
    model_type: "qwen2",
    classes: &[("Qwen2Model", Task::Encoder), ("Qwen2ForCausalLM", Task::CausalLm)],
    read: |fields| {
        let used = fields.flag("use_sliding_window")?.unwrap_or(false);
        let window = window(fields)?.filter(|_| used);
        let base = read(fields, "qwen2")?;
        let slides = sliding_layers(fields, base.layers())?;
        let windows = slides.into_iter().map(|slides| window.filter(|_| slides)).collect();
        Ok(Config { windows, ..base })
    },
    ..LLAMA
};

/// Furthest distance of a visible key: a window counts the position itself.
fn window(fields: &Fields) -> Result<Option<usize>> {
    match fields.count("sliding_window")? {
        Some(0) => Err(fields.wrong("sliding_window", "a whole number above 0, or null", "0")),
        window => Ok(window.map(|window| window - 1)),
    }
}

/// Which layers have a window where the model uses one: as `layer_types` says, else those from
/// `max_window_layers` on.
fn sliding_layers(fields: &Fields, layers: usize) -> Result<Vec<bool>> {
    let first = fields.count("max_window_layers")?.unwrap_or(28);
    let Some(types) = fields.get("layer_types") else {
        return Ok((0..layers).map(|layer| layer >= first).collect());
    };
    let slides = |one: &Value| match one.as_str() {
        Some("sliding_attention") => Ok(true),
        Some("full_attention") => Ok(false),
        _ => {
            let want = "sliding_attention or full_attention";
            Err(fields.wrong("layer_types", want, one.to_string()))
        }
    };
    let all: Vec<bool> =
        types.as_array().into_iter().flatten().map(slides).collect::<Result<_>>()?;
    if all.len() != layers {
        let want = format!("a list of {layers}, one per layer");
        return Err(fields.wrong("layer_types", want, all.len().to_string()));
    }
    Ok(all)
}

fn read(fields: &Fields, model_type: &str) -> Result<Config> {
    let base = common::read(fields, model_type, &Keys { head_dim: Some("head_dim"), ..KEYS })?;
    if base.head_dim % 2 != 0 {
        let want = "an even width, for rotary positions";
        return Err(fields.wrong("head_dim", want, base.head_dim.to_string()));
    }
    let heads = base.head_counts.first().copied().unwrap_or(1);
    let groups = fields.count("num_key_value_heads")?.unwrap_or(heads);
    if groups == 0 || heads % groups != 0 {
        let want = format!("a divisor of num_attention_heads {heads}");
        return Err(fields.wrong("num_key_value_heads", want, groups.to_string()));
    }
    let rope = rope::read(fields)?;
    Ok(Config {
        causal: true,
        group_size: heads / groups,
        activation: fields.activation("hidden_act")?.unwrap_or(Activation::Silu),
        norm: NormKind::Rms,
        norm_eps: fields.epsilon("rms_norm_eps")?.unwrap_or(1e-6),
        norm_order: NormOrder::Pre,
        embedding_norm: false,
        absolute: Absolute::None,
        rotary: vec![rope; base.layers()],
        gated: true,
        optional_biases: true,
        tied: fields.flag("tie_word_embeddings")?.unwrap_or(false),
        ..base
    })
}
