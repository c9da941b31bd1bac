//! Even attention: the same weight for every key that a query sees.

use candle_core::Tensor;

use super::ablate::{Layers, queries};
use super::gates::running;
use crate::config::{Config, Stack};
use crate::error::Result;
use crate::model::Model;
use crate::task::Sample;
use crate::tokens::Batch;

/// Per layer, even weights over the keys that each query sees, `[B,1,T,S]`.
pub(super) fn even(model: &Model, sample: &Sample) -> Result<Layers> {
    let config = model.config();
    let mut layers = Layers::new();
    for stack in running(config, sample) {
        let of = config.of(stack);
        for layer in 0..of.layers() {
            let weights = match stack {
                Stack::Cross => across(model, sample)?,
                _ => over_itself(
                    model,
                    of,
                    queries(sample, stack),
                    of.windows.get(layer).copied().flatten(),
                )?,
            };
            layers.insert((stack, layer), weights);
        }
    }
    Ok(layers)
}

/// Even weights of every written token over all tokens that were read, `[B,1,T,S]`.
fn across(model: &Model, sample: &Sample) -> Result<Tensor> {
    let (b, s) = sample.batch.ids.dim();
    let t = sample.last().ids.ncols();
    let row = |example: usize| {
        let real = sample.batch.mask.row(example);
        let count = real.sum().max(1) as f32;
        real.iter().map(|&real| real as f32 / count).collect::<Vec<_>>()
    };
    let weights = (0..b).flat_map(|example| row(example).repeat(t)).collect();
    Ok(Tensor::from_vec::<_, f32>(weights, (b, 1, t, s), model.device())?)
}

/// Even weights of every token over those that it sees, `[B,1,T,T]`.
fn over_itself(
    model: &Model,
    config: &Config,
    batch: &Batch,
    window: Option<usize>,
) -> Result<Tensor> {
    let (b, t) = batch.ids.dim();
    let global = match config.global_queries {
        true => model.global_queries(batch)?,
        false => None,
    };
    let is_global =
        |example: usize, i: usize| global.as_ref().is_some_and(|marks| marks[(example, i)] != 0);
    let mut weights = vec![0.0f32; b * t * t];
    for (row, weights) in weights.chunks_exact_mut(t.max(1)).enumerate() {
        let (example, i) = (row / t, row % t);
        let near = |j: usize| {
            let far = window.is_some_and(|reach| i.abs_diff(j) > reach);
            let far = far && !is_global(example, i) && !is_global(example, j);
            let behind = config.causal && j > i;
            !far && !behind
        };
        let sees = |j: &usize| batch.mask[(example, *j)] != 0 && near(*j);
        let count = (0..t).filter(sees).count();
        // a query that sees nothing is padding: its row is even, as the model has it
        (0..t).filter(|j| count == 0 || sees(j)).for_each(|j| {
            weights[j] = 1.0 / if count == 0 { t } else { count } as f32;
        });
    }
    Ok(Tensor::from_vec(weights, (b, 1, t, t), model.device())?)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ndarray::Array2;

    use super::*;
    use crate::task::Written;
    use crate::trace::{Keep, Recorder, Site};

    /// Three texts of 12, 9 and 5 tokens.
    fn batch() -> Batch {
        let mask = Array2::from_shape_fn((3, 12), |(b, t)| u32::from(t < [12, 9, 5][b]));
        let ids = Array2::from_shape_fn((3, 12), |(b, t)| (b * 7 + t * 3) as u32 % 50 + 5);
        Batch::from_ids(ids * &mask, mask)
    }

    #[test]
    fn even_weights_are_where_the_model_looks() {
        let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/goldens");
        for name in [
            "bert_mlm",
            "albert_mlm",
            "deberta_v2_model",
            "mpnet_model",
            "longformer_mlm",
            "modernbert_mlm",
            "gpt2_lm",
            "llama_lm",
            "bart_lm",
            "t5_lm",
        ] {
            let folder = goldens.join(name).display().to_string();
            let model = Model::from_pretrained(&folder).expect(name);
            let special = Array2::from_elem((3, 12), false);
            let (read, special) = (batch(), special);
            let written = model.config().decoder.is_some();
            let written = written.then(|| Written { batch: batch(), special: special.clone() });
            let sample = Sample { batch: read, special, written, target: None };
            let mut recorder = Recorder::new().keep(Site::Probs, Keep::All);
            sample.run(&model, &mut recorder, &[]).expect(name);
            let even = even(&model, &sample).expect(name);
            let trace = recorder.into_trace().expect(name);
            let mut layers = 0;
            for (stack, layer, _, kept) in trace.iter() {
                let (_, heads, _, _) = kept.tensor.dims4().expect("four axes");
                let even = &even[&(stack, layer)];
                for (b, &length) in queries(&sample, stack).lengths.iter().enumerate() {
                    let rows = |of: &Tensor, head: usize| -> Vec<Vec<f32>> {
                        let rows = of.get(b).and_then(|x| x.get(head)).and_then(|x| x.to_vec2());
                        rows.expect("rows")
                    };
                    let even = rows(even, 0);
                    for head in 0..heads {
                        let all = rows(&kept.tensor, head).into_iter().zip(&even).take(length);
                        for (t, (looks, even)) in all.enumerate() {
                            let what = format!("{name} {stack:?} L{layer}H{head}, {b}: {t}");
                            let same =
                                looks.iter().zip(even).all(|(a, b)| (*a > 0.0) == (*b > 0.0));
                            assert!(same, "{what}: {looks:?} and {even:?}");
                            assert!((even.iter().sum::<f32>() - 1.0).abs() < 1e-5, "{what}");
                        }
                    }
                }
                layers += 1;
            }
            assert_eq!(layers, even.len(), "{name}");
        }
    }
}
