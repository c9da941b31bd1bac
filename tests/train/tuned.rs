//! From a start to a result: gates, the cut, labelled sets, and the folder of a run.

use std::path::Path;

use attnviz::task::{Set, Split};
use attnviz::tokens::Limit;
use attnviz::train::{
    Bench, Dropout, Gating, LabelledExamples, Penalty, Plan, Run, Tune, mean_loss,
};
use attnviz::{LoadOptions, Model};
use candle_core::{Device, Tensor};
use tempfile::TempDir;

use super::common::fixture;
use super::{files, plan, texts, trainable};

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
fn the_heads_that_go_are_those_whose_gates_are_smallest_in_size() {
    let folder = fixture("fill/bert");
    let model = Model::from_pretrained(&folder.display().to_string()).expect("loads");
    let examples = texts(&model);
    let place = TempDir::new().expect("folder");
    let gating = Some(Gating { penalty: Penalty::L1, weight: 0.0 });
    let first = Plan { gating, ..plan(2) };
    let then = Plan { gating: None, ..first.clone() };
    // a gate that turned a head round is open
    let turned = |run: &Run, _: usize| {
        for var in run.gates().into_iter().flat_map(|gates| gates.variables().values()) {
            let gates = Tensor::new(&[-0.9f32, 0.2], &Device::Cpu).expect("gates");
            var.set(&gates).expect("set");
        }
    };
    let tune = Tune {
        plan: first,
        then: Some((0.5, then)),
        examples: &examples,
        worth: &|_, _| Ok(0.0),
        options: LoadOptions::default(),
        progress: &turned,
        enough: &|_| false,
    };
    let bench = Bench::claim(&place.path().join("out"), false, false).expect("claimed");
    let start = bench
        .start(|to| attnviz::export::convert(&files(&folder), to, &Default::default()).map(|_| ()))
        .expect("start");
    let tuned = bench.run(&tune, &start).expect("runs");
    let gone: Vec<String> = tuned.removed.iter().map(ToString::to_string).collect();
    assert_eq!(gone, ["L0H1", "L1H1", "L2H1"]);
    assert_eq!(tuned.points[0].last().expect("a point").open, Some(6));
}

#[test]
fn the_folder_of_a_run_is_beside_its_result_and_holds_nothing_else() {
    let place = TempDir::new().expect("folder");
    let at = |name: &str| place.path().join(name);
    let write = |folder: &Path| {
        std::fs::create_dir_all(folder).expect("made");
        attnviz::export::convert(&files(&fixture("fill/bert")), folder, &Default::default())
            .map(drop)
    };
    let bench = Bench::claim(&at("out/"), false, false).expect("claimed");
    bench.start(write).expect("start");
    assert!(at("out.run/start").is_dir() && !at("out").exists());
    bench.discard();
    assert!(!at("out.run").exists());
    // what a person has there stays
    std::fs::create_dir(at("out.run")).expect("made");
    std::fs::write(at("out.run/notes"), "mine").expect("written");
    for (force, resume) in [(false, false), (true, false), (false, true)] {
        let line = Bench::claim(&at("out"), force, resume).expect_err("refused").to_string();
        assert!(line.ends_with("holds `notes`, which is no run's"), "{line}");
    }
    assert!(at("out.run/notes").is_file());
    let line = Bench::claim(Path::new("/"), true, false).expect_err("refused").to_string();
    assert_eq!(line, "/: has no place beside it for the run");
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
    let set = Set::open(&name, &model, &Limit::default(), 4).expect("reads");
    let examples = LabelledExamples::new(set.clone(), Split::Train, &model).expect("examples");
    let mut run = Run::new(plan(40), trainable(&folder)).expect("run");
    let first = mean_loss(&run.trainable().frozen().expect("model"), &examples, 4, 0, &[]);
    while !run.is_done() {
        run.advance(&examples).expect("step");
    }
    let last = mean_loss(&run.trainable().frozen().expect("model"), &examples, 4, 0, &[]);
    let (first, last) = (first.expect("loss"), last.expect("loss"));
    assert!(last < 0.2 * first, "{first} to {last}");
    let none = LabelledExamples::new(set, Split::Test, &model).err();
    assert!(none.expect("refused").to_string().contains("no items for test"));
}
