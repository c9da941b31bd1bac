//! Tokenizers: the same pieces, ids, type ids and offsets as transformers; words; hard inputs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use attnviz::hub::{self, Asset, HubEnv, ModelRequest, TokenizerFiles};
use attnviz::tokens::{Batch, Encoding, Input, Limit, Tokenizer, Unknown, group_by_length};
use attnviz::{Error, Token};
use serde::Deserialize;
use tempfile::TempDir;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tokenizers")
}

/// The built-in checkpoint's tokenizer, from its folder so that it needs no feature.
fn minilm() -> Tokenizer {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/all-MiniLM-L6-v2-f16");
    let files = TokenizerFiles {
        json: Some(Asset::Disk(folder.join("tokenizer.json"))),
        ..TokenizerFiles::default()
    };
    Tokenizer::open(&files).unwrap()
}

/// A tokenizer from a folder holding `vocab.txt` and the files given.
fn small(vocab: &str, files: &BTreeMap<String, serde_json::Value>) -> (Tokenizer, TempDir) {
    let (opened, folder) = try_small(vocab, files);
    (opened.unwrap(), folder)
}

fn try_small(
    vocab: &str,
    files: &BTreeMap<String, serde_json::Value>,
) -> (attnviz::Result<Tokenizer>, TempDir) {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("vocab.txt"), vocab).unwrap();
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content.to_string()).unwrap();
    }
    let request = ModelRequest { tokenizer: Some(folder.path().into()), ..Default::default() };
    let env = HubEnv::from_lookup(None, |_| None);
    // `--tokenizer` finds the files; which model it belongs to does not matter here.
    let model = folder.path().join("model.safetensors");
    std::fs::write(&model, [0; 16]).unwrap();
    let request = ModelRequest { model: Some(model.display().to_string()), ..request };
    (hub::resolve(&request, &env, &()).and_then(|files| Tokenizer::open(&files.tokenizer)), folder)
}

fn vocab() -> String {
    std::fs::read_to_string(fixtures().join("vocab.txt")).unwrap()
}

fn no_files() -> BTreeMap<String, serde_json::Value> {
    BTreeMap::new()
}

fn read(tokenizer: &Tokenizer, text: &str) -> Encoding {
    tokenizer.encode(&Input::Text(text.into()), &Limit::default()).unwrap()
}

fn shown(encoding: &Encoding) -> Vec<&str> {
    encoding.tokens.iter().map(|token| token.text.as_str()).collect()
}

fn ids(encoding: &Encoding) -> Vec<u32> {
    encoding.tokens.iter().map(|token| token.id.unwrap()).collect()
}

/// The words of an encoding's first text, and the word of each token that has one.
fn grouped(encoding: &Encoding) -> (Vec<&str>, Vec<usize>) {
    (encoding.words(0), encoding.tokens.iter().filter_map(|token| token.word).collect())
}

#[derive(Deserialize)]
struct Entry {
    text: String,
    #[serde(alias = "text_pair")]
    text_b: Option<String>,
    tokens: Vec<String>,
    #[serde(alias = "input_ids")]
    ids: Vec<u32>,
    #[serde(alias = "token_type_ids")]
    type_ids: Vec<u32>,
    offsets: Vec<(usize, usize)>,
}

impl Entry {
    fn input(&self) -> Input {
        match &self.text_b {
            Some(b) => Input::Pair(self.text.clone(), b.clone()),
            None => Input::Text(self.text.clone()),
        }
    }

    fn compare(&self, case: &str, tokenizer: &Tokenizer) {
        let got = tokenizer.encode(&self.input(), &Limit::default());
        if self.tokens.len() == 2 {
            assert!(matches!(got, Err(Error::Input { .. })), "{case}: {:?}: {got:?}", self.text);
            return;
        }
        let got = got.unwrap();
        let place = format!("{case}: {:?}", self.text);
        assert_eq!(shown(&got), self.tokens, "{place}");
        assert_eq!(ids(&got), self.ids, "{place}");
        let field = |field: fn(&Token) -> u32| got.tokens.iter().map(field).collect::<Vec<_>>();
        assert_eq!(field(|token| token.type_id), self.type_ids, "{place}");
        let offsets: Vec<_> = got.tokens.iter().map(|token| token.offsets).collect();
        assert_eq!(offsets, self.offsets, "{place}");
    }
}

#[test]
fn minilm_agrees_with_transformers() {
    let text = std::fs::read_to_string(fixtures().join("minilm.json")).unwrap();
    let entries: Vec<Entry> = serde_json::from_str(&text).unwrap();
    assert_eq!(entries.len(), 12);
    let tokenizer = minilm();
    for entry in &entries {
        entry.compare("minilm", &tokenizer);
    }
}

#[derive(Deserialize)]
struct Expected {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    files: BTreeMap<String, serde_json::Value>,
    texts: Vec<Entry>,
    cut: Option<Vec<Vec<u32>>>,
    words: Option<Words>,
}

#[derive(Deserialize)]
struct Words {
    ids: Vec<u32>,
    offsets: Vec<(usize, usize)>,
    word_ids: Vec<Option<usize>>,
}

fn expected() -> Vec<Case> {
    let text = std::fs::read_to_string(fixtures().join("expected.json")).unwrap();
    serde_json::from_str::<Expected>(&text).unwrap().cases
}

#[test]
fn vocab_txt_agrees_with_transformers_under_every_setting() {
    let cases = expected();
    assert_eq!(cases.len(), 14);
    for case in cases {
        for (line_end, vocab) in [("LF", vocab()), ("CRLF", vocab().replace('\n', "\r\n"))] {
            let (tokenizer, _folder) = small(&vocab, &case.files);
            for entry in &case.texts {
                entry.compare(&format!("{}, {line_end}", case.name), &tokenizer);
            }
        }
    }
}
