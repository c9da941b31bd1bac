//! What a person reads in the pictures and in the terminal, for each kind of tokenizer.

mod common;

use std::path::Path;

use assert_cmd::Command;
use common::kinds::checkpoint;
use roxmltree::Document;
use serde_json::Value;
use tempfile::TempDir;

const TEXT: &str = "The animal didn't cross: 天 walking 我爱";

struct Kind {
    golden: &'static str,
    tokenizer: &'static str,
    /// Labels of its pieces, apart by spaces; `_` is a space within one.
    pieces: &'static str,
    words: &'static str,
}

const fn kind(
    golden: &'static str,
    tokenizer: &'static str,
    pieces: &'static str,
    words: &'static str,
) -> Kind {
    Kind { golden, tokenizer, pieces, words }
}

const KINDS: [Kind; 9] = [
    kind(
        "bert_model",
        "bert",
        "[CLS] the a ##n ##i ##m ##a ##l d ##i ##d ##n ' t c ##r ##o ##s ##s : [UNK]_天 walking 我 \
         爱 [SEP]",
        "[CLS] The animal didn't cross : [UNK]_天 walking 我 爱 [SEP]",
    ),
    kind(
        "bert_model",
        "bert, cased",
        "[CLS] T ##h ##e a ##n ##i ##m ##a ##l d ##i ##d ##n ' t c ##r ##o ##s ##s : [UNK]_天 \
         walking 我 爱 [SEP]",
        "[CLS] The animal didn't cross : [UNK]_天 walking 我 爱 [SEP]",
    ),
    kind(
        "bert_model",
        "words",
        "[CLS] the animal didn ' t cross [UNK]_: [UNK]_天 [UNK]_walking [UNK]_我爱 [SEP]",
        "[CLS] The animal didn't cross [UNK]_: [UNK]_天 [UNK]_walking [UNK]_我爱 [SEP]",
    ),
    kind("roberta_mlm", "roberta", BYTES, ROBERTA_WORDS),
    kind("longformer_mlm", "longformer, offsets not trimmed", BYTES, ROBERTA_WORDS),
    kind(
        "modernbert_mlm",
        "modernbert",
        "[CLS] The animal did n 't cross : ␣ <E5> <A4> <A9> walk ing ␣ 我爱 [SEP]",
        "[CLS] The animal didn't cross : 天 walking 我爱 [SEP]",
    ),
    kind(
        "xlm_roberta",
        "xlm-roberta",
        "<s> T he an i ma l did n ' t c ro ss : ␣ <unk>_天 w alking ␣ 我爱 </s>",
        ROBERTA_WORDS,
    ),
    kind(
        "deberta_v2_model",
        "deberta-v2",
        "[CLS] T he an i ma l did n ' t c ro ss : ␣ [UNK]_天 w alking ␣ 我爱 [SEP]",
        "[CLS] The animal didn't cross : 天 walking 我爱 [SEP]",
    ),
    kind(
        "bert_model",
        "llama",
        "The animal did n ' t cross : ␣ <E5> <A4> <A9> walk ing ␣ 我爱",
        "The animal didn't cross : 天 walking 我爱",
    ),
];

const BYTES: &str = "<s> The animal did n 't cross : ␣ <E5> <A4> <A9> walk ing ␣ 我爱 </s>";
const ROBERTA_WORDS: &str = "<s> The animal didn't cross : 天 walking 我爱 </s>";

fn attnviz(dir: &Path, model: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attnviz"));
    command.current_dir(dir).env("HF_HUB_OFFLINE", "1").arg("view").arg("--model").arg(model);
    command
}

/// Runs the program; the folder that it wrote, and what it printed.
fn draw(model: &Path, args: &[&str]) -> (TempDir, String) {
    let dir = TempDir::new().unwrap();
    let run = attnviz(dir.path(), model)
        .args([
            TEXT,
            "--heads",
            "L0H0,L1H3",
            "--only",
            "heads",
            "--format",
            "svg,png",
            "--out",
            ".",
        ])
        .args(args)
        .output()
        .unwrap();
    let err = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(0), "{err}");
    (dir, String::from_utf8(run.stdout).unwrap())
}

/// The only folder in a folder.
fn within(dir: &Path) -> std::path::PathBuf {
    let mut entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let folder = entries.next().unwrap();
    assert!(folder.is_dir() && entries.next().is_none());
    folder
}

/// Every text of a picture, in the order of the file.
fn texts(picture: &Path) -> Vec<String> {
    let svg = std::fs::read_to_string(picture).unwrap();
    let document = Document::parse(&svg).unwrap();
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    texts.map(|node| node.text().unwrap_or_default().trim().to_owned()).collect()
}

fn labels(line: &str) -> Vec<String> {
    line.split_whitespace().map(|label| label.replace('_', " ")).collect()
}

#[test]
fn pieces_and_words_are_readable_in_pictures_of_every_kind() {
    for kind in KINDS {
        let model = checkpoint(kind.golden, kind.tokenizer);
        for (args, want) in [(&["-q"][..], kind.pieces), (&["-q", "--words"], kind.words)] {
            let (dir, _) = draw(model.path(), args);
            let folder = within(dir.path());
            let want = labels(want);
            for picture in ["L00H00.svg", "L01H03.svg"] {
                let found = texts(&folder.join(picture));
                let place = format!("{}, {args:?}, {picture}", kind.tokenizer);
                // rows, then columns, or the other way round
                assert_eq!(found[..want.len()], want, "{place}");
                assert_eq!(found[want.len()..2 * want.len()], want, "{place}");
                let marked = |text: &&String| text.contains(['▁', 'Ġ', 'Ċ', '\u{fffd}']);
                assert_eq!(found.iter().find(marked), None, "{place}");
            }
            assert!(folder.join("L00H00.png").is_file());
            let manifest = std::fs::read(folder.join("manifest.json")).unwrap();
            let manifest: Value = serde_json::from_slice(&manifest).unwrap();
            assert_eq!(manifest["input"]["text"], TEXT);
        }
    }
}

/// The separators of each family stand between the texts, and belong to neither.
#[test]
fn pairs_are_drawn_with_their_separators() {
    let table = [
        ("bert_model", "bert", "[CLS] walking cat [SEP] the text [SEP]"),
        ("distilbert_mlm", "bert, cased", "[CLS] walking cat [SEP] the text [SEP]"),
        ("roberta_mlm", "roberta", "<s> walking cat </s> </s> the text </s>"),
        ("xlm_roberta", "xlm-roberta", "<s> walking cat </s> </s> the text </s>"),
        ("mpnet_model", "mpnet", "<s> walking cat </s> </s> the text </s>"),
        ("albert_mlm", "albert", "[CLS] walking cat [SEP] the text [SEP]"),
        ("modernbert_mlm", "modernbert", "[CLS] walking cat [SEP] the text [SEP]"),
    ];
    for (golden, tokenizer, want) in table {
        let model = checkpoint(golden, tokenizer);
        let dir = TempDir::new().unwrap();
        let run = attnviz(dir.path(), model.path())
            .args(["--pair", "walking cat", "the text", "--words", "--only", "heads"])
            .args(["--heads", "L1H2", "--format", "svg", "--out", ".", "-q"])
            .output()
            .unwrap();
        let err = String::from_utf8(run.stderr).unwrap();
        assert_eq!(run.status.code(), Some(0), "{tokenizer}: {err}");
        let folder = within(dir.path());
        let (found, want) = (texts(&folder.join("L01H02.svg")), labels(want));
        assert_eq!(found[..want.len()], want, "{tokenizer}");
        let manifest = std::fs::read(folder.join("manifest.json")).unwrap();
        let manifest: Value = serde_json::from_slice(&manifest).unwrap();
        let tokens = manifest["tokens"].as_array().unwrap();
        let sequences: Vec<Option<u64>> = tokens.iter().map(|t| t["sequence"].as_u64()).collect();
        let second = sequences.iter().position(|&s| s == Some(1)).unwrap();
        assert_eq!(sequences[second - 1], None, "{tokenizer}: {tokens:?}");
        let mut texts = sequences.into_iter().flatten().collect::<Vec<_>>();
        texts.dedup();
        assert_eq!(texts, [0, 1], "{tokenizer}");
    }
}

#[test]
fn links_between_words_name_whole_words_for_every_kind() {
    for kind in KINDS {
        let model = checkpoint(kind.golden, kind.tokenizer);
        let (_dir, out) = draw(model.path(), &["--json", "--top", "200"]);
        let report: Value = serde_json::from_str(&out).unwrap();
        let words = labels(kind.words);
        let links = report["links"].as_array().unwrap();
        assert!(!links.is_empty(), "{}: {report:#}", kind.tokenizer);
        for link in links {
            for side in ["from", "to"] {
                let word = link[side].as_str().unwrap();
                assert!(words.iter().any(|one| one == word), "{}: {link}", kind.tokenizer);
            }
        }
    }
}
