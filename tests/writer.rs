//! Laws of writing: what a seed, a cache, a batch and a rewinding may change, which is nothing.

mod common;

use std::ops::ControlFlow;

use attnviz::decode::{Choice, End, Sampler, Sampling, Start, Until, Writer, Writing};
use attnviz::tokens::Batch;
use attnviz::{Change, Error, Head, Intervention, Keep, Model, Recorder, Site, Stack};
use candle_core::Tensor;
use common::variant::Variant;
use common::{Golden, fixture, numbers, open};
use ndarray::{Array2, s};
use serde_json::Value;
use tempfile::TempDir;

const NAMES: [&str; 7] =
    ["bert_lmhead_decoder", "gpt2_lm", "llama_lm", "bart_lm", "marian_mt", "t5_lm", "t5_v11_lm"];

/// Largest difference of what is computed with a cache and without.
const CACHED: f32 = 5e-5;

fn start(golden: &Golden, model: &Model, rows: usize) -> Start {
    let first = |a: Array2<u32>| a.slice(s![..rows, ..]).to_owned();
    match model.config().decoder {
        None => {
            let ids = first(golden.ids("generate.prompt_ids"));
            let mask = Array2::ones(ids.dim());
            Start { source: None, prompt: Batch::from_ids(ids, mask) }
        }
        Some(_) => {
            let (ids, mask) = (golden.ids("input_ids"), golden.ids("attention_mask"));
            let source = Some(Batch::from_ids(first(ids), first(mask)));
            let start = model.config().generation.start.expect("a start token");
            let ids = Array2::from_elem((rows, 1), start);
            Start { source, prompt: Batch::from_ids(ids, Array2::ones((rows, 1))) }
        }
    }
}

fn sampling(temperature: f64) -> Sampling {
    Sampling { temperature, ..Sampling::default() }
}

fn until(tokens: usize) -> Until {
    Until { tokens, keep_logits: true, ..Until::default() }
}

fn write(writer: &mut Writer<'_>, temperature: f64, seed: u64) -> Writing {
    let mut samplers = [Sampler::new(sampling(temperature), seed).expect("sampler")];
    writer.write(&mut samplers, &until(20), &mut |_, _| ControlFlow::Continue(())).expect("writes")
}

fn off(a: &Tensor, b: &Tensor) -> f32 {
    assert_eq!(a.dims(), b.dims());
    numbers(a).iter().zip(numbers(b)).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

fn recorder() -> Recorder {
    Recorder::new().keep(Site::Probs, Keep::All)
}

#[test]
fn a_seed_decides_the_text_with_a_cache_and_without() {
    for name in NAMES {
        let golden = Golden::open(name);
        let model = open(&golden.folder, None).expect("loads");
        let writer = |cached| {
            Writer::new(&model, start(&golden, &model, 1), cached, recorder(), &[]).expect("reads")
        };
        let one = write(&mut writer(true), 1.0, 7);
        assert_eq!(one.texts, write(&mut writer(true), 1.0, 7).texts, "{name}");
        assert_ne!(one.texts, write(&mut writer(true), 1.0, 8).texts, "{name}: another seed");
        let without = write(&mut writer(false), 1.0, 7);
        assert_eq!(one.texts[0].ids, without.texts[0].ids, "{name} without a cache");
        for (a, b) in one.logits.iter().zip(&without.logits) {
            let off = off(a, b);
            assert!(off <= CACHED, "{name}: logits off by {off:.1e}");
        }
        for (stack, layer, site, kept) in one.trace.iter() {
            let whole = &without.trace.get(stack, layer, site).expect("kept").tensor;
            let off = off(&kept.tensor, whole);
            assert!(off <= 1e-5, "{name} {stack:?} layer {layer}: off by {off:.1e}");
        }
    }
}

#[test]
fn a_rewound_writer_writes_what_a_fresh_one_does() {
    for name in NAMES {
        let golden = Golden::open(name);
        let model = open(&golden.folder, None).expect("loads");
        let fresh = || {
            Writer::new(&model, start(&golden, &model, 1), true, recorder(), &[]).expect("reads")
        };
        let mut reused = fresh();
        for seed in 0..4 {
            let (again, scratch) = (write(&mut reused, 1.5, seed), write(&mut fresh(), 1.5, seed));
            assert_eq!(again.texts, scratch.texts, "{name}, seed {seed}");
            for (stack, layer, site, kept) in scratch.trace.iter() {
                let other = again.trace.get(stack, layer, site).expect("kept");
                assert_eq!(numbers(&kept.tensor), numbers(&other.tensor), "{name}, {stack:?}");
            }
        }
    }
}

#[test]
fn temperature_near_0_is_greedy() {
    for name in NAMES {
        let golden = Golden::open(name);
        let model = open(&golden.folder, None).expect("loads");
        let start = start(&golden, &model, 1);
        let mut writer = Writer::new(&model, start, true, Recorder::new(), &[]).expect("reads");
        let greedy = write(&mut writer, 0.0, 0).texts.remove(0);
        let near = write(&mut writer, 1e-3, 3).texts.remove(0);
        assert_eq!(greedy.ids, near.ids, "{name}");
        let wanted = golden.ids("generate.sequences").row(0).to_vec();
        assert_eq!(greedy.ids[..wanted.len()], wanted, "{name}");
    }
}

#[test]
fn prompts_of_different_lengths_in_a_batch_are_written_as_alone() {
    for name in ["bert_lmhead_decoder", "gpt2_lm", "llama_lm"] {
        let golden = Golden::open(name);
        let model = open(&golden.folder, None).expect("loads");
        let prompts: [&[u32]; 3] = [&[5, 17, 9, 44], &[101], &[8, 90, 3, 12, 60, 31, 7]];
        let width = prompts.iter().map(|p| p.len()).max().expect("prompts");
        let left = |row: usize, t: usize| (t + prompts[row].len()).checked_sub(width);
        let shape = (prompts.len(), width);
        let ids = Array2::from_shape_fn(shape, |(b, t)| left(b, t).map_or(0, |i| prompts[b][i]));
        let mask = Array2::from_shape_fn(shape, |(b, t)| u32::from(left(b, t).is_some()));
        let start = Start { source: None, prompt: Batch::from_ids(ids, mask) };
        let mut together = Writer::new(&model, start, true, recorder(), &[]).expect("reads");
        let mut samplers: Vec<Sampler> =
            (0..3).map(|seed| Sampler::new(sampling(1.0), seed).expect("sampler")).collect();
        let both = together
            .write(&mut samplers, &until(12), &mut |_, _| ControlFlow::Continue(()))
            .expect("writes");
        for (b, prompt) in prompts.iter().enumerate() {
            let ids = Array2::from_shape_vec((1, prompt.len()), prompt.to_vec()).expect("row");
            let mask = Array2::ones(ids.dim());
            let start = Start { source: None, prompt: Batch::from_ids(ids, mask) };
            let mut alone = Writer::new(&model, start, true, recorder(), &[]).expect("reads");
            let mut samplers = [Sampler::new(sampling(1.0), b as u64).expect("sampler")];
            let single = alone
                .write(&mut samplers, &until(12), &mut |_, _| ControlFlow::Continue(()))
                .expect("writes");
            assert_eq!(both.texts[b].ids, single.texts[0].ids, "{name}, row {b}");
            assert_eq!(
                (both.texts[b].first, both.texts[b].prompt),
                (width - prompt.len(), prompt.len())
            );
            for layer in 0..model.config().layers() {
                let of = |w: &Writing| {
                    w.trace.get(Stack::Decoder, layer, Site::Probs).expect("kept").tensor.clone()
                };
                let n = single.texts[0].ids.len() - 1;
                let cut = of(&both).get(b).expect("row");
                let cut = cut.narrow(1, width - prompt.len(), n).expect("rows");
                let cut = cut.narrow(2, width - prompt.len(), n).expect("columns");
                let off = off(&cut, &of(&single).get(0).expect("row"));
                assert!(off <= 1e-5, "{name}, row {b}: attention off by {off:.1e}");
            }
        }
    }
}

#[test]
fn texts_end_where_they_should() {
    let golden = Golden::open("gpt2_lm");
    let model = open(&golden.folder, None).expect("loads");
    let mut writer =
        Writer::new(&model, start(&golden, &model, 1), true, Recorder::new(), &[]).expect("reads");
    let free = write(&mut writer, 0.0, 0).texts.remove(0);
    assert_eq!((free.end, free.choices.len(), free.prompt), (End::Length, 20, 6));
    let mut looped = free.clone();
    let token = |id| Choice { id, ..free.choices[3 + id as usize].clone() };
    looped.choices = [0, 1, 0, 1, 0].map(token).to_vec();
    assert_eq!((looped.repetition(2), looped.repetition(9)), (0.5, 0.0));
    let mean = (3.0 * free.choices[3].entropy + 2.0 * free.choices[4].entropy) / 5.0;
    assert!((looped.mean_entropy() - mean).abs() < 1e-12);
    let fourth = free.ids[6 + 3];
    let first = free.ids[6..].iter().position(|&id| id == fourth).expect("there");
    let mut samplers = [Sampler::new(Sampling::greedy(), 0).expect("sampler")];
    let ended = Until { ends: vec![fourth], ..until(20) };
    let text = writer
        .write(&mut samplers, &ended, &mut |_, _| ControlFlow::Continue(()))
        .expect("writes")
        .texts
        .remove(0);
    assert_eq!((text.end, &text.ids[..]), (End::Token(fourth), &free.ids[..6 + first + 1]));
    let mut left = 2;
    let mut stop = |_: usize, _: &Choice| {
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let text = writer.write(&mut samplers, &until(20), &mut stop).expect("writes").texts.remove(0);
    assert_eq!((text.end, &text.ids[..]), (End::Stopped, &free.ids[..8]));
}

#[test]
fn more_than_the_model_has_positions_for_is_refused() {
    let golden = Golden::open("llama_lm");
    let model = open(&golden.folder, None).expect("loads");
    let mut writer =
        Writer::new(&model, start(&golden, &model, 1), true, Recorder::new(), &[]).expect("reads");
    assert_eq!(writer.room(), 64 - 6 + 1);
    let mut samplers = [Sampler::new(Sampling::greedy(), 0).expect("sampler")];
    let mut go_on = |_: usize, _: &Choice| ControlFlow::Continue(());
    let most = writer.write(&mut samplers, &until(59), &mut go_on).expect("all positions");
    assert_eq!(most.texts[0].ids.len(), 65);
    let error = writer.write(&mut samplers, &until(60), &mut go_on).expect_err("one too many");
    assert!(error.to_string().contains("room for 59"), "{error}");
    // reading past the end, without a writer's check, is refused too, and leaves the cache as it was
    let mut cache = model.cache();
    let ids = |n: usize| Batch::from_ids(Array2::from_elem((1, n), 5), Array2::ones((1, n)));
    let none = &mut Recorder::new();
    model.decode(&ids(60), None, Some(&mut cache), none, &[]).expect("60 positions");
    let error = model.decode(&ids(5), None, Some(&mut cache), none, &[]).expect_err("65");
    assert!(
        matches!(&error, Error::Input { .. }) && error.to_string().contains("64 positions"),
        "{error}"
    );
    assert_eq!(cache.len(), 60);
    model.decode(&ids(4), None, Some(&mut cache), none, &[]).expect("64 positions");
}

#[test]
fn encoders_do_not_write() {
    let golden = Golden::open("bert_mlm");
    let model = open(&golden.folder, None).expect("loads");
    let prompt = Batch::from_ids(Array2::from_elem((1, 2), 5), Array2::ones((1, 2)));
    let start = Start { source: None, prompt };
    let error =
        Writer::new(&model, start, true, Recorder::new(), &[]).map(|_| ()).expect_err("no decoder");
    assert_eq!(error.exit_code(), 4, "{error}");
}

/// Gates and other changes act on cached positions as on those of one pass.
#[test]
fn interventions_act_at_every_step() {
    for name in NAMES {
        let golden = Golden::open(name);
        let model = open(&golden.folder, None).expect("loads");
        let cross = model.config().decoder.is_some();
        let mut changes = vec![
            Intervention::gate(Stack::Decoder, Head { layer: 0, head: 1 }, 0.0),
            Intervention {
                stack: Stack::Decoder,
                site: Site::Value,
                layers: Some(vec![1]),
                heads: None,
                positions: Some(vec![0, 3, 9]),
                change: Change::Scale(-2.0),
            },
            Intervention {
                stack: Stack::Decoder,
                site: Site::Scores,
                layers: None,
                heads: None,
                positions: None,
                change: Change::Scale(0.5),
            },
        ];
        if cross {
            changes.push(Intervention::gate(Stack::Cross, Head { layer: 1, head: 2 }, 0.0));
        }
        let writer = |cached, changes| {
            Writer::new(&model, start(&golden, &model, 1), cached, recorder(), changes)
                .expect("reads")
        };
        let plain = write(&mut writer(true, &[]), 0.0, 0);
        let (with, without) = (
            write(&mut writer(true, &changes), 0.0, 0),
            write(&mut writer(false, &changes), 0.0, 0),
        );
        assert_eq!(with.texts[0].ids, without.texts[0].ids, "{name}");
        assert_ne!(numbers(&plain.logits[0]), numbers(&with.logits[0]), "{name}: nothing changed");
        for (a, b) in with.logits.iter().zip(&without.logits) {
            let off = off(a, b);
            assert!(off <= CACHED, "{name}: logits off by {off:.1e}");
        }
    }
}

/// Forbidden phrases and forced ends that a generation_config.json names, against greedy search of
/// transformers.
#[test]
fn what_a_generation_config_forbids_and_forces() {
    let text = std::fs::read(fixture("sampling/written.json")).expect("fixture");
    let cases: Vec<Value> = serde_json::from_slice(&text).expect("JSON");
    assert_eq!(cases.len(), 16);
    for case in cases {
        let list = |key: &str| -> Vec<u32> {
            let list = case[key].as_array().expect("a list").iter();
            list.map(|id| id.as_u64().expect("an id") as u32).collect()
        };
        let folder = TempDir::new().expect("folder");
        Variant::of(case["model"].as_str().expect("a name")).write(folder.path());
        let said = folder.path().join("generation_config.json");
        std::fs::write(said, case["said"].to_string()).expect("written");
        let model = open(folder.path(), None).expect("loads");
        let ids = Array2::from_shape_vec((1, list("ids").len()), list("ids")).expect("row");
        let mask = Array2::ones(ids.dim());
        let read = Batch::from_ids(ids, mask);
        let start = match model.config().decoder {
            None => Start { source: None, prompt: read },
            Some(_) => Start::behind(&model, read).expect("a start token"),
        };
        let mut writer = Writer::new(&model, start, true, Recorder::new(), &[]).expect("reads");
        let forbidden = model.config().generation.forbidden.clone();
        let sampling = Sampling { forbidden, ..Sampling::greedy() };
        let mut samplers = [Sampler::new(sampling, 0).expect("sampler")];
        let tokens = case["tokens"].as_u64().expect("a number") as usize;
        let until = Until { tokens, ..Until::of(&model) };
        let writing = writer
            .write(&mut samplers, &until, &mut |_, _| ControlFlow::Continue(()))
            .expect("writes");
        assert_eq!(writing.texts[0].ids, list("written"), "{case}");
    }
}
