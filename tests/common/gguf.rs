//! GGUF files made of a checkpoint in memory, as llama.cpp's converter lays them out.

use std::fs::File;
use std::path::Path;

use attnviz::{Model, Result};
use candle_core::Tensor;
use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use serde_json::{Value as Json, json};

use super::open;
use super::variant::Variant;

/// What is in a file.
pub struct Gguf {
    pub metadata: Vec<(String, Value)>,
    pub tensors: Vec<(String, QTensor)>,
}

/// Names in transformers and in llama.cpp.
const NAMES: [(&str, &str); 12] = [
    ("model.embed_tokens", "token_embd"),
    ("model.norm", "output_norm"),
    ("lm_head", "output"),
    ("input_layernorm", "attn_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
    ("post_attention_layernorm", "ffn_norm"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
];

fn renamed(name: &str) -> String {
    let (module, end) = name.rsplit_once('.').expect("a parameter");
    let (layer, part) = match module.strip_prefix("model.layers.").and_then(|m| m.split_once('.')) {
        Some((layer, part)) => (format!("blk.{layer}."), part),
        None => (String::new(), module),
    };
    let (_, there) = NAMES.iter().find(|(here, _)| *here == part).expect("known");
    format!("{layer}{there}.{end}")
}

/// Rows as llama.cpp's converter orders them: [heads, 2, K / 2, ..] → [heads, K / 2, 2, ..].
fn paired(tensor: &Tensor, head_dim: usize) -> Tensor {
    let shape = tensor.dims().to_vec();
    let rest: usize = shape[1..].iter().product();
    let split = tensor.reshape((shape[0] / head_dim, 2, head_dim / 2, rest)).expect("heads");
    split.transpose(1, 2).and_then(|t| t.contiguous()?.reshape(shape)).expect("rows")
}

impl Gguf {
    /// A Llama or Qwen2 with its matrices stored as `kind` says for each name in transformers.
    pub fn of(variant: &Variant, kind: impl Fn(&str) -> GgmlDType) -> Self {
        let config = &variant.config;
        let size = |key: &str| Value::U32(config[key].as_u64().expect("size") as u32);
        let name = config["model_type"].as_str().expect("a family");
        let mut metadata = vec![("general.architecture".to_string(), Value::String(name.into()))];
        let keys = [
            ("block_count", "num_hidden_layers"),
            ("context_length", "max_position_embeddings"),
            ("embedding_length", "hidden_size"),
            ("feed_forward_length", "intermediate_size"),
            ("attention.head_count", "num_attention_heads"),
            ("attention.head_count_kv", "num_key_value_heads"),
            ("attention.key_length", "head_dim"),
        ];
        let said = keys.into_iter().filter(|(_, here)| !config[here].is_null());
        metadata.extend(said.map(|(there, here)| (format!("{name}.{there}"), size(here))));
        let base = &config["rope_parameters"]["rope_theta"];
        for (key, value) in [
            ("attention.layer_norm_rms_epsilon", &config["rms_norm_eps"]),
            ("rope.freq_base", base),
        ] {
            let value = Value::F32(value.as_f64().expect("number") as f32);
            metadata.push((format!("{name}.{key}"), value));
        }
        for (key, id) in [("bos", "bos_token_id"), ("eos", "eos_token_id")] {
            metadata.push((format!("tokenizer.ggml.{key}_token_id"), size(id)));
        }
        let neighbours = name == "llama";
        let mut names: Vec<&String> = variant.tensors.keys().collect();
        names.sort();
        let tensor = |name: &String| {
            let tensor = &variant.tensors[name];
            let turns = name.contains("q_proj") || name.contains("k_proj");
            // only Llama's own converter turns neighbours
            let tensor = match config["head_dim"].as_u64().filter(|_| turns && neighbours) {
                Some(head_dim) => paired(tensor, head_dim as usize),
                None => tensor.clone(),
            };
            let kind = if tensor.rank() == 1 { GgmlDType::F32 } else { kind(name) };
            (renamed(name), QTensor::quantize(&tensor, kind).expect("quantized"))
        };
        let tensors = names.into_iter().map(tensor).collect();
        Self { metadata, tensors }
    }

    pub fn set(mut self, key: &str, value: Value) -> Self {
        self.metadata.retain(|(name, _)| name != key);
        self.metadata.push((key.into(), value));
        self
    }

    pub fn without(mut self, key: &str) -> Self {
        self.metadata.retain(|(name, _)| name != key);
        self.tensors.retain(|(name, _)| name != key);
        self
    }

    pub fn with(mut self, name: &str, tensor: &Tensor) -> Self {
        let tensor = QTensor::quantize(tensor, GgmlDType::F32).expect("stored");
        self.tensors.push((name.into(), tensor));
        self
    }

    pub fn write(&self, path: &Path) {
        let metadata: Vec<(&str, &Value)> =
            self.metadata.iter().map(|(key, value)| (key.as_str(), value)).collect();
        let tensors: Vec<(&str, &QTensor)> =
            self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
        let mut file = File::create(path).expect("file");
        gguf_file::write(&mut file, &metadata, &tensors).expect("written");
    }

    pub fn open(&self) -> Result<Model> {
        let folder = tempfile::TempDir::new().expect("folder");
        let path = folder.path().join("model.gguf");
        self.write(&path);
        open(&path, None)
    }

    /// The one line with which opening it fails, and its exit code.
    pub fn refusal(&self) -> (String, u8) {
        let error = self.open().err().expect("must be refused");
        let line = error.to_string();
        assert!(!line.contains('\n'), "one line: {line}");
        let line = line.split_once("model.gguf").expect("names the file").1.to_string();
        (line, error.exit_code())
    }
}

/// A Llama of any size with random weights.
pub fn random(width: usize, inner: usize, head_dim: usize) -> Variant {
    let config = json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
        "hidden_size": width, "intermediate_size": inner, "head_dim": head_dim,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "vocab_size": 96,
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
        "tie_word_embeddings": true, "bos_token_id": 1, "eos_token_id": 2,
    });
    let mut state = 7u64;
    let mut noise = |shape: &[usize], scale: f32, around: f32| {
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 40) as f32 / (1u64 << 23) as f32 - 1.0) * scale + around
        };
        let values: Vec<f32> = (0..shape.iter().product()).map(|_| next()).collect();
        Tensor::from_vec(values, shape, &candle_core::Device::Cpu).expect("tensor")
    };
    let (q, kv) = (4 * head_dim, 2 * head_dim);
    let mut tensors = std::collections::HashMap::new();
    tensors.insert("model.embed_tokens.weight".into(), noise(&[96, width], 1.0, 0.0));
    tensors.insert("model.norm.weight".into(), noise(&[width], 0.1, 1.0));
    for layer in 0..2 {
        let sizes = [
            ("self_attn.q_proj", [q, width]),
            ("self_attn.k_proj", [kv, width]),
            ("self_attn.v_proj", [kv, width]),
            ("self_attn.o_proj", [width, q]),
            ("mlp.gate_proj", [inner, width]),
            ("mlp.up_proj", [inner, width]),
            ("mlp.down_proj", [width, inner]),
        ];
        for (part, shape) in sizes {
            let weight = noise(&shape, 2.0 / (shape[1] as f32).sqrt(), 0.0);
            tensors.insert(format!("model.layers.{layer}.{part}.weight"), weight);
        }
        for norm in ["input_layernorm", "post_attention_layernorm"] {
            let weight = noise(&[width], 0.1, 1.0);
            tensors.insert(format!("model.layers.{layer}.{norm}.weight"), weight);
        }
    }
    Variant { tensors, config }
}

/// The same checkpoint with every matrix as its storage rounds it.
pub fn rounded(variant: &Variant, kind: impl Fn(&str) -> GgmlDType) -> Variant {
    let config: Json = variant.config.clone();
    let round = |(name, tensor): (&String, &Tensor)| {
        if tensor.rank() == 1 {
            return (name.clone(), tensor.clone());
        }
        let stored = QTensor::quantize(tensor, kind(name)).expect("quantized");
        (name.clone(), stored.dequantize(tensor.device()).expect("decoded"))
    };
    Variant { tensors: variant.tensors.iter().map(round).collect(), config }
}
