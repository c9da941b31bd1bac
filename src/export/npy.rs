//! The head of an npy file, read and written. Ours because it must refuse any input without a
//! panic and know half precision.
//!
//! Format: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>

use safetensors::Dtype;

const MAGIC: &[u8] = b"\x93NUMPY";

/// What an npy file says about its array.
#[derive(Debug, PartialEq)]
pub(super) struct Header {
    pub dtype: Dtype,
    /// Whether the first axis varies fastest.
    pub fortran: bool,
    pub shape: Vec<usize>,
}

/// The header and the bytes after it.
pub(super) fn read_header(bytes: &[u8]) -> Result<(Header, &[u8]), String> {
    let cut = || "the file ends too early".to_owned();
    let rest = bytes.strip_prefix(MAGIC).ok_or("not an npy array")?;
    let (length, rest) = match rest {
        [1, _, a, b, rest @ ..] => (usize::from(u16::from_le_bytes([*a, *b])), rest),
        [2 | 3, _, a, b, c, d, rest @ ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, rest),
        _ => return Err("expected npy version 1, 2 or 3".into()),
    };
    let (text, data) = rest.split_at_checked(length).ok_or_else(cut)?;
    let text = std::str::from_utf8(text).map_err(|_| "the header is not text")?;
    Ok((parse(text).ok_or_else(|| format!("header not understood: {}", text.trim()))??, data))
}

/// `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`; `None` when it is not of this
/// form, an error when the type is one we do not read.
fn parse(text: &str) -> Option<Result<Header, String>> {
    let after = |key: &str| {
        let rest = &text[text.find(&format!("'{key}'"))? + key.len() + 2..];
        Some(rest.trim_start().strip_prefix(':')?.trim_start())
    };
    let fortran = after("fortran_order")?.starts_with("True");
    let (inside, _) = after("shape")?.strip_prefix('(')?.split_once(')')?;
    let axes = inside.split(',').map(str::trim).filter(|axis| !axis.is_empty());
    let shape = axes.map(|axis| axis.parse().ok()).collect::<Option<Vec<usize>>>()?;
    let descr = after("descr")?;
    let dtype = match descr.strip_prefix('\'').and_then(|d| d.split_once('\'')) {
        Some(("<f2", _)) => Dtype::F16,
        Some(("<f4", _)) => Dtype::F32,
        Some(("<f8", _)) => Dtype::F64,
        Some(("|i1", _)) => Dtype::I8,
        Some(("<i2", _)) => Dtype::I16,
        Some(("<u2", _)) => Dtype::U16,
        Some(("<i4", _)) => Dtype::I32,
        Some(("<u4", _)) => Dtype::U32,
        Some(("<i8", _)) => Dtype::I64,
        Some(("|u1", _)) => Dtype::U8,
        Some(("|b1", _)) => Dtype::BOOL,
        Some((other, _)) => {
            return Some(Err(format!(
                "expected type <f2, <f4, <f8, |i1, <i2, <i4, <i8, |u1, <u2, <u4 or |b1, found {other}"
            )));
        }
        None => return Some(Err("expected numbers, found a record".into())),
    };
    Some(Ok(Header { dtype, fortran, shape }))
}

/// The head of a version 1 file for an array in C order.
pub(super) fn write_header(descr: &str, shape: &[usize]) -> Vec<u8> {
    let axes: String = shape.iter().map(|axis| format!("{axis}, ")).collect();
    let axes = if shape.len() == 1 { axes.trim_end() } else { axes.trim_end_matches(", ") };
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({axes}), }}");
    // magic, version, length, text and line end fill a multiple of 64 bytes
    let full = (MAGIC.len() + 4 + text.len() + 1).next_multiple_of(64);
    text.extend(std::iter::repeat_n(' ', full - MAGIC.len() - 4 - text.len() - 1));
    text.push('\n');
    let mut head = MAGIC.to_vec();
    head.extend([1, 0]);
    head.extend((text.len() as u16).to_le_bytes());
    head.extend(text.into_bytes());
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for shape in [vec![], vec![7], vec![2, 3], vec![6, 12, 15, 15]] {
            let head = write_header("<f4", &shape);
            assert_eq!(head.len() % 64, 0);
            let (header, data) = read_header(&head).unwrap();
            assert_eq!(header, Header { dtype: Dtype::F32, fortran: false, shape });
            assert!(data.is_empty());
        }
    }

    #[test]
    fn numpy_spells_one_axis_with_a_comma() {
        let text = String::from_utf8_lossy(&write_header("<i8", &[3])[10..]).into_owned();
        assert!(text.contains("'shape': (3,), }"), "{text}");
    }

    #[test]
    fn nonsense_is_refused_and_never_panics() {
        let good = write_header("<f4", &[2, 3]);
        for cut in 0..good.len() {
            assert!(read_header(&good[..cut]).is_err(), "{cut}");
        }
        for text in [
            "",
            "{}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3}",
            "{'descr': '>f4', 'fortran_order': False, 'shape': (2,)}",
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}",
            "'shape''descr''fortran_order'",
        ] {
            let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
            bytes.extend((text.len() as u16).to_le_bytes());
            bytes.extend(text.bytes());
            assert!(read_header(&bytes).is_err(), "{text}");
        }
    }
}
