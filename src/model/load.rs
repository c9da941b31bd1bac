//! Canonical tensors → the parts of a model.

use candle_core::{Device, Tensor};
use rayon::prelude::*;

use super::attention::Attention;
use super::block::Block;
use super::embed::Embeddings;
use super::head::{Decoder, TaskHead};
use super::ops::{Distances, Linear, Norm};
use crate::config::{Config, Positions, Task};
use crate::error::{Error, Result};
use crate::weights::Weights;

/// Reads the parts of one model from its weights.
pub(super) struct Loader<'a> {
    pub weights: &'a Weights,
    pub config: &'a Config,
    pub device: &'a Device,
}

impl Loader<'_> {
    fn tensor(&self, values: Vec<f32>, shape: &[usize]) -> Result<Tensor> {
        Ok(Tensor::from_vec(values, shape, &Device::Cpu)?.to_device(self.device)?)
    }

    /// The maps `names`, each `[out, inputs]` as stored, side by side in one `[inputs, ..]`.
    fn linear(&self, names: &[String], inputs: usize, outputs: usize) -> Result<Linear> {
        // before anything is allocated by sizes that a config may have made up
        for name in names {
            self.weights.expect(&format!("{name}.weight"), &[outputs, inputs])?;
        }
        let all = outputs * names.len();
        let mut weight = vec![0.0; inputs * all];
        let mut bias = Vec::with_capacity(all);
        for (i, name) in names.iter().enumerate() {
            let at = (i * outputs, all);
            self.weights.turned(&format!("{name}.weight"), (outputs, inputs), &mut weight, at)?;
            bias.extend(self.weights.vector(&format!("{name}.bias"), outputs)?);
        }
        Ok(Linear {
            weight: self.tensor(weight, &[inputs, all])?,
            bias: self.tensor(bias, &[all])?,
        })
    }

    fn one(&self, name: &str, inputs: usize, outputs: usize) -> Result<Linear> {
        self.linear(&[name.to_string()], inputs, outputs)
    }

    fn norm(&self, name: &str) -> Result<Norm> {
        let width = self.config.hidden_size;
        let part = |end| -> Result<Tensor> {
            self.tensor(self.weights.vector(&format!("{name}.{end}"), width)?, &[width])
        };
        Ok(Norm { weight: part("weight")?, bias: part("bias")?, eps: self.config.norm_eps })
    }

    pub fn embeddings(&self) -> Result<Embeddings> {
        let (config, weights) = (self.config, self.weights);
        let width = config.hidden_size;
        let table = |name: &str, rows| weights.table(name, rows, width);
        let token_type = match config.type_vocab_size {
            0 => None,
            rows => Some(table("embeddings.type.weight", rows)?),
        };
        let position = match config.positions {
            Positions::Absolute => Some(table("embeddings.position.weight", config.max_positions)?),
            // transformers keeps the table in the file and never adds it
            Positions::RelativeKey | Positions::RelativeKeyQuery => {
                weights.account("embeddings.position.weight");
                None
            }
        };
        Ok(Embeddings {
            word: table("embeddings.word.weight", config.vocab_size)?,
            position,
            token_type,
            max_positions: config.max_positions,
            norm: self.norm("embeddings.norm")?,
        })
    }

    /// All layers, read in parallel.
    pub fn blocks(&self) -> Result<Vec<Block>> {
        (0..self.config.layers()).into_par_iter().map(|layer| self.block(layer)).collect()
    }

    fn block(&self, layer: usize) -> Result<Block> {
        let (config, at) = (self.config, format!("layers.{layer}"));
        let (width, inner) = (config.hidden_size, config.intermediate_size);
        Ok(Block {
            attention: self.attention(layer, &format!("{at}.attention"))?,
            attention_norm: self.norm(&format!("{at}.attention.norm"))?,
            up: self.one(&format!("{at}.mlp.up"), width, inner)?,
            down: self.one(&format!("{at}.mlp.down"), inner, width)?,
            activation: config.activation,
            norm: self.norm(&format!("{at}.mlp.norm"))?,
        })
    }

    fn attention(&self, layer: usize, at: &str) -> Result<Attention> {
        let config = self.config;
        let heads = config.heads[layer].clone();
        let inside = heads.len() * config.head_dim; // H·K
        let qkv = ["query", "key", "value"].map(|name| format!("{at}.{name}"));
        Ok(Attention {
            qkv: self.linear(&qkv, config.hidden_size, inside)?,
            output: self.one(&format!("{at}.output"), inside, config.hidden_size)?,
            heads,
            head_dim: config.head_dim,
            distances: self.distances(&format!("{at}.distance.weight"))?,
        })
    }

    /// The distance embedding with its rows reversed: for a fixed query, ascending keys then meet
    /// ascending rows.
    fn distances(&self, name: &str) -> Result<Option<Distances>> {
        let with_keys = match self.config.positions {
            Positions::Absolute => return Ok(None),
            Positions::RelativeKey => false,
            Positions::RelativeKeyQuery => true,
        };
        let (max, width) = (self.config.max_positions, self.config.head_dim);
        let rows = 2 * max - 1;
        let stored = self.weights.matrix(name, rows, width)?;
        let reversed = stored.chunks_exact(width).rev().flatten().copied().collect();
        Ok(Some(Distances { table: self.tensor(reversed, &[rows, width])?, max, with_keys }))
    }

    pub fn head(&self) -> Result<TaskHead> {
        let width = self.config.hidden_size;
        let pooler = || self.one("pooler", width, width);
        Ok(match self.config.task {
            Task::Encoder => {
                let there = self.weights.has("pooler.weight");
                TaskHead::Encoder { pooler: there.then(pooler).transpose()? }
            }
            Task::MaskedLm => TaskHead::MaskedLm {
                transform: self.one("mlm.transform", width, width)?,
                activation: self.config.activation,
                norm: self.norm("mlm.norm")?,
                decoder: self.decoder()?,
            },
            Task::SequenceClassification => {
                TaskHead::Sequence { pooler: pooler()?, classifier: self.classifier()? }
            }
            Task::TokenClassification => TaskHead::Token { classifier: self.classifier()? },
        })
    }

    /// As many classes as the tensor has rows.
    fn classifier(&self) -> Result<Linear> {
        let shape = self.weights.shape("classifier.weight");
        let named = self.config.labels.len().max(1);
        let classes = shape.and_then(|shape| shape.first().copied()).unwrap_or(named);
        self.one("classifier", self.config.hidden_size, classes)
    }

    /// The decoder is the word embedding itself where the config ties them or the file has no
    /// other; its bias is in either of two places.
    fn decoder(&self) -> Result<Decoder> {
        let (weights, width) = (self.weights, self.config.hidden_size);
        let own = weights.has("mlm.decoder.weight");
        if !self.config.tied && !own {
            let path = weights.path().to_path_buf();
            let want = vec![self.config.vocab_size, width];
            return Err(Error::MissingTensor { path, tensor: "mlm.decoder.weight".into(), want });
        }
        let name = if self.config.tied { "embeddings.word.weight" } else { "mlm.decoder.weight" };
        let rows = weights.shape(name).and_then(|s| s.first().copied());
        let table = weights.table(name, rows.unwrap_or(self.config.vocab_size), width)?;
        let bias = match weights.has("mlm.bias") {
            true => "mlm.bias",
            false => "mlm.decoder.bias",
        };
        let bias = weights.vector(bias, table.rows)?;
        weights.account("mlm.decoder.weight");
        weights.account("mlm.decoder.bias");
        Ok(Decoder { table, bias })
    }
}
