//! `attnviz finetune` and `gradcheck` as a person runs them, on a tiny checkpoint.

mod common;

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use common::fixture;
use common::ran::Ran;
use serde_json::Value;
use tempfile::TempDir;

/// A folder with a labelled set, pairs and texts.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(TempDir::new().expect("folder"));
        let mut set = String::from("split\tlabel\ttext\n");
        let mut pairs = String::from("split\tscore\ttext_a\ttext_b\n");
        let (mut texts, mut words) = (String::new(), String::new());
        let parts = ["train", "train", "train", "validation", "test"];
        for (i, subject) in ["cat", "dog", "bird", "man", "boy", "girl"].into_iter().enumerate() {
            for (j, part) in parts.into_iter().enumerate() {
                let place = ["house", "tree", "mat", "floor", "chair"][(i + j) % 5];
                let (good, bad) =
                    (format!("the {subject} is happy"), format!("a {subject} is tired"));
                set += &format!("{part}\tgood\t{good} near the {place}\n");
                set += &format!("{part}\tbad\t{bad} under a {place}\n");
                pairs += &format!("{part}\t{}\t{good}\tthe {place} is {bad}\n", (i + j) % 6);
                texts += &format!("{good} in the {place}.\n{bad}, and she slept.\n");
                let (tokens, tags) =
                    (["the", subject, "is", "near", "the", place], [0, 1, 0, 0, 0, 1]);
                let line = serde_json::json!({ "split": part, "tokens": tokens, "ner_tags": tags });
                words += &format!("{line}\n");
            }
        }
        let files =
            [("set.tsv", set), ("pairs.tsv", pairs), ("texts.txt", texts), ("words.jsonl", words)];
        for (name, text) in files {
            fs::write(place.path(name), text).expect("written");
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let model = fixture("fill/bert");
        let given = args.contains(&"--model");
        let model: &[&OsStr] = if given { &[] } else { &["--model".as_ref(), model.as_ref()] };
        let mut command = Command::new(env!("CARGO_BIN_EXE_attnviz"));
        command
            .current_dir(self.0.path())
            .env("HF_HUB_OFFLINE", "1")
            .env("HF_HOME", self.path("hub"))
            .args(args)
            .args(model);
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).output().expect("runs"))
    }

    fn json(&self, args: &[&str]) -> Value {
        let ran = self.run(&[args, &["--json"]].concat());
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.err);
        serde_json::from_str(&ran.out).expect("JSON")
    }

    fn refused(&self, args: &[&str], code: i32, want: &str) {
        self.run(args).refused(code, want);
    }
}

/// Settings that make the most of a tiny model in a second.
const QUICK: [&str; 8] =
    ["--rate", "3e-3", "--dropout", "0", "--attention-dropout", "0", "--batch-size", "6"];

#[test]
fn classes_pairs_and_texts() {
    let place = Place::new();
    let run = |args: &[&str]| place.json(&[&["finetune"], args, &QUICK].concat());
    let found = run(&["classes", "--data", "set.tsv", "--epochs", "12"]);
    let metric = |found: &Value, at: &str| found["test"][at]["metric"].as_f64().expect("a number");
    assert_eq!(found["test"]["name"], "accuracy");
    assert!(metric(&found, "after") > 0.9, "{found}");
    let points = found["runs"][0].as_array().expect("points");
    assert_eq!(points.len(), 12);
    let files = ["config.json", "model.safetensors", "vocab.txt", "training.json", "training.png"];
    for name in files {
        assert!(place.path("classes").join(name).is_file(), "{name}");
    }
    assert!(!place.path("classes.run").exists());

    // a head for some other classes makes room for one that knows them
    let set =
        fs::read_to_string(place.path("set.tsv")).expect("read").replace("\tgood\t", "\tfine\t");
    fs::write(place.path("other.tsv"), set).expect("written");
    let other = run(&["other", "--model", "classes", "--data", "other.tsv", "--epochs", "2"]);
    let before = other["test"]["before"]["by"].as_str().expect("by");
    assert!(before.starts_with("logistic regression on mean embeddings"), "{before}");
    assert!(metric(&other, "before") > 0.9, "{other}");

    let found = run(&[
        "pairs",
        "--data",
        "pairs.tsv",
        "--epochs",
        "10",
        "--against",
        "classes",
        "--margin",
        "2",
    ]);
    assert_eq!(found["test"]["name"], "Spearman");
    assert_eq!(found["test"]["against"]["no_worse"], true, "{found}");

    let found = run(&["words", "--file", "texts.txt", "--steps", "40", "--every", "10"]);
    let validation = |i: usize| found["runs"][0][i]["validation"].as_f64().expect("a number");
    assert_eq!(found["validation"], "loss");
    assert!(validation(3) < validation(0) && validation(3) > 0.0, "{found}");
}

#[test]
fn classes_of_words_are_trained_and_the_head_goes_on() {
    let place = Place::new();
    let run = |args: &[&str]| {
        place.json(&[&["finetune"], args, &["--data", "words.jsonl"], &QUICK].concat())
    };
    let found = run(&["words/", "--epochs", "40"]);
    let before = found["test"]["before"]["by"].as_str().expect("by");
    assert!(before.starts_with("logistic regression on first tokens"), "{before}");
    assert_eq!(found["test"]["after"]["by"], "the model's own head");
    let metric = |found: &Value, at: &str| found["test"][at]["metric"].as_f64().expect("a number");
    assert!(metric(&found, "after") > 0.9, "{found}");
    assert!(!place.path("words.run").exists() && place.path("words/config.json").is_file());
    let config = fs::read_to_string(place.path("words/config.json")).expect("config");
    assert!(config.contains("BertForTokenClassification"), "{config}");

    // its head is where it was, also with gates and after a cut
    let gates = ["--gates", "l0", "--gate-weight", "3", "--gate-rate", "40"];
    let more = ["small", "--model", "words", "--epochs", "6", "--recover-epochs", "30"];
    let again = run(&[&more[..], &gates].concat());
    assert_eq!(again["test"]["before"]["by"], "the model's own head");
    assert_eq!(metric(&again, "before"), metric(&found, "after"));
    assert_eq!(again["removed"].as_array().map(Vec::len), Some(3), "{again}");
    assert!(metric(&again, "after") > 0.9, "{again}");
}

#[test]
fn gates_close_heads_are_cut_and_the_rest_goes_on() {
    let place = Place::new();
    let all = [
        &["finetune", "small", "--data", "set.tsv", "--epochs", "6", "--recover-epochs", "3"][..],
        &["--gates", "l0", "--gate-weight", "3", "--gate-rate", "40", "--fraction", "0.5"],
        &QUICK,
    ];
    let found = place.json(&all.concat());
    assert_eq!(found["removed"].as_array().map(Vec::len), Some(3), "{found}");
    assert_eq!(found["gates"].as_array().map(Vec::len), Some(6));
    assert_eq!(found["runs"].as_array().map(Vec::len), Some(2));
    let config = fs::read_to_string(place.path("small/config.json")).expect("config");
    assert!(config.contains("pruned_heads"), "{config}");
    assert!(found["test"]["after"]["metric"].as_f64().expect("a number") > 0.9, "{found}");
}

#[test]
fn a_run_that_is_killed_at_any_moment_ends_as_one_that_is_not() {
    let place = Place::new();
    let args = |out: &'static str| -> Vec<&'static str> {
        [
            &["finetune", out, "--data", "set.tsv", "--steps", "24", "--every", "3", "--quiet"][..],
            &["--gates", "l1", "--gate-weight", "0.1", "--recover-epochs", "2", "--dropout", "0.1"],
            &["--batch-size", "6"],
        ]
        .concat()
    };
    let start = Instant::now();
    assert_eq!(place.run(&args("whole")).code, 0);
    let whole = start.elapsed();
    let (mut random, mut killed) = (777u32, 0);
    for round in 0..8u32 {
        let mut args = args("killed");
        if place.path("killed.run").exists() {
            args.push("--resume");
        } else if place.path("killed").exists() {
            break; // it came to its end before it was killed
        }
        let mut child = place
            .command(&args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let share = f64::from(round + 1) / 9.0 * f64::from(random) / f64::from(u32::MAX);
        std::thread::sleep(whole.mul_f64(share));
        child.kill().expect("killed");
        killed += usize::from(!child.wait().expect("ends").success());
        // what is there is whole
        let there = place.path("killed/model.safetensors");
        if there.exists() {
            let (a, b) = (fs::read(&there), fs::read(place.path("whole/model.safetensors")));
            assert!(a.expect("read") == b.expect("read"), "round {round}");
        }
    }
    assert!(killed > 0, "nothing was killed");
    if place.path("killed.run").exists() {
        place.refused(&args("killed"), 1, "--resume");
        if place.path("killed.run/about.json").exists() {
            let set = fs::read_to_string(place.path("set.tsv")).expect("read");
            fs::write(place.path("few.tsv"), set.replace("mat", "tree")).expect("written");
            let other = |arg: &'static str| if arg == "set.tsv" { "few.tsv" } else { arg };
            let other: Vec<&str> =
                args("killed").into_iter().map(other).chain(["--resume"]).collect();
            place.refused(&other, 2, "about.json is of, found `another set`");
        }
        let resumed = place.run(&[&args("killed")[..], &["--resume"]].concat());
        assert_eq!(resumed.code, 0, "{}", resumed.err);
    }
    for name in ["model.safetensors", "config.json"] {
        let of = |out: &str| fs::read(place.path(out).join(name)).expect("read");
        assert!(of("whole") == of("killed"), "{name}");
    }
}

#[test]
fn what_is_refused() {
    let place = Place::new();
    let refused = |args: &[&str], code, want| place.refused(args, code, want);
    refused(&["finetune", "out"], 2, "--data");
    refused(&["finetune", "out", "--data", "none.tsv"], 1, "none.tsv");
    refused(&["finetune", "out", "--data", "set.tsv", "--rate", "0"], 2, "--rate");
    refused(&["finetune", "out", "--data", "set.tsv", "--dropout", "1"], 2, "--dropout");
    refused(&["finetune", "out", "--data", "set.tsv", "--gate-weight", "1"], 2, "--gates");
    fs::create_dir(place.path("full")).expect("made");
    fs::write(place.path("full/notes"), "mine").expect("written");
    refused(&["finetune", "full", "--data", "set.tsv"], 1, "not empty");
    fs::write(place.path("short.txt"), "a cat\n").expect("written");
    refused(&["finetune", "out", "--file", "short.txt"], 5, "expected 10 or more");
    fs::write(place.path("two.tsv"), "split\tlabel\ttext\ntrain\tx\ta\ntest\ty\tb\n")
        .expect("written");
    refused(&["finetune", "out", "--data", "two.tsv"], 5, "two.tsv: holds no items for validation");
    refused(&["finetune", "out", "--data", "set.tsv", "--against", "nobody"], 3, "nobody");
    assert!(!place.path("out").exists() && !place.path("out.run").exists());
    // nothing was begun, so nothing is in the way
    let again = [&["finetune", "out", "--data", "set.tsv", "--steps", "1"][..], &QUICK].concat();
    assert_eq!(place.run(&again).code, 0);
}

#[test]
fn derivatives_are_held_against_differences() {
    let place = Place::new();
    let found = place.json(&["gradcheck", "--file", "texts.txt", "--only", "layers.0"]);
    let checked = found["checked"].as_array().expect("tensors");
    let has = |part: &str| checked.iter().any(|one| one["tensor"] == part);
    assert!(has("layers.0.attention.query.weight") && !has("layers.1.mlp.up.weight"));
    let ran = place.run(&["gradcheck", "the cat sat on the mat", "--only", "gates"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.lines().all(|line| line.chars().count() <= 80), "{}", ran.out);
    assert!(ran.out.contains("gates.encoder.2"), "{}", ran.out);
    let strict = place.run(&["gradcheck", "a dog", "--only", "gates", "--tolerance=-1"]);
    assert_eq!(strict.code, 1, "{}", strict.out);
}
