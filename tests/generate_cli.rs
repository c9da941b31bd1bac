//! `attnviz generate` from ids: what it writes against the reference, and what it refuses.

mod common;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use candle_core::{D, Device, Tensor};
use common::kinds::checkpoint;
use common::variant::Variant;
use common::{Golden, numbers};
use serde_json::Value;
use tempfile::TempDir;

fn generate(golden: &Golden, inputs: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_attnviz"))
        .args(["generate", "--max-new-tokens", "12", "--ignore-end", "--model"])
        .arg(&golden.folder)
        .arg("--inputs")
        .arg(inputs)
        .args(more)
        .output()
        .expect("runs")
}

/// The golden's inputs under the names that `--inputs` reads.
fn inputs(golden: &Golden, folder: &TempDir) -> PathBuf {
    let names = match golden.tensors.contains_key("generate.prompt_ids") {
        true => vec![("input_ids", "generate.prompt_ids")],
        false => vec![("input_ids", "input_ids"), ("attention_mask", "attention_mask")],
    };
    let one = |(name, from): (&str, &str)| (name.to_owned(), golden.tensor(from).clone());
    let tensors: HashMap<String, Tensor> = names.into_iter().map(one).collect();
    let path = folder.path().join("inputs.safetensors");
    candle_core::safetensors::save(&tensors, &path).expect("saved");
    path
}

fn off(got: &Tensor, want: &Tensor) -> f32 {
    assert_eq!(got.dims(), want.dims());
    let pairs = numbers(got).into_iter().zip(numbers(want));
    pairs.map(|(g, w)| (g - w).abs() / w.abs().max(1.0)).fold(0.0, f32::max)
}

/// Sequences, step logits and stitched attention, with a cache and without.
#[test]
fn exports_agree_with_the_reference() {
    for name in
        ["bert_lmhead_decoder", "gpt2_lm", "llama_lm", "bart_lm", "marian_mt", "t5_lm", "t5_v11_lm"]
    {
        let (golden, folder) = (Golden::open(name), TempDir::new().expect("folder"));
        let ids = inputs(&golden, &folder);
        let stated = |key: &str| golden.info[key].as_f64().expect("stated") as f32;
        let logits = stated("cache_vs_no_cache").max(stated("f32_vs_f64_outputs"));
        for (file, more) in
            [("cached.safetensors", vec![]), ("all.safetensors", vec!["--no-cache"])]
        {
            let out = folder.path().join(file);
            let out_name = out.display().to_string();
            let done = generate(&golden, &ids, &[&["--export", &out_name], &more[..]].concat());
            assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
            let got = candle_core::safetensors::load(&out, &Device::Cpu).expect("exported");
            assert_eq!(numbers(&got["sequences"]), numbers(golden.tensor("generate.sequences")));
            let want = golden.tensor("generate.step_logits");
            let far = off(&got["step_logits"], want);
            assert!(far <= 1e-5f32.max(3.0 * logits), "{name}: logits off by {far:.1e}");
            let mut compared = 0;
            for (stage, want) in &golden.tensors {
                let Some(stage) = stage.strip_prefix("generate.") else { continue };
                if stage.contains("attentions.") {
                    let far = off(&got[stage], want);
                    assert!(far <= 1e-5, "{name}, {stage}: off by {far:.1e}");
                    compared += 1;
                }
            }
            assert!(compared >= 2, "{name}");
            let again = generate(&golden, &ids, &["--export", &out_name]);
            assert_eq!(again.status.code(), Some(1), "{name}: nothing is overwritten");
        }
    }
}

#[test]
fn a_seed_gives_the_same_steps_and_json_has_their_numbers() {
    let (golden, folder) = (Golden::open("gpt2_lm"), TempDir::new().expect("folder"));
    let ids = inputs(&golden, &folder);
    let run = |seed: &str| {
        let flags = ["--json", "--temperature", "1.5", "--samples", "2", "--top", "3", "--seed"];
        let done = generate(&golden, &ids, &[&flags[..], &[seed]].concat());
        serde_json::from_slice::<Value>(&done.stdout).expect("JSON")
    };
    let one = run("7");
    assert_eq!(one, run("7"));
    assert_ne!(one["texts"], run("9")["texts"]);
    // the second sample of a seed is the first of the next
    assert_eq!(one["texts"][1], run("8")["texts"][0]);
    for step in one["texts"][0]["steps"].as_array().expect("steps") {
        let p = step["probability"].as_f64().expect("a number");
        assert!(p > 0.0 && p <= 1.0 && step["entropy"].as_f64() >= Some(0.0));
        assert_eq!(step["alternatives"].as_array().map(Vec::len), Some(3));
    }
}

/// A text of the golden GPT-2, by its own made-up pieces.
fn written(folder: &TempDir, more: &[&str]) -> Value {
    let done = Command::new(env!("CARGO_BIN_EXE_attnviz"))
        .args(["generate", "the cat", "--max-new-tokens", "12", "--ignore-end", "--json"])
        .arg("--model")
        .arg(folder.path())
        .args(more)
        .output()
        .expect("runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).expect("JSON")
}

#[test]
fn a_text_ends_before_the_first_of_what_it_is_to_stop_at() {
    let folder = checkpoint("gpt2_lm", "gpt2");
    let whole = written(&folder, &[])["texts"][0].clone();
    assert_eq!(whole["end"], "length");
    let text = whole["text"].as_str().expect("a text");
    let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    // over the border of two tokens, wherever they are
    let stop = &text[ends[5]..ends[ends.len() - 4]];
    let at = text.find(stop).expect("there");
    for more in [&["--stop", stop][..], &["--stop", "never there", "--stop", stop]] {
        let one = written(&folder, more)["texts"][0].clone();
        assert_eq!((&one["text"], &one["end"]), (&text[..at].into(), &"stop".into()));
        // no token more than it takes to see it
        let (steps, all) = (one["steps"].as_array(), whole["steps"].as_array());
        let (steps, all) = (steps.expect("steps"), all.expect("steps"));
        assert!(steps.len() < all.len() && *steps == all[..steps.len()], "{stop:?} in {text:?}");
    }
    let missing = written(&folder, &["--stop", "never there"]);
    assert_eq!(missing["texts"][0]["text"], text);
    let plain = Command::new(env!("CARGO_BIN_EXE_attnviz"))
        .args(["generate", "the cat", "--max-new-tokens", "12", "--ignore-end", "--stop", stop])
        .arg("--model")
        .arg(folder.path())
        .output()
        .expect("runs");
    let shown = String::from_utf8(plain.stdout).expect("UTF-8");
    assert_eq!(shown, format!("the cat{}\n", &text[..at]));
}

/// Divided scores are those of queries that are divided in the weights.
#[test]
fn an_attention_temperature_divides_the_scores_of_every_attention() {
    const HEAT: f64 = 2.5;
    for name in ["gpt2_lm", "bart_lm"] {
        let (golden, folder) = (Golden::open(name), TempDir::new().expect("folder"));
        let ids = inputs(&golden, &folder);
        let mut cooled = Variant::of(name);
        for (name, tensor) in &mut cooled.tensors {
            let divided = if name.contains("q_proj") {
                &*tensor / HEAT
            } else if name.contains("c_attn") {
                let (axis, width) = (tensor.rank() - 1, tensor.dim(D::Minus1).expect("axis"));
                let query = tensor.narrow(axis, 0, width / 3).and_then(|query| query / HEAT);
                let rest = tensor.narrow(axis, width / 3, width / 3 * 2).expect("rest");
                query.and_then(|query| Tensor::cat(&[&query, &rest], axis))
            } else {
                continue;
            };
            *tensor = divided.expect("divided");
        }
        let other = Golden { folder: folder.path().join("cooled"), ..Golden::open(name) };
        std::fs::create_dir(&other.folder).expect("folder");
        cooled.write(&other.folder);
        let run = |golden: &Golden, file: &str, more: &[&str]| {
            let out = folder.path().join(file);
            let done =
                generate(golden, &ids, &[&["--export", &out.display().to_string()], more].concat());
            assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
            candle_core::safetensors::load(&out, &Device::Cpu).expect("exported")
        };
        let plain = run(&golden, "plain.safetensors", &[]);
        let want = run(&other, "cooled.safetensors", &[]);
        for more in [vec![], vec!["--no-cache"]] {
            let flags = [&["--attn-temperature", "2.5", "--force"], &more[..]].concat();
            let got = run(&golden, "hot.safetensors", &flags);
            assert_eq!(numbers(&got["sequences"]), numbers(&want["sequences"]), "{name}");
            let mut compared = 0;
            for (stage, want) in &want {
                if stage.contains("attentions.") || stage == "step_logits" {
                    let far = off(&got[stage], want);
                    assert!(far <= 1e-5, "{name}, {stage}: off by {far:.1e}");
                    compared += 1;
                }
            }
            let first = got.keys().find(|stage| stage.ends_with("attentions.0")).expect("one");
            assert!(compared > 2 && off(&got[first], &plain[first]) > 1e-3, "{name}");
        }
    }
}

#[test]
fn flags_that_cannot_be_are_refused_in_one_line() {
    let (golden, folder) = (Golden::open("gpt2_lm"), TempDir::new().expect("folder"));
    let ids = inputs(&golden, &folder);
    for (flags, line) in [
        (["--temperature", "-1"], "--temperature: expected 0"),
        (["--temperature", "NaN"], "--temperature: expected 0"),
        (["--attn-temperature", "0"], "--attn-temperature: expected a number above 0"),
        (["--attn-temperature", "inf"], "--attn-temperature: expected a number above 0"),
        (["--attn-temperature", "1e-320"], "--attn-temperature: expected a number above 0"),
        (["--top-p", "2"], "--top-p: expected a number from 0 to 1"),
    ] {
        let done = generate(&golden, &ids, &flags);
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.code() == Some(2) && told.contains(line), "{flags:?}: {told}");
        assert!(told.trim_end().lines().count() == 1 && done.stdout.is_empty(), "{told}");
    }
}
