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

/// How a matrix [rows, columns] is divided into blocks of heads.
#[derive(Clone, Copy)]
enum Side {
    Rows,
    Columns,
}

/// A matrix with blocks of heads.
struct Blocks {
    name: String,
    side: Side,
    count: usize,
    /// The first whose scale is held: before it are queries and keys.
    first: usize,
}

impl Held {
    /// The lengths as they are.
    pub fn new(trainable: &Trainable) -> Result<Self> {
        let mut lengths = BTreeMap::new();
        for Blocks { name, side, count, .. } in blocks(trainable) {
            let found =
                lengths_of(&trainable.variables()[&name].as_detached_tensor(), side, count)?;
            lengths.insert(name, found);
        }
        Ok(Self { lengths })
    }

    /// Scales every block of values and of output weights back to its length.
    pub fn restore(&self, trainable: &Trainable) -> Result<()> {
        for Blocks { name, side, count, first } in blocks(trainable) {
            let (Some(held), var) = (self.lengths.get(&name), &trainable.variables()[&name]) else {
                continue;
            };
            let matrix = var.as_detached_tensor();
            let now = lengths_of(&matrix, side, count)?;
            let factor = |(block, (held, now)): (usize, (&f32, f32))| {
                if block >= first && now > 0.0 { held / now } else { 1.0 }
            };
            let factors: Vec<f32> = held.iter().zip(now).enumerate().map(factor).collect();
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

/// Matrices with blocks of heads.
fn blocks(trainable: &Trainable) -> Vec<Blocks> {
    let (width, group) = (trainable.config().head_dim, trainable.config().group_size);
    let mut all = Vec::new();
    for (name, var) in trainable.variables() {
        let Some((module, part)) = name.strip_suffix(".weight").and_then(|n| n.rsplit_once('.'))
        else {
            continue;
        };
        let inside = module.ends_with(".attention") || module.ends_with(".cross");
        let side = match part {
            "value" | "value_global" | "qkv" => Side::Rows,
            "output" => Side::Columns,
            _ => continue,
        };
        let side = match (trainable.turned(), side) {
            (false, side) => side,
            (true, Side::Rows) => Side::Columns,
            (true, Side::Columns) => Side::Rows,
        };
        let size = match side {
            Side::Rows => var.dims()[0],
            Side::Columns => var.dims()[1],
        };
        if inside && size > 0 && size % width == 0 {
            let count = size / width;
            // of H + 2·G blocks side by side the last G are values
            let first = if part == "qkv" { count - count / (group + 2) } else { 0 };
            all.push(Blocks { name: name.clone(), side, count, first });
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
    for Blocks { name, side, count, .. } in blocks(trainable) {
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::hub::{HubEnv, ModelRequest, resolve};
    use crate::model::LoadOptions;
    use crate::prune::StackHead;
    use crate::select::Head;

    fn open(fixture: &str) -> Trainable {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(fixture);
        let model = Some(folder.display().to_string());
        let request = ModelRequest { model, ..ModelRequest::default() };
        let files = resolve(&request, &HubEnv::from_env(), &()).expect("found");
        Trainable::open(&files, &LoadOptions::default()).expect("loads")
    }

    #[test]
    fn values_are_held_where_they_stand_beside_queries_and_keys() {
        for (name, axis) in [("gpt2_lm", 1), ("modernbert_mlm", 0)] {
            let trainable = open(&format!("goldens/{name}"));
            let held = Held::new(&trainable).expect("lengths");
            let var = &trainable.variables()["layers.1.attention.qkv.weight"];
            let before = var.as_detached_tensor().copy().expect("copied");
            var.set(&(&before * 3.0).expect("tripled")).expect("set");
            held.restore(&trainable).expect("restored");
            let third = before.dim(axis).expect("axis") / 3;
            for (part, factor) in [(0, 3.0), (1, 3.0), (2, 1.0)] {
                let of = |all: &Tensor| all.narrow(axis, part * third, third).expect("part");
                let off = ((of(&before) * factor).expect("scaled") - of(var)).expect("off");
                let off = off.abs().and_then(|off| off.flatten_all()?.max(0)?.to_scalar::<f32>());
                let off = off.expect("a number");
                assert!(off < 1e-5, "{name}, part {part}: {off}");
            }
        }
    }

    #[test]
    fn a_gate_whose_output_weights_are_not_there_is_refused() {
        let trainable = open("fill/bert");
        let head = StackHead { stack: Stack::Cross, head: Head { layer: 1, head: 0 } };
        let line = scale_heads(&trainable, &[HeadScore { head, score: 0.5 }]);
        assert_eq!(
            line.expect_err("refused").to_string(),
            "output weights behind a gate: expected decoder.layers.1.cross.output.weight, found \
             none of that name"
        );
    }
}
