//! Scores of all heads against a pass forward, and what a model without half its heads saves.

mod common;

use std::collections::BTreeSet;

use attnviz::hub::{HubEnv, ModelRequest, resolve};
use attnviz::prune::{PruneOptions, Score, StackHead, importance, prune};
use attnviz::task::{Sample, Target};
use attnviz::{Change, Head, Intervention, LoadOptions, Model, Recorder, Site, Stack};
use candle_core::{DType, Device, Var};
use criterion::{Criterion, criterion_group, criterion_main};
use ndarray::Array2;

/// 32 sentences of 32 tokens, of which every seventh is asked for.
fn sample() -> Sample {
    let batch = common::batch(32, 32);
    let labels =
        Array2::from_shape_fn((32, 32), |(b, t)| ((b + t) % 7 == 0).then(|| batch.ids[(b, t)]));
    let special = Array2::from_elem((32, 32), false);
    Sample { batch, special, written: None, target: Some(Target::Tokens(labels)) }
}

fn scores(criterion: &mut Criterion) {
    common::calm();
    let model = Model::open(&common::minilm_masked(), &LoadOptions::default()).expect("opens");
    let sample = sample();
    let target = sample.target.clone().expect("labels");
    let loss = |changes: &[Intervention]| {
        let hidden = model.forward(&sample.batch, &mut Recorder::new(), changes).expect("runs");
        target.losses(&model, &hidden, &sample.batch).expect("losses")
    };
    let mut group = criterion.benchmark_group("importance-32x32");
    group.sample_size(20);
    group.bench_function("forward", |bench| bench.iter(|| loss(&[])));
    group.bench_function("forward-with-gates", |bench| {
        bench.iter(|| {
            let gates: Vec<Intervention> = (0..6)
                .map(|layer| {
                    let gate = Var::ones((32, 12, 1, 1), DType::F32, &Device::Cpu).expect("gate");
                    Intervention {
                        stack: Stack::Encoder,
                        site: Site::Context,
                        layers: Some(vec![layer]),
                        heads: None,
                        positions: None,
                        change: Change::Multiply(gate.as_tensor().clone()),
                    }
                })
                .collect();
            loss(&gates)
        })
    });
    for (name, score) in [
        ("gradient", Score::Gradient),
        ("jacobian", Score::Jacobian { probes: 8, seed: 0 }),
        ("confidence", Score::Confidence),
    ] {
        group.bench_function(name, |bench| {
            let samples = std::slice::from_ref(&sample);
            bench.iter(|| importance(&model, score, samples, &[]).expect("scores"))
        });
    }
    group.finish();
}

/// Every other head of BERT-base gone: by arithmetic, of the 2·(4·D² + 2·D·I + 2·T·D) operations per
/// token and layer, half of those with D² and T.
fn half_the_heads(criterion: &mut Criterion) {
    let files = common::bert_base();
    let whole = Model::open(&files, &LoadOptions::default()).expect("opens");
    let folder = tempfile::TempDir::new().expect("folder");
    let out = folder.path().join("half");
    let head = |i: usize| Head { layer: i / 6, head: 2 * (i % 6) };
    let place = |i| StackHead { stack: Stack::Encoder, head: head(i) };
    let remove: BTreeSet<StackHead> = (0..72).map(place).collect();
    prune(&files, &out, &remove, &PruneOptions::default()).expect("prunes");
    let model = Some(out.display().to_string());
    let request = ModelRequest { model, ..ModelRequest::default() };
    let files = resolve(&request, &HubEnv::from_env(), &()).expect("files");
    let half = Model::open(&files, &LoadOptions::default()).expect("opens");
    for (b, t) in [(1, 32), (16, 32), (16, 128)] {
        let batch = common::batch(b, t);
        let mut group = criterion.benchmark_group(format!("half-the-heads-{b}x{t}"));
        group.sample_size(10);
        for (name, model) in [("whole", &whole), ("half", &half)] {
            group.bench_function(name, |bench| {
                bench.iter(|| model.forward(&batch, &mut Recorder::new(), &[]).expect("runs"))
            });
        }
        group.finish();
    }
}

criterion_group!(benches, scores, half_the_heads);
criterion_main!(benches);
