//! Heads switched off: each way of it against the same made by hand, and the sets on the command line.

mod common;

use std::process::Command;

use attnviz::prune::{Off, StackHead, ablate, heads_left};
use attnviz::task::{
    Effect, Outputs, Sample, Target, benjamini_hochberg, cosines, effect, embedding, holm,
};
use attnviz::tokens::{Encoding, Input, Limit, group_by_length};
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

/// Of a pair both texts stand side by side, and one is no other item for the other.
#[test]
fn another_text_is_not_the_other_of_a_pair() {
    let model = open(&Golden::open("bert_mlm").folder, None).expect("loads");
    let heads =
        OFF.map(|head| StackHead { stack: Stack::Encoder, head: Head { layer: LAYER, head } });
    // two pairs of a text with itself
    let samples = [sample(&[TEXTS[0], TEXTS[0], TEXTS[1], TEXTS[1]])];
    let found = ablate(&model, &samples, Off::Resampled, &[heads.to_vec()], false, || ());
    let found = found.expect("ablated");
    for (one, other) in found[0].embeddings.rows().into_iter().zip(found[1].embeddings.rows()) {
        let far = one.iter().zip(other).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(far > 1e-3, "{far}: its own output for another one's");
    }
    let alone = ablate(&model, &[sample(&TEXTS[..1])], Off::Resampled, &[], false, || ());
    let line = alone.expect_err("none").to_string();
    assert!(line.contains("another text in each batch, found a batch of one"), "{line}");
}

/// What is told of each head, and how sure it is, is what the library makes of the texts one by one.
#[test]
fn effects_on_the_command_line_are_those_of_the_texts() {
    const LINES: [&str; 7] = [
        "the cat sat on the mat",
        "a dog ran",
        "the bird and the man",
        "a boy slept on the mat",
        "the dog",
        "a cat and a dog sat on the mat",
        "the man ran and the boy sat",
    ];
    let place = tempfile::TempDir::new().expect("folder");
    std::fs::write(place.path().join("texts.txt"), LINES.join("\n")).expect("written");
    let folder = fixture("fill").join("bert");
    let model = open(&folder, None).expect("loads");
    let tokenizer = model.tokenizer().expect("one");
    let encodings = LINES.map(|line| {
        tokenizer.encode(&Input::Text(line.into()), &Limit::default()).expect("tokens")
    });
    let lengths: Vec<usize> = encodings.iter().map(Encoding::len).collect();
    let samples: Vec<Sample> = group_by_length(&lengths, 4)
        .iter()
        .map(|group| {
            let some: Vec<Encoding> = group.iter().map(|&i| encodings[i].clone()).collect();
            let mut sample = Sample::new(&some, tokenizer.pad_id(), None);
            sample.target = Some(Target::next_tokens(&sample.batch));
            sample
        })
        .collect();
    let all = heads_left(model.config());
    let others = |one: &StackHead| all.iter().copied().filter(|other| other != one).collect();
    let sets: Vec<Vec<StackHead>> = all.iter().map(others).collect();
    let run = |more: &[&str]| {
        let done = Command::new(env!("CARGO_BIN_EXE_attnviz"))
            .current_dir(place.path())
            .args(["ablate", "--file", "texts.txt", "--loss", "causal-lm", "--batch-size", "4"])
            .args(["--seed", "5", "--sets", "all-others", "--json", "--model"])
            .arg(&folder)
            .args(more)
            .output()
            .expect("runs");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let told: Value = serde_json::from_slice(&done.stdout).expect("JSON");
        (told, String::from_utf8(done.stderr).expect("text"))
    };
    for (name, off) in Off::NAMES {
        let (told, said) = run(&["--off", name, "--rounds", "300"]);
        assert!(!said.contains("resamplings"), "{said}");
        let outputs = ablate(&model, &samples, off, &sets, false, || ()).expect("ablated");
        let (unpruned, changed) = outputs.split_first().expect("runs");
        let effects: Vec<Effect> = changed
            .iter()
            .map(|one| {
                let each = one.losses.iter().zip(&unpruned.losses).map(|(a, b)| a - b);
                effect(&each.collect::<Vec<_>>(), 300, 5)
            })
            .collect();
        let p: Vec<f64> = effects.iter().map(|one| one.p).collect();
        let (family, share) = (holm(&p), benjamini_hochberg(&p));
        assert!(family.iter().zip(&share).any(|(a, b)| a != b), "{p:?}");
        for (i, (told, want)) in
            told["heads"].as_array().expect("heads").iter().zip(&effects).enumerate()
        {
            for (key, want) in [
                ("mean", want.mean),
                ("size", want.size),
                ("p", want.p),
                ("p_holm", family[i]),
                ("p_benjamini_hochberg", share[i]),
            ] {
                let found = told[key].as_f64().expect("a number");
                assert!((found - want).abs() < 1e-6, "{name} {i} {key}: {found}, not {want}");
            }
            let interval = told["interval"].as_array().expect("both ends");
            let near = |at: usize, want: f64| {
                interval[at].as_f64().is_some_and(|found| (found - want).abs() < 1e-6)
            };
            assert!(near(0, want.interval.0) && near(1, want.interval.1), "{name} {i}: {told}");
        }
    }
    // 6 · 1/100 is no less than 0.05
    let (_, said) = run(&["--rounds", "99"]);
    let want =
        "note: 99 resamplings of 6 heads leave no p below 0.06 after Holm: no mark is possible";
    assert!(said.contains(want), "{said}");
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
