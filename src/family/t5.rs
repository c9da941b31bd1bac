//! T5 (Raffel et al. 2020) and T5 v1.1: an encoder and a decoder with root mean square norms first,
//! unscaled products and one bias by distance for all layers of a stack.

use super::common::{self, Keys};
use super::fields::Fields;
use super::{DECODER_PRUNED, Family};
use crate::config::{Absolute, Activation, Config, Distances, NormKind, NormOrder, Task};
use crate::error::Result;

pub(super) const T5: Family = Family {
    model_type: "t5",
    prefix: "",
    modules: &[&[
        ("shared", "embeddings.word"),
        ("encoder.embed_tokens", "encoder.embeddings.word"),
        ("encoder.block.0.layer.0.SelfAttention.relative_attention_bias", "encoder.distance"),
        ("encoder.block.{}.layer.0.SelfAttention.q", "encoder.layers.{}.attention.query"),
        ("encoder.block.{}.layer.0.SelfAttention.k", "encoder.layers.{}.attention.key"),
        ("encoder.block.{}.layer.0.SelfAttention.v", "encoder.layers.{}.attention.value"),
        ("encoder.block.{}.layer.0.SelfAttention.o", "encoder.layers.{}.attention.output"),
        ("encoder.block.{}.layer.0.layer_norm", "encoder.layers.{}.attention.norm"),
        ("encoder.block.{}.layer.1.DenseReluDense.wi", "encoder.layers.{}.mlp.up"),
        ("encoder.block.{}.layer.1.DenseReluDense.wi_0", "encoder.layers.{}.mlp.gate"),
        ("encoder.block.{}.layer.1.DenseReluDense.wi_1", "encoder.layers.{}.mlp.up"),
        ("encoder.block.{}.layer.1.DenseReluDense.wo", "encoder.layers.{}.mlp.down"),
        ("encoder.block.{}.layer.1.layer_norm", "encoder.layers.{}.mlp.norm"),
        ("encoder.final_layer_norm", "encoder.final.norm"),
        ("decoder.embed_tokens", "decoder.embeddings.word"),
        ("decoder.block.0.layer.0.SelfAttention.relative_attention_bias", "decoder.distance"),
        ("decoder.block.{}.layer.0.SelfAttention.q", "decoder.layers.{}.attention.query"),
        ("decoder.block.{}.layer.0.SelfAttention.k", "decoder.layers.{}.attention.key"),
        ("decoder.block.{}.layer.0.SelfAttention.v", "decoder.layers.{}.attention.value"),
        ("decoder.block.{}.layer.0.SelfAttention.o", "decoder.layers.{}.attention.output"),
        ("decoder.block.{}.layer.0.layer_norm", "decoder.layers.{}.attention.norm"),
        ("decoder.block.{}.layer.1.EncDecAttention.q", "decoder.layers.{}.cross.query"),
        ("decoder.block.{}.layer.1.EncDecAttention.k", "decoder.layers.{}.cross.key"),
        ("decoder.block.{}.layer.1.EncDecAttention.v", "decoder.layers.{}.cross.value"),
        ("decoder.block.{}.layer.1.EncDecAttention.o", "decoder.layers.{}.cross.output"),
        ("decoder.block.{}.layer.1.layer_norm", "decoder.layers.{}.cross.norm"),
        ("decoder.block.{}.layer.2.DenseReluDense.wi", "decoder.layers.{}.mlp.up"),
        ("decoder.block.{}.layer.2.DenseReluDense.wi_0", "decoder.layers.{}.mlp.gate"),
        ("decoder.block.{}.layer.2.DenseReluDense.wi_1", "decoder.layers.{}.mlp.up"),
        ("decoder.block.{}.layer.2.DenseReluDense.wo", "decoder.layers.{}.mlp.down"),
        ("decoder.block.{}.layer.2.layer_norm", "decoder.layers.{}.mlp.norm"),
        ("decoder.final_layer_norm", "decoder.final.norm"),
        ("lm_head", "lm.decoder"),
    ]],
    turned: false,
    // older checkpoints hold a bias that no layer adds
    buffers: &["EncDecAttention.relative_attention_bias.weight"],
    ignorable: &[
        "dense_act_fn", // feed_forward_proj says it
        "dropout_rate",
        "initializer_factor",
        "is_decoder",
        "is_gated_act",
        "n_positions", // of the training
    ],
    classes: &[
        ("T5Model", Task::Encoder),
        ("T5EncoderModel", Task::Encoder),
        ("T5ForConditionalGeneration", Task::Seq2SeqLm),
        ("T5WithLMHeadModel", Task::Seq2SeqLm),
    ],
    read,
};

const KEYS: Keys = Keys {
    hidden: "d_model",
    inner: "d_ff",
    layers: "num_layers",
    heads: "num_heads",
    head_dim: Some("d_kv"),
    positions: None,
    ..common::KEYS
};

fn read(fields: &Fields) -> Result<Config> {
    let encoder = side(fields, &KEYS)?;
    let layers = match fields.count("num_decoder_layers")? {
        None => KEYS.layers,
        Some(_) => "num_decoder_layers",
    };
    let decoder = side(fields, &Keys { layers, pruned: DECODER_PRUNED, ..KEYS })?;
    let decoder = common::decoder(fields, decoder)?;
    Ok(Config { decoder: Some(Box::new(decoder)), ..encoder })
}

fn side(fields: &Fields, keys: &Keys) -> Result<Config> {
    let base = common::read(fields, "t5", keys)?;
    let count = fields.count("relative_attention_num_buckets")?.unwrap_or(32);
    let furthest = fields.count("relative_attention_max_distance")?.unwrap_or(128);
    if count < 4 || furthest <= count / 2 {
        let (key, want) =
            ("relative_attention_num_buckets", "4 or more, and below twice the distance");
        return Err(fields.wrong(key, want, format!("{count} for a distance of {furthest}")));
    }
    let maps = [
        ("relu", (Activation::Relu, false)),
        ("gelu", (Activation::Gelu, false)),
        ("gated-gelu", (Activation::GeluTanh, true)), // as in the reference
        ("gated-relu", (Activation::Relu, true)),
        ("gated-silu", (Activation::Silu, true)),
    ];
    let (activation, gated) = fields.choice("feed_forward_proj", &maps)?.unwrap_or(maps[0].1);
    // transformers 5 says apart whether the output is scaled, 4 ties and scales in one
    let tied = fields.flag("tie_word_embeddings")?.unwrap_or(true);
    let tied = fields.flag("scale_decoder_outputs")?.unwrap_or(tied);
    Ok(Config {
        activation,
        gated,
        norm: NormKind::Rms,
        norm_eps: fields.epsilon("layer_norm_epsilon")?.unwrap_or(1e-6),
        norm_order: NormOrder::Pre,
        embedding_norm: false,
        absolute: Absolute::None,
        distances: Distances::Buckets { count, furthest },
        score_scales: vec![1.0; base.layers()],
        optional_biases: true,
        tied,
        logit_scale: if tied { 1.0 / (base.hidden_size as f64).sqrt() } else { 1.0 },
        ..base
    })
}
