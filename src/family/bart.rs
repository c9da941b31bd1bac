//! BART (Lewis et al. 2020) and Marian (Junczys-Dowmunt et al. 2018): an encoder and a decoder with
//! their norms last.

use super::common::{self, Keys};
use super::fields::Fields;
use super::{DECODER_PRUNED, Family};
use crate::config::{Absolute, Config, Task};
use crate::error::Result;

pub(super) const BART: Family = Family {
    model_type: "bart",
    prefix: "model.",
    modules: &[&[
        ("shared", "embeddings.word"),
        ("encoder.embed_tokens", "encoder.embeddings.word"),
        ("encoder.embed_positions", "encoder.embeddings.position"),
        ("encoder.layernorm_embedding", "encoder.embeddings.norm"),
        ("encoder.layers.{}.self_attn.q_proj", "encoder.layers.{}.attention.query"),
        ("encoder.layers.{}.self_attn.k_proj", "encoder.layers.{}.attention.key"),
        ("encoder.layers.{}.self_attn.v_proj", "encoder.layers.{}.attention.value"),
        ("encoder.layers.{}.self_attn.out_proj", "encoder.layers.{}.attention.output"),
        ("encoder.layers.{}.self_attn_layer_norm", "encoder.layers.{}.attention.norm"),
        ("encoder.layers.{}.fc1", "encoder.layers.{}.mlp.up"),
        ("encoder.layers.{}.fc2", "encoder.layers.{}.mlp.down"),
        ("encoder.layers.{}.final_layer_norm", "encoder.layers.{}.mlp.norm"),
        ("decoder.embed_tokens", "decoder.embeddings.word"),
        ("decoder.embed_positions", "decoder.embeddings.position"),
        ("decoder.layernorm_embedding", "decoder.embeddings.norm"),
        ("decoder.layers.{}.self_attn.q_proj", "decoder.layers.{}.attention.query"),
        ("decoder.layers.{}.self_attn.k_proj", "decoder.layers.{}.attention.key"),
        ("decoder.layers.{}.self_attn.v_proj", "decoder.layers.{}.attention.value"),
        ("decoder.layers.{}.self_attn.out_proj", "decoder.layers.{}.attention.output"),
        ("decoder.layers.{}.self_attn_layer_norm", "decoder.layers.{}.attention.norm"),
        ("decoder.layers.{}.encoder_attn.q_proj", "decoder.layers.{}.cross.query"),
        ("decoder.layers.{}.encoder_attn.k_proj", "decoder.layers.{}.cross.key"),
        ("decoder.layers.{}.encoder_attn.v_proj", "decoder.layers.{}.cross.value"),
        ("decoder.layers.{}.encoder_attn.out_proj", "decoder.layers.{}.cross.output"),
        ("decoder.layers.{}.encoder_attn_layer_norm", "decoder.layers.{}.cross.norm"),
        ("decoder.layers.{}.fc1", "decoder.layers.{}.mlp.up"),
        ("decoder.layers.{}.fc2", "decoder.layers.{}.mlp.down"),
        ("decoder.layers.{}.final_layer_norm", "decoder.layers.{}.mlp.norm"),
        ("lm_head", "lm.decoder"),
        ("final_logits_bias", "lm.bias"),
    ]],
    turned: false,
    buffers: &["encoder.version", "decoder.version"],
    // of the older ones the reference reads none
    ignorable: &[
        "activation_dropout",
        "add_bias_logits",
        "add_final_layer_norm",
        "attention_dropout",
        "classif_dropout",
        "decoder_layerdrop",
        "dropout",
        "encoder_layerdrop",
        "extra_pos_embeddings",
        "init_std",
        "is_decoder",
        "normalize_before",
        "normalize_embedding",
        "num_hidden_layers",
        "static_position_embeddings",
    ],
    classes: &[("BartModel", Task::Encoder), ("BartForConditionalGeneration", Task::Seq2SeqLm)],
    read: |fields| read(fields, "bart", Absolute::Shifted { by: 2 }),
};

pub(super) const MARIAN: Family = Family {
    model_type: "marian",
    // sines are computed, whatever a file holds of them
    buffers: &["encoder.embed_positions.weight", "decoder.embed_positions.weight"],
    classes: &[("MarianModel", Task::Encoder), ("MarianMTModel", Task::Seq2SeqLm)],
    read: |fields| {
        fields.flag("share_encoder_decoder_embeddings")?; // the tensors say it
        let config = read(fields, "marian", Absolute::Sinusoidal)?;
        let vocab_size = fields.count("decoder_vocab_size")?.unwrap_or(config.vocab_size);
        let decoder = config
            .decoder
            .map(|decoder| Box::new(Config { vocab_size, embedding_norm: false, ..*decoder }));
        Ok(Config { embedding_norm: false, decoder, ..config })
    },
    ..BART
};

const ENCODER: Keys = Keys {
    hidden: "d_model",
    inner: "encoder_ffn_dim",
    layers: "encoder_layers",
    heads: "encoder_attention_heads",
    activation: "activation_function",
    ..common::KEYS
};

const DECODER: Keys = Keys {
    inner: "decoder_ffn_dim",
    layers: "decoder_layers",
    heads: "decoder_attention_heads",
    pruned: DECODER_PRUNED,
    ..ENCODER
};

fn read(fields: &Fields, model_type: &str, absolute: Absolute) -> Result<Config> {
    let side = |keys: &Keys| -> Result<Config> {
        let base = common::read(fields, model_type, keys)?;
        let scaled = fields.flag("scale_embedding")?.unwrap_or(false);
        Ok(Config {
            norm_eps: 1e-5, // the reference has no key for it
            absolute,
            embedding_scale: if scaled { (base.hidden_size as f64).sqrt() } else { 1.0 },
            ..base
        })
    };
    let decoder = common::decoder(fields, side(&DECODER)?)?;
    Ok(Config { decoder: Some(Box::new(decoder)), ..side(&ENCODER)? })
}
