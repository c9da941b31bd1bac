//! Decoders and encoder-decoders against transformers at every stage, and step by step with a cache.

mod common;

use attnviz::model::{Cache, Memory};
use attnviz::tokens::Batch;
use attnviz::{Keep, Model, Recorder, Result, Site, Stack, Trace};
use candle_core::{D, Tensor};
use common::stages::{ATTENTION, CACHE, HIDDEN, Kept, OUTPUTS, bound, goldens, hold};
use common::{Golden, numbers, open, worst};
use ndarray::{Array2, Axis, concatenate, s};

fn recorder() -> Recorder {
    let sites =
        [Site::Embedding, Site::Residual, Site::Probs, Site::Scores, Site::Query, Site::Key];
    sites.into_iter().fold(Recorder::new(), |recorder, site| recorder.keep(site, Keep::All))
}

fn kept(trace: &Trace, stack: Stack, layer: usize, site: Site) -> &Tensor {
    &trace.get(stack, layer, site).expect("kept").tensor
}

fn logits(model: &Model, hidden: &Tensor, batch: &Batch) -> Tensor {
    model.head(hidden, batch).expect("head").logits.expect("logits")
}

fn all_real(ids: Array2<u32>) -> Batch {
    let mask = Array2::ones(ids.dim());
    Batch::from_ids(ids, mask)
}

fn check(golden: &Golden, config: Option<&str>) {
    let model = open(&golden.folder, config).expect("loads");
    match model.config().decoder {
        None => check_decoder(golden, &model),
        Some(_) => check_encoder_decoder(golden, &model),
    }
    check_generation(golden, &model);
}

fn check_decoder(golden: &Golden, model: &Model) {
    let batch = golden.batch();
    let mut recorder = recorder();
    let hidden = model.forward(&batch, &mut recorder, &[]).expect("forward");
    let (trace, layers) = (recorder.into_trace().expect("trace"), model.config().layers());
    let kept = Kept { trace: &trace, stack: Stack::Decoder, layers, mask: &batch.mask };
    kept.hold_hidden_states(golden, "hidden_states", &hidden);
    kept.hold_attentions(golden, "attentions");
    hold_logits(golden, &logits(model, &hidden, &batch), &batch);
}

fn hold_logits(golden: &Golden, logits: &Tensor, batch: &Batch) {
    hold(golden, "logits", logits, (Some(1), &batch.mask), bound(golden, OUTPUTS));
}

fn check_encoder_decoder(golden: &Golden, model: &Model) {
    let (source, config) = (golden.batch(), model.config());
    let target =
        Batch::from_ids(golden.ids("decoder_input_ids"), golden.ids("decoder_attention_mask"));
    let mut recorder = recorder();
    let memory = model.encode(&source, &mut recorder, &[]).expect("encodes");
    let hidden = model.decode(&target, Some(&memory), None, &mut recorder, &[]).expect("decodes");
    let trace = recorder.into_trace().expect("trace");
    let of = |stack, mask| Kept { trace: &trace, stack, layers: config.of(stack).layers(), mask };
    let encoder = of(Stack::Encoder, &source.mask);
    encoder.hold_hidden_states(golden, "encoder_hidden_states", &memory.hidden);
    encoder.hold_attentions(golden, "encoder_attentions");
    let decoder = of(Stack::Decoder, &target.mask);
    decoder.hold_hidden_states(golden, "decoder_hidden_states", &hidden);
    decoder.hold_attentions(golden, "decoder_attentions");
    of(Stack::Cross, &target.mask).hold_attentions(golden, "cross_attentions");
    let (last, place) = ("encoder_last_hidden_state", (Some(1), &source.mask));
    hold(golden, last, &memory.hidden, place, bound(golden, HIDDEN));
    hold_logits(golden, &logits(model, &hidden, &target), &target);
}

/// The greedy continuation of `start`: (ids, the logits of each step).
fn greedy(
    model: &Model,
    start: &Batch,
    memory: Option<&Memory>,
    (mut cache, steps): (Option<Cache>, usize),
    recorder: &mut Recorder,
) -> Result<(Array2<u32>, Vec<Tensor>)> {
    let (mut ids, mut mask) = (start.ids.clone(), start.mask.clone());
    let mut all = Vec::new();
    for _ in 0..steps {
        let read = cache.as_ref().map_or(0, Cache::len);
        let new = |a: &Array2<u32>| a.slice(s![.., read..]).to_owned();
        let batch = Batch::from_ids(new(&ids), new(&mask));
        let hidden = model.decode(&batch, memory, cache.as_mut(), recorder, &[])?;
        let last = hidden.narrow(1, hidden.dim(1)? - 1, 1)?;
        let logits = logits(model, &last, &batch).squeeze(1)?; // [B, V]
        let chosen = logits.argmax(D::Minus1)?.to_vec1::<u32>()?;
        let chosen = Array2::from_shape_vec((chosen.len(), 1), chosen).expect("column");
        ids = concatenate(Axis(1), &[ids.view(), chosen.view()]).expect("ids");
        let ones = Array2::ones(chosen.dim());
        mask = concatenate(Axis(1), &[mask.view(), ones.view()]).expect("mask");
        all.push(logits);
    }
    Ok((ids, all))
}

fn check_generation(golden: &Golden, model: &Model) {
    let encodes = model.config().decoder.is_some();
    let source = golden.batch();
    let memory =
        encodes.then(|| model.encode(&source, &mut Recorder::new(), &[]).expect("encodes"));
    let memory = memory.as_ref();
    let prompt = match encodes {
        false => golden.ids("generate.prompt_ids"),
        true => golden.ids("generate.sequences").slice(s![.., ..1]).to_owned(),
    };
    let start = all_real(prompt);
    if encodes {
        let first = model.config().generation.start;
        assert!(start.ids.iter().all(|&id| Some(id) == first), "starts from {first:?}");
    }
    let mut recorder = recorder();
    let cached = (Some(model.cache()), 12);
    let (ids, with) = greedy(model, &start, memory, cached, &mut recorder).expect("cached");
    assert_eq!(ids, golden.ids("generate.sequences"), "greedy tokens");
    let (again, without) =
        greedy(model, &start, memory, (None, 12), &mut Recorder::new()).expect("uncached");
    assert_eq!(ids, again, "without a cache");
    // logits of a step are outputs as well: no closer to the reference than it is to float64
    let bound = bound(golden, CACHE).max(bound(golden, OUTPUTS));
    let want = golden.tensor("generate.step_logits");
    for (step, (cached, uncached)) in with.iter().zip(&without).enumerate() {
        let want = want.get(step).expect("step");
        for (what, got) in [("cached", cached), ("uncached", uncached)] {
            let off = worst(got, &want, None, &Array2::ones((1, 1)));
            assert!(off <= bound, "{what} logits of step {step}: off by {off:.1e}");
        }
    }
    hold_stitched(golden, model, &ids, memory, &recorder.into_trace().expect("trace"));
}

/// What the steps kept is what one pass over the finished text keeps, and the reference's.
fn hold_stitched(
    golden: &Golden,
    model: &Model,
    ids: &Array2<u32>,
    memory: Option<&Memory>,
    steps: &Trace,
) {
    let read = ids.slice(s![.., ..ids.ncols() - 1]).to_owned(); // the last one was never read
    let batch = all_real(read);
    let mut recorder = recorder();
    model.decode(&batch, memory, None, &mut recorder, &[]).expect("one pass");
    let whole = recorder.into_trace().expect("trace");
    let mut compared = 0;
    for (stack, layer, site, one) in whole.iter() {
        let stitched = kept(steps, stack, layer, site);
        assert_eq!(stitched.dims(), one.tensor.dims(), "{stack:?} {site:?}");
        let (mut got, mut want) = (numbers(stitched), numbers(&one.tensor));
        if stack == Stack::Decoder && site == Site::Scores {
            // behind the query a full pass has scores that no step computes and none sees
            let n = batch.ids.ncols();
            for (i, (g, w)) in got.iter_mut().zip(&mut want).enumerate() {
                if i % n > i / n % n {
                    (*g, *w) = (0.0, 0.0);
                }
            }
        }
        let off = got.iter().zip(&want).map(|(g, w)| (g - w).abs() / w.abs().max(1.0));
        let off = off.fold(0.0, f32::max);
        let bound = bound(golden, CACHE);
        assert!(off <= bound, "{stack:?} layer {layer} {site:?}: off by {off:.1e}");
        compared += 1;
    }
    assert!(compared > 0);
    for layer in 0..model.config().of(Stack::Decoder).layers() {
        let pairs = match memory.is_some() {
            false => vec![("generate.attentions", Stack::Decoder)],
            true => vec![
                ("generate.decoder_attentions", Stack::Decoder),
                ("generate.cross_attentions", Stack::Cross),
            ],
        };
        for (name, stack) in pairs {
            let got = kept(steps, stack, layer, Site::Probs);
            hold(golden, &format!("{name}.{layer}"), got, (None, &batch.mask), ATTENTION);
        }
    }
}

goldens! {
    bert_lmhead_decoder: None, Some("config.v4.json");
    gpt2_lm: None, Some("config.v4.json");
    llama_lm: None, Some("config.v4.json");
    bart_lm: None, Some("config.v4.json");
    marian_mt: None, Some("config.v4.json");
    t5_lm: None, Some("config.v4.json");
    t5_v11_lm: None;
}

/// Prompts of different lengths, padded on the left: positions count real tokens.
#[test]
fn left_padding_agrees_with_the_reference() {
    for name in ["gpt2_lm", "llama_lm"] {
        let golden = Golden::open(name);
        let model = open(&golden.folder, None).expect("loads");
        let start = Batch::from_ids(
            golden.ids("generate_left.input_ids"),
            golden.ids("generate_left.attention_mask"),
        );
        assert!(start.mask.iter().any(|&m| m == 0), "padded");
        for cache in [Some(model.cache()), None] {
            let mut recorder = Recorder::new();
            let (ids, logits) =
                greedy(&model, &start, None, (cache, 12), &mut recorder).expect("writes");
            assert_eq!(ids, golden.ids("generate_left.sequences"), "{name}");
            let want = golden.tensor("generate_left.step_logits");
            for (step, got) in logits.iter().enumerate() {
                let off = worst(got, &want.get(step).expect("step"), None, &start.mask);
                let bound = bound(&golden, CACHE);
                assert!(off <= bound, "{name}, step {step}: off by {off:.1e}");
            }
        }
    }
}
