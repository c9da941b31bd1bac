//! Filling masks: against transformers, and by taking the same steps by hand.

mod common;

use attnviz::decode::{Candidates, Filler, Order, Sampler, Sampling};
use attnviz::tokens::{Batch, Encoding, Input, Limit};
use attnviz::{Model, Recorder};
use common::kinds::checkpoint;
use common::{fixture, open};
use serde_json::Value;

const TEXT: &str = "The [MASK] sat on the [MASK].";

fn tiny(name: &str) -> Model {
    open(&fixture("fill").join(name), None).expect("loads")
}

fn encode(model: &Model, input: &Input) -> Encoding {
    let tokenizer = model.tokenizer().expect("tokenizer");
    tokenizer.encode(input, &Limit::default()).expect("encodes")
}

fn text(text: &str) -> Input {
    Input::Text(text.into())
}

fn ids(encoding: &Encoding) -> Vec<u32> {
    encoding.tokens.iter().map(|token| token.id.expect("id")).collect()
}

fn numbers(value: &Value) -> Vec<u32> {
    value.as_array().expect("list").iter().map(|id| id.as_u64().expect("id") as u32).collect()
}

/// `[ids, scores]` per mask.
fn hold(what: &str, got: &[Candidates], want: &Value) {
    assert_eq!(got.len(), want.as_array().expect("masks").len(), "{what}");
    for (got, want) in got.iter().zip(want.as_array().expect("masks")) {
        let (ids, scores): (Vec<u32>, Vec<f64>) = got.tokens.iter().copied().unzip();
        assert_eq!(ids, numbers(&want[0]), "{what}, position {}", got.position);
        for (got, want) in scores.iter().zip(want[1].as_array().expect("scores")) {
            let off = (got - want.as_f64().expect("score")).abs();
            assert!(off <= 1e-5, "{what}: off by {off:.1e}");
        }
    }
}

/// Candidates, lens and both orders for every text of every family, in the order in which they
/// depend on each other.
#[test]
fn as_transformers_fills_them() {
    let expected = std::fs::read(fixture("fill/expected.json")).expect("fixture");
    let expected: Value = serde_json::from_slice(&expected).expect("JSON");
    let mut compared = 0;
    for (name, cases) in expected.as_object().expect("families") {
        let model = tiny(name);
        let filler = Filler::new(&model).expect("a masked LM");
        for case in cases.as_array().expect("cases") {
            let input = match &case["text"] {
                Value::String(one) => text(one),
                pair => {
                    Input::Pair(pair[0].as_str().unwrap().into(), pair[1].as_str().unwrap().into())
                }
            };
            let what = |part: &str| format!("{name}, {}, {part}", case["text"]);
            let encoding = encode(&model, &input);
            assert_eq!(ids(&encoding), numbers(&case["ids"]), "{}", what("ids"));
            let masks: Vec<u32> =
                filler.masks(&encoding).expect("masks").iter().map(|&mask| mask as u32).collect();
            assert_eq!(masks, numbers(&case["masks"]), "{}", what("masks"));
            let plain = Sampling::greedy();
            let candidates = filler.candidates(&encoding, &plain, 5).expect("candidates");
            if let Some(want) = case.get("fill_mask") {
                hold(&what("candidates"), &candidates, want);
                compared += 1;
            }
            let lens = filler.lens(&encoding, &plain, 5).expect("lens");
            let layers = case["lens"].as_array().expect("layers");
            assert_eq!(lens.len(), layers.len());
            for (reading, want) in lens.iter().zip(layers) {
                hold(&what(&format!("layer {:?}", reading.layer)), &reading.masks, want);
            }
            for (order, name) in Order::NAMES.map(|(name, order)| (order, name)) {
                let mut sampler = Sampler::new(plain.clone(), 0).expect("sampling");
                let filled = filler.fill(&encoding, order, 0, &mut sampler).expect("filled");
                let want = &case["filled"][name];
                assert_eq!(filled.ids, numbers(&want[0]), "{}", what(name));
                let steps = filled.steps.iter().map(|s| vec![s.position as u32, s.choice.id]);
                let want = want[1].as_array().expect("steps").iter().map(numbers);
                assert!(steps.eq(want), "{}", what(name));
            }
        }
    }
    assert_eq!(compared, 8);
}

/// One run of the model and its head, with nothing of what is tested.
fn by_hand(model: &Model, ids: &[u32], position: usize) -> Vec<f32> {
    let shape = (1, ids.len());
    let row = ndarray::Array2::from_shape_vec(shape, ids.to_vec()).expect("ids");
    let batch = Batch::from_ids(row, ndarray::Array2::ones(shape));
    let hidden = model.forward(&batch, &mut Recorder::new(), &[]).expect("forward");
    let logits = model.head(&hidden, &batch).expect("head").logits.expect("logits");
    let mut row: Vec<f32> = logits.to_vec3().expect("logits")[0][position].clone();
    for never in [0, 2, 3, 4] {
        row[never] = f32::NEG_INFINITY; // [PAD], [CLS], [SEP], [MASK]
    }
    row
}

#[test]
fn draws_are_those_of_a_hand_made_run() {
    let model = tiny("bert");
    let filler = Filler::new(&model).expect("a masked LM");
    let encoding = encode(&model, &text("[MASK] sat on the [MASK] [MASK]."));
    let masks = filler.masks(&encoding).expect("masks");
    assert_eq!(masks, [1, 5, 6]);
    let sampling = Sampling { temperature: 1.4, top_p: Some(0.95), ..Sampling::default() };
    let iterations = 3;
    let mut got = Sampler::new(sampling.clone(), 9).expect("sampling");
    let got = filler.fill(&encoding, Order::LeftToRight, iterations, &mut got).expect("filled");

    let mut sampler = Sampler::new(sampling, 9).expect("sampling");
    let mut want = ids(&encoding);
    let mut steps = got.steps.iter();
    for iteration in 0..=iterations {
        for &position in &masks {
            want[position] = 4;
            let row = by_hand(&model, &want, position);
            let choice = sampler.choose(&row, &[]).expect("choice");
            want[position] = choice.id;
            let step = steps.next().expect("a step");
            assert_eq!((step.position, step.iteration), (position, iteration));
            assert_eq!(step.choice.id, choice.id);
            assert!((step.choice.probability - choice.probability).abs() < 1e-6);
        }
    }
    assert!(steps.next().is_none());
    assert_eq!(got.ids, want);
    // rewriting did rewrite
    assert!(got.steps[3..].iter().zip(&got.steps).any(|(new, old)| new.choice.id != old.choice.id));
}

#[test]
fn the_most_confident_mask_is_taken_first() {
    let model = tiny("bert");
    let filler = Filler::new(&model).expect("a masked LM");
    let encoding = encode(&model, &text("[MASK] cat [MASK] on [MASK] mat [MASK]"));
    let mut sampler =
        Sampler::new(Sampling { temperature: 2.0, ..Sampling::default() }, 4).unwrap();
    let filled = filler.fill(&encoding, Order::Confident, 0, &mut sampler).expect("filled");
    let mut text = ids(&encoding);
    let mut open = filler.masks(&encoding).expect("masks");
    for step in &filled.steps {
        let confidence = |&position: &usize| {
            let row = by_hand(&model, &text, position);
            let most = row.iter().copied().fold(f32::MIN, f32::max);
            1.0 / row.iter().map(|logit| f64::from(logit - most).exp()).sum::<f64>()
        };
        let all: Vec<f64> = open.iter().map(confidence).collect();
        let most = all.iter().copied().fold(0.0, f64::max);
        let at = open.iter().position(|&position| position == step.position).expect("open");
        assert_eq!(all[at], most);
        open.remove(at);
        text[step.position] = step.choice.id;
    }
    assert!(open.is_empty());
    assert_eq!(filled.ids, text);
}

#[test]
fn the_same_seed_fills_the_same() {
    let model = tiny("bert");
    let filler = Filler::new(&model).expect("a masked LM");
    let encoding = encode(&model, &text(TEXT));
    let run = |seed, count: usize| {
        let mut sampler =
            Sampler::new(Sampling { temperature: 2.0, ..Sampling::default() }, seed).unwrap();
        let one = |_| filler.fill(&encoding, Order::LeftToRight, 1, &mut sampler).expect("filled");
        (0..count).map(one).collect::<Vec<_>>()
    };
    let ten = run(1, 10);
    assert_eq!(run(1, 10), ten);
    assert_eq!(run(1, 3), ten[..3]); // more samples do not change the first ones
    assert_ne!(run(2, 10), ten);
    assert!(ten.windows(2).any(|pair| pair[0].ids != pair[1].ids));
}

/// However flat the distribution, the sentence keeps its form.
#[test]
fn special_tokens_are_never_taken() {
    let model = tiny("bert");
    let filler = Filler::new(&model).expect("a masked LM");
    let encoding = encode(&model, &text(&"[MASK] ".repeat(30)));
    let sampling = Sampling { temperature: 1e3, ..Sampling::default() };
    let mut sampler = Sampler::new(sampling, 0).expect("sampling");
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..10 {
        let filled = filler.fill(&encoding, Order::LeftToRight, 0, &mut sampler).expect("filled");
        seen.extend(filled.steps.iter().map(|step| step.choice.id));
    }
    assert!([0, 2, 3, 4].iter().all(|id| !seen.contains(id)), "{seen:?}");
    assert!(seen.len() > 40, "{seen:?}");
}

const FAMILIES: [(&str, &str); 9] = [
    ("bert_mlm", "bert"),
    ("roberta_mlm", "roberta"),
    ("camembert_mlm", "camembert"),
    ("distilbert_mlm", "bert, cased"),
    ("albert_mlm", "albert"),
    ("modernbert_mlm", "modernbert"),
    ("longformer_mlm", "longformer, offsets not trimmed"),
    ("../options/electra_generator", "bert"),
    ("../options/deberta_mlm", "deberta-v2"),
];

/// The last layer's reading is what the model itself says, whatever norms, projections and
/// embeddings a family has; and every mask is filled.
#[test]
fn every_family_fills_and_reads_its_last_layer_as_its_own_answer() {
    for (golden, kind) in FAMILIES {
        let folder = checkpoint(golden, kind);
        let model = open(folder.path(), None).expect("loads");
        let filler = Filler::new(&model).expect("a masked LM");
        let input = filler.with_own_mask(&text(TEXT)).unwrap_or_else(|| text(TEXT));
        let encoding = encode(&model, &input);
        let sampling = Sampling { temperature: 0.6, top_p: Some(0.9), ..Sampling::default() };
        let own = filler.candidates(&encoding, &sampling, 12).expect("candidates");
        let lens = filler.lens(&encoding, &sampling, 12).expect("lens");
        let layers: Vec<Option<usize>> = lens.iter().map(|reading| reading.layer).collect();
        let all = std::iter::once(None).chain((0..model.config().layers()).map(Some));
        assert_eq!(layers, all.collect::<Vec<_>>(), "{golden}");
        let last = &lens[lens.len() - 1].masks;
        assert_eq!(own.len(), 2, "{golden}");
        for (own, last) in own.iter().zip(last) {
            assert!((own.entropy - last.entropy).abs() < 1e-5, "{golden}");
            for ((id, p), (other, q)) in own.tokens.iter().zip(&last.tokens) {
                assert_eq!(id, other, "{golden}");
                assert!((p - q).abs() < 1e-5, "{golden}: {p} {q}");
            }
        }
        assert_ne!(lens[0].masks[0].tokens, last[0].tokens, "{golden}");
        for order in [Order::LeftToRight, Order::Confident] {
            let mut sampler = Sampler::new(sampling.clone(), 1).expect("sampling");
            let filled = filler.fill(&encoding, order, 1, &mut sampler).expect("filled");
            let changed = ids(&encoding).iter().zip(&filled.ids).filter(|(a, b)| a != b).count();
            assert_eq!((filled.steps.len(), changed), (4, 2), "{golden}");
            let spelt = filler.spell(&encoding, &filled.ids).concat();
            assert!(!spelt.contains(&filler.mask()) && spelt.contains("sat on the"), "{spelt}");
        }
    }
}

#[test]
fn global_tokens_are_those_asked_for() {
    let folder = checkpoint("longformer_mlm", "longformer, offsets not trimmed");
    let model = open(folder.path(), None).expect("loads");
    let encoding = encode(&model, &text("The <mask> sat on the <mask>."));
    let mut marked = encoding.clone();
    marked.global = Some(vec![2]);
    let filler = Filler::new(&model).expect("a masked LM");
    let mut mark = ndarray::Array2::zeros((1, encoding.len()));
    mark[(0, 2)] = 1;
    let batch = Batch { global: Some(mark), ..Batch::new(std::slice::from_ref(&encoding), 1) };
    let hidden = model.forward(&batch, &mut Recorder::new(), &[]).expect("forward");
    let logits = model.head(&hidden, &batch).expect("head").logits.expect("logits");
    let rows = &logits.to_vec3::<f32>().expect("logits")[0];
    let own = Sampler::new(Sampling::default(), 0).expect("sampling");
    let candidates = |encoding: &Encoding| {
        filler.candidates(encoding, &Sampling::default(), 3).expect("candidates")
    };
    for (got, without) in candidates(&marked).iter().zip(&candidates(&encoding)) {
        let want = own.probabilities(&rows[got.position], &[]).expect("probabilities");
        for (id, p) in &got.tokens {
            assert!((p - want[*id as usize]).abs() < 1e-6);
        }
        assert_ne!(got.entropy, without.entropy);
    }
    let lens = filler.lens(&marked, &Sampling::default(), 3).expect("lens");
    let off = lens[lens.len() - 1].masks[0].entropy - candidates(&marked)[0].entropy;
    assert!(off.abs() < 1e-6, "{off}");
}

fn spelt(name: &str, typed: &str, words: &[&str]) -> String {
    let model = tiny(name);
    let filler = Filler::new(&model).expect("a masked LM");
    let encoding = encode(&model, &text(typed));
    let tokenizer = model.tokenizer().expect("tokenizer");
    let id = |word: &str| {
        let all = 0..tokenizer.vocab_size() as u32;
        all.into_iter().find(|&id| tokenizer.piece(id).as_deref() == Some(word)).expect("a piece")
    };
    let mut ids = ids(&encoding);
    for (position, word) in filler.masks(&encoding).expect("masks").into_iter().zip(words) {
        ids[position] = id(word);
    }
    filler.spell(&encoding, &ids).concat()
}

#[test]
fn filled_texts_are_spelt_as_typed() {
    assert_eq!(spelt("bert", TEXT, &["cat", "mat"]), "The cat sat on the mat.");
    assert_eq!(spelt("bert", "The Quick [MASK], ok", &["##ly"]), "The Quickly, ok");
    assert_eq!(spelt("bert", "[MASK] [MASK] ran", &["play", "##ing"]), "playing ran");
    assert_eq!(spelt("bert", "[MASK]", &["##s"]), "s");
    // pieces that bring their space along, or do not
    assert_eq!(spelt("roberta", "A<mask> day <mask>s", &["Ġthe", "ing"]), "A the day ings");
    assert_eq!(spelt("roberta", "<mask> day", &["Ġthe"]), "the day");
    // this mask leaves the space before it a token, the next one takes it along
    assert_eq!(spelt("roberta", "A <mask> day", &["ing"]), "A ing day");
    assert_eq!(spelt("modernbert", "A [MASK] day", &["ing"]), "Aing day");
    assert_eq!(spelt("modernbert", "A [MASK] day", &["Ġthe"]), "A the day");
}

#[test]
fn another_models_mask_is_understood() {
    let roberta = tiny("roberta");
    let filler = Filler::new(&roberta).expect("a masked LM");
    assert_eq!(filler.mask(), "<mask>");
    let own = |input: &Input| filler.with_own_mask(input);
    assert_eq!(own(&text("a [MASK], [MASK]")), Some(text("a <mask>, <mask>")));
    assert_eq!(own(&text("<mask> is [MASK]")), None); // typed as text
    assert_eq!(own(&text("no mask")), None);
    let pair = |a: &str, b: &str| Input::Pair(a.into(), b.into());
    assert_eq!(own(&pair("a", "[MASK]")), Some(pair("a", "<mask>")));
    assert_eq!(own(&pair("<mask>", "[MASK]")), None);
    let words = |list: &[&str]| Input::Words(list.iter().map(|&word| word.to_owned()).collect());
    assert_eq!(own(&words(&["a", "[MASK]"])), Some(words(&["a", "<mask>"])));
}

#[test]
fn what_cannot_be_filled_is_refused() {
    let model = tiny("bert");
    let filler = Filler::new(&model).expect("a masked LM");
    let error = filler.masks(&encode(&model, &text("The cat sat"))).expect_err("no mask");
    assert_eq!(error.exit_code(), 5);
    assert_eq!(error.to_string(), "text: no mask in it; write [MASK] where a word is missing");

    let refuse = |folder: &str, want: &str| {
        let model = open(&fixture("goldens").join(folder), None).expect("loads");
        let error = Filler::new(&model).err().expect("must be refused");
        assert_eq!(error.exit_code(), 4);
        assert!(error.to_string().contains(want), "{error}");
    };
    refuse("bert_seqcls", "no masked-LM head to fill masks with, it is of the kind `sequence-");
    refuse("bert_model", "`encoder`; one that has it is bert-base-uncased");
    refuse("bert_mlm", "without a tokenizer");
    let words = checkpoint("bert_mlm", "words");
    let model = open(words.path(), None).expect("loads");
    let error = Filler::new(&model).err().expect("must be refused");
    assert!(error.to_string().ends_with(": the tokenizer has no mask token"), "{error}");
}
