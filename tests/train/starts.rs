//! Checkpoints that runs start from, and those that they write.

use std::path::Path;

use attnviz::export::{write_start, write_trained};
use attnviz::model::Trainable;
use attnviz::tokens::Batch;
use attnviz::{LoadOptions, Model, Recorder, Task};
use candle_core::{DType, Device};
use tempfile::TempDir;

use super::common::{Golden, fixture, numbers};
use super::files;

/// As many words of the tiny models' vocabularies as a batch takes.
fn batch(model: &Model) -> Batch {
    let ids = |(b, t): (usize, usize)| ((b * 5 + t * 3) % 20 + 5) as u32;
    let ids = ndarray::Array2::from_shape_fn((2, 6), ids)
        .mapv(|id| id.min(model.config().vocab_size as u32 - 1));
    Batch::from_ids(ids, ndarray::Array2::ones((2, 6)))
}

/// Every family that has a classifier.
const ENCODERS: [&str; 13] = [
    "bert_model",
    "bert_mlm",
    "roberta_mlm",
    "camembert_mlm",
    "distilbert_mlm",
    "albert_mlm",
    "electra_model",
    "electra_pretraining",
    "mpnet_model",
    "deberta_v2_model",
    "modernbert_mlm",
    "longformer_mlm",
    "xlm_roberta_seqcls",
];

#[test]
fn starts_have_a_classifier_and_the_same_encoder() {
    let tasks = [Task::SequenceClassification, Task::TokenClassification];
    for (name, task) in ENCODERS.iter().flat_map(|name| tasks.map(|task| (*name, task))) {
        let folder = fixture("goldens").join(name);
        let place = TempDir::new().expect("folder");
        let out = place.path().join("start");
        let classes = ["bad", "fair", "good"].map(str::to_owned);
        write_start(&files(&folder), task, &classes, 7, &out).expect(name);
        let start = Model::open(&files(&out), &LoadOptions::default()).expect(name);
        let notes = &start.report().notes;
        assert_eq!(start.config().task, task, "{name}: {notes:?}");
        assert_eq!(start.config().labels, classes, "{name}");
        assert!(start.report().unused.is_empty(), "{name}: {:?}", start.report().unused);
        let options = LoadOptions { task: Some(Task::Encoder), ..LoadOptions::default() };
        let before = Model::open(&files(&folder), &options).expect(name);
        let batch = Batch { global: None, ..batch(&start) };
        let run = |model: &Model| {
            let hidden = model.forward(&batch, &mut Recorder::new(), &[]).expect("runs");
            (numbers(&hidden), hidden)
        };
        // a classifier of Longformer's looks at its first token from everywhere
        if name != "longformer_mlm" || task == Task::TokenClassification {
            assert_eq!(run(&before).0, run(&start).0, "{name}");
        }
        let logits = start.head(&run(&start).1, &batch).expect("head").logits.expect("logits");
        let of_tokens = task == Task::TokenClassification;
        assert_eq!(logits.dims(), if of_tokens { &[2, 6, 3][..] } else { &[2, 3] }, "{name}");
    }
}

#[test]
fn a_head_that_knows_the_classes_is_kept_whatever_their_order() {
    let place = TempDir::new().expect("folder");
    let at = |name: &str| place.path().join(name);
    let classes = |all: &[&str]| all.iter().map(|&one| one.to_owned()).collect::<Vec<_>>();
    let (texts, words) = (Task::SequenceClassification, Task::TokenClassification);
    let write = |from: &Path, task, all: &[&str], name: &str| {
        let seed = name.len() as u64; // no two new heads are the same
        write_start(&files(from), task, &classes(all), seed, &at(name)).expect(name);
        let model = Model::open(&files(&at(name)), &LoadOptions::default()).expect(name);
        let read = candle_core::safetensors::load(at(name).join("model.safetensors"), &Device::Cpu);
        (model.config().labels.clone(), numbers(&read.expect("tensors")["classifier.weight"]))
    };
    let own = write(&fixture("fill/bert"), texts, &["good", "bad", "fair"], "own");
    for (all, name) in [
        (&["bad", "fair", "good"][..], "another order"),
        (&["BAD", "Good"], "fewer, and in capitals"),
        (&["0", "1", "2"], "by number"),
    ] {
        assert_eq!(write(&at("own"), texts, all, name), own, "{name}");
    }
    let other = write(&at("own"), texts, &["bad", "good", "poor"], "unknown to it");
    assert!(other.0 == ["bad", "good", "poor"] && other.1 != own.1);
    // that of texts tells no words
    let other = write(&at("own"), words, &["bad", "fair", "good"], "of words");
    assert!(other.0 == ["bad", "fair", "good"] && other.1 != own.1);
    assert_eq!(write(&at("of words"), words, &["good", "bad"], "kept"), other);
}

#[test]
fn what_is_written_is_what_was_trained() {
    for name in ["bert_mlm", "bert_mlm_f16", "albert_mlm", "bart_lm", "t5_lm", "gpt2_lm"] {
        let golden = Golden::open(name);
        let (files, place) = (files(&golden.folder), TempDir::new().expect("folder"));
        let trainable = Trainable::open(&files, &LoadOptions::default()).expect("loads");
        for var in trainable.variables().values() {
            var.set(&(var.as_tensor() * 1.25).and_then(|x| x.contiguous()).expect("scaled"))
                .expect("set");
        }
        let out = place.path().join("out");
        write_trained(&trainable, &files, &out, false).expect("written");
        if name == "bert_mlm_f16" {
            // as the file has them
            for var in trainable.variables().values() {
                let half = var.to_dtype(DType::F16).and_then(|x| x.to_dtype(DType::F32));
                var.set(&half.expect("rounded")).expect("set");
            }
        }
        let (there, here) = (
            Model::from_pretrained(&out.display().to_string()).expect("loads"),
            trainable.frozen().expect("model"),
        );
        let run = |model: &Model| {
            let batch = golden.batch();
            let recorder = &mut Recorder::new();
            let hidden = match model.config().decoder.is_some() {
                false => model.forward(&batch, recorder, &[]).expect("runs"),
                true => {
                    let memory = model.encode(&batch, recorder, &[]).expect("runs");
                    model.decode(&batch, Some(&memory), None, recorder, &[]).expect("runs")
                }
            };
            let logits = model.head(&hidden, &batch).expect("head").logits.expect("logits");
            numbers(&logits)
        };
        for (a, b) in run(&there).iter().zip(run(&here)) {
            assert!((a - b).abs() <= 1e-4 * b.abs().max(1.0), "{name}: {a} for {b}");
        }
        assert!(write_trained(&trainable, &files, &out, false).is_err(), "{name}: not forced");
    }
}
