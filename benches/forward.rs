//! Loading, and one forward pass at the BERT-base shape, with and without every probability kept.

mod common;

use attnviz::picture::{Format, Style, TextEngine, View, heatmap};
use attnviz::{Head, Keep, LoadOptions, Model, Recorder, Site, Stack, Token};
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
            // what is kept is given back outside the measured time
            bench.iter_with_large_drop(|| {
                let mut recorder = Recorder::new().keep(Site::Probs, Keep::All);
                let hidden = model.forward(&batch, &mut recorder, &[]).expect("runs");
                (hidden, recorder.into_trace().expect("trace"))
            })
        });
        group.bench_function(format!("plain/{b}x{t}"), |bench| {
            bench.iter(|| model.forward(&batch, &mut Recorder::new(), &[]).expect("runs"))
        });
    }
    group.finish();
}

/// What recording and drawing one head costs beside the forward pass at 512 tokens.
fn one_head(criterion: &mut Criterion) {
    let model = Model::from_pretrained("built-in").expect("opens");
    let batch = common::batch(1, 512);
    let token = |id: &u32| Token { text: format!("t{id}"), ..Token::default() };
    let tokens: Vec<Token> = batch.ids.iter().map(token).collect();
    let (head, engine, style) = (Head { layer: 3, head: 1 }, TextEngine::new(), Style::default());
    let run = |recorder: &mut Recorder| model.forward(&batch, recorder, &[]).expect("runs");
    let mut group = criterion.benchmark_group("one-head-512-tokens");
    group.sample_size(20);
    group.bench_function("forward", |bench| bench.iter(|| run(&mut Recorder::new())));
    group.bench_function("forward-recorded-and-drawn", |bench| {
        bench.iter(|| {
            let keep = Keep::Heads([(head.layer, vec![head.head])].into());
            let mut recorder = Recorder::new().keep(Site::Probs, keep);
            run(&mut recorder);
            let trace = recorder.into_trace().expect("trace");
            let attention = trace.attention(Stack::Encoder, 0, &tokens, model.config());
            let attention = attention.expect("kept");
            let ranges = style.scale.resolve(&attention);
            let view = View::head(&attention, head, "MiniLM", &ranges).expect("view");
            heatmap(&view, &style, Format::Png, &engine).expect("draws")
        })
    });
    group.finish();
}

criterion_group!(benches, load, forward, one_head);
criterion_main!(benches);
