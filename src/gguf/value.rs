//! The values of a GGUF file's metadata.

use std::fmt;
use std::io::Read;

use super::read::Reader;

/// A value; numbers in the widest type of their kind.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
    Text(String),
    List(Vec<Value>),
}

impl Value {
    /// A value of ggml's type `kind`.
    pub(super) fn read(
        reader: &mut Reader<impl Read>,
        kind: u32,
        lists: bool,
    ) -> Result<Self, String> {
        Ok(match kind {
            0 => Self::Unsigned(u8::from_le_bytes(reader.array()?).into()),
            1 => Self::Signed(i8::from_le_bytes(reader.array()?).into()),
            2 => Self::Unsigned(u16::from_le_bytes(reader.array()?).into()),
            3 => Self::Signed(i16::from_le_bytes(reader.array()?).into()),
            4 => Self::Unsigned(reader.u32()?.into()),
            5 => Self::Signed(i32::from_le_bytes(reader.array()?).into()),
            6 => Self::Float(f32::from_le_bytes(reader.array()?).into()),
            7 => Self::Bool(reader.array::<1>()? != [0]),
            8 => Self::Text(reader.text()?),
            9 if lists => Self::List(list(reader)?),
            9 => return Err("a list of lists".into()),
            10 => Self::Unsigned(reader.u64()?),
            11 => Self::Signed(i64::from_le_bytes(reader.array()?)),
            12 => Self::Float(f64::from_le_bytes(reader.array()?)),
            other => return Err(format!("a value of type {other}, expected 0 to 12")),
        })
    }

    /// A number that is whole and not below 0.
    pub fn whole(&self) -> Option<u64> {
        match self {
            Self::Unsigned(n) => Some(*n),
            Self::Signed(n) => u64::try_from(*n).ok(),
            _ => None,
        }
    }

    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Unsigned(n) => Some(*n as f64),
            Self::Signed(n) => Some(*n as f64),
            Self::Float(x) => Some(*x),
            _ => None,
        }
    }

    pub fn flag(&self) -> Option<bool> {
        match self {
            Self::Bool(flag) => Some(*flag),
            _ => None,
        }
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn list(&self) -> Option<&[Value]> {
        match self {
            Self::List(list) => Some(list),
            _ => None,
        }
    }
}

fn list(reader: &mut Reader<impl Read>) -> Result<Vec<Value>, String> {
    let (kind, count) = (reader.u32()?, reader.u64()?);
    let least = match kind {
        0 | 1 | 7 => 1,
        2 | 3 => 2,
        4..=6 => 4,
        _ => 8,
    };
    reader.expect(count.saturating_mul(least))?;
    (0..count).map(|_| Value::read(reader, kind, false)).collect()
}

/// As it fits into a one-line message.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsigned(n) => n.fmt(f),
            Self::Signed(n) => n.fmt(f),
            Self::Float(x) => x.fmt(f),
            Self::Bool(flag) => flag.fmt(f),
            Self::Text(text) => {
                let short: String = text.chars().take(40).collect();
                write!(f, "`{}`", short.escape_debug())
            }
            Self::List(list) => write!(f, "a list of {}", list.len()),
        }
    }
}
