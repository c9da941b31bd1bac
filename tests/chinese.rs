//! bert-base-chinese and hfl/chinese-roberta-wwm-ext in small: their config keys, their vocabulary
//! of single characters, their old pickle. `fixtures/chinese/make.py` made the values.

mod common;

use attnviz::Site;
use attnviz::analysis::merge_words;
use attnviz::tokens::{Batch, Input, Limit, Spans};
use common::{Golden, fixture, open, record, worst};

const TEXT: &str = "那只动物没有过马路，因为它太累了";

#[test]
fn a_checkpoint_like_bert_base_chinese() {
    let golden = Golden::at(fixture("chinese"));
    let model = open(&golden.folder, None).expect("loads");
    let unknown = model.report().notes.iter().find(|note| note.contains("unknown key"));
    assert!(unknown.is_none(), "{unknown:?}");
    let tokenizer = model.tokenizer().expect("tokenizer");
    let input = Input::Text(TEXT.into());
    let encoding = tokenizer.encode(&input, &Limit::default()).expect("encodes");
    let batch = Batch::new(std::slice::from_ref(&encoding), tokenizer.pad_id());
    assert_eq!(batch.ids, golden.ids("input_ids"));
    assert!(encoding.unknown().is_none());
    let run = record(&model, &batch, &[]);
    for layer in 0..2 {
        let want = golden.tensor(&format!("attentions.{layer}"));
        let off = worst(run.kept(layer, Site::Probs), want, Some(2), &batch.mask);
        assert!(off <= 1e-5, "layer {layer}: off by {off:.1e}");
    }
    let logits = model.head(&run.hidden, &batch).expect("head").logits.expect("logits");
    let off = worst(&logits, golden.tensor("logits"), Some(1), &batch.mask);
    assert!(off <= 1e-5, "logits: off by {off:.1e}");
}

/// Each character is a token; the words are those that the user gives.
#[test]
fn words_by_spans_where_a_character_is_a_token() {
    let model = open(&fixture("chinese"), None).expect("loads");
    let tokenizer = model.tokenizer().expect("tokenizer");
    let input = Input::Text(TEXT.into());
    let mut encoding = tokenizer.encode(&input, &Limit::default()).expect("encodes");
    assert_eq!(encoding.len(), TEXT.chars().count() + 2);
    let spans: Spans = "[[0,2],[2,4],[4,6],[6,7],[7,9],[9,10],[10,12],[12,13],[13,14],[14,16]]"
        .parse()
        .expect("spans");
    spans.apply(&mut encoding).expect("fits");
    assert_eq!(encoding.words(0)[..2], ["那只", "动物"]);
    let batch = Batch::new(std::slice::from_ref(&encoding), tokenizer.pad_id());
    let run = record(&model, &batch, &[]);
    let stack = attnviz::Stack::Encoder;
    let attention = run.trace.attention(stack, 0, &encoding.tokens, model.config());
    let attention = attention.expect("kept");
    let words = encoding.words(0);
    let merged = merge_words(&attention, |_, word| words.get(word).map(|w| w.to_string()));
    assert_eq!(merged.keys.len(), 12);
    assert_eq!(merged.keys[2].text, "动物");
    for head in &merged.heads {
        for row in head.weights.rows() {
            assert!((row.sum() - 1.0).abs() <= 1e-5);
        }
    }
}
