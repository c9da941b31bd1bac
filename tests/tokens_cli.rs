//! `--spans`: words as the user gives them, from the command line to what is written.
#![cfg(feature = "embedded")]

use std::path::Path;

use assert_cmd::Command;
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
