//! Applying interventions: the same mechanism for ablation, gates and patching.

use candle_core::{DType, Tensor};

use crate::error::{Error, Result};
use crate::trace::{Change, Intervention, Site, Stack};

/// Where in the model a tensor passes, and what of it is real.
pub(crate) struct At<'a> {
    pub stack: Stack,
    pub layer: usize,
    pub site: Site,
    /// Original numbers of the heads on axis 1; empty where the site has none.
    pub heads: &'a [usize],
    /// How many of them each place on axis 1 serves.
    pub group: usize,
    /// `[B, positions]`: 1 for real positions, 0 for padding.
    pub real: &'a Tensor,
    /// Which position the first one is.
    pub past: usize,
}

/// `x` after every intervention that acts at this place, in their order.
pub(crate) fn apply(x: Tensor, at: &At<'_>, interventions: &[Intervention]) -> Result<Tensor> {
    let acting = interventions.iter().filter(|one| one.acts_on(at.stack, at.layer, at.site));
    acting.into_iter().try_fold(x, |x, one| apply_one(&x, at, one))
}

/// Refuses positions that a run over `count` of them does not have.
pub(crate) fn check(interventions: &[Intervention], stack: Stack, count: usize) -> Result<()> {
    for one in interventions.iter().filter(|one| one.stack == stack) {
        if let Some(beyond) = one.positions.iter().flatten().find(|&&p| p >= count) {
            return Err(Error::Array {
                what: format!("position of an intervention at {:?}", one.site),
                want: format!("below {count}"),
                found: beyond.to_string(),
            });
        }
    }
    Ok(())
}

fn apply_one(x: &Tensor, at: &At<'_>, one: &Intervention) -> Result<Tensor> {
    let fits = |t: &Tensor| {
        t.to_dtype(x.dtype())?.broadcast_as(x.shape()).map_err(|_| Error::Array {
            what: format!("tensor for {:?} of layer {}", at.site, at.layer),
            want: format!("a shape that broadcasts to {:?}", x.dims()),
            found: format!("{:?}", t.dims()),
        })
    };
    let changed = match &one.change {
        Change::Zero => x.zeros_like()?,
        Change::Scale(factor) => (x * *factor)?,
        Change::Multiply(tensor) => (x * fits(tensor)?)?,
        Change::Mean => mean(x, at)?.broadcast_as(x.shape())?,
        Change::Replace(tensor) => fits(tensor)?,
    };
    match chosen(x, at, one)? {
        None => Ok(changed.contiguous()?),
        Some(mask) => Ok(mask.broadcast_as(x.shape())?.where_cond(&changed.contiguous()?, x)?),
    }
}

/// 1 where the intervention acts, in a shape that broadcasts to `x`; `None` for everywhere.
fn chosen(x: &Tensor, at: &At<'_>, one: &Intervention) -> Result<Option<Tensor>> {
    let rank = x.rank();
    let axis = |axis: usize, marks: Vec<u8>| -> Result<Tensor> {
        let mut shape = vec![1; rank];
        shape[axis] = marks.len();
        Ok(Tensor::from_vec(marks, shape, x.device())?)
    };
    let heads = match (&one.heads, at.site.has_heads()) {
        (Some(heads), true) => {
            // keys and values that heads share change for all of them
            let any = |shared: &[usize]| u8::from(shared.iter().any(|head| heads.contains(head)));
            Some(axis(1, at.heads.chunks(at.group).map(any).collect())?)
        }
        _ => None,
    };
    let positions = match &one.positions {
        None => None,
        Some(positions) => {
            let (count, past) = (x.dim(rank - 2)?, at.past);
            let mark = |p: usize| u8::from(positions.contains(&(past + p)));
            Some(axis(rank - 2, (0..count).map(mark).collect())?)
        }
    };
    Ok(match (heads, positions) {
        (Some(heads), Some(positions)) => Some(heads.broadcast_mul(&positions)?),
        (heads, positions) => heads.or(positions),
    })
}

/// Mean over the real positions of all examples: 1 in place of the batch and position axes.
fn mean(x: &Tensor, at: &At<'_>) -> Result<Tensor> {
    let (b, t) = at.real.dims2()?;
    let mut shape = vec![1; x.rank()];
    shape[0] = b;
    shape[x.rank() - 2] = t;
    let real = at.real.to_dtype(DType::F32)?.to_dtype(x.dtype())?.reshape(shape)?;
    let axes = [0, x.rank() - 2];
    let sum = x.broadcast_mul(&real)?.sum_keepdim(axes.as_slice())?;
    Ok(sum.broadcast_div(&real.sum_keepdim(axes.as_slice())?)?)
}
