//! Each config option on its own against transformers, over real tokens; `fixtures/options/make.py`
//! made the values. Bounds as in promise 1: 1e-5 (relative to max(1, |ref|) but for attention), or
//! three times the reference's own distance to float64, which each fixture states.

mod common;

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use attnviz::tokens::Batch;
use attnviz::{Model, Site, Stack, Trace};
use candle_core::Tensor;
use common::{Golden, fixture, open, record, recorder, worst};
use ndarray::Array2;
use safetensors::SafeTensors;

/// Of BertForPreTraining, whose masked-LM head alone is run.
const SECOND_HEAD: [&str; 2] = ["cls.seq_relationship", "bert.pooler"];

fn stated(folder: &Path) -> HashMap<String, f32> {
    let bytes = fs::read(folder.join("golden.safetensors")).expect("golden");
    let (_, metadata) = SafeTensors::read_metadata(&bytes).expect("header");
    let entries = metadata.metadata().clone().expect("metadata");
    entries.into_iter().map(|(key, value)| (key, value.parse().expect("number"))).collect()
}

/// One of a model's attentions, as its golden names it.
struct Side<'a> {
    prefix: &'static str,
    stack: Stack,
    /// The output of its last layer; none of cross-attention's own.
    last: Option<&'a Tensor>,
    mask: &'a Array2<u32>,
}

/// Collects what differs from the reference beyond its bound.
struct Check<'a> {
    name: &'a str,
    golden: &'a Golden,
    stated: HashMap<String, f32>,
    wrong: Vec<String>,
}

impl Check<'_> {
    fn hold(
        &mut self,
        stage: &str,
        got: Option<&Tensor>,
        (axis, key): (Option<usize>, &str),
        mask: &Array2<u32>,
    ) {
        let name = self.name;
        let Some(want) = self.golden.tensors.get(stage) else { return };
        let Some(got) = got.filter(|got| got.dims() == want.dims()) else {
            let want = want.dims();
            return self.wrong.push(format!("{name}, {stage}: absent or misshapen, not {want:?}"));
        };
        let bound = (3.0 * self.stated[key]).max(1e-5);
        let off = worst(got, want, axis, mask);
        if off > bound {
            self.wrong.push(format!("{name}, {stage}: off by {off:.1e}, at most {bound:.1e}"));
        }
    }

    fn side(&mut self, trace: &Trace, layers: usize, side: &Side<'_>) {
        let Side { prefix, stack, last, mask } = *side;
        let kept = |layer, site| trace.get(stack, layer, site).map(|kept| &kept.tensor);
        for layer in 0..layers {
            let (hidden, attention) = match layer {
                0 => (kept(0, Site::Embedding), kept(0, Site::Probs)),
                _ => (kept(layer - 1, Site::Residual), kept(layer, Site::Probs)),
            };
            let name = format!("{prefix}hidden_states.{layer}");
            self.hold(&name, hidden, (Some(1), "hidden"), mask);
            let name = format!("{prefix}attentions.{layer}");
            self.hold(&name, attention, (Some(2), "attentions"), mask);
        }
        self.hold(&format!("{prefix}hidden_states.{layers}"), last, (Some(1), "hidden"), mask);
    }
}

/// What differs from the reference beyond its bound.
fn differences(name: &str, config: Option<&str>) -> Vec<String> {
    let golden = Golden::at(fixture("options").join(name));
    let model = match open(&golden.folder, config) {
        Ok(model) => model,
        Err(error) => return vec![format!("{name}: {error}")],
    };
    let unused = model.report().unused.iter();
    let known = |tensor: &&String| !SECOND_HEAD.iter().any(|part| tensor.contains(part));
    let mut wrong: Vec<String> = unused.filter(known).cloned().collect();
    wrong.extend(model.report().notes.iter().filter(|note| note.contains("unknown")).cloned());
    let mut check = Check { name, golden: &golden, stated: stated(&golden.folder), wrong };
    match model.config().decoder {
        None => one_stack(&mut check, &model),
        Some(_) => two_stacks(&mut check, &model),
    }
    check.wrong
}

fn one_stack(check: &mut Check<'_>, model: &Model) {
    let batch = check.golden.batch();
    let run = record(model, &batch, &[]);
    let outputs = model.head(&run.hidden, &batch).expect("head");
    let (stack, mask) = (model.config().stack(), &batch.mask);
    let side = Side { prefix: "", stack, last: Some(&run.hidden), mask };
    check.side(&run.trace, model.config().layers(), &side);
    check.hold("last_hidden_state", Some(&run.hidden), (Some(1), "outputs"), mask);
    check.hold("pooler_output", outputs.pooler_output.as_ref(), (None, "outputs"), mask);
    let shape = batch.ids.dim();
    let tokens = check.golden.tensors.get("logits").map(|logits| logits.dims());
    let tokens = tokens.is_some_and(|dims| dims[..2] == [shape.0, shape.1]);
    check.hold("logits", outputs.logits.as_ref(), (tokens.then_some(1), "outputs"), mask);
}

fn two_stacks(check: &mut Check<'_>, model: &Model) {
    let (golden, config) = (check.golden, model.config());
    let source = golden.batch();
    let target =
        Batch::from_ids(golden.ids("decoder_input_ids"), golden.ids("decoder_attention_mask"));
    let mut recorder = recorder();
    let memory = model.encode(&source, &mut recorder, &[]).expect("encodes");
    let hidden = model.decode(&target, Some(&memory), None, &mut recorder, &[]).expect("decodes");
    let trace = recorder.into_trace().expect("trace");
    let (read, written) = (&source.mask, &target.mask);
    let (encoded, decoded) = (Some(&memory.hidden), Some(&hidden));
    let encoder = Side { prefix: "encoder_", stack: Stack::Encoder, last: encoded, mask: read };
    check.side(&trace, config.layers(), &encoder);
    let layers = config.of(Stack::Decoder).layers();
    let decoder = Side { prefix: "decoder_", stack: Stack::Decoder, last: decoded, mask: written };
    check.side(&trace, layers, &decoder);
    let cross = Side { prefix: "cross_", stack: Stack::Cross, last: None, mask: written };
    check.side(&trace, layers, &cross);
    check.hold("encoder_last_hidden_state", encoded, (Some(1), "hidden"), read);
    let outputs = model.head(&hidden, &target).expect("head");
    check.hold("logits", outputs.logits.as_ref(), (Some(1), "outputs"), written);
}

#[test]
fn every_option_agrees_with_the_reference() {
    let folders = fs::read_dir(fixture("options")).expect("fixtures").flatten();
    let mut names: Vec<String> = folders
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert!(names.len() > 85, "{} fixtures", names.len());
    let mut wrong: Vec<String> = names.iter().flat_map(|name| differences(name, None)).collect();
    // the same in an older spelling
    let older = "config.v4.json";
    let spelled = names.iter().filter(|name| fixture("options").join(name).join(older).exists());
    wrong.extend(spelled.flat_map(|name| differences(name, Some(older))));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
