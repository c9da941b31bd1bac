//! Which rows or columns of which tensor belong to a head, and the tensor without them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;

use half::{bf16, f16};
use safetensors::{Dtype, View};

use super::place::{StackHead, left};
use crate::config::{Config, Stack};
use crate::error::{Error, Result};
use crate::export::Cast;
use crate::family::Family;
use crate::select::Head;
use crate::weights::{Number, Storage};

/// What goes, and of what.
pub(super) struct Cuts<'a> {
    pub config: &'a Config,
    pub family: &'a Family,
    pub gone: &'a BTreeSet<StackHead>,
}

/// What stays of one tensor.
pub(super) struct Plan {
    pub stack: Stack,
    pub block: usize,
    axis: usize,
    /// For each place on the axis whether it stays.
    stays: Vec<bool>,
}

impl Cuts<'_> {
    /// What stays of the tensor of this name in the file; `None` for one that no head has part in.
    pub fn plan(&self, raw: &str) -> Option<Plan> {
        let (stack, block, part, end) = self.place(raw)?;
        let stays = self.stays(stack, block, &part)?;
        let axis = match (&*end, &*part) {
            ("weight", "output") => usize::from(!self.family.turned),
            ("weight", _) => usize::from(self.family.turned),
            ("bias", "output") => return None, // of the sum over heads, which stays
            ("bias", _) => 0,
            _ => return None,
        };
        Some(Plan { stack, block, axis, stays })
    }

    /// Stack, block, part and kind of a tensor of an attention.
    fn place(&self, raw: &str) -> Option<(Stack, usize, String, String)> {
        let name = self.family.canonical(raw)?;
        let (stack, name) = match (name.strip_prefix("decoder."), name.strip_prefix("encoder.")) {
            (Some(name), _) => (Stack::Decoder, name),
            (_, Some(name)) => (Stack::Encoder, name),
            _ => (self.config.stack(), name.as_str()),
        };
        let (block, name) = name.strip_prefix("layers.")?.split_once('.')?;
        let block: usize = block.parse().ok()?;
        let (kind, name) = name.split_once('.')?;
        let (part, end) = name.rsplit_once('.')?;
        let stack = match kind {
            "attention" => stack,
            "cross" => Stack::Cross,
            _ => return None,
        };
        Some((stack, block, part.into(), end.into()))
    }

    /// The layer's block, and its stack, of the bias that the sum over heads has; `None` for other
    /// tensors.
    pub fn output_bias(&self, raw: &str) -> Option<(Stack, usize)> {
        let (stack, block, part, end) = self.place(raw)?;
        (part == "output" && end == "bias").then_some((stack, block))
    }

    /// For each row of a part, in terms of its output, whether it stays.
    fn stays(&self, stack: Stack, block: usize, part: &str) -> Option<Vec<bool>> {
        let of = self.config.of(stack);
        let layer = of.shared.iter().position(|&shared| shared == block)?;
        let heads = left(self.config, stack)?.get(layer)?;
        let stays =
            |&head: &usize| !self.gone.contains(&StackHead { stack, head: Head { layer, head } });
        let rows = |stays: bool| std::iter::repeat_n(stays, of.head_dim);
        let by_head = || heads.iter().map(stays).flat_map(rows);
        // of heads that share keys and values all go, or none
        let by_group = || heads.iter().step_by(of.group_size).map(stays).flat_map(rows);
        match part {
            "query" | "output" | "position_query" | "position_key" => Some(by_head().collect()),
            "query_global" | "key_global" | "value_global" => Some(by_head().collect()),
            "key" | "value" => Some(by_group().collect()),
            "qkv" => Some(by_head().chain(by_group()).chain(by_group()).collect()),
            _ => None,
        }
    }
}

/// A tensor without what is cut out of it, put together when it is written.
pub(super) struct Cut<'a> {
    whole: Cast<'a>,
    shape: Vec<usize>,
    /// Bytes of what lies behind one place on the axis, and which places stay.
    places: Option<(usize, Vec<bool>)>,
    /// The bytes of a bias to which something was added.
    changed: Option<Vec<u8>>,
}

impl<'a> Cut<'a> {
    /// # Errors
    /// [`Error::Shape`] where the tensor has not as many places as the heads that are left,
    /// [`Error::Checkpoint`] where its numbers are not whole bytes.
    pub fn new(whole: Cast<'a>, plan: Option<Plan>, path: &Path) -> Result<Self> {
        let (mut shape, raw) = (whole.tensor.shape.clone(), &whole.tensor.raw);
        let Some(Plan { axis, stays, .. }) = plan else {
            return Ok(Self { whole, shape, places: None, changed: None });
        };
        if shape.get(axis) != Some(&stays.len()) {
            let mut want = shape.clone();
            want.resize(want.len().max(axis + 1), 0);
            want[axis] = stays.len();
            return Err(Error::Shape {
                path: path.into(),
                tensor: raw.clone(),
                want,
                found: shape,
            });
        }
        let bits = shape[axis + 1..].iter().product::<usize>() * whole.dtype.bitsize();
        if !bits.is_multiple_of(8) {
            let why = format!("tensor `{raw}` is {:?}: parts of bytes cannot go", whole.dtype);
            return Err(Error::checkpoint(path, why));
        }
        shape[axis] = stays.iter().filter(|&&stays| stays).count();
        Ok(Self { whole, shape, places: Some((bits / 8, stays)), changed: None })
    }

    /// Adds numbers to those of a vector, in its own number format.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] for another number of them, and for a format without fractions.
    pub fn add(&mut self, numbers: &[f64], path: &Path) -> Result<()> {
        let (raw, dtype) = (&self.whole.tensor.raw, self.whole.dtype);
        let number = Number::of(Storage::Plain(dtype));
        let (Some(number), true) = (number, self.shape == [numbers.len()]) else {
            let shape = &self.shape;
            let why =
                format!("tensor `{raw}` is {dtype:?} {shape:?}: no bias of {}", numbers.len());
            return Err(Error::checkpoint(path, why));
        };
        let mut values = vec![0.0f32; numbers.len()];
        number.decode(&self.whole.data(), &mut values);
        let sums = values.iter().zip(numbers).map(|(&value, add)| f64::from(value) + add);
        self.changed = Some(match number {
            Number::F16 => sums.flat_map(|x| f16::from_f64(x).to_le_bytes()).collect(),
            Number::Bf16 => sums.flat_map(|x| bf16::from_f64(x).to_le_bytes()).collect(),
            Number::F64 => sums.flat_map(f64::to_le_bytes).collect(),
            _ => sums.flat_map(|x| (x as f32).to_le_bytes()).collect(),
        });
        Ok(())
    }

    /// Numbers that are left.
    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }
}

impl View for Cut<'_> {
    fn dtype(&self) -> Dtype {
        self.whole.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        if let Some(bytes) = &self.changed {
            return Cow::Borrowed(bytes);
        }
        let bytes = self.whole.data();
        let Some((size, stays)) = &self.places else { return bytes };
        let places = bytes.chunks_exact((*size).max(1)).zip(stays.iter().cycle());
        let kept = places.filter(|(_, stays)| **stays).flat_map(|(place, _)| place);
        Cow::Owned(kept.copied().collect())
    }

    fn data_len(&self) -> usize {
        self.count() * self.whole.dtype.bitsize() / 8
    }
}
