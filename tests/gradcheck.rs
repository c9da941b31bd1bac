//! Gradients of every weight and gate against central differences.

mod common;

use attnviz::hub::{HubEnv, ModelRequest, resolve};
use attnviz::model::Trainable;
use attnviz::tokens::Batch;
use attnviz::train::{Check, Gating, LearnedGates, Penalty};
use attnviz::{Intervention, LoadOptions, Model, Recorder, Result};
use candle_core::{Device, Tensor};
use common::{Golden, fixture, numbers};

/// Numbers whose sum depends on all of a tensor.
fn projected(x: &Tensor) -> Result<Tensor> {
    let weight = |i: usize| ((i * 7 + 3) % 11) as f32 / 11.0 - 0.4;
    let weights = (0..x.elem_count()).map(weight).collect::<Vec<f32>>();
    let weights = Tensor::from_vec(weights, x.shape(), &Device::Cpu)?;
    Ok((x * weights)?.flatten_all()?)
}

/// Everything that a model gives, in one sum.
fn loss(model: &Model, batch: &Batch, changes: &[Intervention]) -> Result<Tensor> {
    let recorder = &mut Recorder::new();
    let hidden = match model.config().decoder.is_some() {
        false => model.forward(batch, recorder, changes)?,
        true => {
            let memory = model.encode(batch, recorder, changes)?;
            model.decode(batch, Some(&memory), None, recorder, changes)?
        }
    };
    let found = model.head(&hidden, batch)?;
    let outputs = [Some(hidden), found.logits, found.pooler_output];
    let terms = outputs.iter().flatten().map(projected).collect::<Result<Vec<_>>>()?;
    Ok(Tensor::cat(&terms, 0)?)
}

fn trainable(golden: &Golden) -> Trainable {
    let model = Some(golden.folder.display().to_string());
    let request = ModelRequest { model, ..ModelRequest::default() };
    let files = resolve(&request, &HubEnv::from_env(), &()).expect("found");
    Trainable::open(&files, &LoadOptions::default()).expect("loads")
}

const NAMES: [&str; 27] = [
    "bert_mlm",
    "bert_model",
    "bert_seqcls",
    "bert_relative_key",
    "bert_relative_key_query",
    "roberta_mlm",
    "xlm_roberta_seqcls",
    "distilbert_mlm",
    "albert_mlm",
    "electra_model",
    "electra_pretraining",
    "mpnet_model",
    "deberta_v2_model",
    "modernbert_mlm",
    "longformer_mlm",
    "bert_lmhead_decoder",
    "gpt2_lm",
    "llama_lm",
    "bart_lm",
    "marian_mt",
    "t5_lm",
    "t5_v11_lm",
    "../options/bert_tokens",
    "../options/deberta_convolution_groups",
    "../options/deberta_p2c",
    "../options/gpt2_untied",
    "../options/llama_biases",
];

#[test]
fn every_weight_of_every_family() {
    for name in NAMES {
        let golden = Golden::at(fixture("goldens").join(name));
        let (trainable, batch) = (trainable(&golden), golden.batch());
        let model = trainable.frozen().expect("model");
        let whole = Model::from_pretrained(&golden.folder.display().to_string()).expect("loads");
        let (a, b) = (loss(&model, &batch, &[]), loss(&whole, &batch, &[]));
        for (a, b) in numbers(&a.expect("runs")).iter().zip(numbers(&b.expect("runs"))) {
            let off = (a - b).abs();
            assert!(off < 1e-5 * b.abs().max(1.0), "{name}: {a} as variables, {b} as loaded");
        }

        let found = Check::default().weights(&trainable, |model| loss(model, &batch, &[]));
        let found = found.expect(name);
        for one in &found {
            assert!(one.error() < 1e-2, "{name}: {:.3} {one:?}", one.error());
        }
        let checked = |name: &str| found.iter().any(|one| one.name == name);
        let absent: Vec<&String> =
            trainable.variables().keys().filter(|name| !checked(name)).collect();
        // kept by transformers, and by no model added
        let never_added = |name: &&String| *name == "embeddings.position.weight";
        assert!(absent.iter().all(never_added), "{name}: no gradient by {absent:?}");
    }
}

#[test]
fn learned_gates_with_noise_and_without() {
    let golden = Golden::open("bert_mlm");
    let model = trainable(&golden).frozen().expect("model");
    let batch = golden.batch();
    for penalty in [Penalty::L1, Penalty::L0] {
        let gating = Gating { penalty, weight: 0.3 };
        let gates = LearnedGates::new(model.config(), gating, &Device::Cpu).expect("gates");
        for noise in [None, Some((1, 5))] {
            let value = || {
                let changes = gates.interventions(noise)?;
                let terms = [loss(&model, &batch, &changes)?, gates.penalty()?.reshape(1)?];
                Ok(Tensor::cat(&terms, 0)?)
            };
            let found = Check::default().variables(gates.variables(), value).expect("checks");
            assert!(!found.is_empty());
            for one in found {
                assert!(one.error() < 1e-2, "{penalty:?} {noise:?}: {:.3} {one:?}", one.error());
            }
        }
    }
}
