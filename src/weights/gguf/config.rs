//! The metadata of a model like Llama → the `config.json` that transformers would keep beside it.

use std::f64::consts::TAU;

use serde_json::{Map, Value, json};

use super::keys::{Architecture, Keys, decimal};
use crate::error::{Error, Result};
use crate::gguf::Header;

/// What the tensors say of the model.
pub(super) struct Shape {
    pub tied: bool,
    /// Rows of the word embedding.
    pub rows: Option<usize>,
    pub attention_bias: bool,
    pub mlp_bias: bool,
    /// What each rotary frequency is divided by.
    pub factors: Option<Vec<f32>>,
}

/// Keys that change nothing here, after the architecture's name.
const IGNORABLE: [&str; 6] = [
    "vocab_size",
    "pooling_type",
    "tensor_data_layout",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
    "attention.layer_norm_epsilon",
];

/// Keys whose every other value than these would change the result.
const NEUTRAL: [(&str, &[f64]); 10] = [
    ("expert_count", &[0.0]),
    ("expert_used_count", &[0.0]),
    ("attention.scale", &[0.0]),
    ("attention.clamp_kqv", &[0.0]),
    ("attention.max_alibi_bias", &[0.0]),
    ("logit_scale", &[0.0, 1.0]),
    ("residual_scale", &[0.0, 1.0]),
    ("embedding_scale", &[0.0, 1.0]),
    ("rope.scaling.attn_factor", &[0.0, 1.0]),
    ("leading_dense_block_count", &[0.0]),
];

/// The text of a `config.json`, and the width of a head.
///
/// # Errors
/// [`Error::Config`] for what is not run.
pub(super) fn config(
    header: &Header,
    architecture: &'static Architecture,
    shape: Shape,
    notes: &mut Vec<String>,
) -> Result<(Vec<u8>, usize)> {
    let mut keys = Keys::new(header, architecture);
    neutral(&mut keys)?;
    let head_dim = head_dim(&mut keys)?;
    let mut config = sizes(&mut keys, head_dim)?;
    let words = match (header.list("tokenizer.ggml.tokens")?, shape.rows) {
        (Some(tokens), _) => tokens.len(),
        (None, rows) => rows.unwrap_or_default(),
    };
    let flags = json!({
        "vocab_size": keys.size("vocab_size")?.unwrap_or(words as u64),
        "tie_word_embeddings": shape.tied,
        "dtype": "float32",
    });
    config.extend(flags.as_object().cloned().unwrap_or_default());
    if architecture.says_biases {
        config.insert("attention_bias".into(), json!(shape.attention_bias));
        config.insert("mlp_bias".into(), json!(shape.mlp_bias));
    }
    rope(&mut keys, &mut config, head_dim, shape.factors)?;
    ends(header, &mut config)?;
    let unknown = keys.unknown(&IGNORABLE);
    let place = header.path().display();
    notes.extend(unknown.map(|key| format!("{place}: unknown key `{key}`, ignored")));
    let text = serde_json::to_vec_pretty(&config);
    let text = text.map_err(|why| Error::checkpoint(header.path(), why.to_string()))?;
    Ok((text, head_dim as usize))
}

/// Refuses what this crate does not compute.
fn neutral(keys: &mut Keys<'_>) -> Result<()> {
    for (key, neutral) in NEUTRAL {
        if keys.number(key)?.is_some_and(|value| !neutral.contains(&value)) {
            return Err(keys.wrong(key, &format!("{} (others are not run)", neutral[0])));
        }
    }
    for (key, plain) in [("attention.causal", true), ("use_parallel_residual", false)] {
        let name = keys.name(key);
        if keys.header.flag(&name)?.is_some_and(|value| value != plain) {
            return Err(keys.wrong(key, &format!("{plain} (the other is not run)")));
        }
    }
    let most = keys.needed("context_length")?;
    let window = keys.number("attention.sliding_window")?.filter(|&window| window > 0.0);
    match window.is_some_and(|window| window < most as f64) {
        true => Err(keys.wrong("attention.sliding_window", "0 (windows are not run)")),
        false => Ok(()),
    }
}

/// Width of a head: what is said, else an even share; all of it is turned by its position.
fn head_dim(keys: &mut Keys<'_>) -> Result<u64> {
    let (width, heads) = (keys.needed("embedding_length")?, keys.needed("attention.head_count")?);
    let own = keys.size("attention.key_length")?;
    if own.is_none() && width % heads != 0 {
        let want = format!("a divisor of {} {width}", keys.whole_name("embedding_length"));
        return Err(keys.wrong("attention.head_count", &want));
    }
    let head_dim = own.unwrap_or(width / heads);
    for key in ["attention.value_length", "rope.dimension_count"] {
        if keys.size(key)?.is_some_and(|found| found != head_dim) {
            return Err(keys.wrong(key, &format!("{head_dim}, the width of a head")));
        }
    }
    match head_dim % 2 {
        0 => Ok(head_dim),
        _ => Err(keys.wrong("attention.key_length", "an even width, for rotary positions")),
    }
}

fn sizes(keys: &mut Keys<'_>, head_dim: u64) -> Result<Map<String, Value>> {
    let heads = keys.needed("attention.head_count")?;
    let shared = keys.size("attention.head_count_kv")?.unwrap_or(heads);
    if heads % shared != 0 {
        let want = format!("a divisor of {} {heads}", keys.whole_name("attention.head_count"));
        return Err(keys.wrong("attention.head_count_kv", &want));
    }
    let epsilon = "attention.layer_norm_rms_epsilon";
    let eps = keys.number(epsilon)?.filter(|eps| *eps >= 0.0);
    let sizes = json!({
        "architectures": [keys.architecture.class],
        "model_type": keys.architecture.name,
        "hidden_size": keys.needed("embedding_length")?,
        "intermediate_size": keys.needed("feed_forward_length")?,
        "num_hidden_layers": keys.needed("block_count")?,
        "num_attention_heads": heads,
        "num_key_value_heads": shared,
        "head_dim": head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": keys.needed("context_length")?,
        "rms_norm_eps": eps.ok_or_else(|| keys.wrong(epsilon, "a number, 0 or more"))?,
    });
    Ok(sizes.as_object().cloned().unwrap_or_default())
}

/// Base and scaling of rotary positions.
fn rope(
    keys: &mut Keys<'_>,
    config: &mut Map<String, Value>,
    head_dim: u64,
    factors: Option<Vec<f32>>,
) -> Result<()> {
    let base = keys.number("rope.freq_base")?.unwrap_or(10_000.0);
    config.insert("rope_theta".into(), json!(base));
    let kind = keys.name("rope.scaling.type");
    let kind = keys.header.text(&kind)?.unwrap_or("linear");
    let factor = match keys.number("rope.scaling.factor")? {
        None => keys.number("rope.scale_linear")?,
        factor => factor,
    };
    let factor = factor.filter(|factor| *factor != 0.0 && *factor != 1.0);
    let scaling = match (kind, factor, factors) {
        ("none" | "linear", None, None) | ("none", Some(_), None) => return Ok(()),
        ("linear", Some(factor), None) => json!({ "rope_type": "linear", "factor": factor }),
        ("none" | "linear", None, Some(factors)) => {
            match llama3(&factors, base, head_dim as usize) {
                Some(scaling) => scaling,
                None => {
                    let why = "tensor `rope_freqs.weight` is not the scaling of Llama 3.1 (from \
                               8192 positions), and no other is run";
                    return Err(Error::checkpoint(keys.header.path(), why));
                }
            }
        }
        _ => return Err(keys.wrong("rope.scaling.type", "none or linear, without rope_freqs")),
    };
    config.insert("rope_scaling".into(), scaling);
    Ok(())
}

/// The scaling of Llama 3.1 whose factors these are: frequencies that turn often within the 8192
/// positions of the training are kept, those that turn less than once are divided, and those
/// between are in between.
fn llama3(factors: &[f32], base: f64, head_dim: usize) -> Option<Value> {
    let (low, high, original) = (1.0, 4.0, 8192.0);
    let most = decimal(factors.iter().copied().fold(0.0, f32::max).into());
    let want = |i: usize| {
        let turns = original / TAU / base.powf(2.0 * i as f64 / head_dim as f64);
        let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
        1.0 / ((1.0 - kept) / most + kept)
    };
    let close = |(i, factor): (usize, &f32)| (f64::from(*factor) / want(i) - 1.0).abs() < 1e-4;
    let all = factors.len() == head_dim / 2 && most >= 1.0;
    (all && factors.iter().enumerate().all(close)).then(|| {
        json!({
            "rope_type": "llama3",
            "factor": most,
            "low_freq_factor": low,
            "high_freq_factor": high,
            "original_max_position_embeddings": 8192,
        })
    })
}

/// Where a text begins and ends; a turn or a message that ends does too.
fn ends(header: &Header, config: &mut Map<String, Value>) -> Result<()> {
    let id = |key: &str| header.whole(&format!("tokenizer.ggml.{key}_token_id"));
    for (key, there) in [("bos", "bos_token_id"), ("padding", "pad_token_id")] {
        if let Some(id) = id(key)? {
            config.insert(there.into(), json!(id));
        }
    }
    let mut ends: Vec<u64> = Vec::new();
    for key in ["eos", "eot", "eom"] {
        ends.extend(id(key)?.filter(|id| !ends.contains(id)));
    }
    match ends.as_slice() {
        [] => {}
        [one] => drop(config.insert("eos_token_id".into(), json!(one))),
        ends => drop(config.insert("eos_token_id".into(), json!(ends))),
    }
    Ok(())
}
