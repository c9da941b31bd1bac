//! Some items of batches, drawn anew for each seed.

use std::collections::BTreeSet;

use candle_core::Tensor;
use ndarray::{Array2, Axis};

use crate::error::Result;
use crate::task::{Sample, Target, Written, drawn};
use crate::tokens::Batch;

/// `count` examples of all samples, drawn without any twice, in their batches and order; all where
/// there are no more.
pub(super) fn draw(samples: &[Sample], count: usize, seed: u64) -> Result<Vec<Sample>> {
    let mut places: Vec<(usize, usize)> = Vec::new();
    for (batch, sample) in samples.iter().enumerate() {
        let rows = sample.batch.ids.nrows() / rows_of(sample);
        places.extend((0..rows).map(|example| (batch, example)));
    }
    let chosen = drawn(places.len(), count, seed);
    let drawn: BTreeSet<(usize, usize)> = chosen.into_iter().map(|place| places[place]).collect();
    let mut some = Vec::new();
    for (batch, sample) in samples.iter().enumerate() {
        let each = rows_of(sample);
        let rows = drawn.range((batch, 0)..(batch + 1, 0));
        let rows = rows.flat_map(|&(_, example)| example * each..(example + 1) * each);
        let rows: Vec<usize> = rows.collect();
        if !rows.is_empty() {
            some.push(only(sample, &rows)?);
        }
    }
    Ok(some)
}

/// Rows of an example: both texts where a pair has one score.
fn rows_of(sample: &Sample) -> usize {
    if matches!(sample.target, Some(Target::Alike(_))) { 2 } else { 1 }
}

/// These rows of a batch.
fn only(sample: &Sample, rows: &[usize]) -> Result<Sample> {
    let written = sample.written.as_ref().map(|written| Written {
        batch: only_batch(&written.batch, rows),
        special: written.special.select(Axis(0), rows),
    });
    let target = sample.target.as_ref().map(|target| only_target(target, sample, rows));
    Ok(Sample {
        batch: only_batch(&sample.batch, rows),
        special: sample.special.select(Axis(0), rows),
        written,
        target: target.transpose()?,
    })
}

fn only_batch(batch: &Batch, rows: &[usize]) -> Batch {
    let some = |all: &Array2<u32>| all.select(Axis(0), rows);
    Batch {
        ids: some(&batch.ids),
        mask: some(&batch.mask),
        type_ids: some(&batch.type_ids),
        global: batch.global.as_ref().map(some),
        lengths: rows.iter().map(|&row| batch.lengths[row]).collect(),
    }
}

fn only_target(target: &Target, sample: &Sample, rows: &[usize]) -> Result<Target> {
    let classes = |all: &[u32]| rows.iter().map(|&row| all[row]).collect();
    let tensor = |all: &Tensor, rows: Vec<u32>| -> Result<Tensor> {
        let count = rows.len();
        Ok(all.index_select(&Tensor::from_vec(rows, count, all.device())?, 0)?)
    };
    let numbers = || rows.iter().map(|&row| row as u32).collect();
    Ok(match target {
        Target::Tokens(labels) => Target::Tokens(labels.select(Axis(0), rows)),
        Target::Classes(all) => Target::Classes(classes(all)),
        Target::Probed(probe, all) => Target::Probed(probe.clone(), classes(all)),
        Target::ProbedTokens(probe, labels) => {
            Target::ProbedTokens(probe.clone(), labels.select(Axis(0), rows))
        }
        Target::Alike(all) => {
            Target::Alike(rows.iter().step_by(2).map(|row| all[row / 2]).collect())
        }
        Target::Embedding(all) => Target::Embedding(tensor(all, numbers())?),
        // a distribution per text, or one for each of its tokens
        Target::Logits(all) if all.dim(0)? == sample.batch.ids.nrows() => {
            Target::Logits(tensor(all, numbers())?)
        }
        Target::Logits(all) => {
            let batch = sample.last();
            let real = |row: usize| batch.mask.row(row).iter().filter(|&&one| one != 0).count();
            let starts = (0..batch.ids.nrows()).scan(0, |sum, row| {
                let start = *sum;
                *sum += real(row);
                Some(start)
            });
            let starts: Vec<usize> = starts.collect();
            let tokens = rows.iter().flat_map(|&row| starts[row]..starts[row] + real(row));
            Target::Logits(tensor(all, tokens.map(|token| token as u32).collect())?)
        }
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::model::Model;
    use crate::prune::{heads_left, off};
    use crate::task::{encode, mask_some};
    use crate::tokens::{Encoding, Input, Limit};
    use crate::trace::Recorder;

    fn losses(model: &Model, sample: &Sample) -> Vec<f32> {
        let some = heads_left(model.config()).into_iter().take(2).collect();
        let hidden = sample.run(model, &mut Recorder::new(), &off(&some)).expect("runs");
        let target = sample.target.as_ref().expect("target");
        let losses = target.losses(model, &hidden, &sample.batch).expect("losses");
        losses.to_vec1().expect("numbers")
    }

    #[test]
    fn examples_keep_their_losses() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/fill/bert");
        let model = Model::from_pretrained(&folder.display().to_string()).expect("loads");
        let texts = ["the cat sat on the mat", "a dog", "the dog sat on the cat", "a man ran"];
        let text = |text: &&str| {
            encode(&model, &Input::Text((*text).into()), &Limit::default()).expect("encodes")
        };
        let plain: Vec<Encoding> = texts.iter().map(text).collect();
        let mut masked = plain.clone();
        let mask = model.tokenizer().expect("tokenizer").mask_id().expect("mask");
        let words = mask_some(&mut masked, mask, 0.3, 1);
        let sample = |target| Sample::new(&plain, 0, Some(target));
        let whole = Sample::new(&plain, 0, None);
        let samples = [
            Sample::new(&masked, 0, Some(words)),
            sample(Target::unpruned_embedding(&model, &whole).expect("embeds")),
            sample(Target::unpruned_logits(&model, &whole).expect("tells")),
        ];
        for whole in &samples {
            let all = losses(&model, whole);
            assert!(all.iter().all(|loss| *loss > 1e-7), "{all:?}");
            for seed in 0..6 {
                let drawn = draw(std::slice::from_ref(whole), 2, seed).expect("draws");
                let [part] = drawn.as_slice() else { panic!("one batch") };
                assert_eq!(part.batch.ids.nrows(), 2);
                let found = losses(&model, part);
                for (row, loss) in part.batch.ids.rows().into_iter().zip(found) {
                    let place = whole.batch.ids.rows().into_iter().position(|other| other == row);
                    let want = all[place.expect("of the batch")];
                    assert!((loss - want).abs() < 1e-5, "{loss} and {want}");
                }
            }
        }
        let pairs = sample(Target::Alike(vec![0.2, 0.9]));
        let all = losses(&model, &pairs);
        let drawn = draw(&[pairs], 1, 3).expect("draws");
        assert_eq!(drawn[0].batch.ids.nrows(), 2);
        let one = losses(&model, &drawn[0])[0];
        assert!(all.iter().any(|loss| (loss - one).abs() < 1e-5), "{one} of {all:?}");
        let both = [samples[1].clone(), samples[1].clone()];
        let all = draw(&both, 99, 0).expect("draws");
        assert_eq!(all.iter().map(|s| s.batch.ids.nrows()).collect::<Vec<_>>(), [4, 4]);
        let ids = |seed| -> Vec<Vec<u32>> {
            let drawn = draw(&both, 3, seed).expect("draws");
            drawn.iter().map(|s| s.batch.ids.iter().copied().collect()).collect()
        };
        assert_eq!(ids(1), ids(1));
        assert!((2..9).any(|seed| ids(seed) != ids(1)));
    }
}
