//! Heads switched off: each way of it against the same made by hand, and the sets on the command line.

mod common;

use std::process::Command;

use attnviz::prune::{Off, StackHead, ablate};
use attnviz::task::{Outputs, Sample, cosines, embedding};
use attnviz::tokens::{Encoding, Input, Limit};
use attnviz::{Change, Head, Intervention, Keep, Model, Recorder, Site, Stack, Token, Trace};
use candle_core::{DType, Device, Tensor};
use common::variant::Variant;
use common::{Golden, fixture, numbers, open};
use serde_json::Value;

/// Two texts of different lengths.
const TEXTS: [&[u32]; 2] = [&[2, 31, 17, 44, 4, 25, 3], &[2, 9, 52, 28, 3]];
const LAYER: usize = 1;
const OFF: [usize; 2] = [0, 2];

fn sample(texts: &[&[u32]]) -> Sample {
    let token = |&id: &u32| Token { id: Some(id), ..Token::default() };
    let encoding = |ids: &&[u32]| Encoding::of_tokens(ids.iter().map(token).collect());
    Sample::new(&texts.iter().map(encoding).collect::<Vec<_>>(), 0, None)
}

/// What a text alone has at a site: no padding is in it.
fn alone(model: &Model, text: &[u32], site: Site) -> Vec<Vec<Vec<f32>>> {
    let mut recorder = Recorder::new().keep(site, Keep::All);
    model.forward(&sample(&[text]).batch, &mut recorder, &[]).expect("runs");
    let trace: Trace = recorder.into_trace().expect("trace");
    let kept = trace.get(model.config().stack(), LAYER, site).expect("kept");
    kept.tensor.get(0).and_then(|one| one.to_dtype(DType::F32)?.to_vec3()).expect("[H,T,K]")
}

/// Mean embeddings with this in place of the context of the heads that are off.
fn by_hand(model: &Model, context: &[Vec<Vec<Vec<f32>>>]) -> Vec<f32> {
    let (h, k) = (context[0].len(), context[0][0][0].len());
    let longest = context.iter().map(|text| text[0].len()).max().expect("texts");
    let mut all = vec![0.0; context.len() * h * longest * k];
    for (b, text) in context.iter().enumerate() {
        for (head, rows) in text.iter().enumerate() {
            for (t, row) in rows.iter().enumerate() {
                let at = ((b * h + head) * longest + t) * k;
                all[at..at + k].copy_from_slice(row);
            }
        }
    }
    let tensor =
        Tensor::from_vec(all, (context.len(), h, longest, k), &Device::Cpu).expect("shape");
    let change = Intervention {
        stack: model.config().stack(),
        site: Site::Context,
        layers: Some(vec![LAYER]),
        heads: Some(OFF.to_vec()),
        positions: None,
        change: Change::Replace(tensor),
    };
    let batch = sample(&TEXTS).batch;
    let hidden = model.forward(&batch, &mut Recorder::new(), &[change]).expect("runs");
    numbers(&embedding(&hidden, &batch).expect("embedding"))
}

fn switched(model: &Model, off: Off) -> Vec<f32> {
    let stack = model.config().stack();
    let heads = OFF.map(|head| StackHead { stack, head: Head { layer: LAYER, head } });
    let mut runs = 0;
    let found = ablate(model, &[sample(&TEXTS)], off, &[heads.to_vec()], false, || runs += 1);
    let found = found.expect("ablated");
    assert_eq!((found.len(), runs), (2, 2));
    found[1].embeddings.iter().map(|&x| x as f32).collect()
}

fn assert_near(got: &[f32], want: &[f32], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    let off = got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(off <= 1e-5, "{what}: off by {off:.1e}");
}

fn mean(rows: &[&Vec<f32>]) -> Vec<f32> {
    let sum = |i: usize| rows.iter().map(|row| row[i]).sum::<f32>();
    (0..rows[0].len()).map(|i| sum(i) / rows.len() as f32).collect()
}

/// Keys and values in groups, causal and not, a batch with padding.
#[test]
fn what_stands_in_for_a_head_is_what_its_kind_says() {
    for name in ["bert_mlm", "gpt2_lm", "llama_lm"] {
        let model = open(&Golden::open(name).folder, None).expect("loads");
        let contexts = TEXTS.map(|text| alone(&model, text, Site::Context));
        let heads = contexts[0].len();

        let nothing = contexts.clone().map(|text| {
            text.iter().map(|rows| vec![vec![0.0; rows[0].len()]; rows.len()]).collect()
        });
        assert_near(&switched(&model, Off::Zero), &by_hand(&model, &nothing), name);

        // one mean over all tokens of both texts
        let means: Vec<Vec<f32>> = (0..heads)
            .map(|head| mean(&contexts.iter().flat_map(|text| &text[head]).collect::<Vec<_>>()))
            .collect();
        let constant = contexts.clone().map(|text| {
            text.iter().zip(&means).map(|(rows, mean)| vec![mean.clone(); rows.len()]).collect()
        });
        assert_near(&switched(&model, Off::Mean), &by_hand(&model, &constant), name);

        // the other text's, from its start again where it is over
        let other = [0, 1].map(|text| {
            let (own, from) = (TEXTS[text].len(), &contexts[1 - text]);
            let rows =
                |rows: &Vec<Vec<f32>>| (0..own).map(|t| rows[t % rows.len()].clone()).collect();
            from.iter().map(rows).collect::<Vec<Vec<Vec<f32>>>>()
        });
        assert_near(&switched(&model, Off::Resampled), &by_hand(&model, &other), name);

        // the mean of all values that a token sees
        let even = TEXTS.map(|text| {
            let values = alone(&model, text, Site::Value);
            let causal = model.config().causal;
            let seen = |t: usize| if causal { t + 1 } else { text.len() };
            let row = |rows: &[Vec<f32>], t| mean(&rows[..seen(t)].iter().collect::<Vec<_>>());
            let head = |rows: &Vec<Vec<f32>>| (0..text.len()).map(|t| row(rows, t)).collect();
            values.iter().map(head).collect::<Vec<Vec<Vec<f32>>>>()
        });
        assert_near(&switched(&model, Off::Uniform), &by_hand(&model, &even), name);
    }
}

/// With its value's bias, which every token would have got through it.
#[test]
fn a_head_that_gives_nothing_is_one_cut_out_of_the_weights() {
    let model = open(&Golden::open("bert_mlm").folder, None).expect("loads");
    let cut = Variant::of("bert_mlm").prune("bert.", 8, &[(LAYER, OFF.to_vec())]).open();
    let (cut, batch) = (cut.expect("loads"), sample(&TEXTS).batch);
    let hidden = cut.forward(&batch, &mut Recorder::new(), &[]).expect("runs");
    let want = numbers(&embedding(&hidden, &batch).expect("embedding"));
    assert_near(&switched(&model, Off::Zero), &want, "cut");
}

/// Each head alone, each layer with that head alone, and the model with that head alone.
#[test]
fn sets_of_the_command_line_are_what_they_say() {
    const TEXT: &str = "The cat sat on the mat.";
    let folder = fixture("fill").join("bert");
    let model = open(&folder, None).expect("loads");
    let tokenizer = model.tokenizer().expect("one");
    let text = Input::Text(TEXT.into());
    let encoding = tokenizer.encode(&text, &Limit::default()).expect("tokens");
    let samples = [Sample::new(&[encoding], tokenizer.pad_id(), None)];
    let all: Vec<StackHead> = (0..3)
        .flat_map(|layer| (0..2).map(move |head| Head { layer, head }))
        .map(|head| StackHead { stack: Stack::Encoder, head })
        .collect();
    type Chosen = fn(Head, Head) -> bool;
    let sets: [(&str, Chosen); 3] = [
        ("each", |one, other| one == other),
        ("layer-others", |one, other| one.layer == other.layer && one != other),
        ("all-others", |one, other| one != other),
    ];
    for (name, chosen) in sets {
        let of = |one: &StackHead| {
            all.iter().copied().filter(|other| chosen(one.head, other.head)).collect::<Vec<_>>()
        };
        let off: Vec<Vec<StackHead>> = all.iter().map(of).collect();
        let outputs = ablate(&model, &samples, Off::Zero, &off, false, || {}).expect("ablated");
        let (unpruned, changed): (&Outputs, &[Outputs]) = outputs.split_first().expect("runs");
        let done = Command::new(env!("CARGO_BIN_EXE_attnviz"))
            .args(["ablate", TEXT, "--loss", "embedding", "--json", "--sets", name, "--model"])
            .arg(&folder)
            .output()
            .expect("runs");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let told: Value = serde_json::from_slice(&done.stdout).expect("JSON");
        let heads = told["heads"].as_array().expect("heads");
        assert_eq!(heads.len(), all.len());
        if name == "layer-others" {
            let value = |i: usize| heads[i]["mean"].as_f64().expect("a number");
            let best = (0..3).map(|layer| {
                let first = 2 * layer;
                format!("L{layer}H{}", usize::from(value(first + 1) < value(first)))
            });
            assert_eq!(told["best_alone"], Value::from(best.collect::<Vec<_>>()));
        }
        for ((one, told), changed) in all.iter().zip(heads).zip(changed) {
            let cosine = cosines(unpruned, changed).expect("cosines")[0];
            let mean = told["mean"].as_f64().expect("a number");
            assert!((mean - (1.0 - cosine)).abs() < 1e-9, "{name}, {}: {mean}", one.head);
            assert!(mean.abs() > 1e-6, "{name}, {}: nothing was off", one.head);
        }
    }
}
