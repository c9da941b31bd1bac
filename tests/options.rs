//! Each config option on its own against transformers, over real tokens; `fixtures/options/make.py`
//! made the values. Bounds as in promise 1: 1e-5 (relative to max(1, |ref|) but for attention), or
//! three times the reference's own distance to float64, which each fixture states.

mod common;

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use attnviz::Site;
use candle_core::Tensor;
use common::{Golden, fixture, open, record, worst};
use safetensors::SafeTensors;

/// Of BertForPreTraining, whose masked-LM head alone is run.
const SECOND_HEAD: [&str; 2] = ["cls.seq_relationship", "bert.pooler"];

fn stated(folder: &Path) -> HashMap<String, f32> {
    let bytes = fs::read(folder.join("golden.safetensors")).expect("golden");
    let (_, metadata) = SafeTensors::read_metadata(&bytes).expect("header");
    let entries = metadata.metadata().clone().expect("metadata");
    entries.into_iter().map(|(key, value)| (key, value.parse().expect("number"))).collect()
}

/// What differs from the reference beyond its bound.
fn differences(name: &str) -> Vec<String> {
    let golden = Golden::at(fixture("options").join(name));
    let stated = stated(&golden.folder);
    let bound = |key: &str| (3.0 * stated[key]).max(1e-5);
    let model = match open(&golden.folder, None) {
        Ok(model) => model,
        Err(error) => return vec![format!("{name}: {error}")],
    };
    let unused = model.report().unused.iter();
    let known = |tensor: &&String| !SECOND_HEAD.iter().any(|part| tensor.contains(part));
    let mut wrong: Vec<String> = unused.filter(known).cloned().collect();
    wrong.extend(model.report().notes.iter().filter(|note| note.contains("unknown")).cloned());
    let batch = golden.batch();
    let run = record(&model, &batch, &[]);
    let outputs = model.head(&run.hidden, &batch).expect("head");
    let mut hold = |stage: &str, got: Option<&Tensor>, axis, bound: f32| {
        let Some(want) = golden.tensors.get(stage) else { return };
        let Some(got) = got.filter(|got| got.dims() == want.dims()) else {
            wrong.push(format!("{name}, {stage}: absent or misshapen, expected {:?}", want.dims()));
            return;
        };
        let off = worst(got, want, axis, &batch.mask);
        if off > bound {
            wrong.push(format!("{name}, {stage}: off by {off:.1e}, at most {bound:.1e}"));
        }
    };
    let layers = model.config().layers();
    for layer in 0..layers {
        let probs = Some(run.kept(layer, Site::Probs));
        hold(
            &format!("hidden_states.{layer}"),
            Some(run.hidden_state(layer)),
            Some(1),
            bound("hidden"),
        );
        hold(&format!("attentions.{layer}"), probs, Some(2), bound("attentions"));
    }
    hold(&format!("hidden_states.{layers}"), Some(&run.hidden), Some(1), bound("hidden"));
    hold("last_hidden_state", Some(&run.hidden), Some(1), bound("outputs"));
    hold("pooler_output", outputs.pooler_output.as_ref(), None, bound("outputs"));
    let shape = batch.ids.dim();
    let tokens = golden.tensors.get("logits").map(|logits| logits.dims());
    let tokens = tokens.is_some_and(|dims| dims[..2] == [shape.0, shape.1]);
    hold("logits", outputs.logits.as_ref(), tokens.then_some(1), bound("outputs"));
    wrong
}

#[test]
fn every_option_agrees_with_the_reference() {
    let folders = fs::read_dir(fixture("options")).expect("fixtures").flatten();
    let mut names: Vec<String> = folders
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert!(names.len() > 50, "{} fixtures", names.len());
    let wrong: Vec<String> = names.iter().flat_map(|name| differences(name)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
