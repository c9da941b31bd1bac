//! ggml's blocks of quantized numbers → f32. A decoding step decodes every weight, so that the
//! common types have loops of their own, compiled for the processor's vectors; the others are left
//! to candle.
//!
//! # Source
//! `dequantize_row_*` in <https://github.com/ggml-org/ggml/blob/master/src/ggml-quants.c>.

use std::borrow::Cow;

use candle_core::CpuStorage;
use candle_core::quantized::GgmlDType;
use pulp::{Arch, Simd, WithSimd};

/// Numbers in a block of the types that are decoded here.
const NUMBERS: usize = 32;

/// Decodes whole blocks.
pub(super) fn decode(kind: GgmlDType, bytes: &[u8], out: &mut [f32]) {
    let arch = Arch::new();
    match kind {
        GgmlDType::Q8_0 => arch.dispatch(Blocks { bytes, out, read: q8_0 }),
        GgmlDType::Q4_0 => arch.dispatch(Blocks { bytes, out, read: q4_0 }),
        GgmlDType::Q4_1 => arch.dispatch(Blocks { bytes, out, read: q4_1 }),
        GgmlDType::Q5_0 => arch.dispatch(Blocks { bytes, out, read: q5_0 }),
        GgmlDType::Q5_1 => arch.dispatch(Blocks { bytes, out, read: q5_1 }),
        other => by_candle(other, bytes, out),
    }
}

/// Blocks of `N` bytes, each read by itself.
struct Blocks<'a, const N: usize, F: Fn(&[u8; N], &mut [f32; NUMBERS])> {
    bytes: &'a [u8],
    out: &'a mut [f32],
    read: F,
}

impl<const N: usize, F: Fn(&[u8; N], &mut [f32; NUMBERS])> WithSimd for Blocks<'_, N, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let (blocks, _) = self.bytes.as_chunks::<N>();
        let (out, _) = self.out.as_chunks_mut::<NUMBERS>();
        for (block, out) in blocks.iter().zip(out) {
            (self.read)(block, out);
        }
    }
}

/// A half-precision number, without asking what the processor can do each time.
#[inline(always)]
fn half(low: u8, high: u8) -> f32 {
    let bits = u32::from(u16::from_le_bytes([low, high]));
    if bits & 0x7c00 == 0x7c00 {
        return endless(bits);
    }
    // exponents differ by 112; so multiplied, subnormal numbers come out right as well
    let size = f32::from_bits((bits & 0x7fff) << 13) * f32::from_bits((112 + 127) << 23);
    f32::from_bits(size.to_bits() | (bits & 0x8000) << 16)
}

/// Infinity, or no number. A call, so that the compiler works on the numbers of one block at a time
/// rather than on those of several, which it would have to gather.
#[cold]
#[inline(never)]
fn endless(bits: u32) -> f32 {
    f32::from_bits((bits & 0x7fff) << 13 | 0x7f80_0000 | (bits & 0x8000) << 16)
}

/// What each whole number of a block stands for; `out` is written at once.
#[inline(always)]
fn each(numbers: [u8; NUMBERS], out: &mut [f32; NUMBERS], value: impl Fn(u8, usize) -> f32) {
    let mut values = [0.0; NUMBERS];
    for (j, (x, q)) in values.iter_mut().zip(numbers).enumerate() {
        *x = value(q, j);
    }
    *out = values;
}

/// Two numbers in each of sixteen bytes: the low halves come first, then the high ones.
#[inline(always)]
fn nibbles(block: &[u8]) -> [u8; NUMBERS] {
    let mut numbers = [0; NUMBERS];
    let (low, high) = numbers.split_at_mut(NUMBERS / 2);
    for ((low, high), byte) in low.iter_mut().zip(high).zip(block) {
        (*low, *high) = (byte & 15, byte >> 4);
    }
    numbers
}

#[inline(always)]
fn q8_0(block: &[u8; 34], out: &mut [f32; NUMBERS]) {
    let scale = half(block[0], block[1]);
    let mut numbers = [0; NUMBERS];
    numbers.copy_from_slice(&block[2..]);
    each(numbers, out, |q, _| f32::from(q.cast_signed()) * scale);
}

#[inline(always)]
fn q4_0(block: &[u8; 18], out: &mut [f32; NUMBERS]) {
    let scale = half(block[0], block[1]);
    each(nibbles(&block[2..]), out, |q, _| f32::from(q.cast_signed() - 8) * scale);
}

#[inline(always)]
fn q4_1(block: &[u8; 20], out: &mut [f32; NUMBERS]) {
    let (scale, least) = (half(block[0], block[1]), half(block[2], block[3]));
    each(nibbles(&block[4..]), out, |q, _| f32::from(q) * scale + least);
}

/// The fifth bit of the number at `j`.
#[inline(always)]
fn fifth(bits: &[u8], j: usize) -> u8 {
    let bits = u32::from_le_bytes([bits[0], bits[1], bits[2], bits[3]]);
    ((bits >> j & 1) << 4) as u8
}

#[inline(always)]
fn q5_0(block: &[u8; 22], out: &mut [f32; NUMBERS]) {
    let scale = half(block[0], block[1]);
    let whole = |q: u8, j: usize| (q | fifth(&block[2..6], j)).cast_signed() - 16;
    each(nibbles(&block[6..]), out, |q, j| f32::from(whole(q, j)) * scale);
}

#[inline(always)]
fn q5_1(block: &[u8; 24], out: &mut [f32; NUMBERS]) {
    let (scale, least) = (half(block[0], block[1]), half(block[2], block[3]));
    let whole = |q: u8, j: usize| q | fifth(&block[4..8], j);
    each(nibbles(&block[8..]), out, |q, j| f32::from(whole(q, j)) * scale + least);
}

/// A few thousand numbers at a time.
fn by_candle(kind: GgmlDType, bytes: &[u8], out: &mut [f32]) {
    const BLOCKS: usize = 64;
    let (numbers, size) = (BLOCKS * kind.block_size(), BLOCKS * kind.type_size());
    for (bytes, out) in bytes.chunks(size).zip(out.chunks_mut(numbers)) {
        // candle insists on the alignment of what is in a block
        let mut moved: Vec<u64> = Vec::new();
        let bytes = match bytes.as_ptr().align_offset(align_of::<u64>()) {
            0 => bytes,
            _ => {
                moved.resize(bytes.len().div_ceil(8), 0);
                let room = &mut bytemuck::cast_slice_mut(&mut moved)[..bytes.len()];
                room.copy_from_slice(bytes);
                &*room
            }
        };
        if let Ok(CpuStorage::F32(values)) =
            kind.from_data(Cow::Borrowed(bytes)).dequantize(out.len())
        {
            out.copy_from_slice(&values);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;

    #[test]
    fn every_half() {
        for bits in 0..=u16::MAX {
            let [low, high] = bits.to_le_bytes();
            let (got, want) = (half(low, high), f16::from_bits(bits).to_f32());
            assert!(got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()), "{bits:x}");
        }
    }

    /// Blocks of any content, aligned or not, as candle decodes them.
    #[test]
    fn every_kind_is_as_candle_decodes_it() {
        let kinds = [
            (GgmlDType::Q4_0, 18),
            (GgmlDType::Q4_1, 20),
            (GgmlDType::Q5_0, 22),
            (GgmlDType::Q5_1, 24),
            (GgmlDType::Q8_0, 34),
        ];
        for (kind, size) in kinds {
            assert_eq!(kind.type_size(), size);
            let bytes: Vec<u8> =
                (0..size * 97 + 1).map(|i| (i * 31 + i / 7) as u8 & 0xbf).collect();
            for shift in 0..2 {
                let (mut got, mut want) = (vec![0.0; 97 * NUMBERS], vec![0.0; 97 * NUMBERS]);
                decode(kind, &bytes[shift..][..size * 97], &mut got);
                by_candle(kind, &bytes[shift..][..size * 97], &mut want);
                let same = got.iter().zip(&want).all(|(g, w)| g.to_bits() == w.to_bits());
                assert!(same, "{kind:?}");
            }
        }
    }
}
