//! Loading, and one forward pass at the BERT-base shape, with and without every probability kept.

mod common;

use attnviz::{Keep, LoadOptions, Model, Recorder, Site};
use criterion::{Criterion, criterion_group, criterion_main};

fn load(criterion: &mut Criterion) {
    let files = common::bert_base();
    let mut group = criterion.benchmark_group("load");
    group.sample_size(10);
    let open = |files| Model::open(files, &LoadOptions::default()).expect("opens");
    group.bench_function("bert-base-f16", |bench| bench.iter(|| open(&files)));
    group.bench_function("built-in", |bench| {
        bench.iter(|| Model::from_pretrained("built-in").expect("opens"))
    });
    group.finish();
}

fn forward(criterion: &mut Criterion) {
    let model = Model::open(&common::bert_base(), &LoadOptions::default()).expect("opens");
    let mut group = criterion.benchmark_group("forward");
    group.sample_size(10);
    for (b, t) in [(1, 16), (1, 128), (1, 512), (8, 128)] {
        let batch = common::batch(b, t);
        group.bench_function(format!("attentions/{b}x{t}"), |bench| {
            bench.iter(|| {
                let mut recorder = Recorder::new().keep(Site::Probs, Keep::All);
                let hidden = model.forward(&batch, &mut recorder, &[]).expect("runs");
                (hidden, recorder.into_trace())
            })
        });
        group.bench_function(format!("plain/{b}x{t}"), |bench| {
            bench.iter(|| model.forward(&batch, &mut Recorder::new(), &[]).expect("runs"))
        });
    }
    group.finish();
}

criterion_group!(benches, load, forward);
criterion_main!(benches);
