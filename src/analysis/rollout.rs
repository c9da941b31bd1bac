//! Attention rollout: how much of each input token reaches each token of each layer, if attention
//! and the residual were all that mixes them.

use ndarray::{Array2, Axis};

use crate::attention::Attention;
use crate::error::{Error, Result};

/// The share of a token's own residual that Abnar and Zuidema assume.
pub const RESIDUAL: f64 = 0.5;

/// Rollout after each layer: entry l is `[T,T]`, row i holding the shares of the input tokens in
/// token i of layer l's output; rows sum to 1.
///
/// The heads of a layer are averaged, mixed with the identity as
/// `residual · I + (1 − residual) · A`, their rows normalised, and multiplied up from the first
/// layer. A layer that has lost every head mixes nothing. In a causal model early tokens gain from
/// the mask alone: hold the result against [`rollout_null`].
///
/// # Errors
/// [`Error::Array`] unless queries and keys are the same number of tokens, of one text;
/// [`Error::Usage`] unless `residual` is from 0 to below 1.
///
/// # Source
/// Abnar and Zuidema 2020, "Quantifying Attention Flow in Transformers", section 3.
pub fn rollout(attention: &Attention, residual: f64) -> Result<Vec<Array2<f32>>> {
    let tokens = attention.queries.len();
    if tokens != attention.keys.len() {
        return Err(Error::Array {
            what: "rollout".into(),
            want: "self-attention, with as many keys as queries".into(),
            found: format!("{tokens} queries and {} keys", attention.keys.len()),
        });
    }
    let layer = |layer| match attention.layer_mean(layer) {
        Some(mean) => mean.mapv(f64::from),
        None => Array2::eye(tokens),
    };
    multiply((0..attention.head_counts.len()).map(layer), tokens, residual)
}

/// Rollout of a causal model that attends evenly to all that it sees: what the mask alone does to
/// `tokens` tokens over `layers` layers.
///
/// # Errors
/// [`Error::Usage`] unless `residual` is from 0 to below 1.
pub fn rollout_null(tokens: usize, layers: usize, residual: f64) -> Result<Vec<Array2<f32>>> {
    let even = Array2::from_shape_fn((tokens, tokens), |(i, j)| match j <= i {
        true => 1.0 / (i + 1) as f64,
        false => 0.0,
    });
    multiply((0..layers).map(|_| even.clone()), tokens, residual)
}

fn multiply(
    layers: impl Iterator<Item = Array2<f64>>,
    tokens: usize,
    residual: f64,
) -> Result<Vec<Array2<f32>>> {
    if !(0.0..1.0).contains(&residual) {
        return Err(Error::Usage {
            flag: "--residual".into(),
            want: "a share from 0 to below 1".into(),
            found: residual.to_string(),
        });
    }
    let mut product = Array2::<f64>::eye(tokens);
    let mut out = Vec::new();
    for mean in layers {
        let mut mixed = mean * (1.0 - residual) + Array2::<f64>::eye(tokens) * residual;
        for mut row in mixed.axis_iter_mut(Axis(0)) {
            let sum = row.sum();
            if sum > 0.0 {
                row /= sum;
            }
        }
        product = mixed.dot(&product);
        out.push(product.mapv(|share| share as f32));
    }
    Ok(out)
}
