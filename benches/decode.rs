//! Writing at the shape of GPT-2 small: a token at several positions, and a text with a cache and
//! without.

mod common;

use std::ops::ControlFlow;

use attnviz::decode::{Sampler, Sampling, Start, Until, Writer};
use attnviz::tokens::Batch;
use attnviz::{LoadOptions, Model, Recorder};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// One token behind so many.
fn token(criterion: &mut Criterion) {
    let model = Model::open(&common::gpt2_small(), &LoadOptions::default()).expect("opens");
    let mut group = criterion.benchmark_group("token");
    group.sample_size(20);
    for past in [64, 256, 1023] {
        let mut cache = model.cache();
        let mut step = |batch: &Batch| {
            let none = &mut Recorder::new();
            let hidden = model.decode(batch, None, Some(&mut cache), none, &[]).expect("decodes");
            cache.rewind(past);
            hidden
        };
        step(&common::batch(1, past));
        let new = common::batch(1, 1);
        group.bench_function(format!("behind-{past}"), |bench| {
            bench.iter(|| {
                let hidden = step(&new);
                model.head(&hidden, &new).expect("head").logits
            })
        });
    }
    group.finish();
}

/// 64 tokens behind 16, greedily.
fn text(criterion: &mut Criterion) {
    let model = Model::open(&common::gpt2_small(), &LoadOptions::default()).expect("opens");
    let mut group = criterion.benchmark_group("64-tokens-behind-16");
    group.sample_size(10);
    group.throughput(Throughput::Elements(64));
    let until = Until { tokens: 64, ..Until::default() };
    let sampled = Sampling { temperature: 0.8, top_k: Some(50), ..Sampling::default() };
    for (name, cached, sampling) in [
        ("cached", true, Sampling::greedy()),
        ("cached-sampled", true, sampled),
        ("uncached", false, Sampling::greedy()),
    ] {
        group.bench_function(name, |bench| {
            bench.iter(|| {
                let start = Start { source: None, prompt: common::batch(1, 16) };
                let mut writer =
                    Writer::new(&model, start, cached, Recorder::new(), &[]).expect("reads");
                let mut samplers = [Sampler::new(sampling.clone(), 1).expect("sampler")];
                let go_on = &mut |_: usize, _: &_| ControlFlow::Continue(());
                writer.write(&mut samplers, &until, go_on).expect("writes").texts
            })
        });
    }
    group.finish();
}

criterion_group!(benches, token, text);
criterion_main!(benches);
