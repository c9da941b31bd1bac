//! Config and tensor names → the family, the task and the vocabulary of a checkpoint.

use candle_core::Device;

use super::head::TaskHead;
use super::layers::Layers;
use super::load::{Live, Loader};
use super::{LoadOptions, Report};
use crate::config::{Config, Task};
use crate::error::{Error, Result};
use crate::family::{self, Family, fields::Fields, generation};
use crate::hub::ModelFiles;
use crate::weights::{Checkpoint, Weights};

/// A checkpoint whose names and sizes are known.
pub(super) struct Settled {
    pub config: Config,
    pub family: &'static Family,
    pub weights: Weights,
    /// Tensors that the family does not have, by the names of the file.
    left: Vec<String>,
    notes: Vec<String>,
}

/// Reads everything about a checkpoint but its numbers.
pub(super) fn settled(
    files: &ModelFiles,
    options: &LoadOptions,
    checkpoint: Checkpoint,
) -> Result<Settled> {
    let mut notes = [files.notes.as_slice(), checkpoint.notes()].concat();
    let fields = match (&files.config, checkpoint.config()) {
        (Some(asset), _) => Fields::parse(asset.path(), &asset.bytes()?)?,
        (None, Some((path, config))) => Fields::parse(path, config)?,
        (None, None) => {
            let folder = checkpoint.path().with_file_name("config.json");
            return Err(Error::checkpoint(folder, "there is no config.json"));
        }
    };
    let family = family_of(&fields, &checkpoint, &mut notes)?;
    let (weights, left) = checkpoint.rename(|raw| family.canonical(raw))?;
    let mut config = settle(options.task, &fields, family, &weights, &mut notes)?;
    if let Some(asset) = &files.generation {
        writing(&mut config, &Fields::parse(asset.path(), &asset.bytes()?)?)?;
    }
    Ok(Settled { config, family, weights, left, notes })
}

impl Settled {
    /// The parts of the model: of the file, but for the tensors that `live` has in its place.
    pub fn model(
        &self,
        live: &Live,
        device: &Device,
    ) -> Result<(Layers, Option<Layers>, TaskHead)> {
        let loader = Loader::new(&self.weights, &self.config, self.family, live, device);
        let (layers, decoder) = loader.stacks()?;
        Ok((layers, decoder, loader.head()?))
    }

    /// What was loaded and what was noticed, once it is.
    pub fn report(&self, files: &ModelFiles) -> Report {
        let left = self.left.iter().filter(|raw| !self.family.is_buffer(raw)).cloned();
        Report::new(files, self.family, &self.weights, left.collect(), self.notes.clone())
    }

    /// The name of the tensor that stands for this one too: tied checkpoints may hold copies.
    pub fn alias<'a>(&self, name: &'a str) -> &'a str {
        let (word, has) = ("embeddings.word.weight", |name: &str| self.weights.has(name));
        match name {
            "lm.decoder.bias" if self.config.tied && has("lm.bias") => "lm.bias",
            "encoder.embeddings.word.weight" | "decoder.embeddings.word.weight" if has(word) => {
                word
            }
            "lm.decoder.weight" if self.config.tied => match has(word) {
                true => word,
                false => "decoder.embeddings.word.weight",
            },
            other => other,
        }
    }
}

/// The family that the config names, else the one that the tensor names point to.
fn family_of(
    fields: &Fields,
    checkpoint: &Checkpoint,
    notes: &mut Vec<String>,
) -> Result<&'static Family> {
    if let Some(model_type) = fields.text("model_type")? {
        return family::of(fields, &model_type);
    }
    let family = family::infer(checkpoint.path(), checkpoint.names())?;
    notes.push(format!(
        "{}: no `model_type`; taken for {} by the tensor names",
        fields.path().display(),
        family.model_type
    ));
    Ok(family)
}

/// The family's reading of the config, with the task and the vocabulary that the tensors have.
fn settle(
    asked: Option<Task>,
    fields: &Fields,
    family: &Family,
    weights: &Weights,
    notes: &mut Vec<String>,
) -> Result<Config> {
    let mut config = (family.read)(fields)?;
    // a file with the encoder alone, such as that of a T5EncoderModel
    if !weights.tensors().any(|(name, _)| name.starts_with("decoder.")) && config.decoder.is_some()
    {
        notes.push("the file holds the encoder alone".into());
        config.decoder = None;
    }
    // transformers 5 writes of T5 v1.1 that it is tied, also where the file holds its own map
    let own = weights.has("lm.decoder.weight");
    config.tied |= !own && fields.flag("tie_word_embeddings")? == Some(true);
    config.task = task(asked, fields, family, weights, &config, notes)?;
    unnamed(&mut config, weights);
    words(&mut config, "encoder.", weights, notes);
    if let Some(decoder) = &mut config.decoder {
        words(decoder, "decoder.", weights, notes);
    }
    let place = fields.path().display();
    let unknown = fields.unknown(family.ignorable);
    notes.extend(unknown.iter().map(|key| format!("{place}: unknown key `{key}`, ignored")));
    Ok(config)
}

/// Where writing begins and ends by a `generation_config.json`, in each stack.
fn writing(config: &mut Config, fields: &Fields) -> Result<()> {
    config.generation = generation::over(fields, &config.generation)?;
    if let Some(decoder) = &mut config.decoder {
        decoder.generation = generation::over(fields, &decoder.generation)?;
    }
    Ok(())
}

/// Names of classes where the config has none, as transformers gives them.
fn unnamed(config: &mut Config, weights: &Weights) {
    let width = config.hidden_size;
    let tells = matches!(config.task, Task::SequenceClassification | Task::TokenClassification);
    let rows = weights.shape("classifier.weight").filter(|shape| shape.get(1) == Some(&width));
    if let (true, true, Some(&[rows, _])) = (tells, config.labels.is_empty(), rows) {
        config.labels = (0..rows).map(|class| format!("LABEL_{class}")).collect();
    }
}

/// As many words as the tensor has rows: the stack's own, or the one that stacks share.
fn words(config: &mut Config, stack: &str, weights: &Weights, notes: &mut Vec<String>) {
    let own = format!("{stack}embeddings.word.weight");
    let shape = weights.shape(&own).or(weights.shape("embeddings.word.weight"));
    let Some(&[rows, _]) = shape else { return };
    let note = format!("vocabulary of {rows} by the tensor; the config says {}", config.vocab_size);
    if rows != config.vocab_size && !notes.contains(&note) {
        notes.push(note);
    }
    config.vocab_size = rows;
}

/// The task: as asked, else by `architectures`, else by the tensors.
fn task(
    asked: Option<Task>,
    fields: &Fields,
    family: &Family,
    weights: &Weights,
    config: &Config,
    notes: &mut Vec<String>,
) -> Result<Task> {
    let class = fields.get("architectures").and_then(|list| list.get(0)?.as_str());
    if let Some(task) = asked {
        return Ok(task);
    }
    if let Some(class) = class {
        if let Some((_, task)) = family.classes.iter().find(|(name, _)| *name == class) {
            return Ok(*task);
        }
        notes.push(format!("the head of `{class}` is not run; the encoder is"));
        return Ok(Task::Encoder);
    }
    let has = |name: &str| weights.has(name);
    if config.decoder.is_some() {
        return Ok(Task::Seq2SeqLm);
    }
    let words = has("lm.decoder.weight") || has("lm.transform.weight");
    if config.causal && !has("classifier.weight") && (words || config.tied) {
        return Ok(Task::CausalLm);
    }
    let pooled = has("pooler.weight") || has("sequence.transform.weight");
    Ok(match (has("classifier.weight"), has("lm.transform.weight")) {
        (true, shared) if pooled || shared => Task::SequenceClassification,
        (true, _) => Task::TokenClassification,
        (false, true) => Task::MaskedLm,
        (false, false) if has("replaced.transform.weight") => Task::ReplacedTokens,
        (false, false) => Task::Encoder,
    })
}
