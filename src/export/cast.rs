//! Tensors into another floating-point type, one at a time.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use half::{bf16, f16};
use safetensors::{Dtype, View};

use crate::weights::{Number, Storage, Stored};

/// A tensor on its way into another type, converted when it is written.
pub(crate) struct Cast<'a> {
    pub tensor: &'a Stored,
    pub bytes: &'a [u8],
    pub dtype: Dtype,
    /// The first number that does not fit.
    pub too_large: &'a Mutex<Option<String>>,
}

impl Cast<'_> {
    fn narrow<const N: usize>(
        &self,
        values: &[f32],
        round: impl Fn(f32) -> ([u8; N], bool),
    ) -> Vec<u8> {
        let mut out = Vec::with_capacity(values.len() * N);
        for &value in values {
            let (bytes, finite) = round(value);
            if value.is_finite() && !finite {
                let why = format!(
                    "tensor `{}` holds {value}, too large for {:?}; bf16 has the range of f32",
                    self.tensor.raw, self.dtype
                );
                let mut first = self.too_large.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert(why);
            }
            out.extend(bytes);
        }
        out
    }
}

impl View for Cast<'_> {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.tensor.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        let bytes = self.tensor.in_order(self.bytes);
        let number = match Number::of(self.tensor.dtype) {
            Some(number) if self.tensor.dtype != Storage::Plain(self.dtype) => number,
            _ => return bytes,
        };
        let mut values = vec![0.0f32; self.tensor.shape.iter().product()];
        number.decode(&bytes, &mut values);
        Cow::Owned(match self.dtype {
            Dtype::F16 => self.narrow(&values, |x| {
                let x = f16::from_f32(x);
                (x.to_le_bytes(), x.is_finite())
            }),
            Dtype::BF16 => self.narrow(&values, |x| {
                let x = bf16::from_f32(x);
                (x.to_le_bytes(), x.is_finite())
            }),
            _ => self.narrow(&values, |x| (x.to_le_bytes(), x.is_finite())),
        })
    }

    fn data_len(&self) -> usize {
        self.tensor.shape.iter().product::<usize>() * self.dtype.bitsize() / 8
    }
}
