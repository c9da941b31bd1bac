//! Training: the optimizer, runs that go on as they would have, gates, starts and results.

#[path = "../common/mod.rs"]
mod common;
mod runs;
mod starts;
mod tuned;

use std::path::Path;

use attnviz::hub::{HubEnv, ModelFiles, ModelRequest, resolve};
use attnviz::model::Trainable;
use attnviz::task::encode;
use attnviz::tokens::{Encoding, Input, Limit};
use attnviz::train::{Dropout, Plan, Schedule, Shape, TextExamples};
use attnviz::{LoadOptions, Model};

const TEXTS: [&str; 12] = [
    "the cat sat on the mat.",
    "the dog ran under a chair.",
    "a boy walked near the house, and he was happy.",
    "is she tired?",
    "the big bird slept in the tree.",
    "they are small.",
    "an old man stood on the floor.",
    "the girl played and the dog talked.",
    "it was new, was it?",
    "a quick cat is near the tree.",
    "he sat in a chair.",
    "the birds are in the house.",
];

fn files(folder: &Path) -> ModelFiles {
    let model = Some(folder.display().to_string());
    let request = ModelRequest { model, ..ModelRequest::default() };
    resolve(&request, &HubEnv::from_env(), &()).expect("found")
}

fn trainable(folder: &Path) -> Trainable {
    Trainable::open(&files(folder), &LoadOptions::default()).expect("loads")
}

fn plan(steps: u64) -> Plan {
    Plan {
        schedule: Schedule { rate: 5e-3, warmup: 2, steps, shape: Shape::Linear },
        batch_size: 4,
        weight_decay: 0.01,
        clip: Some(1.0),
        dropout: Dropout { hidden: 0.1, attention: 0.1 },
        seed: 3,
        gating: None,
        gate_rate: 10.0,
        every: 4,
        patience: None,
    }
}

fn texts(model: &Model) -> TextExamples {
    let one = |text: &&str| {
        encode(model, &Input::Text((*text).into()), &Limit::default()).expect("encodes")
    };
    let all: Vec<Encoding> = TEXTS.iter().map(one).collect();
    TextExamples::new(all, 0.3, model).expect("a head for it")
}
