//! GPT-2 (Radford et al. 2019): a causal stack with its norms first and maps stored as [in, out].

use super::Family;
use super::common::{self, Keys};
use super::fields::Fields;
use crate::config::{Activation, Config, NormOrder, Task};
use crate::error::Result;

pub(super) const GPT2: Family = Family {
    model_type: "gpt2",
    prefix: "transformer.",
    modules: &[&[
        ("wte", "embeddings.word"),
        ("wpe", "embeddings.position"),
        ("h.{}.ln_1", "layers.{}.attention.norm"),
        ("h.{}.attn.c_attn", "layers.{}.attention.qkv"),
        ("h.{}.attn.c_proj", "layers.{}.attention.output"),
        ("h.{}.ln_2", "layers.{}.mlp.norm"),
        ("h.{}.mlp.c_fc", "layers.{}.mlp.up"),
        ("h.{}.mlp.c_proj", "layers.{}.mlp.down"),
        ("ln_f", "final.norm"),
        ("lm_head", "lm.decoder"),
    ]],
    turned: true,
    buffers: &["attn.bias", "attn.masked_bias"], // the causal mask
    ignorable: &[
        "attn_pdrop",
        "embd_pdrop",
        "n_ctx",
        "reorder_and_upcast_attn", // for half precision: another order of the same products
        "resid_pdrop",
        "summary_activation",
        "summary_first_dropout",
        "summary_proj_to_labels",
        "summary_type",
        "summary_use_proj",
    ],
    classes: &[("GPT2Model", Task::Encoder), ("GPT2LMHeadModel", Task::CausalLm)],
    read,
};

const KEYS: Keys = Keys {
    hidden: "n_embd",
    inner: "n_inner",
    layers: "n_layer",
    heads: "n_head",
    activation: "activation_function",
    positions: Some("n_positions"),
    inner_times: Some(4),
    ..common::KEYS
};

fn read(fields: &Fields) -> Result<Config> {
    fields.refuse("add_cross_attention", "attnviz runs no GPT-2 with an encoder")?;
    let base = common::read(fields, "gpt2", &KEYS)?;
    let by_width = fields.flag("scale_attn_weights")?.unwrap_or(true);
    let by_layer = fields.flag("scale_attn_by_inverse_layer_idx")?.unwrap_or(false);
    let scale = |layer: usize| {
        let width = if by_width { 1.0 / (base.head_dim as f64).sqrt() } else { 1.0 };
        if by_layer { width / (layer + 1) as f64 } else { width }
    };
    Ok(Config {
        causal: true,
        activation: fields.activation("activation_function")?.unwrap_or(Activation::GeluTanh),
        norm_eps: fields.epsilon("layer_norm_epsilon")?.unwrap_or(1e-5),
        norm_order: NormOrder::Pre,
        embedding_norm: false,
        score_scales: (0..base.layers()).map(scale).collect(),
        ..base
    })
}
