//! What removed heads gave on the mean, kept in the output bias.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use attnviz::hub::{self, HubEnv, ModelFiles, ModelRequest};
use attnviz::prune::{HeadMeans, Off, PruneOptions, StackHead, ablate, heads_left, prune};
use attnviz::task::{Sample, Written, outputs};
use attnviz::tokens::Batch;
use attnviz::{Intervention, Model, Recorder, Result};
use common::{Golden, fixture, numbers, open};
use ndarray::Array2;
use serde_json::Value;
use tempfile::TempDir;

fn files(folder: &Path) -> ModelFiles {
    let model = Some(folder.display().to_string());
    let request = ModelRequest { model, ..ModelRequest::default() };
    hub::resolve(&request, &HubEnv::from_env(), &()).expect("files")
}

fn case(name: &str) -> (Golden, Model, Sample) {
    let golden = Golden::at(fixture("goldens").join(name));
    let model = open(&golden.folder, None).expect("loads");
    let batch = golden.batch();
    let written = model.config().decoder.is_some().then(|| {
        let (ids, mask) = ("decoder_input_ids", "decoder_attention_mask");
        let batch = Batch::from_ids(golden.ids(ids), golden.ids(mask));
        Written { special: Array2::from_elem(batch.ids.dim(), false), batch }
    });
    let special = Array2::from_elem(batch.ids.dim(), false);
    let sample = Sample { batch, special, written, target: None };
    (golden, model, sample)
}

/// Every other head of every stack.
fn some(model: &Model) -> BTreeSet<StackHead> {
    heads_left(model.config()).into_iter().filter(|one| one.head.head % 2 == 1).collect()
}

fn options(means: HeadMeans) -> PruneOptions {
    PruneOptions { fold_bias: Some(means), ..PruneOptions::default() }
}

/// Largest |got − want| over real positions, both of size 1 or so.
fn hold(name: &str, model: &Model, whole: &Model, sample: &Sample, changes: &[Intervention]) {
    let run = |model: &Model, changes: &[Intervention]| {
        sample.run(model, &mut Recorder::new(), changes).expect("runs")
    };
    let (got, want) = (run(model, &[]), run(whole, changes));
    let off = common::worst(&got, &want, Some(1), &sample.last().mask);
    assert!(off <= 1e-5, "{name}: off by {off:.1e}");
    let zero = run(whole, &attnviz::prune::off(&some(whole)));
    let apart = numbers(&zero).into_iter().zip(numbers(&want)).map(|(a, b)| (a - b).abs());
    assert!(apart.fold(0.0, f32::max) > 1e-3, "{name}: the means make no difference");
}

#[test]
fn a_folded_checkpoint_is_the_model_with_heads_at_their_means() -> Result<()> {
    for name in [
        "bert_mlm",
        "roberta_mlm",
        "distilbert_mlm",
        "electra_model",
        "mpnet_model",
        "deberta_v2_model",
        "longformer_mlm",
        "gpt2_lm",
        "bart_lm",
        "marian_mt",
    ] {
        let (golden, whole, sample) = case(name);
        let samples = std::slice::from_ref(&sample);
        let (remove, means) = (some(&whole), HeadMeans::of(&whole, samples)?);
        let folder = TempDir::new().expect("folder");
        let out = folder.path().join("out");
        let done = prune(&files(&golden.folder), &out, &remove, &options(means.clone()))?;
        let kept = |note: &&String| note.contains("now holds the mean output of");
        let layers: BTreeSet<_> = remove.iter().map(|one| (one.stack, one.head.layer)).collect();
        assert_eq!(done.notes.iter().filter(kept).count(), layers.len(), "{name}");
        let left = open(&out, None)?;
        assert_eq!(left.report().unused, whole.report().unused, "{name}");
        hold(name, &left, &whole, &sample, &means.off(&remove));

        // the same as switching them off by means
        let set: Vec<StackHead> = remove.iter().copied().collect();
        let ablated = ablate(&whole, samples, Off::Mean, &[set], false, || {})?;
        let found = outputs(&left, samples, &[], &[])?;
        let pairs = found.embeddings.iter().zip(&ablated[1].embeddings);
        let off = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(off <= 1e-5, "{name}: off by {off:.1e}");

        let config = fs::read(out.join("config.json")).expect("config");
        let config: Value = serde_json::from_slice(&config).expect("JSON");
        assert_eq!(config["folded_heads"].as_array().map(Vec::len), Some(remove.len()), "{name}");
    }
    Ok(())
}

#[test]
fn half_precision_rounds_the_bias_alone() -> Result<()> {
    let golden = Golden::open("bert_mlm_f16");
    let whole = open(&golden.folder, None)?;
    let special = Array2::from_elem(golden.batch().ids.dim(), false);
    let sample = Sample { batch: golden.batch(), special, written: None, target: None };
    let means = HeadMeans::of(&whole, std::slice::from_ref(&sample))?;
    let (remove, folder) = (some(&whole), TempDir::new().expect("folder"));
    let out = folder.path().join("out");
    prune(&files(&golden.folder), &out, &remove, &options(means.clone()))?;
    let left = open(&out, None)?;
    let run = |model: &Model, changes: &[Intervention]| {
        numbers(&sample.run(model, &mut Recorder::new(), changes).expect("runs"))
    };
    let (got, want) = (run(&left, &[]), run(&whole, &means.off(&remove)));
    let off = got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    // numbers near 1 are 2⁻¹¹ apart at most, and three layers add up
    assert!(off <= 1e-2 && off > 0.0, "off by {off:.1e}");
    Ok(())
}

#[test]
fn families_without_a_bias_for_each_layer_are_refused_by_name() {
    for (name, want) in [
        (
            "t5_lm",
            "expected a model whose attention has an output bias to keep the means in, found \
                   `t5, which has none in layer 0`",
        ),
        ("llama_lm", "found `llama, which has none in layer 0`"),
        ("modernbert_mlm", "found `modernbert, which has none in layer 0`"),
        ("albert_mlm", "found `albert, whose layers share theirs`"),
    ] {
        let (golden, model, sample) = case(name);
        let means = HeadMeans::of(&model, &[sample]).expect("means");
        let group = model.config().group_size;
        let gone = |one: &StackHead| one.head.head / group == 1;
        let remove = heads_left(model.config()).into_iter().filter(gone).collect();
        let folder = TempDir::new().expect("folder");
        let out = folder.path().join("out");
        let error = prune(&files(&golden.folder), &out, &remove, &options(means));
        let line = error.expect_err(name).to_string();
        assert!(line.starts_with("--fold-bias: ") && line.contains(want), "{line}");
        assert!(!out.exists());
    }
}

#[test]
fn means_are_asked_for_of_the_heads_that_go() {
    let (golden, model, mut sample) = case("bart_lm");
    sample.written = None; // the encoder alone
    let means = HeadMeans::of(&model, &[sample]).expect("means");
    let folder = TempDir::new().expect("folder");
    let out = folder.path().join("out");
    let error = prune(&files(&golden.folder), &out, &some(&model), &options(means));
    let line = error.expect_err("refused").to_string();
    assert!(line.contains("means of all heads that go, found `none of decoder:L0H1"), "{line}");
    assert!(HeadMeans::of(&model, &[]).is_err());
}
