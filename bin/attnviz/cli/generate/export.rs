//! What was written, as arrays under the names that the reference uses.

use attnviz::export::Stages;
use attnviz::{Model, Result, Stack};
use candle_core::{Device, Tensor};
use serde_json::{Map, json};

use super::Sample;
use super::start::Begin;

/// Sequences with padding, the logits of each step and the stitched attention of every sample; of
/// several samples under names that end in their number.
pub fn stages(model: &Model, begin: &Begin, samples: &[Sample]) -> Result<Stages> {
    let mut tensors = Vec::new();
    for (number, sample) in samples.iter().enumerate() {
        let end = if samples.len() > 1 { format!(".sample{number}") } else { String::new() };
        tensors.push((format!("sequences{end}"), sequences(model, begin, sample)?));
        let logits = Tensor::stack(&sample.writing.logits, 0)?; // [steps, B, V]
        tensors.push((format!("step_logits{end}"), logits));
        for (stack, layer, _, kept) in sample.writing.trace.iter() {
            let name = match (model.config().decoder.is_some(), stack) {
                (false, _) => "attentions",
                (true, Stack::Encoder) => "encoder_attentions",
                (true, Stack::Decoder) => "decoder_attentions",
                (true, Stack::Cross) => "cross_attentions",
            };
            tensors.push((format!("{name}.{layer}{end}"), kept.tensor.clone()));
        }
    }
    let mut about = Map::new();
    about.insert("model".into(), json!(model.report().name));
    about.insert("seeds".into(), samples.iter().map(|sample| sample.seed).collect());
    Ok(Stages { tensors, about })
}

/// Prompts, padded as they came, with their continuations: [B, P + new].
fn sequences(model: &Model, begin: &Begin, sample: &Sample) -> Result<Tensor> {
    let (pad, prompt) = (model.config().pad_token_id, &begin.start.prompt.ids);
    let texts = &sample.writing.texts;
    let longest = texts.iter().map(|one| one.choices.len()).max().unwrap_or(0);
    let mut ids = Vec::new();
    for (row, text) in prompt.rows().into_iter().zip(texts) {
        let new = text.choices.iter().map(|choice| choice.id);
        let padded = new.chain(std::iter::repeat(pad)).take(longest);
        ids.extend(row.iter().copied().chain(padded).map(i64::from));
    }
    let shape = (texts.len(), prompt.ncols() + longest);
    Ok(Tensor::from_vec(ids, shape, &Device::Cpu)?)
}
