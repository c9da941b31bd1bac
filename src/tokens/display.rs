//! Pieces of the vocabulary → readable text.

use super::Kind;

/// A piece as text: the markers of its kind turned back into what they stand for. `##` stays, since
/// it says that the piece continues a word; bytes that make no character are written `<E6>`.
pub(super) fn readable(kind: Kind, piece: &str) -> String {
    match kind {
        Kind::WordPiece | Kind::WordLevel => piece.to_owned(),
        Kind::ByteLevelBpe => match piece.chars().map(byte).collect::<Option<Vec<u8>>>() {
            Some(bytes) => spelt(&bytes),
            None => piece.to_owned(),
        },
        Kind::Unigram | Kind::Bpe => match fallback(piece) {
            Some(byte) => spelt(&[byte]),
            None => piece.replace('▁', " ").replace("</w>", ""),
        },
    }
}

/// Text, with bytes that belong to no whole character written out.
fn spelt(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("<{byte:02X}>")));
    }
    text
}

/// The byte that a character of byte-level BPE stands for: printable Latin-1 for itself, the others
/// in order from U+0100 on.
///
/// # Source
/// Radford et al. 2019, `encoder.py` of GPT-2.
fn byte(c: char) -> Option<u8> {
    let code = u32::from(c);
    match code {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => u8::try_from(code).ok(),
        0x100..=0x120 => u8::try_from(code - 0x100).ok(), // controls and the space
        0x121..=0x142 => u8::try_from(code - 0x121 + 0x7f).ok(),
        0x143 => Some(0xad),
        _ => None,
    }
}

/// The byte of a piece such as `<0x0A>`.
fn fallback(piece: &str) -> Option<u8> {
    let digits = piece.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_character() {
        let characters = (0..0x144).filter_map(char::from_u32).filter(|&c| byte(c).is_some());
        let mut bytes: Vec<u8> = characters.filter_map(byte).collect();
        assert_eq!(bytes.len(), 256);
        bytes.sort_unstable();
        assert_eq!(bytes, (0..=255).collect::<Vec<u8>>());
        assert_eq!(
            (byte('Ġ'), byte('Ċ'), byte('A'), byte('▁')),
            (Some(32), Some(10), Some(65), None)
        );
    }

    #[test]
    fn pieces_are_readable() {
        let bytes = |piece| readable(Kind::ByteLevelBpe, piece);
        assert_eq!(bytes("Ġanimal"), " animal");
        assert_eq!(bytes("Ċ"), "\n");
        assert_eq!(bytes("æĪĳ"), "我");
        assert_eq!(
            (bytes("æĪ"), bytes("ĳ"), bytes("Ġæ")),
            ("<E6><88>".into(), "<91>".into(), " <E6>".into())
        );
        assert_eq!(bytes("我"), "我");
        let pieces = |piece| readable(Kind::Unigram, piece);
        assert_eq!(
            (pieces("▁the"), pieces("▁"), pieces("<0x0A>")),
            (" the".into(), " ".into(), "\n".into())
        );
        assert_eq!((pieces("<0xE6>"), pieces("<0xZ>")), ("<E6>".into(), "<0xZ>".into()));
        assert_eq!(readable(Kind::WordPiece, "##ing▁"), "##ing▁");
    }
}
