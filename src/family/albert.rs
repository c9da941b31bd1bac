//! ALBERT (Lan et al. 2020): BERT with one block for all layers and narrow embeddings.

use super::Family;
use super::common::{self, KEYS};
use super::fields::Fields;
use crate::config::{Absolute, Config, Heads, Task};
use crate::error::Result;

pub(super) const ALBERT: Family = Family {
    model_type: "albert",
    prefix: "albert.",
    modules: &[&[
        ("embeddings.word_embeddings", "embeddings.word"),
        ("embeddings.position_embeddings", "embeddings.position"),
        ("embeddings.token_type_embeddings", "embeddings.type"),
        ("embeddings.LayerNorm", "embeddings.norm"),
        ("encoder.embedding_hidden_mapping_in", "embeddings.projection"),
        (
            "encoder.albert_layer_groups.{}.albert_layers.0.attention.query",
            "layers.{}.attention.query",
        ),
        ("encoder.albert_layer_groups.{}.albert_layers.0.attention.key", "layers.{}.attention.key"),
        (
            "encoder.albert_layer_groups.{}.albert_layers.0.attention.value",
            "layers.{}.attention.value",
        ),
        (
            "encoder.albert_layer_groups.{}.albert_layers.0.attention.distance_embedding",
            "layers.{}.attention.distance",
        ),
        (
            "encoder.albert_layer_groups.{}.albert_layers.0.attention.dense",
            "layers.{}.attention.output",
        ),
        (
            "encoder.albert_layer_groups.{}.albert_layers.0.attention.LayerNorm",
            "layers.{}.attention.norm",
        ),
        ("encoder.albert_layer_groups.{}.albert_layers.0.ffn", "layers.{}.mlp.up"),
        ("encoder.albert_layer_groups.{}.albert_layers.0.ffn_output", "layers.{}.mlp.down"),
        (
            "encoder.albert_layer_groups.{}.albert_layers.0.full_layer_layer_norm",
            "layers.{}.mlp.norm",
        ),
        ("pooler", "pooler"),
        ("predictions.dense", "lm.transform"),
        ("predictions.LayerNorm", "lm.norm"),
        ("predictions.decoder", "lm.decoder"),
        ("predictions.bias", "lm.bias"),
        ("classifier", "classifier"),
    ]],
    turned: false,
    buffers: &["embeddings.position_ids", "embeddings.token_type_ids"],
    ignorable: &[
        "classifier_dropout_prob",
        "down_scale_factor",
        "gap_size",
        "net_structure_type",
        "num_memory_blocks",
    ],
    classes: &[
        ("AlbertModel", Task::Encoder),
        ("AlbertForMaskedLM", Task::MaskedLm),
        ("AlbertForPreTraining", Task::MaskedLm),
        ("AlbertForSequenceClassification", Task::SequenceClassification),
        ("AlbertForTokenClassification", Task::TokenClassification),
    ],
    read,
};

fn read(fields: &Fields) -> Result<Config> {
    let base = common::read(fields, "albert", &KEYS)?;
    let (absolute, distances) = common::positions(fields, Absolute::Ordinal)?;
    let layers = base.layers();
    let groups = fields.count("num_hidden_groups")?.unwrap_or(1);
    if groups == 0 || groups > layers {
        let want = format!("1 to {layers}, the layers");
        return Err(fields.wrong("num_hidden_groups", want, groups.to_string()));
    }
    if let Some(inner) = fields.count("inner_group_num")?.filter(|&inner| inner != 1) {
        let want = "1: one block per layer";
        return Err(fields.wrong("inner_group_num", want, inner.to_string()));
    }
    // layer l belongs to group ⌊l / (layers / groups)⌋, in true division as in the reference
    let shared: Vec<usize> = (0..layers).map(|layer| layer * groups / layers).collect();
    // transformers names a block under its own number, in place of the layers that share it
    let beyond = base.heads.iter().zip(&base.head_counts).skip(groups);
    if let Some(layer) = beyond.clone().position(|(heads, &count)| heads.len() < count) {
        let want = format!("numbers of blocks, below {groups}");
        return Err(fields.wrong("pruned_heads", want, format!("{}", groups + layer)));
    }
    let heads = shared.iter().map(|&group| base.heads[group].clone()).collect();
    Ok(Config {
        heads,
        shared,
        embedding_size: fields.count("embedding_size")?.unwrap_or(128),
        type_vocab_size: fields.count("type_vocab_size")?.unwrap_or(2),
        norm_eps: fields.epsilon("layer_norm_eps")?.unwrap_or(1e-12),
        absolute,
        distances,
        task_heads: Heads { masked_lm: base.activation, ..base.task_heads },
        ..base
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_go_from_all_layers_that_share_a_block() {
        let config_text = r#"{"hidden_size": 8, "num_attention_heads": 4, "num_hidden_layers": 4,
            "intermediate_size": 8, "vocab_size": 9, "max_position_embeddings": 8,
            "num_hidden_groups": 2, "pruned_heads": {"0": [1], "1": [0, 2]}}"#;
        let fields = Fields::parse("config.json".as_ref(), config_text.as_bytes()).expect("JSON");
        let config = read(&fields).expect("reads");
        assert_eq!(config.shared, [0, 0, 1, 1]);
        assert_eq!(config.heads, [vec![0, 2, 3], vec![0, 2, 3], vec![1, 3], vec![1, 3]]);
        let config = config_text.replace("\"1\":", "\"2\":");
        let fields = Fields::parse("config.json".as_ref(), config.as_bytes()).expect("JSON");
        let line = read(&fields).expect_err("refused").to_string();
        assert!(line.ends_with("expected numbers of blocks, below 2, found 2"), "{line}");
    }
}
