//! `--spans` and `--global`: words and global tokens as the user gives them, from the command line
//! to what is written.
#![cfg(feature = "embedded")]

mod common;

use std::collections::HashMap;
use std::path::Path;

use assert_cmd::Command;
use candle_core::{Device, Tensor};
use common::kinds::checkpoint;
use common::numbers;
use serde_json::{Value, json};
use tempfile::TempDir;

fn attnviz(dir: &Path, args: &[&str]) -> (i32, String, String) {
    let run = Command::new(env!("CARGO_BIN_EXE_attnviz"))
        .current_dir(dir)
        .env("HF_HUB_OFFLINE", "1")
        .args(args)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (run.status.code().unwrap(), text(run.stdout), text(run.stderr))
}

#[test]
fn spans_are_the_words_of_exports_and_pictures() {
    let dir = TempDir::new().unwrap();
    let text = "我爱自然语言";
    let spans = ["--spans", "[[0,1],[1,2],[2,6]]"];
    let args = ["export", text, spans[0], spans[1], "--out", "x.json"];
    let (code, _, err) = attnviz(dir.path(), &args);
    assert_eq!(code, 0, "{err}");
    let file = std::fs::read(dir.path().join("x.json")).unwrap();
    let file: Value = serde_json::from_slice(&file).unwrap();
    assert_eq!(file["words"], json!([["我", "爱", "自然语言"]]));

    let view = [text, "--words", spans[0], spans[1], "--heads", "L0H0", "--out", "out", "-q"];
    let (code, folder, err) = attnviz(dir.path(), &view);
    assert_eq!(code, 0, "{err}");
    let manifest = std::fs::read(dir.path().join(folder.trim()).join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(manifest["arguments"]["spans"], json!("[[0,1],[1,2],[2,6]]"), "{manifest:#}");
}

#[test]
fn spans_that_do_not_fit_are_refused() {
    let dir = TempDir::new().unwrap();
    let fail = |args: &[&str], code: i32, want: &str| {
        let (got, out, err) = attnviz(dir.path(), args);
        assert_eq!((got, out.as_str()), (code, ""), "{err}");
        assert!(err.contains(want), "{err}");
    };
    fail(&["我爱", "--spans", "[[0,3]]"], 5, "[0,3] ends beyond the text, which has 2 characters");
    fail(&["我爱", "--spans", "[[0,2],[1,2]]"], 5, "[1,2] begins before");
    fail(&["我爱", "--spans", "0-2"], 2, "[[0,2],[2,5]]");
    fail(&["--file", "x.txt", "--spans", "[[0,1]]"], 2, "--spans");
}

#[test]
fn lines_may_bring_their_words() {
    let dir = TempDir::new().unwrap();
    let lines = [
        r#"{"text": "我爱自然语言", "spans": [[0,1],[1,2],[2,6]]}"#,
        r#"{"text": "我爱", "text_b": "语言", "spans": [[[0,2]],[[0,1],[1,2]]]}"#,
        r#"{"text": "我爱", "spans": [[0,3]]}"#,
        r#"{"text": "我爱", "spans": "0-2"}"#,
        r#"{"words": ["我", "爱"], "spans": [[0,1]]}"#,
        r#"{"text": "我爱", "spans": [[[0,1]],[[0,1]]]}"#,
        r#"{"text": "我爱", "spans": null}"#,
    ];
    std::fs::write(dir.path().join("x.jsonl"), lines.join("\n")).unwrap();
    let args = ["--file", "x.jsonl", "--words", "--heads", "L0H0", "--out", "out", "--json"];
    let (code, out, err) = attnviz(dir.path(), &args);
    assert_eq!(code, 5, "{err}");
    let errors: Vec<&str> = err.lines().filter(|line| line.starts_with("error")).collect();
    assert_eq!(errors.len(), 4, "{err}");
    for (error, (line, want)) in errors.iter().zip([
        (3, "[0,3] ends beyond the text, which has 2 characters"),
        (4, "spans: expected words as spans of characters, such as [[0,2],[2,5]], found \"0-2\""),
        (5, "spans give the words of a text"),
        (6, "for text 1, but there are 1"),
    ]) {
        assert!(
            error.contains(&format!("x.jsonl, line {line}: ")) && error.contains(want),
            "{err}"
        );
    }
    let report: Value = serde_json::from_str(&out).unwrap();
    let inputs = report["inputs"].as_array().unwrap();
    let words = |line: usize| -> Vec<Value> {
        let tokens = inputs[line - 1]["tokens"].as_array().unwrap();
        tokens.iter().map(|token| token["word"].clone()).collect()
    };
    assert_eq!(json!(words(1)), json!([null, 0, 1, 2, 2, 2, 2, null]));
    assert_eq!(json!(words(2)), json!([null, 0, 0, null, 0, 1, null]));
    assert_eq!(json!(words(7)), json!([null, 0, 1, null]));
    assert_eq!(inputs[0]["input"]["spans"], json!([[0, 1], [1, 2], [2, 6]]));
    assert_eq!(inputs[1]["input"]["spans"], json!([[[0, 2]], [[0, 1], [1, 2]]]));
    assert_eq!(inputs[6]["input"], json!({ "text": "我爱" }));
}

/// The arrays of an export.
fn exported(dir: &Path, args: &[&str]) -> HashMap<String, Tensor> {
    let args = [&["export"][..], args, &["--out", "x.safetensors", "--force"]].concat();
    let (code, _, err) = attnviz(dir, &args);
    assert_eq!(code, 0, "{err}");
    candle_core::safetensors::load(dir.join("x.safetensors"), &Device::Cpu).unwrap()
}

#[test]
fn global_tokens_are_those_asked_for() {
    let dir = TempDir::new().unwrap();
    let folder = checkpoint("longformer_mlm", "longformer, offsets not trimmed");
    let model = folder.path().display().to_string();
    let text = "The animal didn't cross the street again";
    let plain = exported(dir.path(), &[text, "--model", &model]);
    let asked = exported(dir.path(), &[text, "--model", &model, "--global", "0,-3--2"]);
    let marks = numbers(&asked["global_attention_mask"]);
    let count = marks.len();
    let want: Vec<f32> =
        (0..count).map(|t| f32::from([0, count - 3, count - 2].contains(&t))).collect();
    assert_eq!(marks, want);
    assert!(numbers(&plain["global_attention_mask"]).iter().all(|&mark| mark == 0.0));
    let probs = |arrays: &HashMap<String, Tensor>| numbers(&arrays["attentions.1"]);
    assert!(probs(&plain) != probs(&asked));
    assert_eq!(asked["global_attentions.0"].dims().last(), Some(&3));
    // the same as by --inputs
    let names = ["input_ids", "attention_mask", "global_attention_mask"];
    let inputs = names.map(|name| (name, asked[name].clone()));
    candle_core::safetensors::save(&HashMap::from(inputs), dir.path().join("in.safetensors"))
        .unwrap();
    let given = exported(dir.path(), &["--model", &model, "--inputs", "in.safetensors"]);
    assert_eq!(probs(&given), probs(&asked));

    // a picture of it: the first token sees the last
    let view = [text, "--model", &model, "--heads", "L0H0", "--out", "out", "--json"];
    let seen = |more: &[&str]| {
        let (code, out, err) = attnviz(dir.path(), &[&view[..], more].concat());
        assert_eq!(code, 0, "{err}");
        let report: Value = serde_json::from_str(&out).unwrap();
        let folder = dir.path().join(report["folder"].as_str().unwrap());
        let manifest = std::fs::read(folder.join("manifest.json")).unwrap();
        let manifest: Value = serde_json::from_slice(&manifest).unwrap();
        (std::fs::read(folder.join("L00H00.png")).unwrap(), manifest["arguments"]["global"].clone())
    };
    let (without, with) = (seen(&[]), seen(&["--global", "0"]));
    assert!(without.0 != with.0);
    assert_eq!((without.1, with.1), (Value::Null, json!("0")));

    let fail = |args: &[&str], want: &str| {
        let (code, _, err) = attnviz(dir.path(), args);
        assert_eq!(code, 2, "{err}");
        assert!(err.contains("--global") && err.contains(want), "{err}");
    };
    let far = [text, "--model", &model, "--global", "99"];
    fail(&far, &format!("expected tokens 0 to {} (or -{count} to -1), found `99`", count - 1));
    fail(&[text, "--model", &model, "--global", "first"], "first");
    fail(&[text, "--global", "0"], "a model with global tokens (longformer)");
    fail(&["--file", "x.txt", "--global", "0"], "cannot be used with");
}
