//! Attention rollout against the reference, and what must hold of it anyway.

use attnviz::analysis::{RESIDUAL, rollout, rollout_null};
use attnviz::{Attention, Error, Head, HeadWeights, Stack, Token};
use ndarray::{Array2, array};

mod common;
use common::{Golden, numbers, open, record};

fn tokens(n: usize) -> Vec<Token> {
    (0..n).map(|i| Token { text: format!("t{i}"), ..Token::default() }).collect()
}

fn one_head(layers: Vec<Array2<f32>>) -> Attention {
    let n = layers[0].nrows();
    let counts = vec![1; layers.len()];
    let head = |(layer, weights)| HeadWeights { head: Head { layer, head: 0 }, weights };
    let heads = layers.into_iter().enumerate().map(head).collect();
    Attention::new(tokens(n), tokens(n), heads, counts).unwrap()
}

#[test]
fn agrees_with_the_reference_on_real_tokens() {
    let golden = Golden::open("bert_mlm");
    let model = open(&golden.folder, None).unwrap();
    let run = record(&model, &golden.batch(), &[]);
    let want = golden.tensor("rollout"); // [L, B, T, T]
    for (example, &n) in run.batch.lengths.iter().enumerate() {
        let attention =
            run.trace.attention(Stack::Encoder, example, &tokens(n), model.config()).unwrap();
        let got = rollout(&attention, RESIDUAL).unwrap();
        assert_eq!(got.len(), model.config().layers());
        for (layer, got) in got.iter().enumerate() {
            let want = want.get(layer).and_then(|t| t.get(example)).unwrap();
            let want = want.narrow(0, 0, n).and_then(|t| t.narrow(1, 0, n)).unwrap();
            for (g, w) in got.iter().zip(numbers(&want.contiguous().unwrap())) {
                assert!((g - w).abs() <= 1e-5, "layer {layer}, example {example}: {g} for {w}");
            }
        }
    }
}

#[test]
fn a_layer_without_heads_mixes_nothing_and_all_residual_neither() {
    let weights = array![[0.5, 0.5], [0.2, 0.8]];
    let mut attention = one_head(vec![weights.clone(), weights]);
    attention.heads.remove(1);
    let got = rollout(&attention, RESIDUAL).unwrap();
    assert_eq!(got[0], got[1]);
    let nearly = rollout(&attention, 0.999_999).unwrap();
    assert!((nearly[1][(1, 1)] - 1.0).abs() < 1e-5);
}

#[test]
fn the_null_of_even_attention_is_rollout_of_even_attention() {
    let n = 5;
    let even =
        Array2::from_shape_fn((n, n), |(i, j)| if j <= i { 1.0 / (i + 1) as f32 } else { 0.0 });
    let got = rollout(&one_head(vec![even; 3]), RESIDUAL).unwrap();
    for (got, null) in got.iter().zip(rollout_null(n, 3, RESIDUAL).unwrap()) {
        assert!(got.iter().zip(&null).all(|(g, w)| (g - w).abs() < 1e-6));
        assert!(null.rows().into_iter().all(|row| (row.sum() - 1.0).abs() < 1e-6));
    }
    // early tokens gain from the mask alone
    let last = rollout_null(n, 3, RESIDUAL).unwrap().pop().unwrap();
    assert!(last[(n - 1, 0)] > last[(n - 1, 2)]);
}

#[test]
fn cross_attention_and_a_residual_out_of_range_are_refused() {
    let weights = array![[0.5, 0.5, 0.0]];
    let head = HeadWeights { head: Head { layer: 0, head: 0 }, weights };
    let cross = Attention::new(tokens(1), tokens(3), vec![head], vec![1]).unwrap();
    assert!(matches!(rollout(&cross, RESIDUAL), Err(Error::Array { .. })));
    for residual in [-0.1, 1.0, f64::NAN] {
        let message = rollout_null(2, 1, residual).unwrap_err().to_string();
        assert!(message.contains("--residual"), "{message}");
    }
}
