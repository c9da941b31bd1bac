//! Tokenizers in GGUF files against llama.cpp.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use attnviz::export::{ConvertOptions, convert};
use attnviz::hub::{self, Asset, HubEnv, ModelRequest, TokenizerFiles};
use attnviz::tokens::{Input, Kind, Limit, Tokenizer};
use candle_core::quantized::GgmlDType;
use candle_core::quantized::gguf_file::Value;
use common::fixture;
use common::gguf::Gguf;
use common::variant::Variant;
use serde::Deserialize;
use tempfile::TempDir;

#[derive(Deserialize)]
struct Expected {
    texts: Vec<String>,
    spm: Vec<Vec<u32>>,
    pre: BTreeMap<String, Vec<Vec<u32>>>,
}

fn expected() -> Expected {
    let text = std::fs::read(fixture("gguf/tokens.json")).expect("fixture");
    serde_json::from_slice(&text).expect("JSON")
}

fn tokenizer(path: &Path) -> attnviz::Result<Tokenizer> {
    let gguf = Some(Asset::Disk(PathBuf::from(path)));
    Tokenizer::open(&TokenizerFiles { gguf, ..TokenizerFiles::default() })
}

fn ids(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    let encoding = tokenizer.encode(&Input::Text(text.into()), &Limit::default()).expect("tokens");
    encoding.tokens.iter().filter_map(|token| token.id).collect()
}

fn texts(list: impl IntoIterator<Item = String>) -> Value {
    Value::Array(list.into_iter().map(Value::String).collect())
}

/// A golden's weights with the byte-level vocabulary of the other fixtures.
fn byte_level(pre: &str) -> Gguf {
    let kinds = fixture("tokenizers_kinds");
    let vocab: BTreeMap<String, u32> =
        serde_json::from_slice(&std::fs::read(kinds.join("vocab.json")).expect("fixture"))
            .expect("JSON");
    let mut tokens: Vec<String> = vec![String::new(); vocab.len()];
    for (token, &id) in &vocab {
        tokens[id as usize] = token.clone();
    }
    let kind = |token: &String| match token.as_str() {
        "<s>" | "</s>" | "<pad>" => 3,
        "<unk>" => 2,
        "<|end|>" => 4,
        _ => 1,
    };
    tokens.push("<|end|>".into());
    let kinds_of = tokens.iter().map(|token| Value::I32(kind(token))).collect();
    let merges = std::fs::read_to_string(kinds.join("merges.txt")).expect("fixture");
    let merges = merges.lines().filter(|line| !line.is_empty() && !line.starts_with("#version"));
    Gguf::of(&Variant::of("llama_lm"), |_| GgmlDType::F32)
        .set("tokenizer.ggml.model", Value::String("gpt2".into()))
        .set("tokenizer.ggml.pre", Value::String(pre.into()))
        .set("tokenizer.ggml.tokens", texts(tokens))
        .set("tokenizer.ggml.token_type", Value::Array(kinds_of))
        .set("tokenizer.ggml.merges", texts(merges.map(str::to_owned)))
        .set("tokenizer.ggml.bos_token_id", Value::U32(vocab["<s>"]))
        .set("tokenizer.ggml.eos_token_id", Value::U32(vocab["</s>"]))
}

#[test]
fn byte_level_vocabularies_cut_as_llama_cpp_does() {
    let (expected, folder) = (expected(), TempDir::new().expect("folder"));
    for (pre, want) in &expected.pre {
        let path = folder.path().join(format!("{pre}.gguf"));
        byte_level(pre).write(&path);
        let tokenizer = tokenizer(&path).expect("opens");
        assert_eq!(tokenizer.kind(), Kind::ByteLevelBpe);
        for (text, want) in expected.texts.iter().zip(want) {
            assert_eq!(ids(&tokenizer, text), *want, "{pre}: {text:?}");
        }
    }
}

#[test]
fn sentencepiece_vocabularies_cut_as_llama_cpp_does() {
    let expected = expected();
    let tokenizer = tokenizer(&fixture("gguf/spm.gguf")).expect("opens");
    assert_eq!(tokenizer.kind(), Kind::Bpe);
    for (text, want) in expected.texts.iter().zip(&expected.spm) {
        assert_eq!(ids(&tokenizer, text), *want, "{text:?}");
    }
}

#[test]
fn what_stands_around_texts_is_as_the_file_says() {
    let folder = TempDir::new().expect("folder");
    let path = folder.path().join("model.gguf");
    for (bos, eos) in [(false, false), (true, false), (false, true), (true, true)] {
        let flag = |key: &str, on| (format!("tokenizer.ggml.add_{key}_token"), Value::Bool(on));
        let ((first, one), (second, two)) = (flag("bos", bos), flag("eos", eos));
        byte_level("llama-bpe").set(&first, one).set(&second, two).write(&path);
        let ids = ids(&tokenizer(&path).expect("opens"), "the cat");
        assert_eq!((ids[0] == 0, ids[ids.len() - 1] == 2), (bos, eos), "{ids:?}");
    }
    let without = byte_level("llama-bpe").without("tokenizer.ggml.bos_token_id");
    without.write(&path);
    let line = tokenizer(&path).expect_err("no id").to_string();
    assert!(line.contains("expected the id of the token to add, found nothing"), "{line}");
}

#[test]
fn unknown_kinds_are_refused_with_advice() {
    let cases = [
        ("pre", "tekken", "`tokenizer.ggml.pre`: expected one of smollm"),
        ("model", "rwkv", "`tokenizer.ggml.model`: expected a tokenizer that attnviz knows"),
    ];
    for (key, value, want) in cases {
        let key = format!("tokenizer.ggml.{key}");
        let gguf = byte_level("gpt-2").set(&key, Value::String(value.into()));
        let (line, code) = gguf.refusal();
        assert!(line.contains(want) && line.contains("--tokenizer"), "{line}");
        assert!(line.ends_with(&format!("found `{value}`")), "{line}");
        assert_eq!(code, 4);
        // with another's tokenizer the model runs
        let folder = TempDir::new().expect("folder");
        let path = folder.path().join("model.gguf");
        gguf.write(&path);
        let request = ModelRequest {
            model: Some(path.display().to_string()),
            tokenizer: Some(fixture("tokenizers_kinds/llama.model")),
            ..ModelRequest::default()
        };
        let files = hub::resolve(&request, &HubEnv::from_env(), &()).expect("found");
        let model = attnviz::Model::open(&files, &Default::default()).expect("loads");
        assert_eq!(model.tokenizer().expect("given").kind(), Kind::Bpe);
    }
}

#[test]
fn vocabularies_that_do_not_hold_together_are_refused() {
    let one = |text: &str| texts([text.to_owned()]);
    let cases = [
        ("tokens", texts(["a".into(), "a".into()]), "expected a list of different texts"),
        ("tokens", Value::U32(7), "`tokenizer.ggml.tokens`: expected a list, found 7"),
        ("token_type", Value::Array(vec![Value::I32(1)]), "expected a list of 441"),
        ("merges", one("ab"), "each two pieces with a space between them"),
        ("merges", one("no\nsuch piece"), "the tokenizer in it"),
        ("bos_token_id", Value::U32(9999), "expected an id below 441, found 9999"),
        ("eos_token_id", Value::String("x".into()), "expected a whole number, found `x`"),
    ];
    for (key, value, want) in cases {
        let key = format!("tokenizer.ggml.{key}");
        let mut gguf = byte_level("gpt-2");
        if key.ends_with("tokens") {
            gguf = gguf.without("tokenizer.ggml.token_type");
        }
        let (line, code) = gguf.set(&key, value).refusal();
        assert!(line.contains(want), "{key}: {line}");
        assert_eq!(code, 4, "{key}");
    }
}

#[test]
fn converted_tokenizers_cut_alike() {
    let expected = expected();
    for pre in ["smollm", "llama-bpe"] {
        let folder = TempDir::new().expect("folder");
        let (from, to) = (folder.path().join("model.gguf"), folder.path().join("out"));
        byte_level(pre).write(&from);
        let request =
            ModelRequest { model: Some(from.display().to_string()), ..ModelRequest::default() };
        let files = hub::resolve(&request, &HubEnv::from_env(), &()).expect("found");
        let done = convert(&files, &to, &ConvertOptions::default()).expect("converted");
        let names = ["model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"];
        assert_eq!(done.files, names);
        let model = common::open(&to, None).expect("loads");
        for (text, want) in expected.texts.iter().zip(&expected.pre[pre]) {
            assert_eq!(ids(model.tokenizer().expect("there"), text), *want, "{pre}: {text:?}");
        }
    }
}
