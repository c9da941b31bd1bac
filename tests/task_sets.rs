//! Labelled sets: classes of words by the model's own head, and Parquet files.

mod common;

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use attnviz::prune::{heads_left, off};
use attnviz::task::{Answers, Item, Label, Labelled, Probe, Set, Split, outputs};
use attnviz::tokens::{Batch, Input, Limit};
use attnviz::{Model, Recorder, Result};
use candle_core::{Device, Tensor};
use common::{fixture, open};
use ndarray::Array2;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Words of the vocabulary, one of which comes apart, with a class for each.
const LINES: &str = r#"{"words": ["the", "cat", "sat"], "labels": ["O", "B-PER", "O"], "split": "test"}
{"words": ["quickly", "dog"], "labels": ["I-PER", "B-PER"], "split": "test"}
{"words": ["a", "bird", "ran"], "labels": ["O", "B-PER", "O"], "split": "train"}
{"words": ["the", "man"], "labels": ["O", "O"], "split": "validation"}
"#;

/// The tiny masked language model with a head for three classes of tokens.
fn classifier(folder: &Path) -> Model {
    let from = fixture("fill/bert");
    let device = Device::Cpu;
    let path = from.join("model.safetensors");
    let mut tensors: HashMap<String, Tensor> =
        candle_core::safetensors::load(path, &device).expect("tensors");
    tensors.retain(|name, _| !name.starts_with("cls."));
    let width = 24;
    let number = |i: usize| ((i * 13 + 5) % 29) as f32 / 29.0 - 0.5;
    let weight = Tensor::from_vec((0..3 * width).map(number).collect(), (3, width), &device);
    tensors.insert("classifier.weight".into(), weight.expect("weight"));
    let bias = Tensor::new(&[0.1f32, 0.0, -0.1], &device);
    tensors.insert("classifier.bias".into(), bias.expect("bias"));
    let path = folder.join("model.safetensors");
    candle_core::safetensors::save(&tensors, path).expect("saved");
    let config = fs::read(from.join("config.json")).expect("config");
    let mut config: Value = serde_json::from_slice(&config).expect("JSON");
    config["architectures"] = json!(["BertForTokenClassification"]);
    config["id2label"] = json!({"0": "O", "1": "I-PER", "2": "B-PER"});
    fs::write(folder.join("config.json"), config.to_string()).expect("saved");
    for entry in fs::read_dir(&from).expect("list") {
        let (name, path) = entry.map(|e| (e.file_name(), e.path())).expect("entry");
        if !folder.join(&name).exists() {
            fs::copy(path, folder.join(name)).expect("copied");
        }
    }
    open(folder, None).expect("loads")
}

/// Items of one part are drawn, pairs as a whole; what tells classes and the other parts stay.
#[test]
fn some_items_of_a_part_are_a_set() -> Result<()> {
    let folder = TempDir::new().expect("folder");
    let model = open(&fixture("fill/bert"), None)?;
    let (subjects, ends) = (["cat", "dog", "bird", "man"], ["sat", "ran", "slept"]);
    let (mut classes, mut pairs) =
        ("split\tlabel\ttext\n".to_owned(), "split\tscore\ttext_a\ttext_b\n".to_owned());
    for (i, split) in ["train", "validation", "test"].into_iter().enumerate() {
        for (j, subject) in subjects.into_iter().enumerate() {
            classes += &format!("{split}\t{}\tthe {subject} {}\n", j % 2, ends[i]);
            pairs +=
                &format!("{split}\t{j}\tthe {subject} {}\ta {subject} {}\n", ends[i], ends[j % 3]);
        }
    }
    let places = [("classes.tsv", &classes, 1), ("pairs.tsv", &pairs, 2)];
    for (name, text, texts) in places {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("written");
        let path = path.display().to_string();
        let set = Set::open(&path, &model, &Limit::default(), 3)?;
        let ids = |set: &Set, split| -> Result<Vec<Vec<u32>>> {
            let samples = set.samples(&model, split)?;
            let rows = samples.iter().flat_map(|sample| sample.batch.ids.rows());
            Ok(rows.map(|row| row.iter().copied().filter(|id| *id != 0).collect()).collect())
        };
        let all = ids(&set, Split::Validation)?;
        let mut kinds = std::collections::BTreeSet::new();
        for seed in 0..8 {
            let some = set.some(Split::Validation, 2, seed);
            let found = ids(&some, Split::Validation)?;
            assert_eq!(found.len(), 2 * texts, "{name}");
            // in their order, both texts of a pair
            let mut rest = all.chunks(texts);
            assert!(
                found.chunks(texts).all(|one| rest.any(|other| other == one)),
                "{name} {found:?}"
            );
            for split in [Split::Train, Split::Test] {
                assert_eq!(ids(&some, split)?, ids(&set, split)?, "{name}");
            }
            assert_eq!(
                some.reached(&model, &[], Split::Test)?,
                set.reached(&model, &[], Split::Test)?
            );
            assert!(some.worth(&model, &[], Split::Validation)?.is_finite(), "{name}");
            assert_eq!(ids(&set.some(Split::Validation, 2, seed), Split::Validation)?, found);
            kinds.insert(found);
        }
        assert!(kinds.len() > 2, "{name}: {kinds:?}");
        assert_eq!(ids(&set.some(Split::Validation, 99, 1), Split::Validation)?, all);
    }
    Ok(())
}

#[test]
fn classes_of_words_are_told_at_their_first_tokens() -> Result<()> {
    let folder = TempDir::new().expect("folder");
    let model = classifier(folder.path());
    let path = folder.path().join("words.jsonl");
    fs::write(&path, LINES).expect("written");
    let name = path.display().to_string();
    let set = Set::open(&name, &model, &Limit::default(), 2)?;
    assert!(set.has_loss() && set.labelled().classes == ["B-PER", "I-PER", "O"]);

    // by hand, text by text: what the head says at the first token of each word
    let own = |class: u32| [2, 1, 0][class as usize];
    let (mut told, mut losses) = (Vec::new(), Vec::new());
    for item in set.labelled().part(Split::Test) {
        let (Input::Words(words), Label::Words(classes)) = (&item.input, &item.label) else {
            panic!("words")
        };
        let tokenizer = model.tokenizer()?;
        let encoding = tokenizer.encode(&item.input, &Limit::default())?;
        let mut at = 1; // behind [CLS]
        let batch = Batch::new(&[encoding], tokenizer.pad_id());
        let hidden = model.forward(&batch, &mut Recorder::new(), &[])?;
        let logits = model.head(&hidden, &batch)?.logits.expect("logits").get(0)?;
        let probs = candle_nn::ops::log_softmax(&logits, 1)?.to_vec2::<f32>()?;
        let (mut pairs, mut loss) = (Vec::new(), 0.0);
        for (word, &class) in words.iter().zip(classes) {
            let row = &probs[at];
            let best = (0..3).max_by(|&a, &b| row[a].total_cmp(&row[b])).expect("class");
            pairs.push((best as u32, own(class)));
            loss -= f64::from(row[own(class) as usize]) / words.len() as f64;
            at += tokenizer.encode(&Input::Text(word.clone()), &Limit::default())?.len() - 2;
        }
        told.push(pairs);
        losses.push(loss);
    }
    let reached = set.reached(&model, &[], Split::Test)?;
    assert_eq!(reached.answers, Answers::Classes { items: told.clone(), count: 3 });
    let right = told.iter().flatten().filter(|(told, is)| told == is).count();
    assert_eq!(reached.metric(), right as f64 / 5.0);
    assert!(reached.flags().is_none() && reached.told().is_some_and(|told| told.f1 <= 1.0));
    let found = outputs(&model, &set.samples(&model, Split::Test)?, &[], &[])?.losses;
    for (got, want) in found.iter().zip(&losses) {
        assert!((got - want).abs() < 1e-5, "{found:?} for {losses:?}");
    }
    let mean = losses.iter().sum::<f64>() / 2.0;
    assert!((set.worth(&model, &[], Split::Test)? + mean).abs() < 1e-5);
    let without = off(&heads_left(model.config()));
    assert!((set.worth(&model, &without, Split::Test)? + mean).abs() > 1e-4);
    Ok(())
}

#[test]
fn sets_that_do_not_fit_the_head_are_refused() {
    let folder = TempDir::new().expect("folder");
    let path = folder.path().join("words.jsonl");
    fs::write(&path, LINES.replace("I-PER", "I-LOC")).expect("written");
    let open_for = |model: &Model| {
        let name = path.display().to_string();
        Set::open(&name, model, &Limit::default(), 2).expect_err("refused").to_string()
    };
    let line = open_for(&classifier(folder.path()));
    assert!(line.contains("found `3 (B-PER, I-LOC, O) in "), "{line}");
    fs::write(
        &path,
        LINES.replace("\"I-PER\"", "\"A\", \"B\"").replace("\"dog\"", "\"dog\", \"a\""),
    )
    .expect("written");
    let line = open_for(&classifier(folder.path()));
    assert!(
        line.contains("expected classes of the model's own head, 3 (O, I-PER, B-PER)"),
        "{line}"
    );
    fs::write(&path, LINES.replace("\"a\", \"bird\"", "\" \", \"bird\"")).expect("written");
    let line = open_for(&classifier(folder.path()));
    assert!(line.contains("words.jsonl, item 3: words[0]: only whitespace"), "{line}");
    fs::write(&path, "{\"text\": \"a cat\", \"score\": 2}\n").expect("written");
    let line = open_for(&classifier(folder.path()));
    let want = "words.jsonl, item 1: score: how alike one text is, expected text_a and text_b";
    assert!(line.ends_with(want), "{line}");
}

#[test]
fn words_are_told_by_a_probe_where_there_is_no_head_for_them() -> Result<()> {
    let folder = TempDir::new().expect("folder");
    let path = folder.path().join("words.jsonl");
    fs::write(&path, LINES).expect("written");
    let model = open(&fixture("fill/bert"), None)?;
    let set = Set::open(&path.display().to_string(), &model, &Limit::default(), 2)?;
    let by = set.by();
    let strength = by.strip_prefix("logistic regression on first tokens, C = ");
    let strength: f64 = strength.expect("a probe").parse().expect("a number");

    // by hand, text by text: the last layer at the first token of each word
    let tokenizer = model.tokenizer()?;
    let rows = |split| -> Result<Vec<(Array2<f64>, Vec<u32>)>> {
        let rows_of = |item: &Item| {
            let (Input::Words(words), Label::Words(classes)) = (&item.input, &item.label) else {
                panic!("words")
            };
            let encoding = tokenizer.encode(&item.input, &Limit::default())?;
            let batch = Batch::new(&[encoding], tokenizer.pad_id());
            let hidden = model.forward(&batch, &mut Recorder::new(), &[])?.get(0)?;
            let hidden = hidden.to_dtype(candle_core::DType::F64)?.to_vec2::<f64>()?;
            let (mut at, mut found) = (1, Vec::new());
            for word in words {
                found.extend_from_slice(&hidden[at]);
                at += tokenizer.encode(&Input::Text(word.clone()), &Limit::default())?.len() - 2;
            }
            let shape = (words.len(), hidden[0].len());
            Ok((Array2::from_shape_vec(shape, found).expect("rows"), classes.clone()))
        };
        set.labelled().part(split).map(rows_of).collect()
    };
    let train = rows(Split::Train)?;
    let probe = Probe::fit(&train[0].0, &train[0].1, 3, strength)?;
    let test = rows(Split::Test)?;
    let told = test.iter().map(|(x, y)| probe.classes(x).into_iter().zip(y.clone()).collect());
    let want = Answers::Classes { items: told.collect(), count: 3 };
    assert_eq!(set.reached(&model, &[], Split::Test)?.answers, want);
    let losses = outputs(&model, &set.samples(&model, Split::Test)?, &[], &[])?.losses;
    for (got, (x, y)) in losses.iter().zip(&test) {
        assert!((got - probe.loss(x, y)).abs() < 1e-5, "{losses:?}");
    }
    Ok(())
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_files_hold_sets() -> Result<()> {
    let file = |name: &str| fixture("data").join(name).display().to_string();
    let texts = Labelled::open(&file("texts.parquet"))?;
    assert_eq!(texts.classes, ["0", "1"]);
    let splits: Vec<Split> = texts.items.iter().map(|item| item.split).collect();
    assert_eq!(splits, [Split::Train, Split::Train, Split::Validation, Split::Test]);
    assert_eq!(texts.items[3].input, Input::Text("a boy is tired".into()));
    assert_eq!(texts.items[2].label, Label::Class(1));
    let words = Labelled::open(&file("words.parquet"))?;
    assert_eq!(words.items[1].input, Input::Words(vec!["dogs".into(), "run".into()]));
    assert_eq!(words.items[1].label, Label::Words(vec![1, 2]));
    for (name, want) in [
        ("unscored.parquet", "unscored.parquet, row 2: expected label or score"),
        ("README.md.parquet", "could not open it"),
    ] {
        let line = Labelled::open(&file(name)).expect_err(name).to_string();
        assert!(line.contains(want), "{line}");
    }
    // cut short, and no Parquet at all
    let folder = TempDir::new().expect("folder");
    let bytes = fs::read(file("texts.parquet")).expect("read");
    for (i, part) in [&bytes[..bytes.len() / 2], b"text\tlabel\n", b""].into_iter().enumerate() {
        let path = folder.path().join(format!("{i}.parquet"));
        fs::write(&path, part).expect("written");
        let line = Labelled::open(&path.display().to_string()).expect_err("refused").to_string();
        assert!(line.contains("no Parquet file"), "{line}");
    }
    Ok(())
}

/// Whatever bytes are changed, reading ends in items or in an error.
#[cfg(feature = "parquet")]
#[test]
fn broken_parquet_files_do_not_panic() {
    let folder = TempDir::new().expect("folder");
    for name in ["texts.parquet", "words.parquet"] {
        let bytes = fs::read(fixture("data").join(name)).expect("read");
        let path = folder.path().join(name);
        for place in 0..bytes.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut broken = bytes.clone();
                broken[place] ^= flip;
                fs::write(&path, &broken).expect("written");
                let _ = Labelled::open(&path.display().to_string());
            }
        }
    }
}
