//! Drawing tokens: against transformers' logits processors, at the edges, and by counting draws.

mod common;

use attnviz::decode::{Sampler, Sampling};
use common::{Golden, fixture, numbers};
use serde_json::Value;
use statrs::distribution::{ChiSquared, ContinuousCDF};

const NONE: f32 = f32::NEG_INFINITY;

fn sampler(sampling: Sampling) -> Sampler {
    Sampler::new(sampling, 7).expect("sampling")
}

fn probabilities(sampling: Sampling, logits: &[f32], so_far: &[u32]) -> Vec<f64> {
    sampler(sampling).probabilities(logits, so_far).expect("probabilities")
}

fn heat(temperature: f64) -> Sampling {
    Sampling { temperature, ..Sampling::default() }
}

fn kept(probabilities: &[f64]) -> Vec<usize> {
    (0..probabilities.len()).filter(|&id| probabilities[id] > 0.0).collect()
}

fn worst(got: &[f64], want: &[f64]) -> f64 {
    assert_eq!(got.len(), want.len());
    got.iter().zip(want).map(|(g, w)| (g - w).abs()).fold(0.0, |a, b| if a > b { a } else { b })
}

#[test]
fn first_steps_of_the_goldens() {
    let plain = Sampling::default();
    let ways = [
        ("t0.5", heat(0.5)),
        ("t1.7", heat(1.7)),
        ("k5", Sampling { top_k: Some(5), ..plain.clone() }),
        ("p0.8", Sampling { top_p: Some(0.8), ..plain }),
        ("t0.7_k10_p0.9", Sampling { top_k: Some(10), top_p: Some(0.9), ..heat(0.7) }),
    ];
    let decoders = [
        "gpt2_lm",
        "llama_lm",
        "bert_lmhead_decoder",
        "bart_lm",
        "marian_mt",
        "t5_lm",
        "t5_v11_lm",
    ];
    for name in decoders {
        let golden = Golden::open(name);
        let steps = golden.tensor("generate.step_logits");
        let logits = numbers(&steps.get(0).and_then(|step| step.get(0)).expect("first step"));
        for (way, sampling) in &ways {
            let got = probabilities(sampling.clone(), &logits, &[]);
            let want = numbers(golden.tensor(&format!("sample.{way}")));
            let want: Vec<f64> = want.into_iter().map(f64::from).collect();
            assert_eq!(kept(&got), kept(&want), "{name}, {way}: kept");
            let off = worst(&got, &want);
            assert!(off <= 1e-6, "{name}, {way}: off by {off:.1e}");
        }
    }
}

fn read(settings: &Value) -> Sampling {
    let number = |key: &str| settings.get(key).and_then(Value::as_f64);
    let count = |key: &str| settings.get(key).and_then(Value::as_u64).map(|n| n as usize);
    let array = |key: &str| settings.get(key).and_then(Value::as_array).into_iter().flatten();
    let whole = |id: &Value| id.as_u64().expect("an id") as u32;
    let phrase = |one: &Value| one.as_array().expect("a list").iter().map(whole).collect();
    let phrases = array("bad_words").map(phrase);
    Sampling {
        temperature: number("temperature").unwrap_or(1.0),
        top_k: count("top_k"),
        top_p: number("top_p"),
        min_p: number("min_p"),
        repetition_penalty: number("repetition_penalty").unwrap_or(1.0),
        no_repeat_ngram: count("no_repeat_ngram").unwrap_or(0),
        forbidden: array("suppressed").map(|id| vec![whole(id)]).chain(phrases).collect(),
    }
}

#[test]
fn as_the_logits_processors_of_transformers() {
    let text = std::fs::read(fixture("sampling/expected.json")).expect("fixture");
    let cases: Vec<Value> = serde_json::from_slice(&text).expect("JSON");
    assert_eq!(cases.len(), 43);
    for case in cases {
        let list = |key: &str| case[key].as_array().expect("a list").iter();
        let logits: Vec<f32> =
            list("logits").map(|l| l.as_f64().map_or(NONE, |l| l as f32)).collect();
        let so_far: Vec<u32> = list("so_far").map(|id| id.as_u64().expect("id") as u32).collect();
        let want: Vec<f64> = list("probabilities").map(|p| p.as_f64().expect("number")).collect();
        let got = probabilities(read(&case["settings"]), &logits, &so_far);
        assert_eq!(kept(&got), kept(&want), "{}: kept", case["settings"]);
        let off = worst(&got, &want);
        assert!(off <= 1e-12, "{}: off by {off:.1e}", case["settings"]);
    }
}

/// Four equal probabilities of exactly a quarter: what lies on the boundary is decided by ids.
#[test]
fn top_p_on_the_boundary() {
    let kept_at =
        |p: f64| kept(&probabilities(Sampling { top_p: Some(p), ..heat(1.0) }, &[0.0; 4], &[]));
    assert_eq!(kept_at(0.0), [0]);
    assert_eq!(kept_at(0.25), [0]);
    assert_eq!(kept_at(0.250001), [0, 1]);
    assert_eq!(kept_at(0.5), [0, 1]);
    assert_eq!(kept_at(0.75), [0, 1, 2]);
    assert_eq!(kept_at(0.9), [0, 1, 2, 3]);
    assert_eq!(kept_at(1.0), [0, 1, 2, 3]);
}

#[test]
fn one_token_left_is_certain() {
    let logits = [NONE, NONE, -40.0, NONE];
    for sampling in [
        heat(0.0),
        heat(1e-300),
        heat(1e300),
        Sampling { top_k: Some(9), top_p: Some(0.1), min_p: Some(1.0), ..heat(0.5) },
    ] {
        let choice = sampler(sampling).choose(&logits, &[]).expect("choice");
        assert_eq!((choice.id, choice.probability, choice.entropy), (2, 1.0, 0.0));
        assert!(choice.alternatives.is_empty());
    }
}

#[test]
fn no_token_left_or_no_number_is_refused() {
    let refused = |sampling: Sampling, logits: &[f32]| {
        let mut sampler = sampler(sampling);
        let error = sampler.choose(logits, &[0, 1]).expect_err("must be refused");
        assert!(sampler.probabilities(logits, &[0, 1]).is_err());
        error.to_string()
    };
    assert!(refused(heat(1.0), &[NONE; 3]).ends_with("none among 3"));
    assert!(refused(heat(0.0), &[]).ends_with("none among 0"));
    let all = Sampling { no_repeat_ngram: 1, forbidden: vec![vec![2]], ..heat(1.0) };
    assert!(refused(all, &[0.0; 3]).ends_with("none among 3"));
    assert!(refused(heat(1.0), &[0.0, f32::NAN]).ends_with("NaN for token 1"));
    assert!(refused(heat(0.0), &[f32::INFINITY, 0.0]).ends_with("inf for token 0"));
}

#[test]
fn numbers_out_of_range_name_their_flag() {
    let plain = Sampling::default();
    let cases = [
        ("--temperature", heat(-0.1)),
        ("--temperature", heat(f64::NAN)),
        ("--temperature", heat(f64::INFINITY)),
        ("--top-k", Sampling { top_k: Some(0), ..plain.clone() }),
        ("--top-p", Sampling { top_p: Some(1.01), ..plain.clone() }),
        ("--top-p", Sampling { top_p: Some(-0.5), ..plain.clone() }),
        ("--top-p", Sampling { top_p: Some(f64::NAN), ..plain.clone() }),
        ("--min-p", Sampling { min_p: Some(2.0), ..plain.clone() }),
        ("--repetition-penalty", Sampling { repetition_penalty: 0.0, ..plain.clone() }),
        ("--repetition-penalty", Sampling { repetition_penalty: f64::INFINITY, ..plain }),
    ];
    for (flag, sampling) in cases {
        let error = Sampler::new(sampling, 0).expect_err("must be refused");
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().starts_with(&format!("{flag}: expected ")), "{error}");
    }
}

const ROW: [f32; 8] = [0.3, 2.0, -1.0, 1.7, 1.7, 0.0, -4.0, 1.2];

#[test]
fn a_choice_says_where_it_comes_from() {
    let own = probabilities(heat(1.0), &ROW, &[]);
    let entropy: f64 = own.iter().map(|p| -p * p.ln()).sum();
    // greedy draws nothing, and reports the distribution that it took the likeliest of
    let choice = sampler(Sampling::greedy()).alternatives(3).choose(&ROW, &[]).expect("choice");
    assert_eq!((choice.id, choice.probability), (1, own[1]));
    assert!((choice.entropy - entropy).abs() < 1e-12);
    assert_eq!(choice.alternatives, [(3, own[3]), (4, own[4]), (7, own[7])]);
    // a draw, whatever it took, is not among its alternatives
    let mut sampler = sampler(Sampling { top_k: Some(3), ..heat(0.7) });
    let drawn_from = sampler.probabilities(&ROW, &[]).expect("probabilities");
    for _ in 0..20 {
        let choice = sampler.choose(&ROW, &[]).expect("choice");
        assert_eq!(choice.probability, drawn_from[choice.id as usize]);
        let others: Vec<u32> = choice.alternatives.iter().map(|(id, _)| *id).collect();
        let want: Vec<u32> = [1, 3, 4].into_iter().filter(|&id| id != choice.id).collect();
        assert_eq!(others, want);
    }
}

#[test]
fn low_temperatures_approach_the_likeliest() {
    let greedy = probabilities(heat(0.0), &ROW, &[]);
    let mut before = f64::INFINITY;
    for temperature in [1.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-10, 1e-310] {
        let off = worst(&probabilities(heat(temperature), &ROW, &[]), &greedy);
        assert!(off <= before, "temperature {temperature}");
        before = off;
    }
    assert_eq!(before, 0.0);
    // of two that tie, greedy takes the first; no temperature separates them
    let tied = [0.0, 5.0, 5.0];
    assert_eq!(probabilities(heat(0.0), &tied, &[]), [0.0, 1.0, 0.0]);
    assert_eq!(probabilities(heat(1e-9), &tied, &[]), [0.0, 0.5, 0.5]);
}

fn draws(seed: u64, count: usize) -> Vec<u32> {
    let mut sampler = Sampler::new(heat(1.3), seed).expect("sampling");
    (0..count).map(|_| sampler.choose(&ROW, &[]).expect("choice").id).collect()
}

#[test]
fn the_same_seed_draws_the_same() {
    assert_eq!(draws(3, 200), draws(3, 200));
    assert_ne!(draws(3, 200), draws(4, 200));
    assert_ne!(draws(0, 200), draws(u64::MAX, 200));
    // a copy goes on where the original stood
    let mut first = Sampler::new(heat(1.3), 3).expect("sampling");
    first.choose(&ROW, &[]).expect("choice");
    let mut copy = first.clone();
    let next = |sampler: &mut Sampler| sampler.choose(&ROW, &[]).expect("choice");
    for _ in 0..50 {
        assert_eq!(next(&mut first), next(&mut copy));
    }
}

/// On every machine and with every later version: texts that a seed gave can be had again.
#[test]
fn the_draws_of_seed_42() {
    assert_eq!(draws(42, 12), [3, 3, 4, 3, 0, 3, 4, 5, 1, 0, 7, 3]);
}

/// Pearson's test with the classes of the soft-max itself; a sampler that is right fails at this
/// threshold once in ten thousand seeds, and the seed is fixed.
#[test]
fn draws_follow_the_soft_max() {
    const DRAWS: usize = 20_000;
    let logits: Vec<f32> = (0..30).map(|i| ((i * 7 % 30) as f32 / 8.0).sin() * 2.5).collect();
    for (seed, temperature) in [0.5, 0.7, 1.0, 2.0].into_iter().enumerate() {
        let mut sampler = Sampler::new(heat(temperature), seed as u64).expect("sampling");
        let mut counts = vec![0usize; logits.len()];
        for _ in 0..DRAWS {
            counts[sampler.choose(&logits, &[]).expect("choice").id as usize] += 1;
        }
        let weights: Vec<f64> =
            logits.iter().map(|&l| (f64::from(l) / temperature).exp()).collect();
        let sum: f64 = weights.iter().sum();
        let expected = weights.iter().map(|w| DRAWS as f64 * w / sum);
        // classes of fewer than five are too small for the approximation: together
        let (mut statistic, mut classes, mut rest) = (0.0, 0, (0.0, 0.0));
        for (&count, expected) in counts.iter().zip(expected) {
            if expected < 5.0 {
                rest = (rest.0 + count as f64, rest.1 + expected);
            } else {
                statistic += (count as f64 - expected).powi(2) / expected;
                classes += 1;
            }
        }
        if rest.1 >= 5.0 {
            statistic += (rest.0 - rest.1).powi(2) / rest.1;
            classes += 1;
        }
        assert!(classes > 15, "temperature {temperature}: {classes} classes");
        let p = ChiSquared::new(f64::from(classes - 1)).expect("freedom").sf(statistic);
        assert!(p > 1e-4, "temperature {temperature}: chi-square {statistic:.1}, p {p:.1e}");
    }
}
