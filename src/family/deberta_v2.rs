//! DeBERTa v2 and v3 (He et al. 2021): disentangled attention over contents and distances.

use super::Family;
use super::common::{self, KEYS};
use super::fields::Fields;
use super::roberta::ROBERTA;
use crate::config::{Absolute, Activation, Config, Convolution, Distances, Heads, Task};
use crate::error::Result;

pub(super) const DEBERTA_V2: Family = Family {
    model_type: "deberta-v2",
    prefix: "deberta.",
    modules: &[&[
        ("embeddings.word_embeddings", "embeddings.word"),
        ("embeddings.position_embeddings", "embeddings.position"),
        ("embeddings.token_type_embeddings", "embeddings.type"),
        ("embeddings.embed_proj", "embeddings.projection"),
        ("embeddings.LayerNorm", "embeddings.norm"),
        ("encoder.rel_embeddings", "distance"),
        ("encoder.LayerNorm", "distance.norm"),
        ("encoder.conv.conv", "convolution"),
        ("encoder.conv.LayerNorm", "convolution.norm"),
        ("encoder.layer.{}.attention.self.query_proj", "layers.{}.attention.query"),
        ("encoder.layer.{}.attention.self.key_proj", "layers.{}.attention.key"),
        ("encoder.layer.{}.attention.self.value_proj", "layers.{}.attention.value"),
        ("encoder.layer.{}.attention.self.pos_key_proj", "layers.{}.attention.position_key"),
        ("encoder.layer.{}.attention.self.pos_query_proj", "layers.{}.attention.position_query"),
        ("encoder.layer.{}.attention.output.dense", "layers.{}.attention.output"),
        ("encoder.layer.{}.attention.output.LayerNorm", "layers.{}.attention.norm"),
        ("encoder.layer.{}.intermediate.dense", "layers.{}.mlp.up"),
        ("encoder.layer.{}.output.dense", "layers.{}.mlp.down"),
        ("encoder.layer.{}.output.LayerNorm", "layers.{}.mlp.norm"),
        ("pooler.dense", "sequence.transform"),
        ("cls.predictions.transform.dense", "lm.transform"),
        ("cls.predictions.transform.LayerNorm", "lm.norm"),
        ("cls.predictions.decoder", "lm.decoder"),
        ("cls.predictions.bias", "lm.bias"),
        ("lm_predictions.lm_head.dense", "lm.transform"),
        ("lm_predictions.lm_head.LayerNorm", "lm.norm"),
        ("lm_predictions.lm_head.bias", "lm.bias"),
        ("classifier", "classifier"),
    ]],
    ignorable: &[
        "cls_dropout",
        "conv_dropout",
        "legacy",
        "pooler_dropout",
        "pooler_hidden_size",
        "pooling",
        "talking_head",
    ],
    classes: &[
        ("DebertaV2Model", Task::Encoder),
        ("DebertaV2ForMaskedLM", Task::MaskedLm),
        ("DebertaV2ForSequenceClassification", Task::SequenceClassification),
        ("DebertaV2ForTokenClassification", Task::TokenClassification),
    ],
    read,
    ..ROBERTA
};

fn read(fields: &Fields) -> Result<Config> {
    let base = common::read(fields, "deberta-v2", &KEYS)?;
    let absolute = match fields.flag("position_biased_input")?.unwrap_or(true) {
        true => Absolute::Ordinal,
        false => Absolute::None,
    };
    if let Some(width) = fields.count("attention_head_size")?.filter(|&k| k != base.head_dim) {
        let want = format!("hidden_size / num_attention_heads = {}", base.head_dim);
        return Err(fields.wrong("attention_head_size", want, width.to_string()));
    }
    let sequence = fields.activation("pooler_hidden_act")?.unwrap_or(Activation::Gelu);
    let distances = distances(fields, base.max_positions)?;
    let terms = match distances {
        Distances::Disentangled { c2p, p2c, .. } => 1 + usize::from(c2p) + usize::from(p2c),
        _ => 1,
    };
    Ok(Config {
        score_scales: vec![1.0 / ((base.head_dim * terms) as f64).sqrt(); base.layers()],
        embedding_size: fields.count("embedding_size")?.unwrap_or(base.hidden_size),
        project_first: true,
        type_vocab_size: fields.count("type_vocab_size")?.unwrap_or(0),
        norm_eps: fields.epsilon("layer_norm_eps")?.unwrap_or(1e-7),
        absolute,
        distances,
        blank_padding: true,
        convolution: convolution(fields, base.hidden_size)?,
        task_heads: Heads { masked_lm: base.activation, sequence, ..base.task_heads },
        ..base
    })
}

fn distances(fields: &Fields, max_positions: usize) -> Result<Distances> {
    let kinds = kinds(fields)?;
    // −1 stands for none
    let positive = |key: &str| match fields.number(key)? {
        Some(none) if none < 1.0 => Ok(None),
        _ => fields.count(key),
    };
    let (buckets, largest) = (positive("position_buckets")?, positive("max_relative_positions")?);
    let normed = fields.text("norm_rel_ebd")?.unwrap_or_default();
    let shared = fields.flag("share_att_key")?.unwrap_or(false);
    if !fields.flag("relative_attention")?.unwrap_or(false) {
        if kinds.iter().any(|kind| kind == "c2p" || kind == "p2c") {
            // the scale would count terms that are never added
            let want = "no terms without relative_attention";
            return Err(fields.wrong("pos_att_type", want, kinds.join("|")));
        }
        return Ok(Distances::None);
    }
    let furthest = largest.unwrap_or(max_positions);
    common::log_buckets(fields, buckets, furthest)?;
    Ok(Distances::Disentangled {
        c2p: kinds.iter().any(|kind| kind == "c2p"),
        p2c: kinds.iter().any(|kind| kind == "p2c"),
        buckets,
        furthest,
        shared,
        normed: normed.to_lowercase().split('|').any(|part| part.trim() == "layer_norm"),
    })
}

/// `pos_att_type`: which terms there are.
fn kinds(fields: &Fields) -> Result<Vec<String>> {
    let names = fields.names("pos_att_type")?;
    match names.iter().find(|name| *name != "c2p" && *name != "p2c") {
        Some(other) => Err(fields.wrong("pos_att_type", "c2p, p2c", format!("`{other}`"))),
        None => Ok(names),
    }
}

fn convolution(fields: &Fields, width: usize) -> Result<Option<Convolution>> {
    let kernel = fields.count("conv_kernel_size")?.unwrap_or(0);
    let groups = fields.count("conv_groups")?.unwrap_or(1);
    let activation = fields.activation("conv_act")?.unwrap_or(Activation::Tanh);
    if kernel == 0 {
        return Ok(None);
    }
    if kernel % 2 == 0 {
        return Err(fields.wrong("conv_kernel_size", "an odd number", kernel.to_string()));
    }
    if groups == 0 || !width.is_multiple_of(groups) {
        let want = format!("a divisor of hidden_size {width}");
        return Err(fields.wrong("conv_groups", want, groups.to_string()));
    }
    Ok(Some(Convolution { kernel, groups, activation }))
}
