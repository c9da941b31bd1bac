//! Every stage against transformers (eager attention, float32): promise 1. The first stage that
//! fails holds the bug.

mod common;

use attnviz::{Head, Intervention, Keep, Model, Recorder, Site, Stack};
use candle_core::Tensor;
use common::stages::{ATTENTION, Kept, OUTPUTS, bound, goldens, hold};
use common::{Golden, Run, numbers, open, record};
use ndarray::Array2;

/// Every stage on real weights.
const REAL: f32 = 5e-5;

fn check(golden: &Golden, config: Option<&str>) {
    let model = open(&golden.folder, config).expect("loads");
    let batch = golden.batch();
    let run = record(&model, &batch, &[]);
    let name = golden.folder.display();
    let layers = model.config().layers();
    let kept = Kept { trace: &run.trace, stack: Stack::Encoder, layers, mask: &batch.mask };
    kept.hold_hidden_states(golden, "hidden_states", &run.hidden);
    match &batch.global {
        None => kept.hold_attentions(golden, "attentions"),
        Some(global) => hold_banded(golden, &kept, global, &model.config().windows),
    }
    let outputs = model.head(&run.hidden, &run.batch).expect("head");
    let logits_axis = outputs
        .logits
        .as_ref()
        .and_then(|l| (l.dims()[..2] == [batch.ids.nrows(), batch.ids.ncols()]).then_some(1));
    let mut compared = 0;
    for (stage, got, axis) in [
        ("last_hidden_state", Some(&run.hidden), Some(1)),
        ("pooler_output", outputs.pooler_output.as_ref(), None),
        ("logits", outputs.logits.as_ref(), logits_axis),
    ] {
        if golden.tensors.contains_key(stage) {
            let got = got.unwrap_or_else(|| panic!("{name}: no {stage}"));
            hold(golden, stage, got, (axis, &batch.mask), bound(golden, OUTPUTS));
            compared += 1;
        }
    }
    assert!(compared > 0, "{name}: no output to compare");
}

/// Attention within windows, in the form in which transformers gives it.
fn hold_banded(golden: &Golden, kept: &Kept<'_>, global: &Array2<u32>, windows: &[Option<usize>]) {
    for (layer, radius) in windows.iter().enumerate() {
        let radius = radius.expect("a window");
        let banded = attnviz::export::banded(kept.at(layer, Site::Probs), Some(global), radius);
        let (native, columns) = banded.expect("banded");
        for (name, got) in
            [("attentions", &native), ("global_attentions", &columns.expect("global positions"))]
        {
            hold(golden, &format!("{name}.{layer}"), got, (Some(2), kept.mask), ATTENTION);
        }
    }
}

goldens! {
    bert_model: None, Some("config.v4.json");
    bert_mlm: None, Some("config.v4.json");
    bert_seqcls: None, Some("config.v4.json");
    bert_mlm_f16: None;
    bert_mlm_bf16: None;
    bert_mlm_sharded: None;
    bert_mlm_legacy_names: None;
    bert_relative_key: None;
    bert_relative_key_query: None;
    roberta_mlm: None, Some("config.v4.json");
    xlm_roberta: None, Some("config.v4.json");
    xlm_roberta_seqcls: None, Some("config.v4.json");
    camembert_mlm: None, Some("config.v4.json");
    distilbert_mlm: None, Some("config.v4.json");
    albert_mlm: None, Some("config.v4.json");
    electra_pretraining: None, Some("config.v4.json");
    electra_model: None, Some("config.v4.json");
    mpnet_model: None, Some("config.v4.json");
    deberta_v2_model: None, Some("config.v4.json");
    modernbert_mlm: None, Some("config.v4.json");
    longformer_mlm: None, Some("config.v4.json");
}

/// Gates scale a head's context; what is recorded stays a distribution, and times the gate it is
/// what transformers 4 returned under a head mask.
#[test]
fn gates_agree_with_head_mask() {
    let golden = Golden::open("bert_mlm");
    let model = open(&golden.folder, None).expect("loads");
    let batch = golden.batch();
    let mask = golden.tensor("head_mask.mask").to_vec2::<f32>().expect("mask");
    assert!(mask.iter().flatten().any(|&g| g != 0.0 && g != 1.0));
    let mut gates = Vec::new();
    for (layer, row) in mask.iter().enumerate() {
        for (head, &gate) in row.iter().enumerate() {
            gates.push(Intervention::gate(Stack::Encoder, Head { layer, head }, f64::from(gate)));
        }
    }
    let run = record(&model, &batch, &gates);
    for (layer, row) in mask.iter().enumerate() {
        let gate = Tensor::new(row.as_slice(), &candle_core::Device::Cpu).expect("gate");
        let gate = gate.reshape((1, row.len(), 1, 1)).expect("gate");
        let got = run.kept(layer, Site::Probs).broadcast_mul(&gate).expect("gated");
        let stage = format!("head_mask.attentions.{layer}");
        hold(&golden, &stage, &got, (Some(2), &batch.mask), ATTENTION);
    }
    hold_logits(&golden, "head_mask.logits", &model, &run);
}

fn hold_logits(golden: &Golden, stage: &str, model: &Model, run: &Run) {
    let logits = model.head(&run.hidden, &run.batch).expect("head").logits.expect("logits");
    hold(golden, stage, &logits, (Some(1), &run.batch.mask), bound(golden, OUTPUTS));
}

/// Heads that are gone by a gate of 0, against transformers with the heads cut out.
#[test]
fn gate_0_agrees_with_pruning() {
    let golden = Golden::open("bert_mlm");
    let model = open(&golden.folder, None).expect("loads");
    let batch = golden.batch();
    let keep = golden.tensor("pruned.keep").to_vec2::<f32>().expect("keep");
    let mut gates = Vec::new();
    for (layer, row) in keep.iter().enumerate() {
        let gone = row.iter().enumerate().filter(|(_, k)| **k == 0.0);
        gates.extend(
            gone.map(|(head, _)| Intervention::gate(Stack::Encoder, Head { layer, head }, 0.0)),
        );
    }
    assert!(!gates.is_empty());
    let run = record(&model, &batch, &gates);
    hold_logits(&golden, "pruned.logits", &model, &run);
}

fn check_real(golden: &Golden, model: &Model, encodings: &[attnviz::tokens::Encoding]) {
    for (text, encoding) in encodings.iter().enumerate() {
        let batch = attnviz::tokens::Batch::new(std::slice::from_ref(encoding), 0);
        let mut recorder = Recorder::new().keep(Site::Probs, Keep::All);
        let hidden = model.forward(&batch, &mut recorder, &[]).expect("forward");
        let trace = recorder.into_trace().expect("trace");
        let hold = |stage: &str, got: &[f32]| {
            let want = numbers(golden.tensor(&format!("text{text}.{stage}")));
            assert_eq!(got.len(), want.len(), "text{text}.{stage}");
            let off = got.iter().zip(&want).map(|(g, w)| (g - w).abs()).fold(0.0, f32::max);
            assert!(off <= REAL, "text{text}.{stage}: off by {off:.1e}");
        };
        let mut attentions = Vec::new();
        for layer in 0..model.config().layers() {
            let kept = trace.get(Stack::Encoder, layer, Site::Probs).expect("recorded");
            attentions.extend(numbers(&kept.tensor));
        }
        hold("attentions", &attentions);
        hold("last_hidden_state", &numbers(&hidden));
        let pooled = model.head(&hidden, &batch).expect("head").pooler_output.expect("pooled");
        hold("pooler_output", &numbers(&pooled));
    }
}

fn real_encodings(model: &Model) -> Vec<attnviz::tokens::Encoding> {
    use attnviz::tokens::{Input, Limit};
    let inputs = [
        Input::Text("The animal didn't cross the street because it was too tired".into()),
        Input::Pair("The cat sat on the mat".into(), "The cat lay on the rug".into()),
    ];
    let tokenizer = model.tokenizer().expect("tokenizer");
    let limit = Limit { max: Some(512), truncate: false };
    inputs.iter().map(|input| tokenizer.encode(input, &limit).expect("encodes")).collect()
}

#[test]
#[cfg(feature = "embedded")]
fn the_built_in_checkpoint() {
    let model = Model::from_pretrained("built-in").expect("loads");
    check_real(&Golden::open("minilm_real_f16"), &model, &real_encodings(&model));
}

/// The fp32 original is 91 MB and not part of the project; ATTNVIZ_MINILM_F32 names its folder.
#[test]
#[ignore = "needs the fp32 checkpoint: set ATTNVIZ_MINILM_F32 to its folder"]
fn the_fp32_original() {
    let folder = std::env::var("ATTNVIZ_MINILM_F32").expect("ATTNVIZ_MINILM_F32");
    let model = Model::from_pretrained(&folder).expect("loads");
    check_real(&Golden::open("minilm_real"), &model, &real_encodings(&model));
}
