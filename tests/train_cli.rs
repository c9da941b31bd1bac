//! `attnviz train` as a person runs it.

mod common;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use attnviz::tokens::{Batch, Input, Limit};
use attnviz::{Keep, Model, Recorder, Site};
use candle_core::{Device, Tensor};
use common::ran::Ran;
use serde_json::Value;
use tempfile::TempDir;

/// A folder with `text.txt`, in which commands run.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let folder = TempDir::new().expect("folder");
        let subjects = ["the cat", "a dog", "the old man", "my friend", "Pharaoh's bird"];
        let places = ["the mat", "Beth-el", "a house", "the water"];
        let line = |i: usize| {
            format!("And {} sat on {}: it was so.\n", subjects[i * 7 % 5], places[i * i % 4])
        };
        let text: String = (0..160).map(line).collect();
        fs::write(folder.path().join("text.txt"), text).expect("written");
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_attnviz"));
        command.current_dir(self.0.path()).env("HF_HUB_OFFLINE", "1").args(args);
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).output().expect("runs"))
    }
}

/// Sizes that take a moment.
const SMALL: [&str; 12] = [
    "--vocab",
    "120",
    "--layers",
    "2",
    "--heads",
    "2",
    "--width",
    "16",
    "--context",
    "24",
    "--batch-size",
    "4",
];

fn small<'a>(before: &[&'a str], after: &[&'a str]) -> Vec<&'a str> {
    [before, &SMALL, after].concat()
}

fn weights(folder: &Path) -> Vec<u8> {
    fs::read(folder.join("model.safetensors")).expect("weights")
}

#[test]
fn a_causal_model_is_trained_and_writes() {
    let place = Place::new();
    let steps = ["--steps", "60", "--every", "20", "--rate", "0.01"];
    let ran = place.run(&small(&["train", "text.txt", "book"], &steps));
    assert_eq!(ran.code, 0, "{}", ran.err);
    for part in
        ["0 unknown to a vocabulary of", "step 60: ", "kept: ", "written at temperature 0.7"]
    {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    assert!(ran.out.ends_with("book: the model, training.json and training.png\n"), "{}", ran.out);
    let long = ran.out.lines().find(|line| line.chars().count() > 80 && !line.starts_with("  "));
    assert_eq!(long, None, "lines fit");
    for name in ["config.json", "tokenizer.json", "tokenizer_config.json", "training.json"] {
        assert!(place.path("book").join(name).is_file(), "{name}");
    }
    assert!(!place.path("book.run").exists(), "the run's folder is gone");
    let png = fs::read(place.path("book/training.png")).expect("picture");
    assert!(png.starts_with(b"\x89PNG"));
    let looks: Value =
        serde_json::from_slice(&fs::read(place.path("book/training.json")).expect("numbers"))
            .expect("JSON");
    let losses: Vec<f64> = looks["looks"]
        .as_array()
        .expect("looks")
        .iter()
        .map(|look| look["validation"].as_f64().expect("a loss"))
        .collect();
    assert_eq!(losses.len(), 3);
    assert!(losses[2] < losses[0] && losses[2] < 3.0, "{losses:?}");
    let perplexity = looks["best"]["perplexity"].as_f64().expect("a number");
    assert!(
        (perplexity.ln() - looks["best"]["validation"].as_f64().expect("a number")).abs() < 1e-9
    );
    assert_eq!(looks["samples"].as_array().map(Vec::len), Some(3));
    let prompt = ["generate", "--model", "book", "And the old", "--max-new-tokens", "8"];
    let cached = place.run(&prompt);
    assert_eq!(cached.code, 0, "{}", cached.err);
    let said = cached.out.starts_with("And the old ") && cached.out.contains(" sat on ");
    assert!(said, "{}", cached.out);
    assert_eq!(place.run(&[&prompt[..], &["--no-cache"]].concat()).out, cached.out);
    // a folder that is there is not written over, and is with --force
    let again = small(&["train", "text.txt", "book"], &["--steps", "4", "-q"]);
    let ran = place.run(&again);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("book: is not empty"), "{}", ran.err);
    let ran = place.run(&[&again[..], &["--force"]].concat());
    assert_eq!((ran.code, ran.out.as_str()), (0, "book\n"), "{}", ran.err);
}

#[test]
fn a_masked_model_is_trained_and_fills() {
    let place = Place::new();
    let steps = ["--task", "masked", "--steps", "40", "--rate", "0.01", "--json", "--lowercase"];
    let ran = place.run(&small(&["train", "text.txt", "book"], &steps));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let json: Value = serde_json::from_str(&ran.out).expect("JSON alone");
    assert_eq!(json["samples"], serde_json::json!([]));
    assert_eq!(json["windows"]["tokens"], 24);
    let ran = place.run(&["fill", "--model", "book", "And the cat [MASK] on the mat: it was so."]);
    assert_eq!(ran.code, 0, "{}", ran.err);
}

/// Killed in the middle and gone on with, a run ends in the same bytes.
#[test]
fn a_killed_run_goes_on_to_the_same_weights() {
    let place = Place::new();
    let course = ["--steps", "200", "--every", "5", "--dropout", "0.1", "-q", "--samples", "0"];
    let whole = place.run(&small(&["train", "text.txt", "whole"], &course));
    assert_eq!(whole.code, 0, "{}", whole.err);
    let killed = small(&["train", "text.txt", "killed"], &course);
    let mut resumed = killed.clone();
    resumed.push("--resume");
    let state = place.path("killed.run/run-0/state.safetensors");
    for round in 0..3 {
        let args = if round == 0 { &killed } else { &resumed };
        let mut child = place.command(args).stdout(Stdio::null()).spawn().expect("starts");
        let before = fs::metadata(&state).and_then(|m| m.modified()).ok();
        let began = Instant::now();
        // until a state more is written, and a little into the next steps
        while fs::metadata(&state).and_then(|m| m.modified()).ok() == before {
            assert!(began.elapsed() < Duration::from_secs(120), "no state is written");
            if child.try_wait().expect("asked").is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        child.kill().expect("killed");
        child.wait().expect("waited");
        assert!(!place.path("killed").exists(), "nothing half is there");
    }
    let refused = place.run(&killed);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("--resume goes on with it"), "{}", refused.err);
    let other = resumed.iter().map(|&arg| if arg == "16" { "32" } else { arg });
    let refused = place.run(&other.collect::<Vec<_>>());
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("width: 16, now 32"), "{}", refused.err);
    let ran = place.run(&resumed);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(weights(&place.path("killed")) == weights(&place.path("whole")), "other weights");
}

#[test]
fn time_ends_a_run_with_a_look() {
    let place = Place::new();
    let course = ["--steps", "100000", "--every", "3", "--minutes", "0", "--json"];
    let ran = place.run(&small(&["train", "text.txt", "book"], &course));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let json: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(json["looks"].as_array().map(Vec::len), Some(1));
    assert_eq!(json["looks"][0]["step"], 3);
}

#[test]
fn says_what_it_cannot_take() {
    let place = Place::new();
    fs::write(place.path("bytes.txt"), b"fine\nnot \xff fine\n").expect("written");
    fs::write(place.path("short.txt"), "a few words\n").expect("written");
    fs::write(place.path("blank.txt"), "\n\n").expect("written");
    for (args, code, said) in [
        (small(&["train", "bytes.txt", "x"], &[]), 5, "bytes.txt, line 2: expected UTF-8"),
        (small(&["train", "short.txt", "x"], &[]), 5, "expected 48 at least"),
        (small(&["train", "blank.txt", "x"], &[]), 5, "the text has no words"),
        (small(&["train", "none.txt", "x"], &[]), 1, "none.txt: could not read it"),
        (
            vec!["train", "text.txt", "x", "--width", "30"],
            2,
            "--width: expected a multiple of the 4",
        ),
        (vec!["train", "text.txt", "x", "--vocab", "20"], 2, "--vocab: expected room for"),
        (
            vec!["train", "text.txt", "x", "--positions", "64"],
            2,
            "--context: expected from 2 to 64",
        ),
        (vec!["train", "text.txt", "x", "--dropout", "1"], 2, "--dropout: expected a share"),
        (vec!["train", "text.txt", "x", "--minutes", "nan"], 2, "--minutes: expected a number"),
        (vec!["train", "text.txt", "x", "--epochs", "2", "--steps", "3"], 2, "cannot be used with"),
    ] {
        let ran = place.run(&args);
        assert_eq!(ran.code, code, "{args:?}: {}", ran.err);
        assert!(ran.err.contains(said), "{args:?}: {}", ran.err);
        assert!(!place.path("x").exists(), "{args:?}");
        assert!(!place.path("x.run").exists(), "{args:?}");
    }
}

/// transformers must load what is written, cut a text alike and compute the same.
#[test]
#[ignore = "needs Python with torch and transformers: set ATTNVIZ_PYTHON to the interpreter"]
fn transformers_loads_what_is_trained() {
    let python = std::env::var("ATTNVIZ_PYTHON").expect("ATTNVIZ_PYTHON");
    let place = Place::new();
    for task in ["causal", "masked"] {
        let course = ["--steps", "20", "-q", "--samples", "0", "--task", task];
        let ran = place.run(&small(&["train", "text.txt", task], &course));
        assert_eq!(ran.code, 0, "{}", ran.err);
        let folder = place.path(task);
        let model = Model::from_pretrained(&folder.display().to_string()).expect("loads");
        let text = "And Pharaoh's bird sat on Beth-el: it was so.";
        let tokenizer = model.tokenizer().expect("a tokenizer");
        let encoding = tokenizer.encode(&Input::Text(text.into()), &Limit::default());
        let batch = Batch::new(&[encoding.expect("tokens")], tokenizer.pad_id());
        let mut recorder = Recorder::new().keep(Site::Probs, Keep::All);
        let hidden = model.forward(&batch, &mut recorder, &[]).expect("runs");
        let logits = model.head(&hidden, &batch).expect("runs").logits.expect("logits");
        let ids: Vec<i64> = batch.ids.iter().map(|&id| i64::from(id)).collect();
        let ids = Tensor::from_vec(ids, batch.ids.dim(), &Device::Cpu).expect("ids");
        let mut expected =
            HashMap::from([("input_ids".to_owned(), ids), ("logits".into(), logits)]);
        for (_, layer, _, kept) in recorder.into_trace().expect("a trace").iter() {
            expected.insert(format!("probs.{layer}"), kept.tensor.clone());
        }
        let file = place.path("expected.safetensors");
        candle_core::safetensors::save(&expected, &file).expect("written");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/scratch/check.py");
        let run = Command::new(&python).arg(script).args([&folder, &file]).arg(text).output();
        let run = run.expect("python runs");
        assert!(run.status.success(), "{task}: {}", String::from_utf8_lossy(&run.stderr));
    }
}
