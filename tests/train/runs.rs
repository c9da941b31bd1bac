//! Steps, and runs that go on from where they were.

use std::collections::BTreeMap;
use std::path::Path;

use attnviz::export::write_trained;
use attnviz::prune::{PruneOptions, StackHead, prune};
use attnviz::select::Head;
use attnviz::task::{Sample, Target, Written};
use attnviz::tokens::Batch;
use attnviz::train::{
    AdamW, Dropout, Examples, Gating, Penalty, Plan, Point, Run, dropout, mean_loss,
};
use attnviz::{Intervention, Model, Recorder, Stack};
use candle_core::{Device, Tensor, Var};
use candle_nn::optim::{AdamW as Theirs, Optimizer, ParamsAdamW};
use tempfile::TempDir;

use super::common::{Golden, fixture, numbers};
use super::{files, plan, texts, trainable};

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

fn values(run: &Run) -> BTreeMap<String, Vec<f32>> {
    let variables = run.trainable().variables().iter();
    let gates = run.gates().into_iter().flat_map(|gates| gates.variables());
    variables.chain(gates).map(|(name, var)| (name.clone(), numbers(var.as_tensor()))).collect()
}

/// A run to its end, and the same one that is saved and goes on after each of these steps.
fn whole_and_resumed(
    folder: &Path,
    plan: &Plan,
    examples: &dyn Examples,
    stops: &[u64],
) -> (Run, Run, TempDir) {
    let on = |run: &mut Run, until: u64| {
        while run.steps() < until {
            run.advance(examples).expect("step");
            if run.is_due() {
                let worth =
                    |model: &Model, changes: &[_]| Ok(-mean_loss(model, examples, 5, 1, changes)?);
                run.look(worth).expect("look");
            }
        }
    };
    let mut whole = Run::new(plan.clone(), trainable(folder)).expect("run");
    on(&mut whole, plan.schedule.steps);
    assert!(whole.is_done());
    let place = TempDir::new().expect("folder");
    let mut run = Run::new(plan.clone(), trainable(folder)).expect("run");
    for &until in stops.iter().chain([&plan.schedule.steps]) {
        on(&mut run, until);
        run.save(place.path()).expect("saved");
        run = Run::resume(place.path(), plan, trainable(folder)).expect("reads").expect("is there");
    }
    assert_eq!(values(&run), values(&whole));
    assert_eq!(run.points(), whole.points());
    (whole, run, place)
}

#[test]
fn a_run_that_goes_on_is_the_run_that_never_stopped() {
    let folder = fixture("fill/bert");
    let model = Model::from_pretrained(&folder.display().to_string()).expect("loads");
    let examples = texts(&model);
    for gating in [None, Some(Gating { penalty: Penalty::L0, weight: 0.5 })] {
        let plan = Plan { gating, ..plan(12) };
        let (.., place) = whole_and_resumed(&folder, &plan, &examples, &[1, 6, 7]);
        let resumed = |plan: &Plan, folder: &Path| {
            Run::resume(place.path(), plan, trainable(folder)).err().expect("refused").to_string()
        };
        let line = resumed(&Plan { seed: 4, ..plan.clone() }, &folder);
        assert!(line.contains("seed: 3, now 4"), "{line}");
        // the state of another model
        let line = resumed(&plan, &fixture("goldens/bert_mlm"));
        assert!(line.contains("saved ") && line.contains("expected ["), "{line}");
    }
}

#[test]
fn what_a_run_has_seen_is_read_back_to_the_last_bit() {
    for step in 0..2000u32 {
        let loss = 7.0 * (f64::from(step) * 0.731).sin();
        let point = Point { step: step.into(), loss, worth: -loss / 3.0, open: None };
        let text = serde_json::to_string(&point).expect("JSON");
        assert_eq!(serde_json::from_str::<Point>(&text).expect("a point"), point, "{text}");
    }
}

/// What an encoder-decoder is to write of each text of a golden.
struct Writing(Golden);

impl Examples for Writing {
    fn count(&self) -> usize {
        self.0.batch().ids.nrows()
    }

    fn sample(&self, places: &[usize], _: u64) -> attnviz::Result<Sample> {
        let some = |name: &str| self.0.ids(name).select(ndarray::Axis(0), places);
        let of = |ids, mask| Batch::from_ids(some(ids), some(mask));
        let batch = of("input_ids", "attention_mask");
        let written = of("decoder_input_ids", "decoder_attention_mask");
        let special = |batch: &Batch| batch.mask.mapv(|real| real == 0);
        Ok(Sample {
            special: special(&batch),
            target: Some(Target::next_tokens(&written)),
            written: Some(Written { special: special(&written), batch: written }),
            batch,
        })
    }
}

#[test]
fn decoders_and_what_they_read_are_dropped_too_and_go_on_the_same() {
    for name in ["bart_lm", "t5_lm"] {
        let examples = Writing(Golden::open(name));
        let folder = &examples.0.folder;
        let model = trainable(folder).frozen().expect("model");
        let sample = examples.sample(&[0, 1], 0).expect("sample");
        let rates = Dropout { hidden: 0.2, attention: 0.2 };
        let all = dropout(rates, model.config(), &sample, 1, 0).expect("drawn");
        let run = |changes: &[Intervention]| {
            numbers(&sample.run(&model, &mut Recorder::new(), changes).expect("runs"))
        };
        for stack in [Stack::Encoder, Stack::Decoder, Stack::Cross] {
            let sites = |one: &&Intervention| one.stack == stack;
            let some: Vec<Intervention> = all.iter().filter(sites).cloned().collect();
            // two layers, and embeddings where the stack has some
            let want = if stack == Stack::Cross { 2 * 2 } else { 1 + 3 * 2 };
            assert_eq!(some.len(), want, "{name}, {stack:?}");
            for one in &some {
                let off = run(std::slice::from_ref(one)) != run(&[]);
                assert!(off, "{name}, {stack:?}, {:?}", one.site);
            }
        }
        // the encoder draws what it drew where it runs alone
        let alone = Sample { written: None, ..sample.clone() };
        let alone = dropout(rates, model.config(), &alone, 1, 0).expect("drawn");
        let both = all.iter().zip(&alone);
        assert!(both.clone().count() == alone.len());
        assert!(both.into_iter().all(|(a, b)| format!("{a:?}") == format!("{b:?}")), "{name}");
        let gating = Some(Gating { penalty: Penalty::L0, weight: 0.5 });
        let plan = Plan { gating, batch_size: 2, dropout: rates, ..plan(6) };
        whole_and_resumed(folder, &plan, &examples, &[1, 4]);
    }
}

#[test]
fn a_run_that_leaves_the_numbers_is_stopped_there() {
    let folder = fixture("fill/bert");
    let model = Model::from_pretrained(&folder.display().to_string()).expect("loads");
    let mut run = Run::new(plan(12), trainable(&folder)).expect("run");
    let var = &run.trainable().variables()["layers.0.mlp.up.weight"];
    var.set(&(var.as_tensor() * f64::INFINITY).expect("too much")).expect("set");
    let before = values(&run);
    let line = run.advance(&texts(&model)).expect_err("refused").to_string();
    assert_eq!(
        line,
        "loss after 0 steps: expected a finite number, which a smaller learning rate may give, \
         found NaN"
    );
    let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits();
    let each = values(&run).into_values().zip(before.into_values());
    assert!(each.into_iter().all(|(a, b)| a.iter().zip(&b).all(same)));
    let line = run.look(|_, _| Ok(f64::NEG_INFINITY)).expect_err("refused").to_string();
    assert!(line.starts_with("validation after 0 steps"), "{line}");
}

#[test]
fn dropout_keeps_the_mean_and_is_of_the_seed_and_the_step() {
    let golden = Golden::open("bert_mlm");
    let model = trainable(&golden.folder).frozen().expect("model");
    let batch = golden.batch();
    let special = batch.mask.mapv(|real| real == 0);
    let sample = Sample { batch: batch.clone(), special, written: None, target: None };
    let rates = Dropout { hidden: 0.25, attention: 0.1 };
    let drawn = |seed, step| {
        let all = dropout(rates, model.config(), &sample, seed, step).expect("drawn");
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
    assert!(dropout(none, model.config(), &sample, 1, 0).expect("drawn").is_empty());
}

#[test]
fn a_layer_without_heads_is_trained_and_written() {
    let folder = fixture("fill/bert");
    let place = TempDir::new().expect("folder");
    let (cut, out) = (place.path().join("cut"), place.path().join("out"));
    let head = |head| StackHead { stack: Stack::Encoder, head: Head { layer: 1, head } };
    let options = PruneOptions { allow_empty_layers: true, ..PruneOptions::default() };
    prune(&files(&folder), &cut, &(0..2).map(head).collect(), &options).expect("cut");
    let model = Model::from_pretrained(&cut.display().to_string()).expect("loads");
    let examples = texts(&model);
    let gating = Some(Gating { penalty: Penalty::L1, weight: 0.5 });
    let (run, ..) = whole_and_resumed(&cut, &Plan { gating, ..plan(6) }, &examples, &[2]);
    let empty = run.trainable().variables().values().filter(|var| var.elem_count() == 0);
    assert!(empty.count() > 0, "no matrix is empty");
    write_trained(run.trainable(), &files(&cut), &out, false).expect("written");
    let there = Model::from_pretrained(&out.display().to_string()).expect("loads");
    let loss = |model: &Model| mean_loss(model, &examples, 4, 0, &[]).expect("loss");
    let (there, here) = (loss(&there), loss(&run.trainable().frozen().expect("model")));
    assert!((there - here).abs() < 1e-5, "{there} for {here}");
    assert!((there - loss(&model)).abs() > 1e-2, "nothing was learnt");
}
