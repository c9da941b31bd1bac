//! The two programs as a person runs them. Nothing here reaches a network: the Hub is offline and
//! its cache is an empty folder.
#![cfg(feature = "embedded")]

mod common;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command as Process, Stdio};

use assert_cmd::Command;
use candle_core::{Device, Tensor};
use common::files_in;
use common::ran::Ran;
use serde_json::{Value, json};
use tempfile::TempDir;

const EXAMPLE: &str = "The animal didn't cross the street because it was too tired";
const SLUG: &str = "the-animal-didn-t-cross-the-street-because-it-was-too-tired";

fn program(name: &str, dir: &Path) -> Command {
    let exe = match name {
        "viz" => env!("CARGO_BIN_EXE_viz"),
        _ => env!("CARGO_BIN_EXE_attnviz"),
    };
    let mut command = Command::new(exe);
    command
        .current_dir(dir)
        .env("HF_HUB_OFFLINE", "1")
        .env("HF_HOME", dir.join("hub"))
        .env("HF_ENDPOINT", "http://127.0.0.1:9")
        .env_remove("HF_HUB_CACHE")
        .env_remove("HF_TOKEN");
    command
}

fn run_in(dir: &Path, program_name: &str, args: &[&str]) -> Ran {
    Ran::of(program(program_name, dir).args(args).output().unwrap())
}

fn attnviz(dir: &Path, args: &[&str]) -> Ran {
    run_in(dir, "attnviz", args)
}

/// Expects an exit code and one line of error that holds `words`.
fn fails(dir: &Path, args: &[&str], code: i32, words: &[&str]) {
    let ran = attnviz(dir, args);
    assert_eq!(ran.code, code, "{args:?}: {}{}", ran.out, ran.err);
    assert!(ran.out.is_empty(), "{args:?}: {}", ran.out);
    if code != 2 {
        assert_eq!(ran.err.lines().count(), 1, "{args:?}: {}", ran.err);
    }
    for word in words {
        assert!(ran.err.contains(word), "{args:?}: `{word}` not in {}", ran.err);
    }
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap())
        })
        .collect()
}

fn fixture(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name).display().to_string()
}

#[test]
fn the_first_command() {
    let dir = TempDir::new().unwrap();
    let ran = attnviz(dir.path(), &[EXAMPLE]);
    assert_eq!((ran.code, &*ran.err), (0, ""));
    for line in ["L3H1    it  → animal   0.640", "L5H11   it  → animal   0.647"] {
        assert!(ran.out.contains(line), "{}", ran.out);
    }
    assert!(ran.out.contains("previous token: L0H2 1.00"), "{}", ran.out);
    assert!(ran.out.contains("not coreference"), "{}", ran.out);
    assert!(ran.out.contains("all-MiniLM-L6-v2"), "{}", ran.out);
    assert!(ran.out.contains("[CLS] the animal didn ' t cross"), "{}", ran.out);
    assert!(ran.out.contains(&format!("notebooks-out/{SLUG}")), "{}", ran.out);
    assert!(ran.out.lines().all(|line| line.chars().count() <= 80), "{}", ran.out);

    let folder = dir.path().join("notebooks-out").join(SLUG);
    let written = files(&folder);
    let mut want: Vec<String> =
        (0..72).map(|i| format!("L{:02}H{:02}.png", i / 12, i % 12)).collect();
    want.extend((0..6).map(|layer| format!("L{layer:02}-mean.png")));
    want.extend(["grid.png".into(), "manifest.json".into()]);
    want.sort();
    assert_eq!(written.keys().cloned().collect::<Vec<_>>(), want);
    for (name, bytes) in written.iter().filter(|(name, _)| name.ends_with(".png")) {
        assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 500, "{name}");
    }
    let manifest: Value = serde_json::from_slice(&written["manifest.json"]).unwrap();
    assert_eq!(manifest["input"]["text"], EXAMPLE);
    assert_eq!(manifest["tokens"].as_array().unwrap().len(), 15);
    assert_eq!(manifest["files"].as_array().unwrap().len(), 79);

    // again, on one thread: the same bytes
    assert_eq!(attnviz(dir.path(), &[EXAMPLE, "--threads", "1"]).code, 0);
    assert!(written == files(&folder), "other bytes the second time");
    // fewer heads: the rest is stale
    let ran = attnviz(dir.path(), &["--heads", "L3H1,L5H11", EXAMPLE, "--format", "svg"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let names: Vec<String> = files(&folder).into_keys().collect();
    assert_eq!(names, ["L03H01.svg", "L05H11.svg", "grid.svg", "manifest.json"]);
}

#[test]
fn the_strongest_heads_of_a_pattern_are_listed_and_all_on_request() {
    let dir = TempDir::new().unwrap();
    let heads = |out: &str| out.split("plain pattern").nth(1).unwrap().matches("L").count();
    let short = attnviz(dir.path(), &["time flies"]);
    assert!(short.out.contains("more (-v)"), "{}", short.out);
    assert!(short.out.lines().all(|line| line.chars().count() <= 80), "{}", short.out);
    let all = attnviz(dir.path(), &["time flies", "-v"]);
    assert!(!all.out.contains("more (-v)"), "{}", all.out);
    assert!(heads(&short.out) < heads(&all.out), "{}{}", short.out, all.out);
    let json = attnviz(dir.path(), &["time flies", "--json"]).json();
    assert_eq!(json["patterns"].as_array().unwrap().len(), heads(&all.out) - 1, "{}", all.out);
}

/// Far more threads than cores once took minutes of waiting for each other.
#[test]
fn there_are_no_more_threads_than_cores() {
    let dir = TempDir::new().unwrap();
    let mut command = program("attnviz", dir.path());
    let output = command
        .args(["time flies", "--threads", "65535", "--heads", "L0H0"])
        .timeout(std::time::Duration::from_secs(60))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
}

#[cfg(unix)]
#[test]
fn bytes_that_are_no_text_are_wrong_usage() {
    use std::os::unix::ffi::OsStrExt;
    let dir = TempDir::new().unwrap();
    let text = std::ffi::OsStr::from_bytes(b"a\xffb");
    for args in [&[text][..], &["--pair".as_ref(), text, "b".as_ref()]] {
        let output = program("attnviz", dir.path()).args(args).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{err}");
        assert!(err.contains("UTF-8"), "{err}");
    }
}

#[test]
fn viz_is_view() {
    let dir = TempDir::new().unwrap();
    let text = "time flies";
    let flags = ["--layers", "-1", "--heads", "0-2", "--dark", text];
    let viz = run_in(dir.path(), "viz", &[&flags[..], &["--out", "one"]].concat());
    let view = attnviz(dir.path(), &[&["view"], &flags[..], &["--out", "two"]].concat());
    assert_eq!((viz.code, view.code), (0, 0), "{}{}", viz.err, view.err);
    assert_eq!(viz.out.replace("one/", "two/"), view.out);
    let (one, two) = (dir.path().join("one/time-flies"), dir.path().join("two/time-flies"));
    assert!(files(&one) == files(&two));
    // for viz even a command's name is a text
    let ran = run_in(dir.path(), "viz", &["view", "--heads", "L0H0", "-q"]);
    assert_eq!((ran.code, &*ran.out), (0, "notebooks-out/view\n"), "{}", ran.err);
}

#[test]
fn the_text_is_one_argument() {
    let dir = TempDir::new().unwrap();
    fails(dir.path(), &["The", "animal", "didn't"], 2, &["quotes", "\"The animal didn"]);
    fails(dir.path(), &["view", "a", "b"], 2, &["quotes"]);
    assert_eq!(run_in(dir.path(), "viz", &["a", "b"]).code, 2);
    for slip in ["exprot", "Export", "inspcet", "veiw"] {
        fails(dir.path(), &[slip], 2, &["did you mean", "view --"]);
        fails(dir.path(), &[slip, "text"], 2, &["did you mean"]);
    }
    fails(dir.path(), &["--json", "inspect"], 2, &["put it first"]);
    fails(dir.path(), &["export", "a", "b", "--out", "x.npz"], 2, &["attnviz export \"a b\""]);
    assert!(!dir.path().join("notebooks-out").exists());
    for args in [&["view", "--", "view"][..], &["--", "exprot"], &["view", "exprot"]] {
        let ran = attnviz(dir.path(), args);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.err);
    }
}

#[test]
fn wrong_usage_is_2() {
    let dir = TempDir::new().unwrap();
    for (args, word) in [
        (&["text", "--no-such-flag"][..], "--no-such-flag"),
        (&["text", "--heads", "12"], "0 to 11"),
        (&["text", "--layers", "6"], "0 to 5"),
        (&["text", "--heads", "L9H0"], "0 to 5"),
        (&["text", "--heads", "x"], "L3H1"),
        (&["text", "--cmap", "jet"], "viridis"),
        (&["text", "--scale", "1:0"], "0:1"),
        (&["text", "--dpi", "1"], "50"),
        (&["text", "--format", "gif"], "svg"),
        (&["text", "--task", "poetry"], "masked-lm"),
        (&["text", "--device", "tpu"], "cpu"),
        (&["text", "--threads", "0"], "1"),
        (&["text", "--top", "0"], "zero"),
        (&["text", "--pair", "a", "b"], "--pair"),
        (&["text", "--file", "x"], "--file"),
        (&["--tokens", "x"], "--attention"),
        (&["--words"], "TEXT"),
        (&["export", "text", "--out", "x.csv"], ".npz"),
        (&["export", "text", "--out", "x.npz", "--include", "keys"], "head_output"),
        (&["completions", "tcsh"], "bash"),
        (&["text", "-q", "-v"], "--verbose"),
    ] {
        fails(dir.path(), args, 2, &[word]);
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    assert_eq!(attnviz(dir.path(), &[]).code, 2);
}

#[test]
fn a_model_that_is_not_there_is_3() {
    let dir = TempDir::new().unwrap();
    fails(dir.path(), &["text", "--model", "some-org/some-model"], 3, &["some-org/some-model"]);
    fails(dir.path(), &["inspect", "./no-such-folder"], 3, &["no-such-folder"]);
}

#[test]
fn an_unusable_checkpoint_is_4() {
    let dir = TempDir::new().unwrap();
    let model = dir.path().join("model");
    fs::create_dir(&model).unwrap();
    fs::copy(fixture("goldens/bert_model/config.json"), model.join("config.json")).unwrap();
    let weights = model.join("model.safetensors");
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
    for bytes in [pointer.as_bytes(), b""] {
        fs::write(&weights, bytes).unwrap();
        fails(dir.path(), &["text", "-m", "model"], 4, &["model.safetensors"]);
    }
    // what a file says cannot steer the terminal or take a second line
    fs::write(model.join("config.json"), r#"{"model_type": "a\nb\u001b[31m"}"#).unwrap();
    fs::copy(fixture("goldens/bert_model/model.safetensors"), weights).unwrap();
    fails(dir.path(), &["text", "-m", "model"], 4, &["model_type", "a\\nb\\u{1b}"]);
}

#[test]
fn an_unusable_input_is_5() {
    let dir = TempDir::new().unwrap();
    for text in ["", "   ", "\n"] {
        fails(dir.path(), &[text], 5, &["text"]);
        fails(dir.path(), &["--pair", "a", text], 5, &["text_b"]);
    }
    fails(dir.path(), &["--attention", "absent.npz", "--tokens", "t.json"], 1, &["absent.npz"]);
    fs::write(dir.path().join("a.npz"), "x").unwrap();
    fails(dir.path(), &["--attention", "a.npz", "--tokens", "t.json"], 5, &["a.npz"]);
    assert!(!dir.path().join("notebooks-out").exists());
}

#[test]
fn a_place_that_cannot_be_written_is_1() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    fails(dir.path(), &["text", "--out", "file"], 1, &["file"]);
    fails(dir.path(), &["text", "--out", "file/deeper"], 1, &["file"]);
    let foreign = dir.path().join("notebooks-out/text");
    fs::create_dir_all(&foreign).unwrap();
    fs::write(foreign.join("mine"), "kept").unwrap();
    fails(dir.path(), &["text", "--heads", "L0H0"], 1, &["--force"]);
    assert_eq!(files(&foreign).len(), 1);
    let ran = attnviz(dir.path(), &["text", "--heads", "L0H0", "--force"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(files(&foreign).len(), 3);
}

#[test]
fn two_at_once_leave_one_whole_folder() {
    let dir = TempDir::new().unwrap();
    let spawn = |_| {
        Process::new(env!("CARGO_BIN_EXE_attnviz"))
            .args(["same text", "-q", "--layers", "0"])
            .current_dir(dir.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    let running: Vec<_> = (0..3).map(spawn).collect();
    for mut one in running {
        assert_eq!(one.wait().unwrap().code(), Some(0));
    }
    assert_eq!(files_in(&dir.path().join("notebooks-out")), ["same-text"]);
    assert_eq!(files_in(&dir.path().join("notebooks-out/same-text")).len(), 12 + 1 + 1 + 1);
}

#[test]
fn a_text_beyond_the_model_is_refused_or_cut() {
    let dir = TempDir::new().unwrap();
    let words = |n: usize| vec!["word"; n].join(" ");
    let flags = ["--heads", "L0H0", "--json"];
    fails(dir.path(), &[&words(600)], 5, &["602", "512"]);
    fails(dir.path(), &["--pair", &words(300), &words(300)], 5, &["603", "512"]);
    fails(dir.path(), &[&words(511)], 5, &["513", "512"]);
    let tokens = |args: &[&str]| -> Vec<Value> {
        let ran = attnviz(dir.path(), &[args, &flags].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran.json()["tokens"].as_array().unwrap().clone()
    };
    assert_eq!(tokens(&[&words(510)]).len(), 512);
    let cut = tokens(&[&words(600), "--truncate"]);
    assert_eq!((cut.len(), &cut[511]["text"]), (512, &json!("[SEP]")));
    let cut = tokens(&["--pair", &words(300), &words(300), "--truncate"]);
    assert_eq!((cut.len(), &cut[511]["text"]), (512, &json!("[SEP]")));
    let cut = tokens(&["one two three four", "--truncate", "--max-length", "4"]);
    assert_eq!(cut.len(), 4);
}

#[test]
fn a_closed_pipe_is_quiet() {
    let dir = TempDir::new().unwrap();
    for args in [&["--heads", "L0H0", "text"][..], &["--help"], &["completions", "bash"]] {
        let mut child = Process::new(env!("CARGO_BIN_EXE_attnviz"))
            .args(args)
            .current_dir(dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert_eq!((child.wait().unwrap().code(), &*err), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn many_texts_go_on_past_bad_lines() {
    let dir = TempDir::new().unwrap();
    let text =
        b"first text\n\nthe first text\r\n\xff\xfe\n   \nthe last one, and a little longer\n";
    fs::write(dir.path().join("texts.txt"), text).unwrap();
    let args = ["--file", "texts.txt", "--batch-size", "2", "--heads", "L5H11"];
    let ran = attnviz(dir.path(), &args);
    assert_eq!(ran.code, 5, "{}{}", ran.out, ran.err);
    let wrong: Vec<&str> = ran.err.lines().collect();
    assert_eq!(wrong.len(), 3, "{}", ran.err);
    for (line, number) in wrong.iter().zip([2, 4, 5]) {
        assert!(line.starts_with(&format!("error: texts.txt, line {number}:")), "{line}");
    }
    let out = dir.path().join("notebooks-out");
    assert_eq!(
        files_in(&out),
        ["first-text", "the-first-text", "the-last-one-and-a-little-longer"]
    );
    // a batch gives the pictures that each text gives alone
    let batched = files(&out.join("first-text"));
    assert_eq!(attnviz(dir.path(), &["first text", "--heads", "L5H11", "--out", "alone"]).code, 0);
    let (alone, name) = (files(&dir.path().join("alone/first-text")), "manifest.json");
    assert_eq!(batched[name], alone[name]);
    assert_eq!(batched.keys().collect::<Vec<_>>(), alone.keys().collect::<Vec<_>>());

    let json = attnviz(dir.path(), &[&args[..], &["--json"]].concat()).json();
    assert_eq!(json["failed"], 3);
    let lines: Vec<i64> =
        json["inputs"].as_array().unwrap().iter().map(|i| i["line"].as_i64().unwrap()).collect();
    assert_eq!(lines, [1, 2, 3, 4, 5, 6]);
}

#[test]
fn lines_of_json_from_standard_input() {
    let dir = TempDir::new().unwrap();
    let lines = r###"{"text": "a text"}
{"text": "one", "text_b": "two"}
{"words": ["New York", "sleeps"]}
{"tokens": ["[CLS]", "play", "##ing", "[SEP]"]}
{"text": "one", "words": ["two"]}
{"text": 3}
["a", null, null, null]
not json
"###;
    let output = program("attnviz", dir.path())
        .args(["--file", "-", "--heads", "L0H0", "--json"])
        .write_stdin(lines)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(5));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let inputs = json["inputs"].as_array().unwrap();
    let texts = |i: usize| -> Vec<&str> {
        let tokens = inputs[i]["tokens"].as_array().unwrap();
        tokens.iter().map(|token| token["text"].as_str().unwrap()).collect()
    };
    assert_eq!(texts(0), ["[CLS]", "a", "text", "[SEP]"]);
    assert_eq!(texts(1), ["[CLS]", "one", "[SEP]", "two", "[SEP]"]);
    assert_eq!(texts(2), ["[CLS]", "new", "york", "sleeps", "[SEP]"]);
    assert_eq!(texts(3), ["[CLS]", "play", "##ing", "[SEP]"]);
    assert_eq!(json["failed"], 4);
    for input in &inputs[4..] {
        let error = input["error"].as_str().unwrap();
        assert!(!error.contains("Entry") && !error.contains("line 1"), "{input}");
    }
}

#[test]
fn an_empty_file_is_an_unusable_input() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("empty.txt"), "").unwrap();
    fails(dir.path(), &["--file", "empty.txt"], 5, &["empty.txt"]);
    fails(dir.path(), &["--file", "absent.txt"], 1, &["absent.txt"]);
}

#[test]
fn words_and_no_special() {
    let dir = TempDir::new().unwrap();
    let text = "unaffable embeddings can't re-tokenise [SEP] ##ing";
    let args = [text, "--words", "--no-special", "--heads", "L0H2"];
    let ran = attnviz(dir.path(), &args);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let folder = dir.path().join("notebooks-out/unaffable-embeddings-can-t-re-tokenise-sep-ing");
    let manifest: Value = serde_json::from_slice(&files(&folder)["manifest.json"]).unwrap();
    let tokens = manifest["tokens"].as_array().unwrap();
    let words: Vec<&str> = tokens.iter().map(|token| token["text"].as_str().unwrap()).collect();
    assert_eq!(words[..3], ["unaffable", "embeddings", "can't"]);
    assert!(words.ends_with(&["#", "#", "ing"]), "{words:?}");
    let lost = manifest["lost"]["L0H2"].as_array().unwrap();
    assert_eq!(lost.len(), words.len());
    assert!(lost.iter().all(|share| (0.0..=1.0).contains(&share.as_f64().unwrap())));
}

#[test]
fn what_was_assumed_is_said() {
    let dir = TempDir::new().unwrap();
    let vocab = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/all-MiniLM-L6-v2-f16/vocab.txt");
    fs::copy(vocab, dir.path().join("vocab.txt")).unwrap();
    let args = ["some text", "--tokenizer", "vocab.txt", "--heads", "L0H0"];
    let ran = attnviz(dir.path(), &args);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.starts_with("note: ") && ran.err.contains("vocab.txt"), "{}", ran.err);
    assert_eq!(attnviz(dir.path(), &[&args[..], &["-q"]].concat()).err, "");

    let ran = attnviz(dir.path(), &["我爱自然语言处理", "--heads", "L0H0"]);
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    assert!(ran.err.contains("7 of 8") && ran.err.contains("bert-base-chinese"), "{}", ran.err);
}

#[test]
fn repeated_tokens_stay_apart() {
    let dir = TempDir::new().unwrap();
    let args = ["the the the cat and the the cat", "--heads", "L0H0", "--json"];
    assert_eq!(attnviz(dir.path(), &args).json()["tokens"].as_array().unwrap().len(), 10);
}

#[test]
fn hostile_texts_stay_texts() {
    let dir = TempDir::new().unwrap();
    for text in [
        "<script>alert(1)</script>",
        "</script><img src=x onerror=alert(1)>",
        "\" onmouseover=\"x",
        "&lt;b&gt;",
        "../../../outside",
        "/etc/passwd",
        "C:\\Windows\\con",
        "a\u{1b}[31mred\u{7}\u{202e}b",
        "nul",
        &"long ".repeat(300),
    ] {
        let args = [text, "--heads", "L0H0", "--format", "svg,png", "--out", "out/deep"];
        let ran = attnviz(dir.path(), &args);
        assert_eq!(ran.code, 0, "{text}: {}", ran.err);
        let steering = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!ran.out.contains(steering) && !ran.err.contains(steering), "{:?}", ran.out);
    }
    assert_eq!(files_in(dir.path()), ["out"]);
    assert_eq!(files_in(&dir.path().join("out")), ["deep"]);
    for name in files_in(&dir.path().join("out/deep")) {
        assert!(name.len() <= 255 && !name.contains(['<', '>', '"', '\\', ':']), "{name}");
        let folder = files(&dir.path().join("out/deep").join(&name));
        let svg = String::from_utf8(folder["L00H00.svg"].clone()).unwrap();
        assert!(!svg.contains("<script") && !svg.contains("<img"), "{name}");
        let manifest: Value = serde_json::from_slice(&folder["manifest.json"]).unwrap();
        assert!(manifest["input"]["text"].is_string());
    }
}

#[test]
fn hostile_names_and_tokens_of_arrays_stay_text() {
    let dir = TempDir::new().unwrap();
    let name = "<img src=x onerror=alert(1)>.npz";
    fs::copy(fixture("arrays/stacked.npz"), dir.path().join(name)).unwrap();
    let tokens =
        json!(["</text><script>alert(1)</script>", "\" onload=\"x", "&amp;", "\u{0}\u{1b}"]);
    fs::write(dir.path().join("t.json"), tokens.to_string()).unwrap();
    let args = ["--attention", name, "--tokens", "t.json", "--format", "svg", "--out", "out"];
    let ran = attnviz(dir.path(), &args);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!ran.out.contains(['\u{0}', '\u{1b}']), "{:?}", ran.out);
    let out = dir.path().join("out");
    let folder = out.join(&files_in(&out)[0]);
    for (name, bytes) in files(&folder).iter().filter(|(name, _)| name.ends_with("svg")) {
        let svg = String::from_utf8(bytes.clone()).unwrap();
        assert!(!svg.contains("<script") && !svg.contains("<img"), "{name}");
        assert!(svg.contains("&lt;img"), "{name}"); // the title
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_not_success() {
    let dir = TempDir::new().unwrap();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = Process::new(env!("CARGO_BIN_EXE_attnviz"))
        .args(["completions", "bash"])
        .current_dir(dir.path())
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("standard output"));
}

#[test]
fn anyones_arrays_are_drawn_without_a_model() {
    let dir = TempDir::new().unwrap();
    let tokens = fixture("arrays/tokens.json");
    for name in ["stacked.npz", "layers_f16.npz", "hooks.npz", "fortran.npy"] {
        let args = ["--attention", &fixture(&format!("arrays/{name}")), "--tokens", &tokens];
        let ran = attnviz(dir.path(), &[&args[..], &["--out", name]].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(ran.out.starts_with(&format!("{name}\n4 tokens")), "{}", ran.out);
        let written = files_in(&dir.path().join(name).join("cls-play-ing-sep"));
        assert_eq!(written.len(), 6 + 2 + 1 + 1, "{written:?}");
    }
}

#[test]
fn arrays_that_are_no_attention_are_drawn_with_a_note() {
    let dir = TempDir::new().unwrap();
    // a layer that is not there is no obstacle to choosing heads
    let file = dir.path().join("x.safetensors");
    let all = |value: f32| Tensor::full(value, (2, 2, 2), &Device::Cpu).unwrap();
    let layers = [("attentions.0", all(0.5)), ("attentions.2", all(2.0))];
    candle_core::safetensors::save(&HashMap::from(layers), &file).unwrap();
    fs::write(dir.path().join("t.json"), r#"["a", "b"]"#).unwrap();
    let args = ["--attention", "x.safetensors", "--tokens", "t.json", "--heads", "0"];
    let ran = attnviz(dir.path(), &args);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.starts_with("note: L2H0: ") && ran.err.lines().count() == 1, "{}", ran.err);
    let names = files_in(&dir.path().join("notebooks-out/a-b"));
    assert_eq!(names, ["L00H00.png", "L02H00.png", "grid.png", "manifest.json"]);
    let pruned = [&args[..4], &["--layers", "1"]].concat();
    fails(dir.path(), &pruned, 2, &["at least one head"]);
    // what does not fit is the input's fault, and the file is named
    fs::write(dir.path().join("t.json"), r#"["a"]"#).unwrap();
    fails(dir.path(), &args, 5, &["x.safetensors", "1 queries", "2 by 2"]);
}

#[test]
fn export_writes_what_it_says() {
    let dir = TempDir::new().unwrap();
    for name in ["x.safetensors", "x.npz", "x.json"] {
        let ran = attnviz(dir.path(), &["export", "some text", "--out", name, "--json"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let arrays = &ran.json()["arrays"];
        assert_eq!(arrays["attentions.5"], json!([1, 12, 4, 4]));
        assert_eq!(arrays["hidden_states.6"], json!([1, 4, 384]));
        assert_eq!(arrays["last_hidden_state"], json!([1, 4, 384]));
        assert!(arrays.get("query.0").is_none());
        fails(dir.path(), &["export", "some text", "--out", name], 1, &["--force"]);
    }
    let include = ["--include", "query,key,value,scores,context,head_output", "--force", "--json"];
    let args = [&["export", "some text", "--out", "x.safetensors"], &include[..]].concat();
    let arrays = &attnviz(dir.path(), &args).json()["arrays"];
    assert_eq!(arrays["query.0"], json!([1, 12, 4, 32]));
    assert_eq!(arrays["scores.5"], json!([1, 12, 4, 4]));
    assert_eq!(arrays["head_output.5"], json!([1, 12, 4, 384]));
    // what was exported can be drawn
    let ran = attnviz(dir.path(), &["--attention", "x.safetensors", "--heads", "L0H0"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn inspect_says_what_a_checkpoint_is() {
    let dir = TempDir::new().unwrap();
    let ran = attnviz(dir.path(), &["inspect"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for word in ["all-MiniLM-L6-v2", "bert", "12 per layer", "384", "30,522", "F16", "512"] {
        assert!(ran.out.contains(word), "{word} not in {}", ran.out);
    }
    let ran = attnviz(dir.path(), &["inspect", &fixture("goldens/bert_mlm"), "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(ran.json()["config"]["task"], "masked-lm");
}

#[test]
fn help_version_and_completions() {
    let dir = TempDir::new().unwrap();
    let help = attnviz(dir.path(), &["--help"]);
    assert_eq!(help.code, 0);
    assert!(help.out.contains("Examples:") && help.out.contains("Exit codes"), "{}", help.out);
    for command in ["view", "export", "inspect", "convert", "completions"] {
        assert!(help.out.contains(command));
        assert_eq!(attnviz(dir.path(), &[command, "--help"]).code, 0);
    }
    let version = attnviz(dir.path(), &["--version"]);
    assert!(version.out.starts_with("attnviz 0.1.0 (features: embedded"), "{}", version.out);
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = attnviz(dir.path(), &["completions", shell]);
        assert!(script.code == 0 && script.out.contains("attnviz"), "{shell}");
    }
}

#[test]
fn only_the_kinds_of_pictures_asked_for() {
    let dir = TempDir::new().unwrap();
    let ran = attnviz(dir.path(), &[EXAMPLE, "--only", "grid,means", "--out", "out"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("\n  a grid, 6 layer means\n"), "{}", ran.out);
    let found = files(&dir.path().join("out").join(SLUG));
    assert_eq!(found.len(), 8, "{:?}", found.keys());
    assert!(found.contains_key("grid.png") && found.contains_key("L05-mean.png"));
    let one = ["x", "--heads", "L3H1", "--only", "grid"];
    fails(dir.path(), &one, 2, &["--only", "heads", "grid"]);
}
