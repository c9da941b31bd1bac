//! The scale of each head's values and output weights, held while its gate is trained: a smaller
//! gate would else be undone by larger weights behind it.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor};

use crate::config::Stack;
use crate::error::{Error, Result};
use crate::model::Trainable;
use crate::prune::HeadScore;

/// Lengths of the blocks of heads in the matrices of values and of output projections.
pub(super) struct Held {
    lengths: BTreeMap<String, Vec<f32>>,
}

/// How a matrix [rows, columns] is divided into `count` blocks of heads.
#[derive(Clone, Copy)]
enum Side {
    Rows,
    Columns,
}

impl Held {
    /// The lengths as they are.
    pub fn new(trainable: &Trainable) -> Result<Self> {
        let mut lengths = BTreeMap::new();
        for (name, side, count) in blocks(trainable) {
            let found =
                lengths_of(&trainable.variables()[&name].as_detached_tensor(), side, count)?;
            lengths.insert(name, found);
        }
        Ok(Self { lengths })
    }

    /// Scales every block back to its length.
    pub fn restore(&self, trainable: &Trainable) -> Result<()> {
        for (name, side, count) in blocks(trainable) {
            let (Some(held), var) = (self.lengths.get(&name), &trainable.variables()[&name]) else {
                continue;
            };
            let matrix = var.as_detached_tensor();
            let now = lengths_of(&matrix, side, count)?;
            let factor = |(held, now): (&f32, f32)| if now > 0.0 { held / now } else { 1.0 };
            let factors: Vec<f32> = held.iter().zip(now).map(factor).collect();
            let factors = Tensor::from_vec(factors, count, matrix.device())?;
            var.set(&scaled(&matrix, &factors, side)?)?;
        }
        Ok(())
    }

    pub fn tensors(&self) -> Result<BTreeMap<String, Tensor>> {
        let one = |(name, lengths): (&String, &Vec<f32>)| {
            Ok((name.clone(), Tensor::from_slice(lengths, lengths.len(), &Device::Cpu)?))
        };
        self.lengths.iter().map(one).collect()
    }

    pub fn take(&mut self, tensors: &BTreeMap<String, Tensor>) -> Result<()> {
        for (name, one) in tensors {
            self.lengths.insert(name.clone(), one.to_vec1()?);
        }
        Ok(())
    }
}

/// Matrices with blocks of heads: name, side and how many.
fn blocks(trainable: &Trainable) -> Vec<(String, Side, usize)> {
    let mut all = Vec::new();
    for (name, var) in trainable.variables() {
        let Some((module, part)) = name.strip_suffix(".weight").and_then(|n| n.rsplit_once('.'))
        else {
            continue;
        };
        let inside = module.ends_with(".attention") || module.ends_with(".cross");
        let side = match part {
            "value" => Side::Rows,
            "output" => Side::Columns,
            _ => continue,
        };
        let side = match (trainable.turned(), side) {
            (false, side) => side,
            (true, Side::Rows) => Side::Columns,
            (true, Side::Columns) => Side::Rows,
        };
        let width = trainable.config().head_dim;
        let size = match side {
            Side::Rows => var.dims()[0],
            Side::Columns => var.dims()[1],
        };
        if inside && size > 0 && size % width == 0 {
            all.push((name.clone(), side, size / width));
        }
    }
    all
}

/// Multiplies the output weights of every head by its gate, once: what a gate did, they do.
pub(super) fn scale_heads(trainable: &Trainable, gates: &[HeadScore]) -> Result<()> {
    let mut by_matrix: BTreeMap<String, Vec<f32>> = BTreeMap::new();
    for one in gates {
        let block = trainable.config().of(one.head.stack).shared[one.head.head.layer];
        let (before, part) = match one.head.stack {
            Stack::Cross => ("decoder.", "cross"),
            Stack::Decoder => ("decoder.", "attention"),
            Stack::Encoder => ("encoder.", "attention"),
        };
        let end = format!("layers.{block}.{part}.output.weight");
        // of a single stack the name says nothing of it
        let name = match trainable.variables().contains_key(&end) {
            true => end,
            false => format!("{before}{end}"),
        };
        by_matrix.entry(name).or_default().push(one.score as f32);
    }
    for (name, side, count) in blocks(trainable) {
        if let Some(mut factors) = by_matrix.remove(&name) {
            factors.truncate(count); // layers that share a block repeat its gates
            let var = &trainable.variables()[&name];
            let factors = Tensor::from_vec(factors, count, var.device())?;
            var.set(&scaled(&var.as_detached_tensor(), &factors, side)?)?;
        }
    }
    match by_matrix.into_keys().next() {
        None => Ok(()),
        Some(want) => Err(Error::Array {
            what: "output weights behind a gate".into(),
            want,
            found: "none of that name".into(),
        }),
    }
}

/// [rows, columns] as [blocks, width, columns] or [rows, blocks, width].
fn split(matrix: &Tensor, side: Side, count: usize) -> Result<(Tensor, [usize; 2])> {
    let (rows, columns) = matrix.dims2()?;
    Ok(match side {
        Side::Rows => (matrix.reshape((count, rows / count, columns))?, [1, 2]),
        Side::Columns => (matrix.reshape((rows, count, columns / count))?, [0, 2]),
    })
}

fn lengths_of(matrix: &Tensor, side: Side, count: usize) -> Result<Vec<f32>> {
    let (blocks, axes) = split(matrix, side, count)?;
    Ok(blocks.sqr()?.sum(axes.as_slice())?.sqrt()?.to_dtype(DType::F32)?.to_vec1()?)
}

fn scaled(matrix: &Tensor, factors: &Tensor, side: Side) -> Result<Tensor> {
    let count = factors.elem_count();
    let (blocks, _) = split(matrix, side, count)?;
    let factors = match side {
        Side::Rows => factors.reshape((count, 1, 1))?,
        Side::Columns => factors.reshape((1, count, 1))?,
    };
    Ok(blocks.broadcast_mul(&factors)?.reshape(matrix.shape())?)
}
