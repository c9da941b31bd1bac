//! Golden checkpoints with a tokenizer of each kind beside them.

use std::path::Path;

use attnviz::tokens::Tokenizer;
use candle_core::{Device, Tensor};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::fixture;
use super::variant::Variant;

/// A golden checkpoint whose embeddings have a row for every token of a tokenizer: a case of
/// `tokenizers_kinds`, or BERT's as `bert`, `bert, cased` or `words`.
pub fn checkpoint(golden: &str, tokenizer: &str) -> TempDir {
    let folder = TempDir::new().expect("folder");
    write_tokenizer(folder.path(), tokenizer);
    let variant = Variant::of(golden);
    std::fs::write(folder.path().join("config.json"), variant.config.to_string()).expect("saved");
    std::fs::write(folder.path().join("model.safetensors"), [0; 16]).expect("saved");
    let request = attnviz::hub::ModelRequest {
        model: Some(folder.path().display().to_string()),
        ..Default::default()
    };
    let env = attnviz::hub::HubEnv::from_lookup(None, |_| None);
    let files = attnviz::hub::resolve(&request, &env, &()).expect("files");
    let tokenizer = Tokenizer::open(&files.tokenizer).expect("tokenizer");
    with_rows(variant, tokenizer.vocab_size())
        .set("pad_token_id", tokenizer.pad_id().into())
        .write(folder.path());
    folder
}

/// As many embeddings as there are tokens, the golden ones over and over.
fn with_rows(mut variant: Variant, size: usize) -> Variant {
    let rows = variant.config["vocab_size"].as_u64().expect("a number") as usize;
    let repeated: Vec<u32> = (0..size).map(|row| (row % rows) as u32).collect();
    let repeated = Tensor::from_vec(repeated, size, &Device::Cpu).expect("rows");
    for tensor in variant.tensors.values_mut().filter(|tensor| tensor.dims()[0] == rows) {
        *tensor = tensor.index_select(&repeated, 0).expect("rows");
    }
    variant.set("vocab_size", size.into())
}

fn write_tokenizer(folder: &Path, name: &str) {
    let write = |file: &str, value: &Value| {
        std::fs::write(folder.join(file), value.to_string()).expect("saved");
    };
    let copy = |from: &str, to: &str| {
        std::fs::copy(fixture(from), folder.join(to)).expect("copied");
    };
    match name {
        "bert" | "bert, cased" => {
            copy("tokenizers/vocab.txt", "vocab.txt");
            write("tokenizer_config.json", &json!({ "do_lower_case": name == "bert" }));
        }
        "words" => write("tokenizer.json", &whole_words()),
        name => {
            let path = fixture("tokenizers_kinds/expected.json");
            let text = std::fs::read(path).expect("expected.json");
            let all: Value = serde_json::from_slice(&text).expect("JSON");
            let cases = all["cases"].as_array().expect("a list");
            let case = cases.iter().find(|case| case["name"] == name).expect(name);
            for (file, from) in case["files"].as_object().expect("files") {
                copy(&format!("tokenizers_kinds/{}", from.as_str().expect("a name")), file);
            }
            for (file, content) in case["contents"].as_object().expect("contents") {
                write(file, content);
            }
        }
    }
}

/// A vocabulary of whole words, as the tokenizers crate writes one.
fn whole_words() -> Value {
    let vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "animal", "didn", "t", "'", "cross"];
    let vocab: serde_json::Map<String, Value> =
        vocab.iter().zip(0..).map(|(word, id)| ((*word).to_owned(), json!(id))).collect();
    let special = |name: &str, id: u32| {
        json!({ "id": id, "content": name, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true })
    };
    json!({
        "version": "1.0", "truncation": null, "padding": null, "decoder": null,
        "added_tokens": [special("[PAD]", 0), special("[UNK]", 1), special("[CLS]", 2),
                         special("[SEP]", 3)],
        "normalizer": { "type": "Lowercase" },
        "pre_tokenizer": { "type": "BertPreTokenizer" },
        "post_processor": { "type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2] },
        "model": { "type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]" },
    })
}
