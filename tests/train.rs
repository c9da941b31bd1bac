//! Training: the optimizer, runs that go on as they would have, gates, starts and results.

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use attnviz::export::{write_start, write_trained};
use attnviz::hub::{HubEnv, ModelFiles, ModelRequest, resolve};
use attnviz::model::Trainable;
use attnviz::task::{Labelled, Split, encode};
use attnviz::tokens::{Batch, Encoding, Input, Limit};
use attnviz::train::{
    AdamW, Bench, Dropout, Gating, LabelledExamples, Penalty, Plan, Run, Schedule, Shape,
    TextExamples, Tune, dropout, mean_loss,
};
use attnviz::{LoadOptions, Model, Recorder, Task};
use candle_core::{DType, Device, Tensor, Var};
use candle_nn::optim::{AdamW as Theirs, Optimizer, ParamsAdamW};
use common::{Golden, fixture, numbers};
use tempfile::TempDir;

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

fn values(run: &Run) -> BTreeMap<String, Vec<f32>> {
    let variables = run.trainable().variables().iter();
    let gates = run.gates().into_iter().flat_map(|gates| gates.variables());
    variables.chain(gates).map(|(name, var)| (name.clone(), numbers(var.as_tensor()))).collect()
}

#[test]
fn adamw_steps_as_candles() {
    let start = |seed: usize, shape: &[usize]| {
        let count = shape.iter().product();
        let one = |i| ((i * 37 + seed * 11) % 23) as f32 / 23.0 - 0.4;
        Tensor::from_vec((0..count).map(one).collect::<Vec<f32>>(), shape, &Device::Cpu)
    };
    let (matrix, other) = (start(1, &[5, 3]).expect("made"), start(2, &[3, 4]).expect("made"));
    let of = |tensor: &Tensor| Var::from_tensor(tensor).expect("variable");
    let ours: BTreeMap<String, Var> =
        [("a".to_owned(), of(&matrix)), ("b".to_owned(), of(&other))].into();
    let theirs = vec![of(&matrix), of(&other)];
    let params = ParamsAdamW { lr: 0.02, weight_decay: 0.3, ..ParamsAdamW::default() };
    let mut candle = Theirs::new(theirs.clone(), params).expect("optimizer");
    let mut optimizer = AdamW::new(0.3);
    let loss = |a: &Var, b: &Var| {
        let product = a.matmul(b.as_tensor()).expect("product");
        product.sin().and_then(|x| x.sqr()).and_then(|x| x.sum_all()).expect("loss")
    };
    for step in 0..40 {
        let store = loss(&ours["a"], &ours["b"]).backward().expect("gradients");
        optimizer.step(&ours, &store, 0.02, 1.0).expect("step");
        let store = loss(&theirs[0], &theirs[1]).backward().expect("gradients");
        candle.step(&store).expect("step");
        for (ours, theirs) in ours.values().zip(&theirs) {
            for (a, b) in numbers(ours).iter().zip(numbers(theirs)) {
                assert!((a - b).abs() < 2e-6, "step {step}: {a} for {b}");
            }
        }
        // the moments go through their saved form
        let (steps, saved) = (optimizer.steps, optimizer.tensors().expect("tensors"));
        optimizer = AdamW::new(0.3);
        optimizer.restore(steps, &saved).expect("restored");
    }
}

#[test]
fn a_run_that_goes_on_is_the_run_that_never_stopped() {
    let folder = fixture("fill/bert");
    let model = Model::from_pretrained(&folder.display().to_string()).expect("loads");
    let examples = texts(&model);
    for gating in [None, Some(Gating { penalty: Penalty::L0, weight: 0.5 })] {
        let plan = Plan { gating, ..plan(12) };
        let on = |run: &mut Run, until: u64| {
            while run.steps() < until {
                run.advance(&examples).expect("step");
                if run.is_due() {
                    let worth = |model: &Model, changes: &[_]| {
                        Ok(-mean_loss(model, &examples, 5, 1, changes)?)
                    };
                    run.look(worth).expect("look");
                }
            }
        };
        let mut whole = Run::new(plan.clone(), trainable(&folder)).expect("run");
        on(&mut whole, 12);
        assert!(whole.is_done());
        let place = TempDir::new().expect("folder");
        let mut run = Run::new(plan.clone(), trainable(&folder)).expect("run");
        for until in [1, 6, 7, 12] {
            on(&mut run, until);
            run.save(place.path()).expect("saved");
            run = Run::resume(place.path(), &plan, trainable(&folder))
                .expect("reads")
                .expect("is there");
        }
        assert_eq!(values(&run), values(&whole));
        assert_eq!(run.points(), whole.points());

        let other = Plan { seed: 4, ..plan };
        let refused = Run::resume(place.path(), &other, trainable(&folder)).err().expect("refused");
        assert!(refused.to_string().contains("seed: 3, now 4"), "{refused}");
    }
}

#[test]
fn dropout_keeps_the_mean_and_is_of_the_seed_and_the_step() {
    let golden = Golden::open("bert_mlm");
    let model = trainable(&golden.folder).frozen().expect("model");
    let batch = golden.batch();
    let rates = Dropout { hidden: 0.25, attention: 0.1 };
    let drawn = |seed, step| {
        let all = dropout(rates, model.config(), &batch, seed, step).expect("drawn");
        let hidden = model.forward(&batch, &mut Recorder::new(), &all).expect("runs");
        (all, numbers(&hidden))
    };
    let (all, first) = drawn(1, 0);
    assert_eq!(first, drawn(1, 0).1);
    assert_ne!(first, drawn(1, 1).1);
    assert_ne!(first, drawn(2, 0).1);
    for one in &all {
        let attnviz::Change::Multiply(mask) = &one.change else { panic!("{one:?}") };
        let mask = numbers(mask);
        let rate = if one.site == attnviz::Site::Probs { 0.1 } else { 0.25 };
        let dropped = mask.iter().filter(|&&x| x == 0.0).count() as f64 / mask.len() as f64;
        let off = 4.0 * (rate * (1.0 - rate) / mask.len() as f64).sqrt();
        assert!((dropped - rate).abs() < off, "{:?}: {dropped}", one.site);
        let kept = mask.iter().copied().fold(0.0, f32::max);
        assert!((f64::from(kept) * (1.0 - rate) - 1.0).abs() < 1e-6);
    }
    let none = Dropout { hidden: 0.0, attention: 0.0 };
    assert!(dropout(none, model.config(), &batch, 1, 0).expect("drawn").is_empty());
}

/// As many words of the tiny models' vocabularies as a batch takes.
fn batch(model: &Model) -> Batch {
    let ids = |(b, t): (usize, usize)| ((b * 5 + t * 3) % 20 + 5) as u32;
    let ids = ndarray::Array2::from_shape_fn((2, 6), ids)
        .mapv(|id| id.min(model.config().vocab_size as u32 - 1));
    Batch::from_ids(ids, ndarray::Array2::ones((2, 6)))
}

#[test]
fn starts_have_a_classifier_and_the_same_encoder() {
    for name in [
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
    ] {
        let folder = fixture("goldens").join(name);
        let place = TempDir::new().expect("folder");
        let out = place.path().join("start");
        let classes = ["bad", "fair", "good"].map(str::to_owned);
        write_start(&files(&folder), &classes, 7, &out).expect(name);
        let start = Model::open(&files(&out), &LoadOptions::default()).expect(name);
        let notes = &start.report().notes;
        assert_eq!(start.config().task, Task::SequenceClassification, "{name}: {notes:?}");
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
        if name != "longformer_mlm" {
            assert_eq!(run(&before).0, run(&start).0, "{name}");
        }
        let logits = start.head(&run(&start).1, &batch).expect("head").logits.expect("logits");
        assert_eq!(logits.dims(), [2, 3], "{name}");
    }
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

#[test]
fn gates_close_and_what_is_cut_is_what_they_left() {
    let folder = fixture("fill/bert");
    let model = Model::from_pretrained(&folder.display().to_string()).expect("loads");
    let examples = texts(&model);
    let worth = |model: &Model, changes: &[attnviz::Intervention]| {
        Ok(-mean_loss(model, &examples, 5, 1, changes)?)
    };
    let place = TempDir::new().expect("folder");
    let out = place.path().join("out");
    let gating = Some(Gating { penalty: Penalty::L0, weight: 5.0 });
    let still = Dropout { hidden: 0.0, attention: 0.0 };
    let first = Plan { gating, gate_rate: 60.0, dropout: still, ..plan(24) };
    let then = Plan { gating: None, ..first.clone() };
    let tune = Tune {
        plan: first,
        then: Some((0.5, then)),
        examples: &examples,
        worth: &worth,
        options: LoadOptions::default(),
        progress: &|_, _| (),
        enough: &|_| false,
    };
    let bench = Bench::claim(&out, false, false).expect("claimed");
    let start = bench
        .start(|to| attnviz::export::convert(&files(&folder), to, &Default::default()).map(|_| ()))
        .expect("start");
    let tuned = bench.run(&tune, &start).expect("runs");
    bench.finish().expect("tidied");
    assert_eq!((tuned.gates.len(), tuned.removed.len()), (6, 3));
    let gate = |head| tuned.gates.iter().find(|one| one.head == head).expect("a gate").score;
    let left = tuned.gates.iter().map(|one| one.head).filter(|one| !tuned.removed.contains(one));
    let least = left.map(gate).fold(f64::MAX, f64::min);
    // a layer keeps its last head whatever its gate says
    assert!(tuned.removed.iter().any(|&one| gate(one) <= least), "{tuned:?}");
    let after = Model::from_pretrained(&out.display().to_string()).expect("loads");
    assert_eq!(after.config().heads.iter().map(Vec::len).sum::<usize>(), 3);
    assert!(!place.path().join("out.run").exists());
    let (before, after) = (tuned.points[1][0].worth, tuned.points[1].last().expect("one").worth);
    assert!(after >= before, "{before} to {after}");
}

#[test]
fn pairs_are_trained_towards_their_scores() {
    let place = TempDir::new().expect("folder");
    let path = place.path().join("pairs.tsv");
    let lines = [
        ("the cat sat on the mat.", "a cat sat near the mat.", 5.0),
        ("the dog ran.", "they are small.", 0.0),
        ("is she tired?", "she is tired.", 4.0),
        ("a big house", "the bird slept.", 1.0),
    ];
    let mut text = "text_a\ttext_b\tscore\tsplit\n".to_owned();
    for (a, b, score) in lines {
        text += &format!("{a}\t{b}\t{score}\ttrain\n");
    }
    std::fs::write(&path, text).expect("written");
    let folder = fixture("fill/bert");
    let model = Model::from_pretrained(&folder.display().to_string()).expect("loads");
    let name = path.display().to_string();
    let set = Labelled::open(&name).expect("reads");
    let limit = Limit::default();
    let examples =
        LabelledExamples::new(&set, &name, Split::Train, &model, &limit).expect("examples");
    let mut run = Run::new(plan(40), trainable(&folder)).expect("run");
    let first = mean_loss(&run.trainable().frozen().expect("model"), &examples, 4, 0, &[]);
    while !run.is_done() {
        run.advance(&examples).expect("step");
    }
    let last = mean_loss(&run.trainable().frozen().expect("model"), &examples, 4, 0, &[]);
    let (first, last) = (first.expect("loss"), last.expect("loss"));
    assert!(last < 0.2 * first, "{first} to {last}");
    let none = LabelledExamples::new(&set, &name, Split::Test, &model, &limit).err();
    assert!(none.expect("refused").to_string().contains("no items for test"));
}
