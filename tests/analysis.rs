//! Analyses on the attention of a real model (all-MiniLM-L6-v2, computed by transformers) and on
//! small matrices worked out by hand.

use attnviz::analysis::{Pattern, links, merge_words, patterns, shares, without_special};
use attnviz::{Attention, Head, HeadWeights, Token};
use ndarray::{Array2, array};
use safetensors::SafeTensors;

const GOLDEN: &str = "tests/fixtures/goldens/minilm_real/golden.safetensors";

/// The example sentence; "didn't" is one word of three pieces.
fn example() -> Attention {
    let words = [0, 1, 2, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10];
    let pieces = "the animal didn ' t cross the street because it was too tired".split(' ');
    let mut tokens = vec![special("[CLS]")];
    tokens.extend(pieces.zip(words).map(|(text, word)| typed(text, word)));
    tokens.push(special("[SEP]"));
    golden("text0.attentions", tokens)
}

fn golden(name: &str, tokens: Vec<Token>) -> Attention {
    let bytes = std::fs::read(GOLDEN).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let tensor = tensors.tensor(name).unwrap();
    let values: Vec<f32> = tensor
        .data()
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .collect();
    let &[layers, heads, rows, columns] = tensor.shape() else { panic!("four axes") };
    let matrices = values.chunks_exact(rows * columns).enumerate().map(|(i, m)| HeadWeights {
        head: Head { layer: i / heads, head: i % heads },
        weights: Array2::from_shape_vec((rows, columns), m.to_vec()).unwrap(),
    });
    Attention::new(tokens.clone(), tokens, matrices.collect(), vec![heads; layers]).unwrap()
}

fn typed(text: &str, word: usize) -> Token {
    Token { text: text.into(), sequence: Some(0), word: Some(word), ..Token::default() }
}

fn special(text: &str) -> Token {
    Token { text: text.into(), special: true, ..Token::default() }
}

/// One head over the given tokens.
fn single(tokens: Vec<Token>, weights: Array2<f32>) -> Attention {
    let head = HeadWeights { head: Head { layer: 0, head: 0 }, weights };
    Attention::new(tokens.clone(), tokens, vec![head], vec![1]).unwrap()
}

fn assert_rows_sum_to_one(attention: &Attention) {
    for one in &attention.heads {
        for row in one.weights.rows() {
            assert!((row.sum() - 1.0).abs() < 1e-5, "{}: {row}", one.head);
        }
    }
}

fn largest_links(attention: &Attention) -> Vec<String> {
    let name = |link: &attnviz::analysis::Link| {
        let (from, to) = (&attention.queries[link.query].text, &attention.keys[link.key].text);
        format!("{} {from} {to} {:.3}", link.head, link.weight)
    };
    links(attention).iter().take(8).map(name).collect()
}

#[test]
fn the_example_has_the_known_links() {
    let want = [
        "L2H0 too because 0.736",
        "L2H1 it tired 0.694",
        "L1H6 was because 0.686",
        "L1H4 the didn't 0.669", // the sum over three pieces
        "L5H11 it animal 0.647",
        "L3H1 it animal 0.640",
        "L2H3 it tired 0.620",
        "L1H7 it tired 0.584",
    ];
    assert_eq!(largest_links(&merge_words(&example(), |_, _| None)), want);
}

#[test]
fn a_link_is_between_different_words_that_are_not_neighbours() {
    let tokens: Vec<Token> =
        ["The", "cat", "saw", "the", "dog"].iter().zip(0..).map(|(t, w)| typed(t, w)).collect();
    let mut weights = Array2::from_elem((5, 5), 0.01);
    weights[[0, 0]] = 0.9; // itself
    weights[[0, 3]] = 0.8; // the same word elsewhere, in another case
    weights[[1, 2]] = 0.7; // a neighbour
    weights[[4, 1]] = 0.3; // dog → cat
    let found = links(&single(tokens.clone(), weights.clone()));
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].query, found[0].key, found[0].weight), (4, 1, 0.3));

    // in two texts, words one number apart are not neighbours
    let mut pair = tokens;
    for token in &mut pair[2..] {
        token.sequence = Some(1);
    }
    let found = links(&single(pair, weights));
    assert_eq!((found[0].query, found[0].key), (1, 2));
}

#[test]
fn links_leave_special_tokens_out_without_renormalising() {
    let tokens = vec![special("[CLS]"), typed("a", 0), typed("b", 1), typed("c", 2)];
    let weights = array![
        [0.1, 0.1, 0.7, 0.1_f32],
        [0.9, 0.0, 0.0, 0.1],
        [0.9, 0.1, 0.0, 0.0],
        [0.8, 0.15, 0.05, 0.0]
    ];
    let found = links(&single(tokens, weights));
    assert_eq!((found[0].query, found[0].key, found[0].weight), (3, 1, 0.15));
}

#[test]
fn nothing_to_link_is_an_empty_list() {
    let tokens = vec![special("[CLS]"), typed("a", 0), special("[SEP]")];
    assert!(links(&single(tokens, Array2::from_elem((3, 3), 1.0 / 3.0))).is_empty());
    let tokens: Vec<Token> = (0..3).map(|w| typed(&format!("w{w}"), w)).collect();
    assert!(links(&single(tokens, Array2::from_elem((3, 3), f32::NAN))).is_empty());
}

#[test]
fn words_sum_to_and_average_from() {
    let tokens = vec![typed("una", 0), typed("##ffa", 0), typed("!", 1)];
    let weights = array![[0.1, 0.2, 0.7_f32], [0.3, 0.3, 0.4], [0.25, 0.5, 0.25]];
    let words = merge_words(&single(tokens, weights), |_, _| None);
    assert_eq!(words.keys.iter().map(|t| t.text.as_str()).collect::<Vec<_>>(), ["unaffa", "!"]);
    let want = array![[0.45, 0.55_f32], [0.75, 0.25]];
    assert!((&words.heads[0].weights - &want).iter().all(|d| d.abs() < 1e-6));
}

#[test]
fn merged_rows_still_sum_to_one() {
    let words = merge_words(&example(), |_, _| None);
    assert_eq!(words.queries.len(), 13); // 11 words and two special tokens
    assert_eq!(words.queries[3].text, "didn't");
    assert_rows_sum_to_one(&words);
}

#[test]
fn a_literal_piece_marker_is_a_word_of_its_own() {
    let tokens = vec![typed("walk", 0), typed("##", 1), typed("ing", 2)];
    let words = merge_words(&single(tokens, Array2::from_elem((3, 3), 1.0 / 3.0)), |_, _| None);
    assert_eq!(words.queries.len(), 3);
}

#[test]
fn words_are_named_as_typed_and_unknown_ones_keep_their_mark() {
    let unknown = Token { unknown: Some("爱".into()), ..typed("[UNK]", 1) };
    let tokens = vec![special("[CLS]"), typed("cafe", 0), unknown];
    let attention = single(tokens, Array2::from_elem((3, 3), 1.0 / 3.0));
    let words = merge_words(&attention, |_, word| Some(["Café", "爱"][word].into()));
    assert_eq!(words.keys[0].text, "[CLS]");
    assert_eq!(words.keys[1].text, "Café");
    assert_eq!(words.keys[2].text, "[UNK]");
}

#[test]
fn repeated_words_stay_apart() {
    let tokens: Vec<Token> =
        "the the the cat".split(' ').zip(0..).map(|(t, w)| typed(t, w)).collect();
    let words = merge_words(&single(tokens, Array2::from_elem((4, 4), 0.25)), |_, _| None);
    assert_eq!(words.queries.len(), 4);
}

#[test]
fn without_special_renormalises_and_says_what_was_lost() {
    let attention = example();
    let typed = without_special(&attention);
    assert_eq!(typed.attention.queries.len(), 13);
    assert_rows_sum_to_one(&typed.attention);
    for (h, one) in attention.heads.iter().enumerate() {
        for row in 0..13 {
            let gone = one.weights[[row + 1, 0]] + one.weights[[row + 1, 14]];
            assert!((typed.lost[h][row] - gone).abs() < 1e-5, "{} row {row}", one.head);
        }
    }
}

#[test]
fn a_row_that_lost_everything_is_zero_and_says_so() {
    let tokens = vec![special("[CLS]"), typed("a", 0), typed("b", 1)];
    let weights = array![[1.0, 0.0, 0.0_f32], [1.0, 0.0, 0.0], [0.0, 0.5, 0.5]];
    let typed = without_special(&single(tokens, weights));
    assert_eq!(typed.attention.heads[0].weights, array![[0.0, 0.0_f32], [0.5, 0.5]]);
    assert_eq!(typed.lost, [[1.0, 0.0]]);
}

#[test]
fn the_previous_token_head_is_named() {
    let found = patterns(&example());
    let (_, pattern, share) =
        found.iter().find(|(head, ..)| *head == Head { layer: 0, head: 2 }).unwrap();
    assert_eq!(*pattern, Pattern::Previous);
    assert!(*share > 0.995, "{share}");
    assert!(found.len() < 72);
}

#[test]
fn shares_are_means_over_the_rows_that_have_the_place() {
    let tokens = vec![special("[CLS]"), typed("a", 0), special("[SEP]")];
    let weights = array![[0.2, 0.5, 0.3_f32], [0.6, 0.1, 0.3], [0.1, 0.8, 0.1]];
    let s = shares(&single(tokens, weights))[0];
    for (got, want) in [
        (s.previous, (0.6 + 0.8) / 2.0),
        (s.next, (0.5 + 0.3) / 2.0),
        (s.itself, 0.4 / 3.0),
        (s.first, 0.9 / 3.0),
        (s.separator, 0.7 / 3.0),
    ] {
        assert!((got - want).abs() < 1e-6, "{got} {want}");
    }
}

#[test]
fn no_tokens_at_all_is_no_panic() {
    let empty = single(Vec::new(), Array2::zeros((0, 0)));
    assert!(links(&empty).is_empty() && patterns(&empty).is_empty());
    assert_eq!(merge_words(&empty, |_, _| None).heads[0].weights.dim(), (0, 0));
    assert_eq!(without_special(&empty).attention.heads[0].weights.dim(), (0, 0));
}
