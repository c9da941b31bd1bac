//! What a new model writes.

use std::ops::ControlFlow;
use std::path::Path;

use attnviz::decode::{Sampler, Sampling, Start, Until, Writer};
use attnviz::hub::{HubEnv, ModelRequest, resolve};
use attnviz::tokens::Batch;
use attnviz::{LoadOptions, Model, Recorder, Result};
use ndarray::Array2;

/// Likely words, but not always the likeliest.
pub const TEMPERATURE: f64 = 0.7;
const TOKENS: usize = 60;

/// Texts from their beginning, from as many seeds.
pub fn write(folder: &Path, count: u32, seed: u64) -> Result<Vec<String>> {
    let request = ModelRequest { model: Some(folder.display().to_string()), ..Default::default() };
    let model =
        Model::open(&resolve(&request, &HubEnv::from_env(), &())?, &LoadOptions::default())?;
    let generation = &model.config().generation;
    let begin = generation.start.unwrap_or_default();
    let prompt = Batch::from_ids(Array2::from_elem((1, 1), begin), Array2::ones((1, 1)));
    let start = Start { source: None, prompt };
    let mut writer = Writer::new(&model, start, true, Recorder::new(), &[])?;
    let tokens = TOKENS.min(writer.room());
    let until = Until { tokens, ..Until::of(&model) };
    let mut texts = Vec::new();
    for number in 0..u64::from(count) {
        let sampling = Sampling { temperature: TEMPERATURE, ..Sampling::default() };
        let mut samplers = [Sampler::new(sampling, seed.wrapping_add(number))?];
        let go_on = &mut |_, _: &_| ControlFlow::Continue(());
        let writing = writer.write(&mut samplers, &until, go_on)?;
        texts.push(model.tokenizer()?.decode(&writing.texts[0].ids));
    }
    Ok(texts)
}
