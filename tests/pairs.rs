//! Pairs, batches and padding in every family, tokenizer and model together.

mod common;

use attnviz::tokens::{Batch, Encoding, Input, Limit};
use attnviz::{Model, Stack};
use common::kinds::checkpoint;
use common::{Run, numbers, open, record};
use ndarray::{Array2, Axis, concatenate};

struct Family {
    golden: &'static str,
    tokenizer: &'static str,
    /// Special tokens, and the numbers of the texts.
    pair: &'static str,
    /// Whether the model has a type for the second text.
    typed: bool,
}

const BERT: &str = "[CLS] 0 [SEP] 1 [SEP]";
const ROBERTA: &str = "<s> 0 </s> </s> 1 </s>";

const FAMILIES: [Family; 11] = [
    family("bert_model", "bert", BERT, true),
    family("roberta_mlm", "roberta", ROBERTA, false),
    family("xlm_roberta", "xlm-roberta", ROBERTA, false),
    family("camembert_mlm", "camembert", ROBERTA, false),
    family("distilbert_mlm", "bert, cased", BERT, false),
    family("albert_mlm", "albert", BERT, true),
    family("electra_model", "bert", BERT, true),
    family("mpnet_model", "mpnet", ROBERTA, false),
    family("deberta_v2_model", "deberta-v2", BERT, false),
    family("modernbert_mlm", "modernbert", BERT, false),
    family("longformer_mlm", "longformer, offsets not trimmed", ROBERTA, false),
];

const fn family(
    golden: &'static str,
    tokenizer: &'static str,
    pair: &'static str,
    typed: bool,
) -> Family {
    Family { golden, tokenizer, pair, typed }
}

impl Family {
    fn open(&self) -> Model {
        let folder = checkpoint(self.golden, self.tokenizer);
        open(folder.path(), None).unwrap_or_else(|error| panic!("{}: {error}", self.golden))
    }
}

/// As the command line reads an input.
fn encode(model: &Model, input: &Input) -> Encoding {
    let tokenizer = model.tokenizer().expect("tokenizer");
    let mut encoding = tokenizer.encode(input, &Limit::default()).expect("encodes");
    encoding.limit_types(model.config().type_vocab_size);
    encoding.check_ids(model.config().vocab_size).expect("known");
    encoding
}

fn inputs() -> [Input; 4] {
    let pair = |a: &str, b: &str| Input::Pair(a.into(), b.into());
    [
        Input::Text("walk".into()),
        pair("the cat", "walking home again"),
        pair("hello world, the animal", "a"),
        Input::Text("can the text be a long one".into()),
    ]
}

#[test]
fn pairs_have_the_separators_and_types_of_their_family() {
    for family in FAMILIES {
        let (model, name) = (family.open(), family.golden);
        let got = encode(&model, &Input::Pair("the cat".into(), "walking home".into()));
        let mut parts: Vec<String> = Vec::new();
        for token in &got.tokens {
            let part = token.sequence.map_or(token.text.clone(), |sequence| sequence.to_string());
            if token.special || parts.last() != Some(&part) {
                parts.push(part);
            }
        }
        assert_eq!(parts.join(" "), family.pair, "{name}");
        assert_eq!((got.words(0), got.words(1)), (vec!["the", "cat"], vec!["walking", "home"]));
        // from the second text to the end, its separator included
        let second = got.tokens.iter().position(|token| token.sequence == Some(1));
        let ones = got.tokens.iter().position(|token| token.type_id == 1);
        assert_eq!(ones, second.filter(|_| family.typed), "{name}");
        let last = got.tokens.last().map(|token| token.type_id);
        assert_eq!(last, Some(u32::from(family.typed)), "{name}");

        let batch = Batch::new(std::slice::from_ref(&got), 0);
        let zeros = Batch { type_ids: Array2::zeros(batch.ids.dim()), ..batch.clone() };
        let (run, untyped) = (record(&model, &batch, &[]), record(&model, &zeros, &[]));
        let same = numbers(&run.hidden) == numbers(&untyped.hidden);
        assert_eq!(same, !family.typed, "{name}: types reach the model where it has them");

        let empty = Input::Pair("walk".into(), " ".into());
        let tokenizer = model.tokenizer().expect("tokenizer");
        let error = tokenizer.encode(&empty, &Limit::default()).unwrap_err();
        assert!(error.to_string().starts_with("text_b: only whitespace"), "{name}: {error}");
    }
}

/// Everything of one example that a person gets to see.
fn seen(model: &Model, run: &Run, example: usize, encoding: &Encoding) -> Vec<f32> {
    let hidden = run.hidden.get(example).and_then(|t| t.narrow(0, 0, encoding.len()));
    let mut all = numbers(&hidden.expect("example"));
    let attention = run.trace.attention(Stack::Encoder, example, &encoding.tokens, model.config());
    let attention = attention.expect("kept");
    let tokens = encoding.len();
    for head in &attention.heads {
        assert_eq!(head.weights.dim(), (tokens, tokens), "padding is cut");
        for row in head.weights.rows() {
            assert!((row.sum() - 1.0).abs() <= 1e-5);
        }
        all.extend(&head.weights);
    }
    all
}

fn off(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    assert!(a.iter().chain(b).all(|x| x.is_finite()));
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn a_batch_equals_its_members_alone() {
    for family in FAMILIES {
        let model = family.open();
        let pad = model.tokenizer().expect("tokenizer").pad_id();
        let encodings = inputs().map(|input| encode(&model, &input));
        let together = record(&model, &Batch::new(&encodings, pad), &[]);
        for (example, encoding) in encodings.iter().enumerate() {
            let alone = Batch::new(std::slice::from_ref(encoding), pad);
            let alone = seen(&model, &record(&model, &alone, &[]), 0, encoding);
            let off = off(&seen(&model, &together, example, encoding), &alone);
            assert!(off <= 1e-5, "{}, input {example}: off by {off:.1e}", family.golden);
        }
    }
}

/// Longformer with global tokens of one text's own choice, of another's and of none's.
#[test]
fn global_tokens_belong_to_their_text() {
    let family = FAMILIES.last().expect("families");
    let model = family.open();
    let pad = model.tokenizer().expect("tokenizer").pad_id();
    let mut encodings = inputs().map(|input| encode(&model, &input));
    assert_eq!(Batch::new(&encodings, pad).global, None);
    encodings[1].global = Some(vec![0, 2]);
    encodings[2].global = Some(Vec::new());
    encodings[3].global = Some(vec![1, 999]); // beyond the text: nothing
    let batch = Batch::new(&encodings, pad);
    let marks = batch.global.clone().expect("marks");
    assert_eq!(marks.rows().into_iter().map(|row| row.sum()).collect::<Vec<_>>(), [0, 2, 0, 1]);
    let left = Batch::padded_left(&encodings, pad);
    let widest = batch.ids.ncols();
    assert_eq!(left.global.expect("marks")[(1, widest - encodings[1].len() + 2)], 1);
    let together = record(&model, &batch, &[]);
    for (example, encoding) in encodings.iter().enumerate() {
        let alone = Batch::new(std::slice::from_ref(encoding), pad);
        let alone = seen(&model, &record(&model, &alone, &[]), 0, encoding);
        let off = off(&seen(&model, &together, example, encoding), &alone);
        assert!(off <= 1e-5, "input {example}: off by {off:.1e}");
    }
    let mut plain = encodings[1].clone();
    plain.global = None;
    let plain = Batch::new(std::slice::from_ref(&plain), pad);
    let plain = seen(&model, &record(&model, &plain, &[]), 0, &encodings[1]);
    assert!(off(&plain, &seen(&model, &together, 1, &encodings[1])) > 1e-3);
}

#[test]
fn padding_changes_nothing_however_much_there_is() {
    for family in FAMILIES {
        let model = family.open();
        let pad = model.tokenizer().expect("tokenizer").pad_id();
        let encoding = encode(&model, &inputs()[1]);
        let plain = Batch::new(std::slice::from_ref(&encoding), pad);
        let want = seen(&model, &record(&model, &plain, &[]), 0, &encoding);
        for more in [1, 5, 17] {
            let wider = |array: &Array2<u32>, fill: u32| {
                let filled = Array2::from_elem((1, more), fill);
                concatenate(Axis(1), &[array.view(), filled.view()]).expect("one row")
            };
            let padded = Batch {
                ids: wider(&plain.ids, pad),
                mask: wider(&plain.mask, 0),
                type_ids: wider(&plain.type_ids, 0),
                global: None,
                lengths: plain.lengths.clone(),
            };
            let got = seen(&model, &record(&model, &padded, &[]), 0, &encoding);
            let off = off(&got, &want);
            assert!(off <= 1e-5, "{}, {more} more: off by {off:.1e}", family.golden);
        }
    }
}
