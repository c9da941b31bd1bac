//! Config and tensor names → the family, the task and the vocabulary of a checkpoint.

use crate::config::{Config, Task};
use crate::error::Result;
use crate::family::{self, Family, fields::Fields, generation};
use crate::weights::{Checkpoint, Weights};

/// The family that the config names, else the one that the tensor names point to.
pub(super) fn family_of(
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
pub(super) fn settle(
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
pub(super) fn writing(config: &mut Config, fields: &Fields) -> Result<()> {
    config.generation = generation::over(fields, &config.generation)?;
    if let Some(decoder) = &mut config.decoder {
        decoder.generation = generation::over(fields, &decoder.generation)?;
    }
    Ok(())
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
