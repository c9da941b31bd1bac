//! `attnviz fill` as a person runs it, on tiny checkpoints.

mod common;

use std::path::Path;

use assert_cmd::Command;
use common::fixture;
use common::kinds::checkpoint;
use common::ran::Ran;
use serde_json::Value;
use tempfile::TempDir;
use unicode_width::UnicodeWidthStr;

const TEXT: &str = "The [MASK] sat on the [MASK].";

fn fill_in(dir: &Path, model: &str, args: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attnviz"));
    command.current_dir(dir).env("HF_HUB_OFFLINE", "1").env("HF_HOME", dir.join("hub"));
    command.args(["fill", "--model"]).arg(fixture("fill").join(model)).args(args);
    Ran::of(command.output().expect("runs"))
}

fn fill(model: &str, args: &[&str]) -> Ran {
    fill_in(TempDir::new().expect("folder").path(), model, args)
}

fn refused(model: &str, args: &[&str], code: i32, want: &str) {
    fill(model, args).refused(code, want);
}

/// What the report says is what transformers gives.
#[test]
fn candidates_layers_and_the_filled_text_are_told() {
    let expected = std::fs::read(fixture("fill/expected.json")).expect("fixture");
    let expected: Value = serde_json::from_slice(&expected).expect("JSON");
    let case = &expected["bert"][0];
    let ran = fill("bert", &[TEXT, "--per-layer", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let json = ran.json();
    let ids = |candidates: &Value| -> Vec<Value> {
        candidates.as_array().expect("list").iter().map(|one| one["id"].clone()).collect()
    };
    for (mask, want) in [(0, 2), (1, 6)] {
        assert_eq!(json["masks"][mask]["position"], want);
        let got = ids(&json["masks"][mask]["candidates"]);
        assert_eq!(Value::from(got), case["fill_mask"][mask][0]);
        for layer in 0..4 {
            let got = ids(&json["layers"][layer]["masks"][mask]["candidates"]);
            assert_eq!(Value::from(got), case["lens"][layer][mask][0]);
        }
    }
    assert_eq!(json["layers"][0]["layer"], Value::Null);
    assert_eq!(json["layers"][3]["layer"], 2);
    assert_eq!(json["samples"][0]["ids"], case["filled"]["left-to-right"][0]);
    assert_eq!(json["sampling"]["temperature"], 0.0);
    let told = fill("bert", &[TEXT, "--per-layer"]).out;
    let text = json["samples"][0]["texts"][0].as_str().expect("text");
    assert!(text.starts_with("The ") && text.ends_with('.') && !text.contains('['), "{text}");
    let probability = json["masks"][1]["candidates"][0]["probability"].as_f64().expect("number");
    let token = json["masks"][1]["candidates"][0]["token"].as_str().expect("token");
    for line in [format!("  {probability:.3}  {token}"), format!("  {text}")] {
        assert!(told.lines().any(|one| one == line), "{line}: {told}");
    }
    assert!(told.contains("\n[MASK] 2, the others masked, entropy "), "{told}");
    assert!(told.contains("\n  layer 2  "), "{told}");
    assert!(told.lines().all(|line| line.width() <= 80), "{told}");
    assert_eq!(fill("bert", &[TEXT, "-q"]).out, format!("{text}\n"));
}

#[test]
fn a_seed_gives_the_same_texts_again() {
    let args = |seed| [TEXT, "--samples", "6", "--iterations", "2", "--seed", seed, "-q"];
    let first = fill("bert", &args("1"));
    assert_eq!((first.code, first.out.lines().count()), (0, 6), "{}", first.err);
    assert_eq!(fill("bert", &args("1")).out, first.out);
    assert_ne!(fill("bert", &args("2")).out, first.out);
    // fewer of them are the first of them
    let three = fill("bert", &[TEXT, "--samples", "3", "--iterations", "2", "--seed", "1", "-q"]);
    assert!(first.out.starts_with(&three.out) && three.out.lines().count() == 3);
}

#[test]
fn draws_are_asked_for_by_what_needs_them() {
    let heat = |args: &[&str]| {
        let json = fill("bert", &[&[TEXT, "--json"], args].concat()).json();
        json["sampling"]["temperature"].as_f64().expect("number")
    };
    assert_eq!(heat(&["--seed", "3"]), 0.0);
    assert_eq!(heat(&["--samples", "2"]), 1.0);
    assert_eq!(heat(&["--iterations", "1"]), 1.0);
    assert_eq!(heat(&["--min-p", "0.1"]), 1.0);
    assert_eq!(heat(&["--samples", "2", "--temperature", "0"]), 0.0);
    // with one candidate left, draws are those of the likeliest
    let greedy = fill("bert", &[TEXT, "-q"]).out;
    assert_eq!(fill("bert", &[TEXT, "-q", "--top-k", "1", "--seed", "8"]).out, greedy);
    assert_eq!(fill("bert", &[TEXT, "-q", "--top-p", "0"]).out, greedy);
    assert_eq!(fill("bert", &[TEXT, "-q", "--temperature", "1e-9", "--seed", "8"]).out, greedy);
    let two = [TEXT, "--samples", "2", "--top", "2", "--temperature", "5", "--json"];
    let json = fill("bert", &two).json();
    assert_eq!(json["masks"][0]["candidates"].as_array().map(Vec::len), Some(2));
    let steps = json["samples"][1]["steps"].as_array().expect("steps");
    assert_eq!(steps.len(), 2);
    assert_eq!(steps[0]["alternatives"].as_array().map(Vec::len), Some(2));
}

#[test]
fn orders_differ() {
    let text = "[MASK] [MASK] [MASK] was tired";
    let order = |name| {
        let json = fill("bert", &[text, "--fill-order", name, "--json"]).json();
        let steps = json["samples"][0]["steps"].as_array().expect("steps").iter();
        steps.map(|step| step["position"].as_u64().expect("position")).collect::<Vec<_>>()
    };
    assert_eq!(order("left-to-right"), [1, 2, 3]);
    assert_eq!(order("confident"), [2, 3, 1]);
}

#[test]
fn another_models_mask_is_read_as_this_ones() {
    let own = fill("roberta", &["The <mask> sat", "-q"]);
    let other = fill("roberta", &["The [MASK] sat", "-q"]);
    assert_eq!((own.code, other.code), (0, 0), "{}", other.err);
    assert_eq!(own.out, other.out);
    let told = fill("roberta", &["The [MASK] sat"]);
    assert!(told.err.contains("note: the mask of this model is <mask>"), "{}", told.err);
    assert!(!fill("roberta", &["The <mask> sat"]).err.contains("<mask>"));
}

/// A row per mask, a column per token, out of the same weights that `view` draws.
#[test]
fn what_the_masks_attend_to_is_drawn() {
    let dir = TempDir::new().expect("folder");
    let args = [TEXT, "--png", "--out", "out", "--heads", "L1H0,L1H1,L2H0", "--json"];
    let ran = fill_in(dir.path(), "bert", &args);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let json = ran.json();
    let folder = dir.path().join(json["folder"].as_str().expect("folder"));
    let files = ["L01H00.png", "L01H01.png", "L02H00.png", "L01-mean.png", "grid.png"];
    assert_eq!(json["files"], serde_json::json!(files));
    for file in files {
        let bytes = std::fs::read(folder.join(file)).expect("written");
        assert!(bytes.starts_with(b"\x89PNG"), "{file}");
    }
    let manifest = std::fs::read(folder.join("manifest.json")).expect("manifest");
    let manifest: Value = serde_json::from_slice(&manifest).expect("JSON");
    let texts = |axis: &str| -> Vec<String> {
        let tokens = manifest["tokens"][axis].as_array().expect("tokens").iter();
        tokens.map(|token| token["text"].as_str().expect("text").to_owned()).collect()
    };
    assert_eq!(texts("queries"), ["[MASK] 1", "[MASK] 2"]);
    assert_eq!(texts("keys").len(), 9);
    assert_eq!(manifest["arguments"]["rows"], "masks");
    let told = fill_in(dir.path(), "bert", &[TEXT, "--png", "--out", "out", "--heads", "L1H0"]);
    assert!(told.out.contains("\n  1 head\n"), "{}", told.out);
    let words = ["--words", "--no-special", "-q"];
    let words = fill_in(dir.path(), "bert", &[&args[..6], &words[..]].concat());
    assert_eq!((words.code, words.out.lines().count()), (0, 2), "{}", words.err);
}

#[test]
fn what_cannot_be_filled_is_refused() {
    refused("bert", &["The cat sat"], 5, "no mask in it; write [MASK] where a word is missing");
    refused("roberta", &["The [mask] sat"], 5, "write <mask> where");
    refused("bert", &["The [MASK]", "sat"], 2, "put it in quotes: attnviz fill \"The [MASK] sat\"");
    refused("../goldens/bert_seqcls", &[TEXT], 4, "is bert-base-uncased");
    refused("../goldens/bert_mlm", &[TEXT], 4, "without a tokenizer");
    for (flag, value) in [
        ("--temperature", "-0.5"),
        ("--temperature", "NaN"),
        ("--temperature", "inf"),
        ("--temperature", "warm"),
        ("--top-k", "0"),
        ("--top-k", "-1"),
        ("--top-p", "1.5"),
        ("--top-p", "-0.1"),
        ("--min-p", "2"),
        ("--samples", "0"),
        ("--seed", "-1"),
        ("--fill-order", "random"),
        ("--iterations", "-2"),
        ("--top", "0"),
        ("--heads", "L0H9"),
    ] {
        let png = if flag == "--heads" { "--png" } else { "-q" };
        refused("bert", &[TEXT, flag, value, png], 2, flag);
    }
}

#[cfg(feature = "embedded")]
#[test]
fn the_built_in_model_has_no_such_head() {
    let output = Command::new(env!("CARGO_BIN_EXE_attnviz")).args(["fill", TEXT]).output();
    let output = output.expect("runs");
    assert_eq!(output.status.code(), Some(4));
    let err = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(err.contains("has no masked-LM head") && err.contains("bert-base-uncased"), "{err}");
}

/// Not only in the pictures: what a Longformer fills a mask with is read with the global tokens.
#[test]
fn global_tokens_change_what_is_filled_in() {
    let folder = checkpoint("longformer_mlm", "longformer, offsets not trimmed");
    let model = folder.path().display().to_string();
    let candidates = |more: &[&str]| {
        let ran = fill(&model, &[&["The <mask> sat", "--json"], more].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran.json()["masks"].clone()
    };
    assert_ne!(candidates(&["--global", "0"]), candidates(&[]));
    refused("bert", &[TEXT, "--global", "0"], 2, "--global");
}
