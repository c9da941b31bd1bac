//! Decoders and encoder-decoders from the command line: each stack under its own name.

mod common;

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use assert_cmd::Command;
use candle_core::{DType, Device, Tensor};
use common::ran::Ran;
use common::{Golden, fixture, worst};
use serde_json::Value;
use tempfile::TempDir;

const DECODERS: [&str; 3] = ["bert_lmhead_decoder", "gpt2_lm", "llama_lm"];
const ENCODER_DECODERS: [&str; 4] = ["bart_lm", "marian_mt", "t5_lm", "t5_v11_lm"];

fn attnviz(dir: &Path, args: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attnviz"));
    command.env("HF_HUB_OFFLINE", "1").env_remove("HF_ENDPOINT");
    Ran::of(command.current_dir(dir).args(args).output().unwrap())
}

fn folder(golden: &str) -> String {
    fixture("goldens").join(golden).display().to_string()
}

/// What `attnviz export` writes, and what it says beside.
fn export(dir: &Path, model: &str, args: &[&str]) -> (HashMap<String, Tensor>, String) {
    let out = ["export", "--force", "--out", "out.safetensors", "--model", model];
    let ran = attnviz(dir, &[&out, args].concat());
    assert_eq!(ran.code, 0, "{model}: {}", ran.err);
    let written = candle_core::safetensors::load(dir.join("out.safetensors"), &Device::Cpu);
    (written.unwrap(), ran.err)
}

/// Every stage of the golden but those of writing, under its name: attention within 1e-5; others
/// within that or three times the distance to float64 that `info.json` states.
#[test]
fn exports_agree_with_transformers() {
    let dir = TempDir::new().unwrap();
    for (model, encodes) in
        DECODERS.map(|m| (m, false)).into_iter().chain(ENCODER_DECODERS.map(|m| (m, true)))
    {
        let golden = Golden::open(model);
        let stated = |key: &str| (3.0 * golden.info[key].as_f64().unwrap() as f32).max(1e-5);
        let ids = format!("{}/golden.safetensors", folder(model));
        let (got, _) = export(dir.path(), &folder(model), &["--inputs", &ids]);
        let mut compared = 0;
        let written = |name: &str| name.starts_with("generate") || name.starts_with("sample");
        for (name, want) in golden.tensors.iter().filter(|(name, _)| !written(name)) {
            let got = got.get(name).unwrap_or_else(|| panic!("{model}: no {name}"));
            let of_encoder = !encodes || name.starts_with("encoder");
            let mask = if of_encoder { "attention_mask" } else { "decoder_attention_mask" };
            let mask = golden.ids(mask);
            let (axis, bound) = match &**name {
                "logits" => (1, stated("f32_vs_f64_outputs")),
                name if name.contains("attentions") => (2, 1e-5),
                name if name.contains("hidden_state") => (1, stated("f32_vs_f64_hidden_states")),
                _ => {
                    let same = worst(got, want, None, &mask);
                    assert_eq!((same, got.dtype()), (0.0, DType::I64), "{model}: {name}");
                    continue;
                }
            };
            let off = worst(got, want, Some(axis), &mask);
            assert!(off <= bound, "{model}, {name}: off by {off:.1e}");
            compared += 1;
        }
        // two layers of each stack
        assert_eq!(compared, if encodes { 14 } else { 6 }, "{model}: stages");
    }
}

#[test]
fn further_stages_have_their_stack_before_their_name() {
    let dir = TempDir::new().unwrap();
    let inputs = |model: &str| format!("{}/golden.safetensors", folder(model));
    let ids = inputs("bart_lm");
    let args = ["--inputs", &ids, "--include", "query,scores"];
    let (got, _) = export(dir.path(), &folder("bart_lm"), &args);
    for stack in ["encoder_", "decoder_", "cross_"] {
        for name in ["query.0", "query.1", "scores.1", "attentions.0"] {
            assert!(got.contains_key(&format!("{stack}{name}")), "{stack}{name}");
        }
    }
    assert_eq!(got["cross_scores.0"].dims(), [3, 4, 8, 12]);
    assert!(!got.keys().any(|name| name.starts_with("cross_hidden") || name == "query.0"));
    let ids = inputs("llama_lm");
    let args = ["--inputs", &ids, "--include", "key"];
    let (got, _) = export(dir.path(), &folder("llama_lm"), &args);
    assert_eq!(got["key.0"].dims(), [3, 4, 12, 8], "one for each query head");
}

#[test]
fn an_encoder_without_its_decoder_is_said_to_be() {
    let dir = TempDir::new().unwrap();
    let save = |names: &[&str]| {
        let ids = Tensor::new(&[[5_i64, 6, 7]], &Device::Cpu).unwrap();
        let tensors: HashMap<&str, Tensor> =
            names.iter().map(|&name| (name, ids.clone())).collect();
        candle_core::safetensors::save(&tensors, dir.path().join("ids.safetensors")).unwrap();
    };
    save(&["input_ids"]);
    let (got, err) = export(dir.path(), &folder("t5_lm"), &["--inputs", "ids.safetensors"]);
    assert!(err.contains("without decoder_input_ids the encoder alone is run"), "{err}");
    assert!(got.contains_key("encoder_attentions.1"));
    assert!(!got.keys().any(|name| name.contains("logits") || name.starts_with("decoder")));
    save(&["input_ids", "decoder_input_ids"]);
    let (got, err) = export(dir.path(), &folder("bert_model"), &["--inputs", "ids.safetensors"]);
    assert!(err.contains("decoder_input_ids are not read"), "{err}");
    assert!(got.contains_key("attentions.1"));
    // masks must fit their ids
    let wide = Tensor::ones((1, 4), DType::I64, &Device::Cpu).unwrap();
    let ids = Tensor::new(&[[5_i64, 6, 7]], &Device::Cpu).unwrap();
    let tensors: HashMap<&str, Tensor> =
        [("input_ids", ids.clone()), ("decoder_input_ids", ids), ("decoder_attention_mask", wide)]
            .into();
    candle_core::safetensors::save(&tensors, dir.path().join("ids.safetensors")).unwrap();
    let model = folder("t5_lm");
    let args = ["export", "--model", &model, "--inputs", "ids.safetensors", "--out", "x.npz"];
    let ran = attnviz(dir.path(), &args);
    assert_eq!(ran.code, 5, "{}", ran.err);
    assert!(ran.err.contains("(1, 3), as `decoder_input_ids`"), "{}", ran.err);
}

/// A vocabulary of ids below 120, of which any model here has more.
const WORDS: &str = "[PAD] [UNK] [CLS] [SEP] [MASK] the cat sat on mat because it was warm le chat";

/// `attnviz view` of a golden with that vocabulary.
fn view(dir: &Path, model: &str, args: &[&str]) -> Ran {
    fs::write(dir.join("vocab.txt"), WORDS.replace(' ', "\n")).unwrap();
    let model = folder(model);
    let all = ["view", "--model", &model, "--tokenizer", "vocab.txt", "the cat sat on the mat"];
    let ran = attnviz(dir, &[&all, args].concat());
    assert_eq!(ran.code, 0, "{model}: {}", ran.err);
    ran
}

fn drawn(dir: &Path) -> (Vec<String>, Value) {
    let folder = dir.join("notebooks-out/the-cat-sat-on-the-mat");
    let files = fs::read_dir(&folder).unwrap();
    let mut files: Vec<String> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    files.sort();
    let manifest = fs::read(folder.join("manifest.json")).unwrap();
    (files, serde_json::from_slice(&manifest).unwrap())
}

#[test]
fn a_causal_model_is_drawn_as_any_other() {
    let dir = TempDir::new().unwrap();
    let ran = view(dir.path(), "gpt2_lm", &[]);
    assert!(ran.out.contains("gpt2, 2 layers of 4 heads, F32"), "{}", ran.out);
    assert!(ran.out.contains("8 heads, a grid, 2 layer means"), "{}", ran.out);
    let (files, manifest) = drawn(dir.path());
    assert_eq!(files.len(), 12, "{files:?}");
    assert!(files.contains(&"L01H03.png".into()) && files.contains(&"grid.png".into()));
    assert_eq!(manifest["tokens"].as_array().unwrap().len(), 8);
    assert!(manifest.get("key_value_heads").is_none());
}

#[test]
fn heads_that_share_keys_and_values_say_so() {
    let dir = TempDir::new().unwrap();
    let ran = view(dir.path(), "llama_lm", &["--format", "svg"]);
    assert!(ran.out.contains("2 layers of 4 heads in 2 groups"), "{}", ran.out);
    assert!(ran.out.contains("L0H2 (kv 1)"), "{}", ran.out);
    let (_, manifest) = drawn(dir.path());
    let shared = manifest["key_value_heads"].as_object().unwrap();
    assert_eq!(shared.len(), 8);
    assert_eq!((&shared["L0H1"], &shared["L1H2"]), (&Value::from(0), &Value::from(1)));
    let folder = dir.path().join("notebooks-out/the-cat-sat-on-the-mat");
    let title = fs::read_to_string(folder.join("L01H03.svg")).unwrap();
    assert!(title.contains("layer 1, head 3 (kv 1)"));
    let grid = fs::read_to_string(folder.join("grid.svg")).unwrap();
    assert!(grid.contains("share keys and values in groups of 2"));
    let ran = view(dir.path(), "llama_lm", &["--json"]);
    let json: Value = serde_json::from_str(&ran.out).unwrap();
    for link in json["links"].as_array().unwrap() {
        let head: usize = link["head"].as_str().unwrap()[3..].parse().unwrap();
        assert_eq!(link["key_value_head"], head / 2, "{link}");
        assert!(link.get("stack").is_none());
    }
}

#[test]
fn an_encoder_decoder_is_drawn_stack_by_stack() {
    let dir = TempDir::new().unwrap();
    let ran = view(dir.path(), "bart_lm", &["--target", "le chat"]);
    assert!(!ran.err.contains("alone"), "{}", ran.err);
    let sizes = "bart, encoder 2 layers of 4 heads, decoder 2 layers of 4 heads, F32";
    assert!(ran.out.contains(sizes), "{}", ran.out);
    assert!(ran.out.contains("encoder, 8 tokens: [CLS] the cat"), "{}", ran.out);
    // its start token 2, and what it reads of the text: not the last [SEP]
    assert!(ran.out.contains("decoder, 4 tokens: [CLS] [CLS] le chat\n"), "{}", ran.out);
    assert!(ran.out.contains("24 heads, 3 grids, 6 layer means"), "{}", ran.out);
    for stack in ["ENCODER\n", "DECODER\n", "CROSS-ATTENTION\n"] {
        assert!(ran.out.contains(stack), "{}", ran.out);
    }
    let (files, manifest) = drawn(dir.path());
    assert_eq!(files.len(), 34, "{files:?}");
    for name in ["encoder-L00H00.png", "decoder-L01-mean.png", "cross-grid.png", "cross-L01H03.png"]
    {
        assert!(files.contains(&name.into()), "{name}: {files:?}");
    }
    assert_eq!(manifest["input"]["target"], "le chat");
    assert_eq!(manifest["tokens"]["encoder"].as_array().unwrap().len(), 8);
    assert_eq!(manifest["tokens"]["decoder"].as_array().unwrap().len(), 4);

    let args = ["--target", "le chat", "--json", "--words", "--no-special", "--heads", "L1H2"];
    let ran = view(dir.path(), "bart_lm", &args);
    let json: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        json["files"],
        serde_json::json!(["encoder-L01H02.png", "decoder-L01H02.png", "cross-L01H02.png"])
    );
    let links = json["links"].as_array().unwrap();
    let cross = links.iter().find(|link| link["stack"] == "cross").expect("a link across");
    assert!(["le", "chat"].contains(&cross["from"].as_str().unwrap()), "{cross}");
    assert!(!["le", "chat"].contains(&cross["to"].as_str().unwrap()), "{cross}");
    let (files, manifest) = drawn(dir.path());
    assert_eq!(files.len(), 4, "what an earlier run left is gone: {files:?}");
    assert_eq!(manifest["lost"]["cross-L1H2"].as_array().unwrap().len(), 2);
}

/// Rows are the decoder's tokens: what the picture shows is the golden model's own attention.
#[test]
fn cross_attention_has_the_decoders_rows_and_the_encoders_columns() {
    let dir = TempDir::new().unwrap();
    view(dir.path(), "t5_lm", &["--target", "le chat", "--format", "svg", "--annotate"]);
    let pictures = dir.path().join("notebooks-out/the-cat-sat-on-the-mat");
    let svg = fs::read_to_string(pictures.join("cross-L00H00.svg")).unwrap();
    assert!(svg.contains("cross-attention, layer 0, head 0"));
    assert!(svg.contains("decoder token (attends)") && svg.contains("encoder token (attended to)"));
    let args = ["--target", "le chat", "--tokenizer", "vocab.txt", "the cat sat on the mat"];
    let (got, _) = export(dir.path(), &folder("t5_lm"), &args);
    let cross = &got["cross_attentions.0"];
    assert_eq!(cross.dims(), [1, 4, 4, 8]);
    let first = common::numbers(&cross.get(0).unwrap().get(0).unwrap());
    let shown = |value: f32| svg.contains(&format!(">{value:.2}<"));
    assert!(first.iter().filter(|&&value| value >= 0.005).all(|&value| shown(value)), "{first:?}");
    // start token, then the text without what ends it
    assert_eq!(common::numbers(&got["decoder_input_ids"]), [0.0, 2.0, 14.0, 15.0]);
}

#[test]
fn without_a_target_the_encoder_alone_is_drawn() {
    let dir = TempDir::new().unwrap();
    let ran = view(dir.path(), "marian_mt", &["--heads", "L0H0"]);
    assert!(ran.err.contains("without --target the encoder alone is drawn"), "{}", ran.err);
    assert_eq!(drawn(dir.path()).0, ["encoder-L00H00.png", "manifest.json"]);
    fs::write(dir.path().join("texts.txt"), "the cat\nthe mat was warm\n").unwrap();
    let model = folder("marian_mt");
    let args = ["--model", &model, "--tokenizer", "vocab.txt", "--file", "texts.txt", "-q"];
    let ran = attnviz(dir.path(), &[&["view", "--heads", "L0H0"][..], &args].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(dir.path().join("notebooks-out/the-mat-was-warm/encoder-L00H00.png").exists());
    // and a model without a decoder beside its encoder takes none
    let model = folder("bert_model");
    let args = ["the cat", "--target", "le chat", "--model", &model, "--tokenizer", "vocab.txt"];
    let ran = attnviz(dir.path(), &args);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("--target") && ran.err.contains("no decoder"), "{}", ran.err);
}
