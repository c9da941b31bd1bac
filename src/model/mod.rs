//! Tokens → hidden states, logits, trace: encoders and decoders written once and configured by data.

mod attention;
mod block;
mod cache;
#[cfg(test)]
mod definition;
mod distance;
mod embed;
mod gradient;
mod head;
mod intervene;
mod kernel;
mod layers;
mod load;
mod ops;
mod packed;
mod parameter;
mod report;
mod rotary;
mod scores;
mod settle;
mod stored;
mod trainable;

use std::sync::Arc;

use candle_core::{Device, Tensor};
use ndarray::Array2;

use crate::config::{Config, Task};
use crate::error::{Error, Result};
use crate::hub::{self, HubEnv, ModelFiles, ModelRequest};
use crate::tokens::{Batch, Tokenizer};
use crate::trace::{Intervention, Recorder};
use crate::weights::Checkpoint;
pub use cache::{Cache, Memory};
pub(crate) use gradient::cross_entropy;
pub use head::HeadOutputs;
use head::TaskHead;
use layers::{Layers, Run, real};
use load::Live;
pub use report::{Inspection, Report};
use settle::settled;
pub use trainable::Trainable;

/// How to load a model.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Which head to put on top; `None` follows `architectures`, else the tensors.
    pub task: Option<Task>,
    /// Where to compute.
    pub device: Device,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self { task: None, device: Device::Cpu }
    }
}

/// A transformer with its weights. Runs do not change it.
pub struct Model {
    config: Config,
    report: Report,
    device: Device,
    /// The encoder, or the one stack that there is.
    layers: Layers,
    /// The decoder of an encoder-decoder.
    decoder: Option<Layers>,
    head: TaskHead,
    tokenizer: Option<Arc<Tokenizer>>,
}

impl Model {
    /// Opens a model by what a user would name it: a folder, a `.safetensors`, `.bin` or `.gguf`
    /// file, a Hub id, or `built-in`. The environment's `HF_*` variables mean what they mean elsewhere.
    ///
    /// ```no_run
    /// let model = attnviz::Model::from_pretrained("sentence-transformers/all-MiniLM-L6-v2")?;
    /// assert_eq!(model.config().layers(), 6);
    /// # Ok::<(), attnviz::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::ModelNotFound`] when there is none, and those of [`Model::open`].
    pub fn from_pretrained(model: &str) -> Result<Self> {
        let request = ModelRequest { model: Some(model.into()), ..ModelRequest::default() };
        let files = hub::resolve(&request, &HubEnv::from_env(), &())?;
        Self::open(&files, &LoadOptions::default())
    }

    /// Loads a model from its files, and its tokenizer at the same time.
    ///
    /// # Errors
    /// [`Error::Checkpoint`], [`Error::Config`], [`Error::MissingTensor`] or [`Error::Shape`]
    /// where the files do not make a model, naming the file and what is wrong with it.
    pub fn open(files: &ModelFiles, options: &LoadOptions) -> Result<Self> {
        let tokenizer = || Tokenizer::find(&files.tokenizer);
        let (model, tokenizer) = rayon::join(|| Self::weights(files, options), tokenizer);
        Ok(Self { tokenizer: tokenizer?.map(Arc::new), ..model? })
    }

    fn weights(files: &ModelFiles, options: &LoadOptions) -> Result<Self> {
        Self::assemble(files, options, Checkpoint::open(files)?)
    }

    /// Reads a model from its tensors, or goes through the motions with those of a survey.
    fn assemble(files: &ModelFiles, options: &LoadOptions, checkpoint: Checkpoint) -> Result<Self> {
        let settled = settled(files, options, checkpoint)?;
        let (layers, decoder, head) = settled.model(&Live::new(), &options.device)?;
        let (report, device) = (settled.report(files), options.device.clone());
        Ok(Self { config: settled.config, report, device, layers, decoder, head, tokenizer: None })
    }

    /// Sizes and choices.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where it computes.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// What was loaded from where, and what was noticed.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The tokenizer that came with the model.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when there was none.
    pub fn tokenizer(&self) -> Result<&Tokenizer> {
        self.tokenizer
            .as_deref()
            .ok_or_else(|| Error::checkpoint(&self.report.name, "it came without a tokenizer"))
    }

    /// Runs the model over whole inputs, of an encoder-decoder the encoder: `batch` [B, T] → the
    /// last layer's output [B, T, D]. What `recorder` asks for is kept in it; `interventions`
    /// change what passes.
    ///
    /// # Errors
    /// [`Error::Input`] for an empty batch and for ids or lengths beyond the model,
    /// [`Error::Array`] for an intervention at a position that the batch does not have.
    pub fn forward(
        &self,
        batch: &Batch,
        recorder: &mut Recorder,
        interventions: &[Intervention],
    ) -> Result<Tensor> {
        intervene::check(interventions, self.layers.stack, batch.ids.ncols())?;
        let global = self.global_queries(batch)?;
        let global: Vec<bool> = global.iter().flatten().map(|&mark| mark != 0).collect();
        let run = Run { global: &global, memory: None, cache: None, recorder, interventions };
        self.layers.forward(batch, &self.device, run)
    }

    /// Runs the encoder of an encoder-decoder, and computes what its decoder reads of the output:
    /// once for each input, however many tokens are then written.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] for a model without such a decoder, and those of [`Model::forward`].
    pub fn encode(
        &self,
        batch: &Batch,
        recorder: &mut Recorder,
        interventions: &[Intervention],
    ) -> Result<Memory> {
        let Some(decoder) = &self.decoder else {
            return Err(Error::checkpoint(&self.report.name, "it has no decoder to encode for"));
        };
        let hidden = self.forward(batch, recorder, interventions)?;
        decoder.remember(&hidden, &batch.mask, recorder, interventions)
    }

    /// Runs a causal model, or the decoder of an encoder-decoder, over T new positions behind those
    /// in `cache`, which they join: `batch` [B, T] → [B, T, D]. Without a cache the batch is all
    /// there is. Rows may be padded on either side; positions count real tokens.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] for a model that is no decoder, [`Error::Input`] for an empty batch,
    /// another number of rows than before, a memory that is missing or of another batch, and for
    /// positions beyond the model. The cache is then as before.
    pub fn decode(
        &self,
        batch: &Batch,
        memory: Option<&Memory>,
        cache: Option<&mut Cache>,
        recorder: &mut Recorder,
        interventions: &[Intervention],
    ) -> Result<Tensor> {
        let layers = self.decoder.as_ref().unwrap_or(&self.layers);
        if !layers.causal {
            let why = "it is an encoder: it reads whole texts and writes none";
            return Err(Error::checkpoint(&self.report.name, why));
        }
        let rows = memory.map(|memory| memory.hidden.dim(0)).transpose()?;
        if self.decoder.is_some() && rows != Some(batch.ids.nrows()) {
            let rows = rows.map_or("no input".into(), |rows| format!("{rows} inputs"));
            let why = format!("{} texts, but the encoder has read {rows}", batch.ids.nrows());
            return Err(Error::input("batch", why));
        }
        let memory = memory.filter(|_| self.decoder.is_some());
        let run = Run { global: &[], memory, cache, recorder, interventions };
        layers.forward(batch, &self.device, run)
    }

    /// An empty cache for [`Model::decode`].
    pub fn cache(&self) -> Cache {
        Cache::new(self.decoder.as_ref().unwrap_or(&self.layers).blocks.len())
    }

    /// The positions that see and are seen by all, `[B, T]`: as the batch says, else the first token
    /// where a classifier of texts looks at it. `None` for models that have no such.
    ///
    /// # Errors
    /// [`Error::Input`] when the batch's mark is of another shape than its ids.
    pub fn global_queries(&self, batch: &Batch) -> Result<Option<Array2<u32>>> {
        if !self.config.global_queries {
            return Ok(None);
        }
        let first = u32::from(self.config.task == Task::SequenceClassification);
        let shape = batch.ids.dim();
        match &batch.global {
            None => {
                let mark = |(_, t)| if t == 0 { first } else { 0 };
                Ok(Some(Array2::from_shape_fn(shape, mark)))
            }
            Some(global) if global.dim() == shape => Ok(Some(global.clone())),
            Some(global) => {
                let why = format!("global attention is {:?}, ids {shape:?}", global.dim());
                Err(Error::input("batch", why))
            }
        }
    }

    /// Puts the task's head on the output of [`Model::forward`] or [`Model::decode`] for the same
    /// batch.
    ///
    /// # Errors
    /// [`Error::Tensor`] where `hidden` is not `[B, T, D]`.
    pub fn head(&self, hidden: &Tensor, batch: &Batch) -> Result<HeadOutputs> {
        self.head.forward(hidden, &real(&batch.mask, &self.device)?)
    }
}
