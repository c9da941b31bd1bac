//! Sizes → a checkpoint folder with first weights, which is opened as any other.

use std::collections::HashMap;
use std::path::Path;

use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::SeedableRng;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Map, Value, json};

use super::super::{normal_numbers, uniform};
use super::vocabulary::{CLS, SEP};
use crate::config::Task;
use crate::error::{Error, Result};
use crate::hub::{Asset, TokenizerFiles};
use crate::tokens::Tokenizer;

/// How first weights are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Init {
    /// Query and key uniform within ±√(6 / (inputs + outputs)) (Glorot and Bengio 2010, equation 16),
    /// values within half of that, all else as [`Init::Normal`].
    Xavier,
    /// Normal with deviation 0.02 (Devlin et al. 2019), and 0.02/√(2·layers) for the maps that add to
    /// the residual stream (Radford et al. 2019, section 2.3).
    Normal,
}

impl Init {
    /// Names with their values.
    pub const NAMES: [(&'static str, Init); 2] =
        [("xavier", Self::Xavier), ("normal", Self::Normal)];
}

/// Share of Xavier's range that values get: all heads then begin by adding little.
const VALUE: f32 = 0.5;
const DEVIATION: f32 = 0.02;

/// A BERT that is yet to be trained.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct NewModel {
    /// [`Task::CausalLm`] or [`Task::MaskedLm`].
    pub task: Task,
    /// Layers.
    pub layers: usize,
    /// Heads of a layer.
    pub heads: usize,
    /// Width of the residual stream, a multiple of the heads.
    pub width: usize,
    /// Width between the two maps behind an attention.
    pub inner: usize,
    /// Most tokens of a text.
    pub positions: usize,
    /// How weights are drawn.
    pub init: Init,
    /// Where their random numbers begin.
    pub seed: u64,
}

/// A tensor with its place in the order of random numbers.
struct Drawn {
    name: String,
    shape: Vec<usize>,
    values: Vec<f32>,
}

impl NewModel {
    /// Refuses sizes that make no model.
    ///
    /// # Errors
    /// [`Error::Usage`] for a size of 0 and for a width that is no multiple of the heads.
    pub fn check(&self) -> Result<()> {
        let wrong = |flag: &str, want: &str, found: usize| {
            Err(Error::Usage { flag: flag.into(), want: want.into(), found: found.to_string() })
        };
        let sizes = [
            ("--layers", self.layers, 1..=256),
            ("--heads", self.heads, 1..=1024),
            ("--width", self.width, 1..=1 << 16),
            ("--inner", self.inner, 1..=1 << 18),
            ("--positions", self.positions, 2..=1 << 20),
        ];
        for (flag, size, allowed) in sizes {
            if !allowed.contains(&size) {
                let (from, to) = allowed.into_inner();
                return wrong(flag, &format!("from {from} to {to}"), size);
            }
        }
        match self.width.is_multiple_of(self.heads) {
            true => Ok(()),
            false => {
                wrong("--width", &format!("a multiple of the {} heads", self.heads), self.width)
            }
        }
    }

    /// The files of the model beside its tokenizer's, in `folder`: config.json and weights of
    /// float32.
    ///
    /// # Errors
    /// [`Error::Usage`] for sizes that make no model, [`Error::Io`] where the folder cannot be
    /// written, those of [`Tokenizer::open`].
    pub fn write(&self, folder: &Path) -> Result<()> {
        self.check()?;
        // the vocabulary is what the tokenizer's own file holds
        let json = Some(Asset::Disk(folder.join("tokenizer.json")));
        let vocabulary =
            Tokenizer::open(&TokenizerFiles { json, ..Default::default() })?.vocab_size();
        let weights = serialized(&self.weights(vocabulary))?;
        for (name, bytes) in
            [("config.json", self.config(vocabulary).as_bytes()), ("model.safetensors", &weights)]
        {
            let path = folder.join(name);
            std::fs::write(&path, bytes).map_err(Error::io(&path, "write it"))?;
        }
        Ok(())
    }

    fn config(&self, vocabulary: usize) -> String {
        let causal = self.task == Task::CausalLm;
        let mut config = Map::new();
        let class = if causal { "BertLMHeadModel" } else { "BertForMaskedLM" };
        let mut set = |key: &str, value: Value| config.insert(key.into(), value);
        set("architectures", json!([class]));
        set("model_type", "bert".into());
        set("is_decoder", causal.into());
        set("vocab_size", vocabulary.into());
        set("num_hidden_layers", self.layers.into());
        set("num_attention_heads", self.heads.into());
        set("hidden_size", self.width.into());
        set("intermediate_size", self.inner.into());
        set("max_position_embeddings", self.positions.into());
        set("type_vocab_size", 1.into());
        set("hidden_act", "gelu".into());
        set("layer_norm_eps", json!(1e-12));
        set("hidden_dropout_prob", json!(0.0));
        set("attention_probs_dropout_prob", json!(0.0));
        set("initializer_range", json!(0.02));
        set("tie_word_embeddings", true.into());
        set("pad_token_id", 0.into());
        if causal {
            set("bos_token_id", CLS.into());
            set("eos_token_id", SEP.into());
        }
        set("dtype", "float32".into());
        format!("{:#}\n", Value::Object(config))
    }

    fn weights(&self, vocabulary: usize) -> Vec<Drawn> {
        let (width, inner) = (self.width, self.inner);
        let mut all = Weights { new: self, all: Vec::new() };
        let tables = [("word", vocabulary), ("position", self.positions), ("token_type", 1)];
        for (table, rows) in tables {
            all.drawn(
                &format!("bert.embeddings.{table}_embeddings.weight"),
                [rows, width],
                DEVIATION,
            );
        }
        all.norm("bert.embeddings.LayerNorm");
        let last = DEVIATION / (2.0 * self.layers as f32).sqrt();
        for layer in 0..self.layers {
            let at = format!("bert.encoder.layer.{layer}");
            for (name, share) in [("query", 1.0), ("key", 1.0), ("value", VALUE)] {
                all.inside(&format!("{at}.attention.self.{name}"), share);
            }
            all.map(&format!("{at}.attention.output.dense"), [width, width], last);
            all.norm(&format!("{at}.attention.output.LayerNorm"));
            all.map(&format!("{at}.intermediate.dense"), [inner, width], DEVIATION);
            all.map(&format!("{at}.output.dense"), [width, inner], last);
            all.norm(&format!("{at}.output.LayerNorm"));
        }
        all.map("cls.predictions.transform.dense", [width, width], DEVIATION);
        all.norm("cls.predictions.transform.LayerNorm");
        all.vector("cls.predictions.bias", vocabulary, 0.0);
        all.all
    }
}

struct Weights<'a> {
    new: &'a NewModel,
    all: Vec<Drawn>,
}

impl Weights<'_> {
    /// Random numbers of the next tensor: those of one do not depend on the sizes of others.
    fn random(&self) -> ChaCha12Rng {
        let mut random = ChaCha12Rng::seed_from_u64(self.new.seed);
        random.set_stream(u64::MAX - self.all.len() as u64);
        random
    }

    fn drawn(&mut self, name: &str, shape: [usize; 2], deviation: f32) {
        let mut random = self.random();
        let values = normal_numbers(&mut random, shape[0] * shape[1], deviation);
        self.all.push(Drawn { name: name.into(), shape: shape.into(), values });
    }

    fn vector(&mut self, name: &str, count: usize, value: f32) {
        let (name, shape) = (name.to_owned(), vec![count]);
        self.all.push(Drawn { name, shape, values: vec![value; count] });
    }

    fn norm(&mut self, name: &str) {
        self.vector(&format!("{name}.weight"), self.new.width, 1.0);
        self.vector(&format!("{name}.bias"), self.new.width, 0.0);
    }

    fn map(&mut self, name: &str, shape: [usize; 2], deviation: f32) {
        self.drawn(&format!("{name}.weight"), shape, deviation);
        self.vector(&format!("{name}.bias"), shape[0], 0.0);
    }

    /// A map into the heads; `share` of Xavier's range.
    fn inside(&mut self, name: &str, share: f32) {
        let width = self.new.width;
        if self.new.init == Init::Normal {
            return self.map(name, [width, width], DEVIATION);
        }
        let (mut random, most) = (self.random(), share * (6.0 / (2 * width) as f32).sqrt());
        let draw = |_| most * (2.0 * uniform(&mut random) - 1.0);
        let values = (0..width * width).map(draw).collect();
        self.all.push(Drawn { name: format!("{name}.weight"), shape: vec![width; 2], values });
        self.vector(&format!("{name}.bias"), width, 0.0);
    }
}

fn serialized(all: &[Drawn]) -> Result<Vec<u8>> {
    let failed = |why: safetensors::SafeTensorError| Error::Output {
        path: "model.safetensors".into(),
        why: why.to_string(),
    };
    let bytes: Vec<Vec<u8>> =
        all.iter().map(|one| one.values.iter().flat_map(|x| x.to_le_bytes()).collect()).collect();
    let views = all.iter().zip(&bytes).map(|(one, bytes)| {
        Ok((one.name.as_str(), TensorView::new(Dtype::F32, one.shape.clone(), bytes)?))
    });
    let views = views.collect::<Result<Vec<_>, safetensors::SafeTensorError>>().map_err(failed)?;
    // what transformers asks for before it loads a file
    let about = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    safetensors::serialize(views, Some(about)).map_err(failed)
}
