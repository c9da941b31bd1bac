//! A step of training a model of the shape of `built-in:kjv`, and its parts.

mod common;

use std::path::Path;

use attnviz::hub::ModelFiles;
use attnviz::model::Trainable;
use attnviz::train::{
    Bench, Dropout, Examples, Init, Masking, NewModel, Plan, Recipe, Run, Schedule, Shape, Windows,
};
use attnviz::{LoadOptions, Model, Recorder, Task};
use criterion::{Criterion, criterion_group, criterion_main};

/// Windows of a step, each of 128 tokens.
const BATCH: usize = 8;

/// Words at random, enough of them for a vocabulary of 3,000 pieces.
fn text() -> String {
    let mut state = 1u64;
    let mut next = |count: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % count
    };
    let mut text = String::new();
    for number in 0..60_000 {
        let letters = 2 + next(6);
        // squared, so that some letters are rarer
        text.extend((0..letters).map(|_| (b'a' + (next(26) * next(26) / 26) as u8) as char));
        text.push(if number % 12 == 11 { '\n' } else { ' ' });
    }
    text
}

fn begin(folder: &Path) -> (ModelFiles, Windows) {
    let recipe = Recipe {
        model: NewModel {
            task: Task::CausalLm,
            layers: 4,
            heads: 4,
            width: 128,
            inner: 512,
            positions: 128,
            init: Init::Xavier,
            seed: 0,
        },
        vocabulary: 3000,
        lowercase: false,
        context: 128,
        masking: Masking { share: 0.15, mixed: true },
    };
    let (text, bench) = (text(), Bench::claim(&folder.join("out"), false, false).expect("claimed"));
    let files = recipe.start(&text, &bench).expect("a start");
    let model = Model::open(&files, &LoadOptions::default()).expect("opens");
    let windows = recipe.windows(&text, &model).expect("windows");
    (files, windows)
}

fn step(criterion: &mut Criterion) {
    common::calm();
    let folder = tempfile::TempDir::new().expect("folder");
    let (files, windows) = begin(folder.path());
    let open = || Trainable::open(&files, &LoadOptions::default()).expect("loads");
    let plan = Plan {
        schedule: Schedule { rate: 1e-3, warmup: 0, steps: u64::MAX, shape: Shape::Constant },
        batch_size: BATCH,
        weight_decay: 0.05,
        clip: Some(1.0),
        dropout: Dropout { hidden: 0.0, attention: 0.0 },
        seed: 0,
        gating: None,
        gate_rate: 1.0,
        every: u64::MAX,
        patience: None,
    };
    let mut group = criterion.benchmark_group("train-8x128");
    group.sample_size(20);
    let mut run = Run::new(plan, open()).expect("a run");
    group.bench_function("step", |bench| {
        bench.iter(|| run.advance(&windows.learnt).expect("a step"));
    });
    let trainable = open();
    let sample = windows.learnt.sample(&[0, 1, 2, 3, 4, 5, 6, 7], 0).expect("a batch");
    let target = sample.target.clone().expect("labels");
    let loss = |model: &Model| {
        let hidden = sample.run(model, &mut Recorder::new(), &[]).expect("runs");
        target.losses(model, &hidden, &sample.batch).expect("losses").mean_all().expect("a mean")
    };
    group.bench_function("forward", |bench| {
        bench.iter(|| loss(&trainable.model().expect("a model")));
    });
    group.bench_function("forward-and-back", |bench| {
        bench.iter(|| loss(&trainable.model().expect("a model")).backward().expect("gradients"));
    });
    group.finish();
}

criterion_group!(benches, step);
criterion_main!(benches);
