//! What the model makes of a text, by its own head.

use attnviz::decode::{Sampler, Sampling};
use attnviz::picture::page::Answer;
use attnviz::picture::token_label;
use attnviz::tokens::Batch;
use attnviz::{Model, Result, Task};
use candle_core::{DType, Tensor};

use super::run::Read;

/// Words or classes of one answer.
const LISTED: usize = 5;

/// Answers to show.
const ANSWERS: usize = 12;

/// What stands at the masks, what comes next, or what the text is. `hidden` [1, T, D] is the last
/// layer's output for `batch`: of `read`, or of an encoder-decoder's second text.
pub fn answers(
    model: &Model,
    read: &Read,
    (hidden, batch): &(Tensor, Batch),
) -> Result<Vec<Answer>> {
    let (config, tokenizer) = (model.config(), model.tokenizer()?);
    let written = tokenizer.target().filter(|_| read.target.is_some()).unwrap_or(tokenizer);
    let word = |id: u32| written.readable(id).unwrap_or_default();
    let label = |id: u32| config.labels.get(id as usize).cloned().unwrap_or_default();
    match config.task {
        Task::MaskedLm => {
            let mask = tokenizer.mask_id();
            let tokens = read.encoding.tokens.iter().enumerate();
            let masks = tokens.filter(|(_, token)| mask.is_some() && token.id == mask);
            masks
                .take(ANSWERS)
                .map(|(at, token)| {
                    let of = format!("{} at {at}", token_label(token));
                    likeliest(of, &logits(model, batch, hidden, at)?, word)
                })
                .collect()
        }
        Task::CausalLm | Task::Seq2SeqLm if config.causal || read.target.is_some() => {
            let last = batch.ids.ncols().saturating_sub(1);
            let row = logits(model, batch, hidden, last)?;
            Ok(vec![likeliest("next token".into(), &row, word)?])
        }
        Task::SequenceClassification if config.labels.len() > 1 => {
            let Some(logits) = model.head(hidden, batch)?.logits else { return Ok(Vec::new()) };
            let row = logits.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?;
            Ok(vec![likeliest("this text".into(), &row, label)?])
        }
        _ => Ok(Vec::new()),
    }
}

/// The language-model head at one position: [V].
fn logits(model: &Model, batch: &Batch, hidden: &Tensor, at: usize) -> Result<Vec<f32>> {
    let logits = model.head(&hidden.narrow(1, at, 1)?, batch)?.logits; // [1, 1, V]
    let Some(logits) = logits else { return Ok(Vec::new()) };
    Ok(logits.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?)
}

fn likeliest(of: String, logits: &[f32], name: impl Fn(u32) -> String) -> Result<Answer> {
    let mut sampler = Sampler::new(Sampling::greedy(), 0)?.alternatives(LISTED - 1);
    let choice = sampler.choose(logits, &[])?;
    let first = (choice.id, choice.probability);
    let list = std::iter::once(first).chain(choice.alternatives);
    Ok(Answer { of, list: list.map(|(id, share)| (name(id), share)).collect() })
}
