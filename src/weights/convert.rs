//! Stored numbers → f32, row by row and straight into their final layout.

use std::fmt;

use candle_core::quantized::GgmlDType;
use half::f16;
use half::slice::HalfFloatSliceExt;
use safetensors::Dtype;

use super::blocks;

/// How a file stores a tensor's numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Storage {
    /// One by one, as safetensors names the type.
    Plain(Dtype),
    /// In blocks of 32 or 256 with a scale each, as ggml names the type.
    Blocks(GgmlDType),
}

/// The name of the type in its format, such as `F16` or `Q4_K`.
impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&super::gguf::name(*self))
    }
}

/// Storage of a tensor's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    F16,
    Bf16,
    F32,
    F64,
    /// Decoded block by block; rows are whole blocks.
    Blocks(GgmlDType),
}

impl Number {
    /// The type of a storage; `None` for whole numbers and others.
    pub fn of(storage: Storage) -> Option<Self> {
        match storage {
            Storage::Plain(Dtype::F16) => Some(Self::F16),
            Storage::Plain(Dtype::BF16) => Some(Self::Bf16),
            Storage::Plain(Dtype::F32) => Some(Self::F32),
            Storage::Plain(Dtype::F64) => Some(Self::F64),
            Storage::Plain(_) => None,
            Storage::Blocks(kind) => Some(Self::Blocks(kind)),
        }
    }

    /// Bytes of so many numbers.
    pub fn span(self, count: usize) -> usize {
        match self {
            Self::F16 | Self::Bf16 => count * 2,
            Self::F32 => count * 4,
            Self::F64 => count * 8,
            Self::Blocks(kind) => count / kind.block_size() * kind.type_size(),
        }
    }

    /// Converts `out.len()` numbers from the start of `bytes`.
    pub fn decode(self, bytes: &[u8], out: &mut [f32]) {
        let bytes = &bytes[..self.span(out.len())];
        match self {
            Self::F32 => each::<4>(bytes, out, f32::from_le_bytes),
            Self::F64 => each::<8>(bytes, out, |b| f64::from_le_bytes(b) as f32),
            Self::Bf16 => {
                each::<2>(bytes, out, |b| f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16))
            }
            Self::F16 => match bytemuck::try_cast_slice::<u8, f16>(bytes) {
                Ok(halves) if cfg!(target_endian = "little") => {
                    halves.convert_to_f32_slice(out);
                }
                _ => each::<2>(bytes, out, |b| f16::from_le_bytes(b).to_f32()),
            },
            Self::Blocks(kind) => blocks::decode(kind, bytes, out),
        }
    }

    /// Converts a stored `[rows, cols]` matrix and turns it: element (r, c) goes to
    /// `out[c * stride + r]`. Sixteen rows at a time, so that whole cache lines are written.
    pub fn decode_turned(
        self,
        bytes: &[u8],
        (rows, cols): (usize, usize),
        out: &mut [f32],
        stride: usize,
    ) {
        const BLOCK: usize = 16;
        let mut block = vec![0.0f32; BLOCK * cols];
        for first in (0..rows).step_by(BLOCK) {
            let count = BLOCK.min(rows - first);
            self.decode(&bytes[self.span(first * cols)..], &mut block[..count * cols]);
            for c in 0..cols {
                let line = &mut out[c * stride + first..][..count];
                for (r, x) in line.iter_mut().enumerate() {
                    *x = block[r * cols + c];
                }
            }
        }
    }
}

fn each<const N: usize>(bytes: &[u8], out: &mut [f32], read: impl Fn([u8; N]) -> f32) {
    for (chunk, x) in bytes.as_chunks::<N>().0.iter().zip(out) {
        *x = read(*chunk);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;

    #[test]
    fn every_storage_aligned_or_not() {
        let values = [1.5f32, -2.0, 0.099_975_586, 65504.0];
        let stored: [(Number, Vec<u8>); 4] = [
            (Number::F32, values.iter().flat_map(|x| x.to_le_bytes()).collect()),
            (Number::F64, values.iter().flat_map(|x| f64::from(*x).to_le_bytes()).collect()),
            (Number::F16, values.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect()),
            (Number::Bf16, values.iter().flat_map(|x| bf16::from_f32(*x).to_le_bytes()).collect()),
        ];
        for (number, bytes) in stored {
            for shift in 0..2 {
                let moved = [vec![0u8; shift], bytes.clone()].concat();
                let mut out = [0.0; 4];
                number.decode(&moved[shift..], &mut out);
                for (got, want) in out.iter().zip(values) {
                    let close = if number == Number::Bf16 { 0.01 * want.abs() } else { 0.0 };
                    assert!((got - want).abs() <= close, "{number:?}: {got} for {want}");
                }
            }
        }
    }

    #[test]
    fn turning_puts_rows_into_columns() {
        let (rows, cols) = (37, 5);
        let bytes: Vec<u8> = (0..rows * cols).flat_map(|i| (i as f32).to_le_bytes()).collect();
        let mut out = vec![-1.0; cols * 40];
        Number::F32.decode_turned(&bytes, (rows, cols), &mut out[3..], 40);
        for r in 0..rows {
            for c in 0..cols {
                assert_eq!(out[3 + c * 40 + r], (r * cols + c) as f32);
            }
        }
        assert_eq!(out[0], -1.0);
    }
}
