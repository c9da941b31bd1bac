//! A model whose weights are variables, under the names and in the shapes of its files.

use std::collections::BTreeMap;
use std::sync::Arc;

use candle_core::{Device, Tensor, Var};

use super::load::Live;
use super::settle::{Settled, settled};
use super::{LoadOptions, Model, Report};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::hub::ModelFiles;
use crate::tokens::Tokenizer;
use crate::weights::{Checkpoint, Stored};

/// The weights of a checkpoint as variables. What a model computes of them before it runs (maps
/// side by side, projected tables of distances) is computed anew by each [`Trainable::model`], so
/// that a gradient reaches the file's own tensors, and layers or names that share one share its
/// variable.
pub struct Trainable {
    settled: Settled,
    report: Report,
    device: Device,
    tokenizer: Option<Arc<Tokenizer>>,
    variables: BTreeMap<String, Var>,
}

impl Trainable {
    /// Loads a checkpoint for training. All computation is in float32, attention included,
    /// whatever type the file has.
    ///
    /// # Errors
    /// Those of [`Model::open`]; [`Error::Checkpoint`] for quantized weights, which no gradient
    /// changes.
    pub fn open(files: &ModelFiles, options: &LoadOptions) -> Result<Self> {
        let checkpoint = Checkpoint::open(files)?;
        let settled = settled(files, options, checkpoint)?;
        let (device, none) = (options.device.clone(), Live::new());
        let model = settled.model(&none, &device)?; // says what is missing, and marks what is used
        let report = settled.report(files);
        drop(model);
        let mut variables = BTreeMap::new();
        for (name, stored) in settled.weights.tensors() {
            if !settled.weights.is_used(name) || settled.alias(name) != name {
                continue;
            }
            if settled.weights.in_blocks(name) {
                let why = format!("`{}` is quantized; attnviz convert decodes it", stored.raw);
                return Err(Error::checkpoint(settled.weights.path(), why));
            }
            let values = settled.weights.values(name, &stored.shape)?;
            let tensor = Tensor::from_vec(values, stored.shape.as_slice(), &Device::Cpu)?;
            variables.insert(name.to_owned(), Var::from_tensor(&tensor.to_device(&device)?)?);
        }
        let tokenizer = Tokenizer::find(&files.tokenizer)?.map(Arc::new);
        Ok(Self { settled, report, device, tokenizer, variables })
    }

    /// Sizes and choices.
    pub fn config(&self) -> &Config {
        &self.settled.config
    }

    /// Whether linear maps of layers are stored as [in, out].
    pub(crate) fn turned(&self) -> bool {
        self.settled.family.turned
    }

    /// The variables by their canonical names, such as `layers.3.attention.query.weight`. Setting
    /// one changes every model that was made of it.
    pub fn variables(&self) -> &BTreeMap<String, Var> {
        &self.variables
    }

    /// The model as a function of its variables. One serves for one pass back: the next one is of
    /// the variables as they are then.
    ///
    /// # Errors
    /// Those of [`Model::open`].
    pub fn model(&self) -> Result<Model> {
        self.of(|var| var.as_tensor().clone())
    }

    /// The same without gradients, for evaluation.
    ///
    /// # Errors
    /// Those of [`Model::open`].
    pub fn frozen(&self) -> Result<Model> {
        self.of(Var::as_detached_tensor)
    }

    fn of(&self, tensor: impl Fn(&Var) -> Tensor) -> Result<Model> {
        let tensors = self.settled.weights.tensors().filter_map(|(name, _)| {
            let var = self.variables.get(self.settled.alias(name))?;
            Some((name.to_owned(), tensor(var)))
        });
        let live: Live = tensors.collect();
        let (layers, decoder, head) = self.settled.model(&live, &self.device)?;
        Ok(Model {
            config: self.settled.config.clone(),
            report: self.report.clone(),
            device: self.device.clone(),
            layers,
            decoder,
            head,
            tokenizer: self.tokenizer.clone(),
        })
    }

    /// What a file of this model holds: the file's name, shape and type of each tensor, with its
    /// variable. Tied names come with the variable that they share.
    pub(crate) fn stored(&self) -> impl Iterator<Item = (&Stored, &Var)> {
        self.settled.weights.tensors().filter_map(|(name, stored)| {
            Some((stored, self.variables.get(self.settled.alias(name))?))
        })
    }
}
