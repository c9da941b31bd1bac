//! The character map of a SentencePiece normalizer: checked before anything walks it, since the
//! tokenizers crate trusts its numbers.

use base64::Engine;
use tokenizers::normalizers::Precompiled;

/// Reads a map that is safe to walk.
pub(super) fn read(bytes: &[u8]) -> Result<Precompiled, String> {
    check(bytes).ok_or("its precompiled_charsmap is damaged")?;
    Precompiled::from(bytes).map_err(|why| why.to_string())
}

/// Checks the maps in a `tokenizer.json`.
pub(super) fn check_json(json: &[u8]) -> Result<(), String> {
    #[derive(serde::Deserialize)]
    struct Part {
        normalizer: Option<serde_json::Value>,
    }
    let part: Part =
        serde_json::from_slice(json).map_err(|why| format!("not as expected: {why}"))?;
    part.normalizer.as_ref().map_or(Ok(()), check_value)
}

fn check_value(value: &serde_json::Value) -> Result<(), String> {
    use serde_json::Value;
    match value {
        Value::Array(list) => list.iter().try_for_each(check_value),
        Value::Object(map) => map.iter().try_for_each(|(key, value)| match value {
            Value::String(text) if key == "precompiled_charsmap" => {
                let bytes = base64::engine::general_purpose::STANDARD.decode(text);
                let bytes = bytes.map_err(|why| format!("its precompiled_charsmap: {why}"))?;
                check(&bytes).ok_or("its precompiled_charsmap is damaged".into())
            }
            value => check_value(value),
        }),
        _ => Ok(()),
    }
}

/// The map is a length, a double-array trie of that many bytes in units of four, and the
/// replacements, each ended by a zero byte. A walk moves from a unit to any place within 256 of
/// where its offset points, and at a leaf reads where a replacement starts.
fn check(bytes: &[u8]) -> Option<()> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(*length) as usize;
    let (trie, replacements) = rest.split_at_checked(length / 4 * 4)?;
    let replacements = std::str::from_utf8(replacements).ok()?;
    let (units, _) = trie.as_chunks::<4>();
    let unit = |at: usize| units.get(at).map(|unit| u32::from_le_bytes(*unit) as usize);
    for at in 0..units.len().max(1) {
        let one = unit(at)?;
        if one >> 31 == 1 {
            continue; // a leaf's value, checked where it is reached
        }
        let to = at ^ ((one >> 10) << ((one & (1 << 9)) >> 6));
        if (to | 0xff) >= units.len() {
            return None;
        }
        if one >> 8 & 1 == 1 {
            let value = unit(to)? & ((1 << 31) - 1);
            replacements.is_char_boundary(value).then_some(())?;
        }
    }
    Some(())
}
