//! Canonical tensors → the parts of a model.

mod distances;
mod head;

use candle_core::{Device, Tensor};
use rayon::prelude::*;

use super::attention::Attention;
use super::block::{Block, Convolve, Mlp};
use super::embed::Embeddings;
use super::ops::{Linear, Norm};
use super::rotary::Rotary;
use crate::config::{Absolute, Config, NormOrder};
use crate::error::Result;
use crate::weights::Weights;

/// Reads the parts of one model from its weights.
pub(super) struct Loader<'a> {
    pub weights: &'a Weights,
    pub config: &'a Config,
    pub device: &'a Device,
}

impl Loader<'_> {
    pub fn tensor(&self, values: Vec<f32>, shape: &[usize]) -> Result<Tensor> {
        Ok(Tensor::from_vec(values, shape, &Device::Cpu)?.to_device(self.device)?)
    }

    /// A vector, or zeros for a bias that the family may leave out.
    fn bias(&self, name: &str, count: usize, optional: bool) -> Result<Vec<f32>> {
        match optional && !self.weights.has(name) {
            true => Ok(vec![0.0; count]),
            false => self.weights.vector(name, count),
        }
    }

    /// The maps `names`, each `[outputs, inputs]` as stored, side by side in one `[inputs, ..]`.
    fn maps(
        &self,
        names: &[String],
        (inputs, outputs): (usize, usize),
        optional_bias: bool,
    ) -> Result<Linear> {
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
            bias.extend(self.bias(&format!("{name}.bias"), outputs, optional_bias)?);
        }
        Ok(Linear {
            weight: self.tensor(weight, &[inputs, all])?,
            bias: self.tensor(bias, &[all])?,
        })
    }

    pub fn linear(&self, name: &str, inputs: usize, outputs: usize) -> Result<Linear> {
        let names = [name.to_string()];
        self.maps(&names, (inputs, outputs), self.config.optional_biases)
    }

    pub fn norm(&self, name: &str, width: usize) -> Result<Norm> {
        let weight = self.weights.vector(&format!("{name}.weight"), width)?;
        let bias = self.bias(&format!("{name}.bias"), width, self.config.optional_biases)?;
        let (weight, bias) = (self.tensor(weight, &[width])?, self.tensor(bias, &[width])?);
        Ok(Norm { weight, bias, eps: self.config.norm_eps })
    }

    pub fn embeddings(&self) -> Result<Embeddings> {
        let (config, weights) = (self.config, self.weights);
        let (width, inside) = (config.embedding_size, config.hidden_size);
        let table = |name: &str, rows| weights.table(name, rows, width);
        let some = |name, rows: usize| (rows > 0).then(|| table(name, rows)).transpose();
        let position = "embeddings.position.weight";
        let rows = match config.absolute {
            Absolute::None => {
                weights.account(position);
                0
            }
            _ => config.position_rows(),
        };
        let word = table("embeddings.word.weight", config.vocab_size)?;
        // a table that the config denies is misshapen, not left over
        let types = "embeddings.type.weight";
        let token_type = match config.type_vocab_size > 0 || weights.has(types) {
            true => Some(table(types, config.type_vocab_size)?),
            false => None,
        };
        let at = "embeddings.projection";
        let needed = width != inside || weights.has(&format!("{at}.weight"));
        let projection =
            needed.then(|| self.maps(&[at.to_string()], (width, inside), true)).transpose()?;
        let normed = if config.project_first { inside } else { width };
        Ok(Embeddings {
            word,
            position: some(position, rows)?,
            token_type,
            norm: self.norm("embeddings.norm", normed)?,
            projection,
            project_first: config.project_first,
            absolute: config.absolute,
            blank_padding: config.blank_padding,
            max_positions: config.max_positions,
        })
    }

    /// All layers, read in parallel; those that share weights are one block listed several times.
    pub fn blocks(&self) -> Result<Vec<Block>> {
        let layers: Vec<usize> = (0..self.config.layers()).collect();
        let shared = &self.config.shared;
        let first = |layer: usize| shared.iter().position(|&group| group == shared[layer]);
        let own = layers.par_iter().map(|&layer| match first(layer) == Some(layer) {
            true => self.block(layer).map(Some),
            false => Ok(None),
        });
        let own = own.collect::<Result<Vec<Option<Block>>>>()?;
        Ok(layers.iter().filter_map(|&layer| own[first(layer)?].clone()).collect())
    }

    fn block(&self, layer: usize) -> Result<Block> {
        let (config, at) = (self.config, format!("layers.{}", self.config.shared[layer]));
        let (width, inner) = (config.hidden_size, config.intermediate_size);
        let norm = format!("{at}.attention.norm");
        // ModernBERT's first layer leaves the norm to the embeddings
        let bare = config.norm_order == NormOrder::Pre
            && layer == 0
            && !self.weights.has(&format!("{norm}.weight"));
        Ok(Block {
            attention: self.attention(layer, &format!("{at}.attention"))?,
            attention_norm: (!bare).then(|| self.norm(&norm, width)).transpose()?,
            mlp: Mlp {
                up: self.linear(
                    &format!("{at}.mlp.up"),
                    width,
                    if config.gated { 2 * inner } else { inner },
                )?,
                down: self.linear(&format!("{at}.mlp.down"), inner, width)?,
                activation: config.activation,
                gated: config.gated,
            },
            mlp_norm: self.norm(&format!("{at}.mlp.norm"), width)?,
            order: config.norm_order,
        })
    }

    fn attention(&self, layer: usize, at: &str) -> Result<Attention> {
        let config = self.config;
        let heads = config.heads[layer].clone();
        let inside = heads.len() * config.head_dim; // H·K
        let qkv = match self.weights.has(&format!("{at}.qkv.weight")) {
            true => self.linear(&format!("{at}.qkv"), config.hidden_size, 3 * inside)?,
            false => {
                let parts = ["query", "key", "value"].map(|name| format!("{at}.{name}"));
                self.maps(&parts, (config.hidden_size, inside), config.optional_biases)?
            }
        };
        let parts = ["query", "key", "value"].map(|name| format!("{at}.{name}_global"));
        let global = config.global_queries;
        let sizes = (config.hidden_size, inside);
        let global =
            global.then(|| self.maps(&parts, sizes, config.optional_biases)).transpose()?;
        Ok(Attention {
            global,
            distances: self.distances(at, &heads, &qkv)?,
            qkv,
            output: self.linear(&format!("{at}.output"), inside, config.hidden_size)?,
            heads,
            head_dim: config.head_dim,
            scale: config.score_scale(),
            rotary: config.rotary.get(layer).map(|&base| Rotary::new(base, config.head_dim)),
            window: config.windows[layer],
        })
    }

    pub fn final_norm(&self) -> Result<Option<Norm>> {
        let last = self.config.norm_order == NormOrder::Pre;
        last.then(|| self.norm("final.norm", self.config.hidden_size)).transpose()
    }

    pub fn convolve(&self) -> Result<Option<Convolve>> {
        let Some(conv) = self.config.convolution else { return Ok(None) };
        let width = self.config.hidden_size;
        let shape = [width, width / conv.groups, conv.kernel];
        let weight = self.weights.values("convolution.weight", &shape)?;
        Ok(Some(Convolve {
            weight: self.tensor(weight, &shape)?,
            bias: self.tensor(self.weights.vector("convolution.bias", width)?, &[width])?,
            groups: conv.groups,
            activation: conv.activation,
            norm: self.norm("convolution.norm", width)?,
        }))
    }
}
