//! Promises that need no reference.

mod common;

use attnviz::tokens::{Batch, Encoding, Input, Limit};
use attnviz::{Change, Head, Intervention, Keep, Model, Recorder, Site, Stack};
use candle_core::{DType, Device, Tensor};
use common::variant::Variant;
use common::{Golden, SITES, fixture, numbers, open, record, worst};
use ndarray::Array2;

fn largest_difference(a: &Tensor, b: &Tensor) -> f32 {
    assert_eq!(a.dims(), b.dims());
    numbers(a).iter().zip(numbers(b)).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

fn everything(model: &Model, batch: &Batch, changes: &[Intervention]) -> (Tensor, attnviz::Trace) {
    let recorder = SITES.into_iter().fold(Recorder::new(), |r, site| r.keep(site, Keep::All));
    let mut recorder = recorder;
    let hidden = model.forward(batch, &mut recorder, changes).expect("forward");
    (hidden, recorder.into_trace().expect("trace"))
}

/// One checkpoint of each family and kind of position.
fn goldens() -> Vec<Golden> {
    [
        "bert_model",
        "bert_relative_key",
        "bert_relative_key_query",
        "roberta_mlm",
        "xlm_roberta",
        "camembert_mlm",
        "distilbert_mlm",
        "albert_mlm",
        "electra_model",
        "mpnet_model",
        "deberta_v2_model",
        "modernbert_mlm",
        "longformer_mlm",
    ]
    .map(Golden::open)
    .into()
}

#[test]
fn rows_sum_to_1_also_under_padding() {
    for golden in goldens() {
        let model = open(&golden.folder, None).expect("loads");
        let mut batch = golden.batch();
        batch.mask.row_mut(0).fill(0); // every key of one example hidden
        let run = record(&model, &batch, &[]);
        for layer in 0..model.config().layers() {
            let probs = run.kept(layer, Site::Probs);
            for sum in numbers(&probs.sum(3).expect("sums")) {
                assert!((sum - 1.0).abs() <= 1e-5, "{sum}");
            }
            let keys = probs.dim(3).expect("keys") as f32;
            for p in numbers(&probs.get(0).expect("example")) {
                assert!((p - 1.0 / keys).abs() <= 1e-6, "hidden rows are uniform: {p}");
            }
        }
    }
}

#[test]
fn a_batch_equals_its_members_alone_and_padding_changes_nothing() {
    for golden in goldens() {
        let model = open(&golden.folder, None).expect("loads");
        let batch = golden.batch();
        let (hidden, trace) = everything(&model, &batch, &[]);
        for (b, &n) in batch.lengths.iter().enumerate() {
            let row = |a: &Array2<u32>| a.slice(ndarray::s![b..b + 1, ..n]).to_owned();
            let alone = Batch {
                ids: row(&batch.ids),
                mask: row(&batch.mask),
                type_ids: row(&batch.type_ids),
                global: batch.global.as_ref().map(row),
                lengths: vec![n],
            };
            let (single, parts) = everything(&model, &alone, &[]);
            let cut = |t: &Tensor, axes: &[usize]| {
                let one = t.narrow(0, b, 1).expect("example");
                axes.iter().try_fold(one, |t, &axis| t.narrow(axis, 0, n)).expect("cut")
            };
            assert!(largest_difference(&cut(&hidden, &[1]), &single) <= 1e-5);
            for (stack, layer, site, kept) in parts.iter() {
                let all = trace.get(stack, layer, site).expect("kept");
                let axes: &[usize] = match site {
                    Site::Embedding | Site::Residual => &[1],
                    Site::Scores | Site::Probs => &[2, 3],
                    _ => &[2],
                };
                let off = largest_difference(&cut(&all.tensor, axes), &kept.tensor);
                assert!(off <= 1e-5, "{site:?} of layer {layer}: {off:.1e}");
            }
        }
    }
}

#[test]
#[cfg(feature = "embedded")]
fn real_texts_in_a_batch_equal_themselves_alone() {
    let model = Model::from_pretrained("built-in").expect("loads");
    let tokenizer = model.tokenizer().expect("tokenizer");
    let texts = ["I am here", "I am here because the long story needs it"];
    let encode = |text: &str| {
        tokenizer.encode(&Input::Text(text.into()), &Limit::default()).expect("encodes")
    };
    let encodings: Vec<Encoding> = texts.iter().map(|text| encode(text)).collect();
    let together = record(&model, &Batch::new(&encodings, tokenizer.pad_id()), &[]);
    for (b, encoding) in encodings.iter().enumerate() {
        let alone = record(&model, &Batch::new(std::slice::from_ref(encoding), 0), &[]);
        let config = model.config();
        let of = |run: &common::Run, example| {
            run.trace.attention(Stack::Encoder, example, &encoding.tokens, config).expect("view")
        };
        let (whole, single) = (of(&together, b), of(&alone, 0));
        assert_eq!(whole.queries.len(), encoding.len(), "padding is cut");
        for (a, s) in whole.heads.iter().zip(&single.heads) {
            let off = (&a.weights - &s.weights).iter().fold(0.0f32, |m, x| m.max(x.abs()));
            assert!(off <= 1e-5, "{}: {off:.1e}", a.head);
        }
    }
}

#[test]
fn recording_changes_no_output() {
    for golden in goldens() {
        let model = open(&golden.folder, None).expect("loads");
        let batch = golden.batch();
        let plain = model.forward(&batch, &mut Recorder::new(), &[]).expect("forward");
        for site in SITES {
            let mut recorder = Recorder::new().keep(site, Keep::All);
            let hidden = model.forward(&batch, &mut recorder, &[]).expect("forward");
            assert!(largest_difference(&plain, &hidden) <= 1e-6, "{site:?}");
        }
        let (hidden, _) = everything(&model, &batch, &[]);
        assert!(largest_difference(&plain, &hidden) <= 1e-6);
    }
}

#[test]
fn only_the_heads_asked_for_are_kept() {
    let golden = Golden::open("bert_model");
    let model = open(&golden.folder, None).expect("loads");
    let batch = golden.batch();
    let (_, all) = everything(&model, &batch, &[]);
    let wanted = Keep::Heads([(1, vec![3, 1])].into());
    for site in SITES.into_iter().filter(|site| site.has_heads()) {
        let mut recorder = Recorder::new().keep(site, wanted.clone());
        model.forward(&batch, &mut recorder, &[]).expect("forward");
        let trace = recorder.into_trace().expect("trace");
        assert!(trace.get(Stack::Encoder, 0, site).is_none());
        let kept = trace.get(Stack::Encoder, 1, site).expect("kept");
        assert_eq!(kept.heads, [1, 3]);
        let whole = &all.get(Stack::Encoder, 1, site).expect("kept").tensor;
        let places = Tensor::new(&[1u32, 3], &Device::Cpu).expect("places");
        let want = whole.index_select(&places, 1).expect("heads");
        assert!(largest_difference(&kept.tensor, &want) == 0.0, "{site:?}");
    }
}

fn at(site: Site, change: Change) -> Intervention {
    let (layers, heads, positions) = (None, None, None);
    Intervention { stack: Stack::Encoder, site, layers, heads, positions, change }
}

#[test]
fn changes_that_change_nothing() {
    for golden in goldens() {
        let model = open(&golden.folder, None).expect("loads");
        let batch = golden.batch();
        let (plain, trace) = everything(&model, &batch, &[]);
        for site in SITES {
            let scaled = everything(&model, &batch, &[at(site, Change::Scale(1.0))]).0;
            assert!(largest_difference(&plain, &scaled) <= 1e-5, "{site:?} times 1");
            // patching in what the same run kept
            let patches: Vec<Intervention> = trace
                .iter()
                .filter(|&(_, _, s, _)| s == site)
                .map(|(_, layer, _, kept)| Intervention {
                    layers: Some(vec![layer]),
                    ..at(site, Change::Replace(kept.tensor.clone()))
                })
                .collect();
            assert!(!patches.is_empty());
            let patched = everything(&model, &batch, &patches).0;
            assert!(largest_difference(&plain, &patched) <= 1e-5, "{site:?} patched by itself");
        }
    }
}

#[test]
fn changes_reach_what_they_name_and_nothing_before_it() {
    let golden = Golden::open("bert_model");
    let model = open(&golden.folder, None).expect("loads");
    let batch = golden.batch();
    let (_, plain) = everything(&model, &batch, &[]);
    for site in SITES.into_iter().filter(|site| site.has_heads()) {
        let change = Intervention {
            layers: Some(vec![1]),
            heads: Some(vec![2]),
            positions: Some(vec![0, 3]),
            ..at(site, Change::Zero)
        };
        let (_, trace) = everything(&model, &batch, &[change]);
        let get = |trace: &attnviz::Trace, layer, site| {
            trace.get(Stack::Encoder, layer, site).expect("kept").tensor.clone()
        };
        for same in SITES.into_iter().filter(|&s| s != Site::Embedding) {
            let (a, b) = (get(&plain, 0, same), get(&trace, 0, same));
            assert!(largest_difference(&a, &b) <= 1e-6, "layer 0 is before {site:?}");
        }
        let (before, after) = (get(&plain, 1, site), get(&trace, 1, site));
        let (_, heads, positions, _) = after.dims4().expect("four axes");
        for head in 0..heads {
            for position in 0..positions {
                let of = |t: &Tensor| {
                    let one = t.narrow(1, head, 1).and_then(|t| t.narrow(2, position, 1));
                    numbers(&one.expect("row"))
                };
                match head == 2 && (position == 0 || position == 3) {
                    true => assert!(of(&after).iter().all(|&x| x == 0.0), "{site:?}"),
                    false => {
                        let pairs = of(&before).into_iter().zip(of(&after));
                        let off = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                        assert!(off <= 1e-5, "{site:?} {head} {position}: {off:.1e}");
                    }
                }
            }
        }
        let residual = (get(&plain, 1, Site::Residual), get(&trace, 1, Site::Residual));
        assert!(largest_difference(&residual.0, &residual.1) > 1e-4, "{site:?} has an effect");
    }
}

#[test]
fn the_mean_is_over_real_positions_of_all_examples() {
    let golden = Golden::open("bert_model");
    let model = open(&golden.folder, None).expect("loads");
    let batch = golden.batch();
    let (_, plain) = everything(&model, &batch, &[]);
    let change = Intervention { layers: Some(vec![0]), ..at(Site::Context, Change::Mean) };
    let (_, trace) = everything(&model, &batch, &[change]);
    let kept = |trace: &attnviz::Trace| {
        trace.get(Stack::Encoder, 0, Site::Context).expect("kept").tensor.clone()
    };
    let (before, after) = (kept(&plain), kept(&trace));
    let (b, h, t, k) = before.dims4().expect("four axes");
    let (before, after) = (numbers(&before), numbers(&after));
    for head in 0..h {
        for c in 0..k {
            let index = |b: usize, t_: usize| ((b * h + head) * t + t_) * k + c;
            let real = (0..b).flat_map(|b| (0..batch.lengths[b]).map(move |t| (b, t)));
            let values: Vec<f32> = real.map(|(b, t)| before[index(b, t)]).collect();
            let mean = values.iter().sum::<f32>() / values.len() as f32;
            for example in 0..b {
                for position in 0..t {
                    assert!((after[index(example, position)] - mean).abs() <= 1e-5);
                }
            }
        }
    }
}

#[test]
fn a_gate_per_example_acts_on_that_example() {
    let golden = Golden::open("bert_model");
    let model = open(&golden.folder, None).expect("loads");
    let batch = golden.batch();
    let plain = everything(&model, &batch, &[]).0;
    let gates = Tensor::new(&[1f32, 0.0, 1.0], &Device::Cpu).and_then(|g| g.reshape((3, 1, 1, 1)));
    let change = at(Site::Context, Change::Multiply(gates.expect("gates")));
    let gated = everything(&model, &batch, &[change]).0;
    let of = |t: &Tensor, b: usize| t.get(b).expect("example");
    assert!(largest_difference(&of(&plain, 0), &of(&gated, 0)) <= 1e-5);
    assert!(largest_difference(&of(&plain, 1), &of(&gated, 1)) > 1e-2);
    let wrong = Tensor::zeros((5, 1, 1, 1), DType::F32, &Device::Cpu).expect("tensor");
    let change = at(Site::Context, Change::Replace(wrong));
    let error = model.forward(&batch, &mut Recorder::new(), &[change]).expect_err("misshapen");
    assert!(error.to_string().contains("broadcasts to [3, 4, 12, 8]"), "{error}");
}

/// Gate 0 = the head cut out of the weights and named in `pruned_heads`, as transformers computes
/// it; what is left keeps its original number.
#[test]
fn gate_0_equals_pruned_heads() {
    let golden = Golden::open("bert_mlm");
    let keep = golden.tensor("pruned.keep").to_vec2::<f32>().expect("keep");
    let mut gone = Vec::new();
    let mut gates = Vec::new();
    for (layer, row) in keep.iter().enumerate() {
        let heads: Vec<usize> = (0..row.len()).filter(|&h| row[h] == 0.0).collect();
        gates.extend(
            heads.iter().map(|&head| Intervention::gate(Stack::Encoder, Head { layer, head }, 0.0)),
        );
        if !heads.is_empty() {
            gone.push((layer, heads));
        }
    }
    let pruned = Variant::of("bert_mlm").prune("bert.", 8, &gone).open().expect("loads");
    let batch = golden.batch();
    let cut = record(&pruned, &batch, &[]);
    let gated = record(&open(&golden.folder, None).expect("loads"), &batch, &gates);
    assert!(worst(&cut.hidden, &gated.hidden, Some(1), &batch.mask) <= 1e-5);
    for (layer, row) in keep.iter().enumerate() {
        let kept = cut.trace.get(Stack::Encoder, layer, Site::Probs).expect("kept");
        let numbers: Vec<usize> = (0..row.len()).filter(|&h| row[h] != 0.0).collect();
        assert_eq!(kept.heads, numbers);
        let want = golden.tensor(&format!("pruned.attentions.{layer}"));
        let off = worst(&kept.tensor, want, Some(2), &batch.mask);
        assert!(off <= 1e-5, "layer {layer}: {off:.1e}");
    }
    let logits = pruned.head(&cut.hidden, &cut.batch).expect("head").logits.expect("logits");
    let off = worst(&logits, golden.tensor("pruned.logits"), Some(1), &batch.mask);
    assert!(off <= 2e-5, "logits: {off:.1e}"); // 3 × the float32-float64 distance in info.json
}

#[test]
fn a_layer_without_heads_adds_its_output_bias_alone() {
    let all = vec![(1, vec![0, 1, 2, 3])];
    let pruned = Variant::of("bert_mlm").prune("bert.", 8, &all).open().expect("loads");
    let whole = open(&fixture("goldens/bert_mlm"), None).expect("loads");
    let batch = Golden::open("bert_mlm").batch();
    let gates: Vec<Intervention> = (0..4)
        .map(|head| Intervention::gate(Stack::Encoder, Head { layer: 1, head }, 0.0))
        .collect();
    let cut = record(&pruned, &batch, &[]);
    let gated = record(&whole, &batch, &gates);
    assert!(worst(&cut.hidden, &gated.hidden, Some(1), &batch.mask) <= 1e-5);
    assert!(cut.trace.get(Stack::Encoder, 1, Site::Probs).is_none());
    assert_eq!(pruned.config().heads[1], Vec::<usize>::new());
    assert_eq!(pruned.config().head_counts, [4, 4, 4]);
}

#[test]
fn the_same_input_gives_the_same_bytes_at_any_thread_count() {
    let golden = Golden::open("bert_model");
    let model = open(&golden.folder, None).expect("loads");
    let batch = golden.batch();
    let bits = |threads: usize| -> Vec<u32> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("pool");
        let hidden = pool.install(|| model.forward(&batch, &mut Recorder::new(), &[]));
        numbers(&hidden.expect("forward")).into_iter().map(f32::to_bits).collect()
    };
    assert_eq!(bits(1), bits(1));
    assert_eq!(bits(1), bits(2));
    assert_eq!(bits(1), bits(3));
}
