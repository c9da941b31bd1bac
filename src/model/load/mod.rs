//! Canonical tensors → the parts of a model.

mod distances;
mod head;
mod maps;

use std::collections::BTreeMap;

use candle_core::{Device, Tensor};
use rayon::prelude::*;

use super::attention::Attention;
use super::block::{Block, Convolve, Mlp};
use super::embed::{Embeddings, Rows};
use super::layers::Layers;
use super::ops::{Linear, Norm};
use super::rotary::Rotary;
use crate::config::{Config, NormKind, NormOrder};
use crate::error::Result;
use crate::family::Family;
use crate::weights::Weights;

/// Reads the parts of one model from its weights.
pub(super) struct Loader<'a> {
    pub weights: &'a Weights,
    /// Of the stack that is read.
    pub config: &'a Config,
    /// How its names begin: nothing where there is one stack only.
    at: &'static str,
    /// The linear maps of layers are stored as [in, out].
    turned: bool,
    /// Tensors in place of the file's, by their names here: what is trained.
    live: &'a Live,
    device: &'a Device,
}

/// Tensors in place of a file's, by canonical names.
pub(super) type Live = BTreeMap<String, Tensor>;

impl<'a> Loader<'a> {
    pub fn new(
        weights: &'a Weights,
        config: &'a Config,
        family: &Family,
        live: &'a Live,
        device: &'a Device,
    ) -> Self {
        let two = weights.tensors().any(|(name, _)| name.starts_with("encoder."));
        let at = if two { "encoder." } else { "" };
        Self { weights, config, at, turned: family.turned, live, device }
    }

    /// The encoder, or the one stack that there is, and the decoder.
    pub fn stacks(&self) -> Result<(Layers, Option<Layers>)> {
        let second = self.config.decoder.as_deref().map(|config| {
            let decoder = Loader { config, at: "decoder.", ..*self };
            decoder.stack()
        });
        Ok((self.stack()?, second.transpose()?))
    }

    fn stack(&self) -> Result<Layers> {
        Ok(Layers {
            embeddings: self.embeddings()?,
            blocks: self.blocks()?,
            convolve: self.convolve()?,
            final_norm: self.final_norm()?,
            stack: self.config.stack(),
            causal: self.config.causal,
        })
    }

    pub fn tensor(&self, values: Vec<f32>, shape: &[usize]) -> Result<Tensor> {
        Ok(Tensor::from_vec(values, shape, &Device::Cpu)?.to_device(self.device)?)
    }

    /// A tensor of the file, or what is trained in its place.
    pub fn parameter(&self, name: &str, shape: &[usize]) -> Result<Tensor> {
        match self.live.get(name) {
            Some(live) => self.weights.expect(name, shape).map(|()| live.clone()),
            None => self.tensor(self.weights.values(name, shape)?, shape),
        }
    }

    /// Rows that ids look up: as they are stored, or what is trained in their place.
    pub fn rows(&self, name: &str, rows: usize, cols: usize) -> Result<Rows> {
        match self.live.get(name) {
            Some(_) => Ok(Rows::Live(self.parameter(name, &[rows, cols])?)),
            None => Ok(Rows::Stored(self.weights.table(name, rows, cols)?)),
        }
    }

    /// A vector, or zeros for a bias that the family may leave out.
    fn bias(&self, name: &str, count: usize, optional: bool) -> Result<Tensor> {
        match optional && !self.weights.has(name) {
            true => self.tensor(vec![0.0; count], &[count]),
            false => self.parameter(name, &[count]),
        }
    }

    pub fn norm(&self, name: &str, width: usize) -> Result<Norm> {
        let weight = self.parameter(&format!("{name}.weight"), &[width])?;
        let kind = self.config.norm;
        let optional = self.config.optional_biases || kind == NormKind::Rms;
        let bias = self.bias(&format!("{name}.bias"), width, optional)?;
        Ok(Norm { kind, weight, bias, eps: self.config.norm_eps })
    }

    /// Name of the word embedding: the stack's own, or the one that stacks share.
    pub fn word(&self) -> String {
        let own = format!("{}embeddings.word.weight", self.at);
        let shared = "embeddings.word.weight";
        if !self.weights.has(&own) {
            return shared.into();
        }
        self.weights.account(shared); // as old files hold it, beside a copy for each stack
        own
    }

    fn embeddings(&self) -> Result<Embeddings> {
        let (config, weights) = (self.config, self.weights);
        let (width, inside) = (config.embedding_size, config.hidden_size);
        let name = |part: &str| format!("{}embeddings.{part}", self.at);
        let table = |name: &str, rows| self.rows(name, rows, width);
        let position = name("position.weight");
        let rows = config.position_rows();
        if rows == 0 {
            weights.account(&position);
        }
        let word = table(&self.word(), config.vocab_size)?;
        // a table that the config denies is misshapen, not left over
        let types = name("type.weight");
        let token_type = match config.type_vocab_size > 0 || weights.has(&types) {
            true => Some(table(&types, config.type_vocab_size)?),
            false => None,
        };
        let at = name("projection");
        let needed = width != inside || weights.has(&format!("{at}.weight"));
        let projection = needed.then(|| self.maps(&[(at, inside)], width, true)).transpose()?;
        let normed = if config.project_first { inside } else { width };
        let norm = config.embedding_norm.then(|| self.norm(&name("norm"), normed));
        Ok(Embeddings {
            word,
            position: (rows > 0).then(|| table(&position, rows)).transpose()?,
            token_type,
            norm: norm.transpose()?,
            projection,
            project_first: config.project_first,
            absolute: config.absolute,
            scale: config.embedding_scale as f32,
            blank_padding: config.blank_padding,
            max_positions: config.max_positions,
        })
    }

    /// All layers, read in parallel; those that share weights are one block listed several times.
    fn blocks(&self) -> Result<Vec<Block>> {
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
        let config = self.config;
        let at = format!("{}layers.{}", self.at, config.shared[layer]);
        let (width, inner) = (config.hidden_size, config.intermediate_size);
        let norm = format!("{at}.attention.norm");
        // ModernBERT's first layer leaves the norm to the embeddings
        let bare = config.norm_order == NormOrder::Pre
            && layer == 0
            && !self.weights.has(&format!("{norm}.weight"));
        Ok(Block {
            attention: self.attention(layer, &format!("{at}.attention"))?,
            attention_norm: (!bare).then(|| self.norm(&norm, width)).transpose()?,
            cross: config.cross.then(|| self.cross(layer, &at)).transpose()?,
            mlp: Mlp {
                up: self.up(&at, width, inner)?,
                down: self.linear(&format!("{at}.mlp.down"), inner, width)?,
                activation: config.activation,
                gated: config.gated,
            },
            mlp_norm: self.norm(&format!("{at}.mlp.norm"), width)?,
            order: config.norm_order,
        })
    }

    /// The first map of a block; where it is gated, the part that is activated comes first, be it
    /// stored by itself or with the other.
    fn up(&self, at: &str, width: usize, inner: usize) -> Result<Linear> {
        let up = format!("{at}.mlp.up");
        let gate = format!("{at}.mlp.gate");
        let parts = match self.config.gated {
            false => vec![(up, inner)],
            true if self.weights.has(&format!("{gate}.weight")) => vec![(gate, inner), (up, inner)],
            true => vec![(up, 2 * inner)],
        };
        self.maps(&parts, width, self.config.optional_biases)
    }

    fn cross(&self, layer: usize, at: &str) -> Result<(Attention, Norm)> {
        let (config, at) = (self.config, format!("{at}.cross"));
        let (width, k) = (config.hidden_size, config.head_dim);
        let heads = config.cross_heads[layer].clone();
        let shared = heads.len() / config.group_size * k; // G·K
        let part = |name: &str| (format!("{at}.{name}"), shared);
        let attention = Attention {
            qkv: self.linear(&format!("{at}.query"), width, heads.len() * k)?,
            memory: Some(self.maps(
                &[part("key"), part("value")],
                width,
                config.optional_biases,
            )?),
            output: self.linear(&format!("{at}.output"), heads.len() * k, width)?,
            heads,
            head_dim: k,
            group: config.group_size,
            scale: config.score_scales[layer],
            distances: None,
            rotary: None,
            causal: false,
            window: None,
            global: None,
        };
        Ok((attention, self.norm(&format!("{at}.norm"), width)?))
    }

    fn attention(&self, layer: usize, at: &str) -> Result<Attention> {
        let (config, optional) = (self.config, self.config.optional_biases);
        let heads = config.heads[layer].clone();
        let (width, inside) = (config.hidden_size, heads.len() * config.head_dim); // H·K
        let shared = inside / config.group_size; // G·K
        let sizes = [("query", inside), ("key", shared), ("value", shared)];
        let qkv = match self.weights.has(&format!("{at}.qkv.weight")) {
            true => self.linear(&format!("{at}.qkv"), width, inside + 2 * shared)?,
            false => {
                let parts = sizes.map(|(name, size)| (format!("{at}.{name}"), size));
                self.maps(&parts, width, optional)?
            }
        };
        let parts = sizes.map(|(name, size)| (format!("{at}.{name}_global"), size));
        let global = config.global_queries.then(|| self.maps(&parts, width, optional));
        Ok(Attention {
            global: global.transpose()?,
            distances: self.distances(at, &heads, &qkv)?,
            qkv,
            memory: None,
            output: self.linear(&format!("{at}.output"), inside, width)?,
            heads,
            head_dim: config.head_dim,
            group: config.group_size,
            scale: config.score_scales[layer],
            rotary: config.rotary.get(layer).map(|&rope| Rotary::new(rope, config.head_dim)),
            causal: config.causal,
            window: config.windows[layer],
        })
    }

    fn final_norm(&self) -> Result<Option<Norm>> {
        let last = self.config.norm_order == NormOrder::Pre;
        let name = format!("{}final.norm", self.at);
        last.then(|| self.norm(&name, self.config.hidden_size)).transpose()
    }

    fn convolve(&self) -> Result<Option<Convolve>> {
        let Some(conv) = self.config.convolution else { return Ok(None) };
        let width = self.config.hidden_size;
        let shape = [width, width / conv.groups, conv.kernel];
        Ok(Some(Convolve {
            weight: self.parameter("convolution.weight", &shape)?,
            bias: self.parameter("convolution.bias", &[width])?,
            groups: conv.groups,
            activation: conv.activation,
            norm: self.norm("convolution.norm", width)?,
        }))
    }
}
