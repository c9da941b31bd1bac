//! Checkpoints of known shapes with random weights, made in memory.
#![allow(dead_code)] // each bench uses its own part

use attnviz::hub::{Asset, ModelFiles};
use attnviz::tokens::Batch;
use ndarray::Array2;
use safetensors::tensor::{Dtype, TensorView};

const LAYERS: usize = 12;
const WIDTH: usize = 768;
const INNER: usize = 3072;
const VOCAB: usize = 30522;

/// Numbers in (−1, 1) from a small generator with a fixed seed.
fn noise(state: &mut u64) -> f32 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
}

/// Layers, width and inner width of a BERT.
type Sizes = (usize, usize, usize);

fn shapes((layers, width, inner): Sizes) -> Vec<(String, Vec<usize>)> {
    let mut shapes = vec![
        ("embeddings.word_embeddings.weight".to_string(), vec![VOCAB, width]),
        ("embeddings.position_embeddings.weight".into(), vec![512, width]),
        ("embeddings.token_type_embeddings.weight".into(), vec![2, width]),
    ];
    let norm = |shapes: &mut Vec<(String, Vec<usize>)>, at: &str| {
        shapes.push((format!("{at}.weight"), vec![width]));
        shapes.push((format!("{at}.bias"), vec![width]));
    };
    norm(&mut shapes, "embeddings.LayerNorm");
    for layer in 0..layers {
        let at = format!("encoder.layer.{layer}");
        for (name, outputs, inputs) in [
            ("attention.self.query", width, width),
            ("attention.self.key", width, width),
            ("attention.self.value", width, width),
            ("attention.output.dense", width, width),
            ("intermediate.dense", inner, width),
            ("output.dense", width, inner),
        ] {
            shapes.push((format!("{at}.{name}.weight"), vec![outputs, inputs]));
            shapes.push((format!("{at}.{name}.bias"), vec![outputs]));
        }
        norm(&mut shapes, &format!("{at}.attention.output.LayerNorm"));
        norm(&mut shapes, &format!("{at}.output.LayerNorm"));
    }
    shapes
}

fn bert_config((layers, width, inner): Sizes, class: &str) -> String {
    format!(
        r#"{{"model_type":"bert","architectures":["{class}"],"hidden_size":{width},
        "num_attention_heads":12,"num_hidden_layers":{layers},"intermediate_size":{inner},
        "vocab_size":{VOCAB},"max_position_embeddings":512,"type_vocab_size":2}}"#
    )
}

/// A checkpoint of the shape of all-MiniLM-L6 with a masked-LM head, in single precision.
pub fn minilm_masked() -> ModelFiles {
    let sizes = (6, 384, 1536);
    let mut shapes = shapes(sizes);
    for (name, shape) in [
        ("transform.dense.weight", vec![384, 384]),
        ("transform.dense.bias", vec![384]),
        ("transform.LayerNorm.weight", vec![384]),
        ("transform.LayerNorm.bias", vec![384]),
        ("bias", vec![VOCAB]),
    ] {
        shapes.push((format!("cls.predictions.{name}"), shape));
    }
    let single = |x: f32| x.to_le_bytes().to_vec();
    let config = bert_config(sizes, "BertForMaskedLM");
    files("random MiniLM", config, weights(shapes, Dtype::F32, single))
}

/// The files of the checkpoint, stored in half precision.
pub fn bert_base() -> ModelFiles {
    let sizes = (LAYERS, WIDTH, INNER);
    let config = bert_config(sizes, "BertModel");
    let half = |x: f32| half::f16::from_f32(x).to_le_bytes().to_vec();
    files("random BERT-base", config, weights(shapes(sizes), Dtype::F16, half))
}

/// A checkpoint of the shape of GPT-2 small, in single precision as its own.
pub fn gpt2_small() -> ModelFiles {
    let mut shapes = vec![
        ("wte.weight".to_string(), vec![50257, WIDTH]),
        ("wpe.weight".into(), vec![1024, WIDTH]),
        ("ln_f.weight".into(), vec![WIDTH]),
        ("ln_f.bias".into(), vec![WIDTH]),
    ];
    for layer in 0..LAYERS {
        for norm in ["ln_1", "ln_2"] {
            shapes.push((format!("h.{layer}.{norm}.weight"), vec![WIDTH]));
            shapes.push((format!("h.{layer}.{norm}.bias"), vec![WIDTH]));
        }
        for (name, inputs, outputs) in [
            ("attn.c_attn", WIDTH, 3 * WIDTH),
            ("attn.c_proj", WIDTH, WIDTH),
            ("mlp.c_fc", WIDTH, INNER),
            ("mlp.c_proj", INNER, WIDTH),
        ] {
            shapes.push((format!("h.{layer}.{name}.weight"), vec![inputs, outputs]));
            shapes.push((format!("h.{layer}.{name}.bias"), vec![outputs]));
        }
    }
    let config = format!(
        r#"{{"model_type":"gpt2","architectures":["GPT2LMHeadModel"],"n_embd":{WIDTH},
        "n_head":12,"n_layer":{LAYERS},"n_inner":{INNER},"vocab_size":50257,"n_positions":1024}}"#
    );
    let single = |x: f32| x.to_le_bytes().to_vec();
    files("random GPT-2 small", config, weights(shapes, Dtype::F32, single))
}

/// A safetensors file of noise, norms of ones.
fn weights(
    shapes: Vec<(String, Vec<usize>)>,
    dtype: Dtype,
    bytes: impl Fn(f32) -> Vec<u8>,
) -> Vec<u8> {
    let mut state = 1;
    let mut data = Vec::new();
    for (name, shape) in shapes {
        let one = name.ends_with("weight") && shape.len() == 1;
        let count = shape.iter().product::<usize>();
        let numbers = (0..count).map(|_| if one { 1.0 } else { 0.05 * noise(&mut state) });
        data.push((name, shape, numbers.flat_map(&bytes).collect::<Vec<u8>>()));
    }
    let views = data.iter().map(|(name, shape, bytes)| {
        (name.as_str(), TensorView::new(dtype, shape.clone(), bytes).expect("view"))
    });
    safetensors::serialize(views, None).expect("serializes")
}

fn files(name: &str, config: String, weights: Vec<u8>) -> ModelFiles {
    ModelFiles {
        name: name.into(),
        revision: None,
        config: Some(asset("config.json", config.into_bytes())),
        generation: None,
        weights: vec![asset("model.safetensors", weights)],
        index: None,
        tokenizer: Default::default(),
        notes: Vec::new(),
    }
}

fn asset(name: &'static str, bytes: Vec<u8>) -> Asset {
    Asset::BuiltIn { name, bytes: Box::leak(bytes.into_boxed_slice()) }
}

/// `b` inputs of `t` tokens.
pub fn batch(b: usize, t: usize) -> Batch {
    let mut state = (b * 1000 + t) as u64;
    let id = || (noise(&mut state).abs() * 29000.0) as u32 + 1000;
    Batch {
        ids: Array2::from_shape_simple_fn((b, t), id),
        mask: Array2::ones((b, t)),
        type_ids: Array2::zeros((b, t)),
        global: None,
        lengths: vec![t; b],
    }
}

/// Sets what the program sets at its start: candle's threads sleep between two operations. Call it
/// before anything is computed.
pub fn calm() {
    // SAFETY: a bench calls it first, before any thread is started
    unsafe { std::env::set_var("CANDLE_BARRIER_POOL_SPIN_LIMIT", "1") };
}
