//! Llama (Touvron et al. 2023) and checkpoints of its shape: rotary positions, heads that share keys
//! and values, root mean square norms, a gated block.

use serde_json::Value;

use super::Family;
use super::common::{self, KEYS, Keys};
use super::fields::Fields;
use crate::config::{Absolute, Activation, Config, NormKind, NormOrder, Rope, RopeScaling, Task};
use crate::error::Result;

pub(super) const LLAMA: Family = Family {
    model_type: "llama",
    prefix: "model.",
    modules: &[
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
    ],
    turned: false,
    buffers: &["rotary_emb.inv_freq"],
    // biases are there or not in the file, and are taken from it
    ignorable: &["attention_bias", "attention_dropout", "mlp_bias", "pretraining_tp"],
    classes: &[("LlamaModel", Task::Encoder), ("LlamaForCausalLM", Task::CausalLm)],
    read,
};

fn read(fields: &Fields) -> Result<Config> {
    let base = common::read(fields, "llama", &Keys { head_dim: Some("head_dim"), ..KEYS })?;
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
    let rope = rope(fields)?;
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

/// `rope_parameters` as transformers 5 writes it, or `rope_theta` with `rope_scaling`.
fn rope(fields: &Fields) -> Result<Rope> {
    let old = fields.number("rope_theta")?;
    let (key, all) = match fields.get("rope_parameters") {
        Some(all) => ("rope_parameters", Some(all)),
        None => ("rope_scaling", fields.get("rope_scaling")),
    };
    let number = |name: &str| {
        let value = all.and_then(|all| all.get(name)).and_then(Value::as_f64);
        let want = || format!("a number above 0 as `{name}`");
        let found = || all.map_or("nothing".into(), Value::to_string);
        let value = value.filter(|value| *value > 0.0 && value.is_finite());
        value.ok_or_else(|| fields.wrong(key, want(), found()))
    };
    let base = match all.and_then(|all| all.get("rope_theta")) {
        Some(_) => number("rope_theta")?,
        None => old.unwrap_or(10_000.0),
    };
    if base <= 0.0 {
        return Err(fields.wrong("rope_theta", "a rotary base above 0", base.to_string()));
    }
    let kind = all.and_then(|all| all.get("rope_type").or(all.get("type")));
    let scaling = match kind.and_then(Value::as_str).unwrap_or("default") {
        "default" => RopeScaling::None,
        "linear" => RopeScaling::Linear { factor: number("factor")? },
        "llama3" => RopeScaling::Llama3 {
            factor: number("factor")?,
            low: number("low_freq_factor")?,
            high: number("high_freq_factor")?,
            original: number("original_max_position_embeddings")?,
        },
        other => {
            let want = "rope_type default, linear or llama3";
            return Err(fields.wrong(key, want, format!("`{other}`")));
        }
    };
    Ok(Rope { base, scaling })
}
