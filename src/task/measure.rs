//! What a changed model still does as the unpruned one did, without labels.

use candle_core::{DType, Tensor};
use ndarray::{Array1, Array2, ArrayView1, Axis};

use super::sample::Sample;
use super::target::{Target, embedding};
use crate::error::{Error, Result};
use crate::model::Model;
use crate::trace::{Intervention, Recorder};

/// What a model gives for each text.
#[derive(Debug, Clone)]
pub struct Outputs {
    /// Mean embeddings of the last layer, `[N,D]`.
    pub embeddings: Array2<f64>,
    /// The loss of each text that has labels; empty where none has.
    pub losses: Vec<f64>,
    /// Divergence from the unpruned logits per text, in nats; empty where they were not asked for.
    pub divergences: Vec<f64>,
}

/// How close a changed model's outputs are to the unpruned model's.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Likeness {
    /// Mean over texts of the cosine of both embeddings, each less the mean of the unpruned ones.
    pub cosine: f64,
    /// The same cosine between different texts of the unpruned model: what chance gives.
    pub chance: f64,
    /// Mean share of a text's nearest neighbours that stay among its nearest.
    pub recall: f64,
    /// How many neighbours.
    pub neighbours: usize,
    /// Mean loss of the unpruned and of the changed model, where there are labels.
    pub loss: Option<(f64, f64)>,
    /// Mean divergence from the unpruned logits, in nats, where asked for.
    pub divergence: Option<f64>,
}

/// What a model gives for all samples, with `changes` in every run.
///
/// # Errors
/// Those of [`Model::forward`] and [`Target::losses`].
pub fn outputs(
    model: &Model,
    samples: &[Sample],
    changes: &[Intervention],
    unpruned: &[Target],
) -> Result<Outputs> {
    let each = samples.iter().enumerate();
    let each = each.map(|(i, sample)| outputs_of(model, sample, changes, unpruned.get(i)));
    joined(each.collect::<Result<_>>()?)
}

/// What a model gives for one sample; `unpruned` are the distributions to hold its own against.
pub(crate) fn outputs_of(
    model: &Model,
    sample: &Sample,
    changes: &[Intervention],
    unpruned: Option<&Target>,
) -> Result<Outputs> {
    let hidden = sample.run(model, &mut Recorder::new(), changes)?;
    let found = embedding(&hidden, sample.last())?;
    let losses = |target: Option<&Target>| match target {
        Some(target) => numbers(&target.losses(model, &hidden, sample.last())?),
        None => Ok(Vec::new()),
    };
    let labelled = sample.target.as_ref().filter(|target| !target.is_unpruned_model());
    Ok(Outputs {
        embeddings: shaped(found.dims2()?, numbers(&found)?)?,
        losses: losses(labelled)?,
        divergences: losses(unpruned)?,
    })
}

/// The texts of all samples, one after another.
pub(crate) fn joined(parts: Vec<Outputs>) -> Result<Outputs> {
    let width = parts.first().map_or(0, |part| part.embeddings.ncols());
    let count = parts.iter().map(|part| part.embeddings.nrows()).sum();
    let rows = parts.iter().flat_map(|part| part.embeddings.iter().copied()).collect();
    Ok(Outputs {
        embeddings: shaped((count, width), rows)?,
        losses: parts.iter().flat_map(|part| part.losses.iter().copied()).collect(),
        divergences: parts.iter().flat_map(|part| part.divergences.iter().copied()).collect(),
    })
}

pub(super) fn shaped(shape: (usize, usize), rows: Vec<f64>) -> Result<Array2<f64>> {
    Array2::from_shape_vec(shape, rows).map_err(|error| Error::Array {
        what: "embeddings".into(),
        want: format!("{} by {}", shape.0, shape.1),
        found: error.to_string(),
    })
}

fn numbers(tensor: &Tensor) -> Result<Vec<f64>> {
    Ok(tensor.to_dtype(DType::F64)?.flatten_all()?.to_vec1()?)
}

/// The cosine of each text's two embeddings, each less the mean of the unpruned ones.
///
/// # Errors
/// [`Error::Array`] for runs over other texts or of models of another width.
pub fn cosines(unpruned: &Outputs, changed: &Outputs) -> Result<Vec<f64>> {
    alike(unpruned, changed)?;
    let middle = unpruned.embeddings.mean_axis(Axis(0)).unwrap_or_default();
    let before = centred(&unpruned.embeddings, &middle);
    let after = centred(&changed.embeddings, &middle);
    Ok(before.rows().into_iter().zip(after.rows()).map(|(a, b)| a.dot(&b)).collect())
}

fn alike(unpruned: &Outputs, changed: &Outputs) -> Result<()> {
    let (want, found) = (unpruned.embeddings.dim(), changed.embeddings.dim());
    match want == found {
        true => Ok(()),
        false => Err(Error::Array {
            what: "embeddings".into(),
            want: format!("{} by {}", want.0, want.1),
            found: format!("{} by {}", found.0, found.1),
        }),
    }
}

/// Compares two runs over the same texts. `neighbours` is cut down to the texts that there are.
///
/// # Errors
/// Those of [`cosines`].
pub fn likeness(unpruned: &Outputs, changed: &Outputs, neighbours: usize) -> Result<Likeness> {
    let count = unpruned.embeddings.nrows();
    let neighbours = neighbours.min(count.saturating_sub(1));
    let middle = unpruned.embeddings.mean_axis(Axis(0)).unwrap_or_default();
    let (before, after) =
        (centred(&unpruned.embeddings, &middle), centred(&changed.embeddings, &middle));
    let own = cosines(unpruned, changed)?.into_iter();
    let among = before.dot(&before.t());
    let others = among.sum() - among.diag().sum();
    let pairs = (count * count.saturating_sub(1)) as f64;
    let same = |row: usize| {
        let near = nearest(among.row(row), row, neighbours);
        let now = nearest(after.dot(&after.row(row)).view(), row, neighbours);
        near.iter().filter(|one| now.contains(one)).count() as f64
    };
    let kept: f64 = (0..count).map(same).sum();
    Ok(Likeness {
        cosine: mean(own),
        chance: if pairs > 0.0 { others / pairs } else { 0.0 },
        recall: if neighbours > 0 { kept / (count * neighbours) as f64 } else { 1.0 },
        neighbours,
        loss: (!changed.losses.is_empty())
            .then(|| (mean(unpruned.losses.iter().copied()), mean(changed.losses.iter().copied()))),
        divergence: (!changed.divergences.is_empty())
            .then(|| mean(changed.divergences.iter().copied())),
    })
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0usize), |(sum, count), x| (sum + x, count + 1));
    if count == 0 { 0.0 } else { sum / count as f64 }
}

/// Rows less `middle`, of length 1; of a single text, whose middle is itself, as they are.
fn centred(rows: &Array2<f64>, middle: &Array1<f64>) -> Array2<f64> {
    let mut rows = match rows.nrows() {
        0 | 1 => rows.clone(),
        _ => rows - middle,
    };
    for mut row in rows.rows_mut() {
        let length = row.dot(&row).sqrt();
        if length > 0.0 {
            row /= length;
        }
    }
    rows
}

/// The `count` largest of a row but for `own`, the first of equal ones first.
fn nearest(row: ArrayView1<'_, f64>, own: usize, count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..row.len()).filter(|&other| other != own).collect();
    order.sort_by(|&a, &b| row[b].total_cmp(&row[a]));
    order.truncate(count);
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    fn of(embeddings: Array2<f64>) -> Outputs {
        Outputs { embeddings, losses: vec![1.0, 2.0], divergences: Vec::new() }
    }

    #[test]
    fn likeness_of_itself_and_of_a_turned_space() {
        // a common offset must not make everything alike
        let a = of(array![[101.0, 0.0], [100.0, 1.0], [99.0, 0.0], [100.0, -1.0]]);
        let same = likeness(&a, &a, 1).expect("alike");
        assert!((same.cosine - 1.0).abs() < 1e-12 && same.recall == 1.0, "{same:?}");
        assert!((same.chance + 1.0 / 3.0).abs() < 1e-12, "{same:?}");
        assert_eq!(same.loss, Some((1.5, 1.5)));
        let turned = of(array![[99.0, 0.0], [100.0, -1.0], [101.0, 0.0], [100.0, 1.0]]);
        let turned = likeness(&a, &turned, 9).expect("alike");
        assert!((turned.cosine + 1.0).abs() < 1e-12 && turned.neighbours == 3, "{turned:?}");
    }
}
