//! The built-in model that writes: its loss on a text, its cache, its samples.
#![cfg(feature = "embedded")]

mod common;

use std::ops::ControlFlow;

use attnviz::decode::{Sampler, Sampling, Start, Until, Writer};
use attnviz::hub::{Asset, HubEnv, ModelRequest, resolve};
use attnviz::task::{Target, encode};
use attnviz::tokens::{Batch, Input, Limit};
use attnviz::{Model, Recorder, Task};
use common::numbers;

/// Verses of stretches that were kept for validation (King James Bible, 1611/1769; public domain).
const HELD: [&str; 8] = [
    "And they brought that which Moses commanded before the tabernacle of the congregation: and all the congregation drew near and stood before the LORD.",
    "So there went up thither of the people about three thousand men: and they fled before the men of Ai.",
    "So Amasa went to assemble the men of Judah: but he tarried longer than the set time which he had appointed him.",
    "Which stilleth the noise of the seas, the noise of their waves, and the tumult of the people.",
    "For they call themselves of the holy city, and stay themselves upon the God of Israel; The LORD of hosts is his name.",
    "But if the wicked turn from his wickedness, and do that which is lawful and right, he shall live thereby.",
    "And Jesus rebuked him, saying, Hold thy peace, and come out of him.",
    "And after these things I heard a great voice of much people in heaven, saying, Alleluia; Salvation, and glory, and honour, and power, unto the Lord our God:",
];

/// Nats per token that they take at most.
const BOUND: f64 = 3.2;

fn model() -> Model {
    Model::from_pretrained("built-in:kjv").expect("built in")
}

fn files_size() -> usize {
    let model = Some("built-in:kjv".to_owned());
    let request = ModelRequest { model, ..ModelRequest::default() };
    let files = resolve(&request, &HubEnv::from_env(), &()).expect("built in");
    let assets = files.weights.iter().chain(&files.config).chain(&files.tokenizer.json);
    assets.map(|asset: &Asset| asset.bytes().expect("read").len()).sum()
}

#[test]
fn is_small_and_needs_no_guessing() {
    let model = model();
    assert_eq!(model.config().task, Task::CausalLm);
    assert!(model.report().notes.is_empty() && model.report().unused.is_empty());
    assert!(model.tokenizer().expect("a tokenizer").notes().is_empty());
    assert!(files_size() < 4_000_000, "{}", files_size());
}

/// Nats per token of a text.
fn loss(model: &Model, texts: &[&str]) -> f64 {
    let (mut sum, mut count) = (0.0, 0);
    for text in texts {
        let encoding =
            encode(model, &Input::Text((*text).into()), &Limit::default()).expect("fits");
        let batch = Batch::new(&[encoding], 0);
        let hidden = model.forward(&batch, &mut Recorder::new(), &[]).expect("runs");
        let losses = Target::next_tokens(&batch).losses(model, &hidden, &batch).expect("losses");
        let tokens = batch.ids.ncols() - 1;
        sum += f64::from(numbers(&losses)[0]) * tokens as f64;
        count += tokens;
    }
    sum / f64::from(count as u32)
}

#[test]
fn expects_verses_that_it_has_not_seen() {
    let model = model();
    let found = loss(&model, &HELD);
    assert!(found < BOUND, "{found} nats per token");
    // and not what is no text of this kind
    let other = loss(&model, &["the quarterly report shows a loss of revenue in both segments"]);
    assert!(other > found + 1.0, "{other} against {found}");
}

fn written(temperature: f64, cached: bool, seed: u64) -> (Vec<u32>, String) {
    let model = model();
    let prompt = encode(&model, &Input::Text("In the beginning".into()), &Limit::default());
    let prompt = Batch::new(&[prompt.expect("fits")], 0);
    let start = Start { source: None, prompt };
    let mut writer = Writer::new(&model, start, cached, Recorder::new(), &[]).expect("reads");
    let sampling = Sampling { temperature, ..Sampling::default() };
    let mut samplers = [Sampler::new(sampling, seed).expect("a sampler")];
    let until = Until { tokens: 60, ..Until::default() };
    let go_on = &mut |_, _: &_| ControlFlow::Continue(());
    let writing = writer.write(&mut samplers, &until, go_on).expect("writes");
    let ids = writing.texts[0].ids.clone();
    let text = model.tokenizer().expect("a tokenizer").decode(&ids);
    (ids, text)
}

#[test]
fn the_cache_changes_nothing_and_a_seed_draws_the_same() {
    for (temperature, seed) in [(0.0, 0), (0.7, 1), (0.7, 2)] {
        let (ids, text) = written(temperature, true, seed);
        assert_eq!(written(temperature, false, seed).0, ids, "without the cache");
        assert_eq!(written(temperature, true, seed), (ids, text.clone()), "again");
        assert!(text.starts_with("In the beginning "), "{text}");
    }
    assert_ne!(written(0.7, true, 1).0, written(0.7, true, 2).0);
}

/// Most words that it writes are words of the book: the commonest ones at the least.
#[test]
fn samples_read_as_english() {
    let text: String = (0..5).map(|seed| written(0.7, true, seed).1 + " ").collect();
    let common = ["the", "and", "of", "to", "that", "in", "he", "shall", "unto", "for", "his"];
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    let known = words.iter().filter(|word| common.contains(&word.as_str())).count();
    assert!(known * 5 > words.len(), "{known} of {}: {text}", words.len());
}
