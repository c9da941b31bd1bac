//! Gradients by gates, and the scores made of them.

mod common;

use std::collections::BTreeMap;

use attnviz::prune::{
    Gradients, HeadScore, Score, StackHead, by_layer, gradients, heads_left, importance,
    integrated, rank_correlation,
};
use attnviz::task::{Sample, Target, Written, embedding, mask_some};
use attnviz::tokens::{Batch, Input, Limit};
use attnviz::train::Penalty;
use attnviz::{Head, Intervention, Keep, Model, Recorder, Result, Site, Stack};
use candle_core::{Device, Tensor};
use common::{Golden, fixture, numbers, open};
use ndarray::Array2;

/// Promise 1 on the tiny goldens.
const STAGE: f32 = 1e-5;

fn mlm() -> (Golden, Model, Sample) {
    let golden = Golden::open("bert_mlm");
    let model = open(&golden.folder, None).expect("loads");
    let batch = golden.batch();
    let labels = golden.tensor("labels").flatten_all().and_then(|t| t.to_vec1::<i64>());
    let labels = labels.expect("labels").into_iter().map(|id| u32::try_from(id).ok()).collect();
    let labels = Array2::from_shape_vec(batch.ids.dim(), labels).expect("labels");
    let special = Array2::from_elem(batch.ids.dim(), false);
    (golden, model, Sample { batch, special, written: None, target: Some(Target::Tokens(labels)) })
}

fn hold(what: &str, got: impl IntoIterator<Item = f64>, want: &Tensor) {
    let (got, want) = (got.into_iter().collect::<Vec<_>>(), numbers(want));
    assert_eq!(got.len(), want.len(), "{what}");
    for (g, w) in got.iter().zip(want) {
        let off = (*g as f32 - w).abs();
        assert!(off <= STAGE * w.abs().max(1.0), "{what}: {g} for {w}");
    }
}

fn values(scores: &[HeadScore]) -> impl Iterator<Item = f64> {
    scores.iter().map(|one| one.score)
}

#[test]
fn losses_and_gradients_agree_with_the_reference() {
    let (golden, model, sample) = mlm();
    let target = sample.target.clone().expect("labels");
    let losses = |hidden: &Tensor| target.losses(&model, hidden, &sample.batch);
    let (loss, found) = gradients(&model, &sample, &[], losses).expect("runs");
    let want = golden.tensor("mlm.loss_per_example");
    hold("loss", loss.into_iter().map(f64::from), want);
    let rows = (0..3).flat_map(|b| found.layers.values().map(move |layer| layer.row(b).to_vec()));
    let want = golden.tensor("importance.grad_per_example");
    hold("gradients", rows.flatten(), want);

    let scores = importance(&model, Score::Gradient, &[sample], &[]).expect("scores");
    assert_eq!(scores[5].head.to_string(), "L1H1");
    hold("mean of absolute values", values(&scores), golden.tensor("importance.mean_abs"));
    hold("by layer", values(&by_layer(&scores)), golden.tensor("importance.layer_l2"));
}

/// A number per example that depends on all of an example's real tokens.
fn projected(hidden: &Tensor, batch: &Batch) -> Result<Tensor> {
    let found = embedding(hidden, batch)?;
    let width = found.dim(1)?;
    let weights = (0..width).map(|i| ((i * 7 + 3) % 11) as f32 / 11.0 - 0.4).collect();
    let weights = Tensor::from_vec(weights, (1, width), &Device::Cpu)?;
    Ok(found.broadcast_mul(&weights)?.sum(1)?)
}

/// What a golden's model reads and, where it has a decoder beside its encoder, writes.
fn sample_of(golden: &Golden, model: &Model) -> Sample {
    let batch = golden.batch();
    let written = model.config().decoder.is_some().then(|| {
        let (ids, mask) = ("decoder_input_ids", "decoder_attention_mask");
        let batch = Batch::from_ids(golden.ids(ids), golden.ids(mask));
        Written { special: Array2::from_elem(batch.ids.dim(), false), batch }
    });
    let special = Array2::from_elem(batch.ids.dim(), false);
    Sample { batch, special, written, target: None }
}

#[test]
fn gradients_are_central_differences_in_every_family() {
    for name in [
        "bert_model",
        "bert_relative_key",
        "bert_relative_key_query",
        "roberta_mlm",
        "distilbert_mlm",
        "albert_mlm",
        "electra_model",
        "mpnet_model",
        "deberta_v2_model",
        "modernbert_mlm",
        "longformer_mlm",
        "bert_lmhead_decoder",
        "gpt2_lm",
        "llama_lm",
        "bart_lm",
        "t5_lm",
        "t5_v11_lm",
        "marian_mt",
        "../options/deberta_convolution",
        "../options/deberta_convolution_groups",
        "../options/bart_heads",
        "../options/t5_decoder_layers",
        "../options/bert_gelu_new",
        "../options/bert_quick_gelu",
        "../options/bert_relu",
        "../options/bert_silu",
        "../options/bert_tanh",
    ] {
        let golden = Golden::at(fixture("goldens").join(name));
        let model = open(&golden.folder, None).expect("loads");
        let (config, sample) = (model.config(), sample_of(&golden, &model));
        let of = |hidden: &Tensor| projected(hidden, sample.last());
        let (_, found) = gradients(&model, &sample, &[], of).expect(name);
        let value = |one: StackHead, factor: f64| -> Vec<f32> {
            // layers of one block lose or keep a head together
            let shared = &config.of(one.stack).shared;
            let together = (0..shared.len()).filter(|&l| shared[l] == shared[one.head.layer]);
            let gates: Vec<Intervention> = together
                .map(|layer| Intervention::gate(one.stack, Head { layer, ..one.head }, factor))
                .collect();
            let hidden = sample.run(&model, &mut Recorder::new(), &gates).expect("runs");
            numbers(&projected(&hidden, sample.last()).expect("number"))
        };
        let mut largest: BTreeMap<Stack, f64> = BTreeMap::new();
        let heads = heads_left(config);
        for &one in &heads {
            let at = (one.stack, one.head.layer);
            let place = heads.range(..one).filter(|o| (o.stack, o.head.layer) == at).count();
            // steps from where curvature decides to where rounding does; some units of a ReLU
            // change sides within the larger ones
            let middle = value(one, 1.0);
            let steps = [0.02, 0.005, 0.0015, 0.0005].map(|step| {
                let (over, under) = (value(one, 1.0 + step), value(one, 1.0 - step));
                let slope = |(a, b): (&f32, &f32)| f64::from(a - b) / step;
                let right: Vec<f64> = over.iter().zip(&middle).map(slope).collect();
                let left: Vec<f64> = middle.iter().zip(&under).map(slope).collect();
                (step, left, right)
            });
            for b in 0..sample.batch.ids.nrows() {
                let got = found.layers[&at][(b, place)];
                let most = largest.entry(one.stack).or_default();
                *most = most.max(got.abs());
                let rounding = |step: f64| 2.0 * f64::from(f32::EPSILON) * 4.0 / (2.0 * step);
                let close = |(step, left, right): &(f64, Vec<f64>, Vec<f64>)| {
                    (got - (left[b] + right[b]) / 2.0).abs() <= rounding(*step) + 3e-3 * got.abs()
                };
                // a unit of a ReLU that changes sides at the gate itself has two slopes
                let (step, left, right) = &steps[3];
                let (low, high) = (left[b].min(right[b]), left[b].max(right[b]));
                let between = (low - rounding(*step)..=high + rounding(*step)).contains(&got);
                let all: Vec<(f64, f64)> = steps.iter().map(|(_, l, r)| (l[b], r[b])).collect();
                let what = format!("{name} {one} of example {b}");
                assert!(steps.iter().any(close) || between, "{what}: {got} for {all:?}");
            }
        }
        let stacks = if config.decoder.is_some() { 3 } else { 1 };
        assert_eq!(largest.len(), stacks, "{name}: {largest:?}");
        assert!(largest.values().all(|most| *most > 1e-2), "{name}: {largest:?}");
    }
}

#[test]
fn fisher_is_the_mean_square_and_integrals_sum_up_to_the_layer() {
    let (_, model, sample) = mlm();
    let target = sample.target.clone().expect("labels");
    let losses = |hidden: &Tensor| target.losses(&model, hidden, &sample.batch);
    let (_, found) = gradients(&model, &sample, &[], losses).expect("runs");
    let fisher =
        importance(&model, Score::Fisher, std::slice::from_ref(&sample), &[]).expect("scores");
    let squares = found.layers.values().flat_map(|layer| {
        layer
            .columns()
            .into_iter()
            .map(|column| column.iter().map(|x| x * x).sum::<f64>() / column.len() as f64)
            .collect::<Vec<_>>()
    });
    for (got, want) in values(&fisher).zip(squares) {
        assert!((got - want).abs() <= 1e-9 + 1e-6 * want, "{got} for {want}");
    }

    let loss = |changes: &[Intervention]| {
        let hidden = model.forward(&sample.batch, &mut Recorder::new(), changes).expect("runs");
        numbers(&target.losses(&model, &hidden, &sample.batch).expect("losses"))
    };
    let whole = loss(&[]);
    let steps = 800;
    let found = integrated(&model, &target, &sample, steps).expect("integrals");
    let whole_path: Vec<Array2<f64>> = found.layers.into_values().collect();
    let score = Score::Integrated { steps };
    let scores = importance(&model, score, std::slice::from_ref(&sample), &[]).expect("scores");
    for layer in 0..3 {
        let gates: Vec<Intervention> = (0..4)
            .map(|head| Intervention::gate(Stack::Encoder, Head { layer, head }, 0.0))
            .collect();
        let without = loss(&gates);
        for b in 0..3 {
            let (got, want) = (whole_path[layer].row(b).sum(), f64::from(whole[b] - without[b]));
            assert!((got - want).abs() < 1e-3, "layer {layer}, example {b}: {got} for {want}");
        }
        for (head, column) in whole_path[layer].columns().into_iter().enumerate() {
            let want = column.iter().map(|x| x.abs()).sum::<f64>() / 3.0;
            let got = scores[layer * 4 + head].score;
            assert!((got - want).abs() < 1e-9, "L{layer}H{head}: {got} for {want}");
        }
    }
}

#[test]
fn the_jacobian_norm_is_that_of_differences() {
    let golden = Golden::open("bert_model");
    let model = open(&golden.folder, None).expect("loads");
    let batch = golden.batch();
    let special = Array2::from_elem(batch.ids.dim(), false);
    let sample = Sample { batch: batch.clone(), special, written: None, target: None };
    let score = Score::Jacobian { probes: 400, seed: 3 };
    let found = importance(&model, score, &[sample], &[]).expect("scores");
    let unit = |factor: f64, head: StackHead| -> Vec<f32> {
        let gate = [Intervention::gate(head.stack, head.head, factor)];
        let hidden = model.forward(&batch, &mut Recorder::new(), &gate).expect("runs");
        let x = embedding(&hidden, &batch).expect("embedding");
        let length = x.sqr().and_then(|x| x.sum_keepdim(1)).and_then(|x| x.sqrt()).expect("length");
        numbers(&x.broadcast_div(&length).expect("unit"))
    };
    for one in found {
        let (over, under) = (unit(1.02, one.head), unit(0.98, one.head));
        let slopes = over.iter().zip(&under).map(|(a, b)| f64::from(a - b) / 0.04);
        let want = slopes.map(|x| x * x).sum::<f64>() / batch.ids.nrows() as f64;
        // the estimate's relative deviation is at most √(2/400) = 0.07
        assert!((one.score - want).abs() < 0.25 * want, "{}: {} for {want}", one.head, one.score);
    }
}

#[test]
fn confidence_and_output_norm_by_their_definitions() {
    let (_, model, mut sample) = mlm();
    sample.special.column_mut(0).fill(true);
    sample.target = None;
    let run = common::record(&model, &sample.batch, &[]);
    let scores =
        importance(&model, Score::Confidence, std::slice::from_ref(&sample), &[]).expect("scores");
    for one in scores {
        let kept = run.kept(one.head.head.layer, Site::Probs);
        let mut sum = 0.0;
        for (b, &length) in sample.batch.lengths.iter().enumerate() {
            let probs = kept.get(b).and_then(|t| t.get(one.head.head.head)).expect("head");
            let probs = probs.to_vec2::<f32>().expect("rows");
            let rows = &probs[1..length];
            let best = rows.iter().map(|row| row[1..length].iter().copied().fold(0.0, f32::max));
            sum += f64::from(best.sum::<f32>()) / (length - 1) as f64;
        }
        let want = sum / sample.batch.lengths.len() as f64;
        assert!((one.score - want).abs() < 1e-6, "{}: {} for {want}", one.head, one.score);
    }
    let mut recorder = Recorder::new().keep(Site::HeadOutput, Keep::All);
    model.forward(&sample.batch, &mut recorder, &[]).expect("runs");
    let trace = recorder.into_trace().expect("trace");
    let lengths = sample.batch.lengths.clone();
    let norms = importance(&model, Score::OutputNorm, &[sample], &[]).expect("scores");
    for one in &norms {
        let kept = trace.get(Stack::Encoder, one.head.head.layer, Site::HeadOutput).expect("kept");
        let norm = |row: &Vec<f32>| row.iter().map(|x| f64::from(x * x)).sum::<f64>().sqrt();
        let each = lengths.iter().enumerate().map(|(b, &length)| {
            let rows = kept.tensor.get(b).and_then(|all| all.get(one.head.head.head)?.to_vec2());
            let rows: Vec<Vec<f32>> = rows.expect("[T,D]");
            rows[..length].iter().map(norm).sum::<f64>() / length as f64
        });
        let want = each.sum::<f64>() / lengths.len() as f64;
        assert!(want > 0.0 && (one.score - want).abs() < 1e-5 * want, "{}: {want}", one.head);
    }
    assert!(rank_correlation(&norms, &norms).is_some_and(|r| (r - 1.0).abs() < 1e-12));
}

#[test]
fn losses_that_compare_with_the_model_itself_are_refused_by_name() {
    let (_, model, mut sample) = mlm();
    for target in [
        Target::unpruned_embedding(&model, &sample).expect("runs"),
        Target::unpruned_logits(&model, &sample).expect("runs"),
    ] {
        // the reason for refusing: nothing is left but rounding
        let losses = |hidden: &Tensor| target.losses(&model, hidden, &sample.batch);
        let (loss, Gradients { layers }) = gradients(&model, &sample, &[], losses).expect("runs");
        assert!(loss.iter().all(|loss| loss.abs() < 1e-5), "{loss:?}");
        assert!(layers.values().all(|layer| layer.iter().all(|x| x.abs() < 1e-4)), "{layers:?}");

        sample.target = Some(target);
        let error = importance(&model, Score::Fisher, std::slice::from_ref(&sample), &[]);
        let line = error.expect_err("refused").to_string();
        assert!(line.starts_with("score fisher: expected a loss with labels"), "{line}");
        let score = Score::Integrated { steps: 3 };
        let scores = importance(&model, score, std::slice::from_ref(&sample), &[]).expect("scores");
        assert!(values(&scores).any(|score| score > 1e-4));
    }
    sample.target = None;
    let error = importance(&model, Score::Gradient, &[sample], &[]).expect_err("refused");
    assert!(error.to_string().contains("jacobian"), "{error}");
}

#[test]
fn masks_are_chosen_by_the_text_alone() {
    let model = open(&fixture("fill/bert"), None).expect("loads");
    let tokenizer = model.tokenizer().expect("tokenizer");
    let mask = tokenizer.mask_id().expect("mask");
    let encode = |text: &str| {
        tokenizer.encode(&Input::Text(text.into()), &Limit::default()).expect("encodes")
    };
    let texts = ["the cat sat on the mat and the dog sat on the cat", "the dog"];
    let plain = texts.map(encode);
    let (mut both, mut alone) = (plain.to_vec(), vec![plain[0].clone()]);
    let Target::Tokens(labels) = mask_some(&mut both, mask, 0.3, 5) else { panic!("labels") };
    mask_some(&mut alone, mask, 0.3, 5);
    assert_eq!(both[0], alone[0]);
    for (b, (masked, plain)) in both.iter().zip(&plain).enumerate() {
        let mut count = 0;
        for (t, (now, was)) in masked.tokens.iter().zip(&plain.tokens).enumerate() {
            match labels[(b, t)] {
                None => assert_eq!(now.id, was.id),
                Some(label) => {
                    assert!(now.id == Some(mask) && was.id == Some(label) && !was.special);
                    count += 1;
                }
            }
        }
        let typed = plain.tokens.iter().filter(|token| !token.special).count();
        assert_eq!(count, ((typed as f64 * 0.3).round() as usize).max(1));
    }
    let mut other = plain.to_vec();
    mask_some(&mut other, mask, 0.3, 6);
    assert_ne!(other[0], both[0]);
}

#[test]
fn a_gate_behind_which_nothing_is_left_closes_first() {
    let (_, model, sample) = mlm();
    let head = Head { layer: 1, head: 2 };
    let off = [Intervention::gate(Stack::Encoder, head, 0.0)];
    for penalty in [Penalty::L0, Penalty::L1] {
        let score = Score::Learned { penalty, steps: 60, seed: 3 };
        let found = importance(&model, score, std::slice::from_ref(&sample), &off).expect("scores");
        let count = model.config().heads.iter().map(Vec::len).sum::<usize>();
        assert_eq!((found.len(), score.needs_loss()), (count, true));
        let least = found.iter().min_by(|a, b| a.score.total_cmp(&b.score)).expect("heads");
        assert_eq!(least.head.head, head, "{penalty:?}: {found:?}");
        assert!(found.iter().any(|one| one.score > least.score + 0.02), "{penalty:?}: {found:?}");
        let again = importance(&model, score, std::slice::from_ref(&sample), &off).expect("scores");
        assert_eq!(found, again);
    }
    let none = Sample { target: None, ..sample };
    let score = Score::Learned { penalty: Penalty::L0, steps: 1, seed: 0 };
    let refused = importance(&model, score, &[none], &[]).expect_err("no loss").to_string();
    assert!(refused.contains("score l0"), "{refused}");
}
