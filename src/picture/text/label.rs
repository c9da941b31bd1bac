//! Text made fit to be shown: the invisible made visible, the long shortened.

use unicode_segmentation::UnicodeSegmentation;

use super::code_point;

/// Code points of one grapheme that are kept; more are stacked marks beyond any script's use.
const MARKS: usize = 16;

/// `text` with a visible sign for all that has none: control characters, direction marks, line
/// breaks, a text of spaces only, an empty text.
pub(crate) fn display(text: &str) -> String {
    if text.bytes().all(|byte| (0x21..0x7f).contains(&byte)) && !text.is_empty() {
        return text.to_owned();
    }
    if text.is_empty() {
        return "(empty)".into();
    }
    if text.chars().all(|c| c == ' ') {
        return "␣".repeat(text.chars().count());
    }
    let blank = text.chars().all(|c| c.is_whitespace() || joins(c));
    text.chars().fold(String::with_capacity(text.len()), |mut shown, c| {
        match c {
            '\n' => shown.push('↵'),
            '\t' => shown.push('⇥'),
            ' ' => shown.push(if blank { '␣' } else { ' ' }),
            _ if blank || hidden(c) => shown.push_str(&code_point(c)),
            _ => shown.push(c),
        }
        shown
    })
}

/// At most `room` graphemes of `text`, an ellipsis in place of the middle; and how many those are.
pub(crate) fn shorten(text: &str, room: usize) -> (String, usize) {
    let graphemes: Vec<&str> = text.graphemes(true).collect();
    let cut = |grapheme: &&str| grapheme.chars().take(MARKS).collect::<String>();
    if graphemes.len() <= room {
        return (graphemes.iter().map(cut).collect(), graphemes.len());
    }
    let head = room / 2;
    let tail = room.saturating_sub(head + 1);
    let ends = graphemes[..head].iter().map(cut);
    let shorter = ends
        .chain(std::iter::once("…".into()))
        .chain(graphemes[graphemes.len() - tail..].iter().map(cut))
        .collect();
    (shorter, head + tail + 1)
}

/// Invisible by itself, but part of how its neighbours are written.
pub(super) fn joins(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}' | '\u{180b}'..='\u{180d}')
        || matches!(c, '\u{e0020}'..='\u{e007f}' | '\u{e0100}'..='\u{e01ef}' | '\u{34f}')
}

/// Without a picture of its own, or able to disturb the order of what stands beside it.
fn hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}')
        || matches!(c, '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}')
        || matches!(c, '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}')
        || matches!(c, '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e001f}')
        || matches!(c, '\u{fdd0}'..='\u{fdef}')
        || u32::from(c) & 0xfffe == 0xfffe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_shown() {
        assert_eq!(display("word"), "word");
        assert_eq!(display(""), "(empty)");
        assert_eq!(display("  "), "␣␣");
        assert_eq!(display("a b"), "a b");
        assert_eq!(display("a\nb\tc\u{0}"), "a↵b⇥cU+0000");
        assert_eq!(display("\u{202e}abc"), "U+202Eabc");
        assert_eq!(display("\u{3000}"), "U+3000");
        assert_eq!(display("\u{200d}"), "U+200D");
        assert_eq!(display("a\u{ffff}\u{2029}\u{85}"), "aU+FFFFU+2029U+0085");
        assert_eq!(display("क्\u{200d}ष"), "क्\u{200d}ष");
    }

    #[test]
    fn the_middle_of_a_long_text_goes() {
        assert_eq!(shorten("abcdef", 6), ("abcdef".into(), 6));
        assert_eq!(shorten("abcdefgh", 5), ("ab…gh".into(), 5));
        assert_eq!(shorten("abcdefgh", 4), ("ab…h".into(), 4));
        let stacked = format!("a{}", "\u{301}".repeat(1000));
        assert_eq!(shorten(&stacked, 9).0.chars().count(), MARKS);
    }
}
