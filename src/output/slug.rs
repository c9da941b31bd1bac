//! Text → folder name.

use sha2::{Digest, Sha256};
use unicode_segmentation::UnicodeSegmentation;

/// File systems take 255 bytes; this leaves room for a suffix and keeps paths readable.
const LIMIT: usize = 120;

/// A folder name for a text: lower case, letters and digits of any script, hyphens between, at most
/// 120 bytes. Never empty, never a name that a file system or we ourselves reserve.
///
/// ```
/// assert_eq!(attnviz::output::slug("The cat's hat, again!"), "the-cat-s-hat-again");
/// assert_eq!(attnviz::output::slug("../.."), format!("text-{}", attnviz::output::hash8("../..")));
/// ```
pub fn slug(text: &str) -> String {
    let mut slug = String::new();
    let mut pending = false;
    for cluster in text.graphemes(true) {
        if !cluster.starts_with(char::is_alphanumeric) {
            pending = !slug.is_empty();
            continue;
        }
        // vowel signs and accents stay with their letter; joiners and controls go
        let kept: String = cluster
            .chars()
            .filter(|&c| c.is_alphanumeric() || (!c.is_ascii() && !invisible(c)))
            .flat_map(char::to_lowercase)
            .collect();
        if slug.len() + usize::from(pending) + kept.len() > LIMIT {
            break;
        }
        if std::mem::take(&mut pending) {
            slug.push('-');
        }
        slug.push_str(&kept);
    }
    if slug.is_empty() {
        return format!("text-{}", hash8(text));
    }
    if reserved(&slug) {
        slug.push_str("-text");
    }
    slug
}

/// The first 8 hexadecimal digits of the text's SHA-256.
pub fn hash8(text: &str) -> String {
    Sha256::digest(text).iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

/// Controls, joiners, direction marks, variation selectors, tags.
fn invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}')
}

/// Device names of Windows, and the folder of our committed gallery.
fn reserved(slug: &str) -> bool {
    let numbered = |device| {
        slug.strip_prefix(device).is_some_and(|n| n.len() == 1 && n.as_bytes()[0].is_ascii_digit())
    };
    matches!(slug, "con" | "prn" | "aux" | "nul" | "gallery") || numbered("com") || numbered("lpt")
}

#[cfg(test)]
mod tests {
    use super::{hash8, slug};

    #[test]
    fn plain_sentences() {
        assert_eq!(
            slug("The animal didn't cross the street because it was too tired"),
            "the-animal-didn-t-cross-the-street-because-it-was-too-tired"
        );
        assert_eq!(slug("  a   b  "), "a-b");
    }

    #[test]
    fn other_scripts_keep_their_letters() {
        assert_eq!(slug("我爱自然语言处理"), "我爱自然语言处理");
        assert_eq!(slug("हिन्दी में"), "हिन्दी-में");
        assert_eq!(slug("Café Ångström"), "café-ångström");
        assert_eq!(slug("a\u{202e}b\u{200d}c"), "a-bc");
    }

    #[test]
    fn nothing_dangerous_is_a_name() {
        for text in ["", ".", "..", "../../etc", "/", "\\", "\0", "!!!", "🙂", "-", "con", "COM1"]
        {
            let slug = slug(text);
            assert!(!slug.is_empty() && !slug.starts_with(['-', '.']), "{text}: {slug}");
            assert!(!slug.contains(['/', '\\', '\0', ':', '.']), "{text}: {slug}");
        }
        assert_eq!(slug("con"), "con-text");
        assert_eq!(slug("LPT9"), "lpt9-text");
        assert_eq!(slug("!!!"), format!("text-{}", hash8("!!!")));
        assert_eq!(slug("<script>alert(1)</script>"), "script-alert-1-script");
    }

    #[test]
    fn long_texts_are_cut_by_bytes_between_letters() {
        for text in ["x".repeat(5000), "字".repeat(5000), "e\u{301}".repeat(5000)] {
            let slug = slug(&text);
            assert!(slug.len() <= 120 && slug.len() > 110, "{}", slug.len());
        }
        // one cluster longer than the limit
        assert_eq!(slug(&format!("a{}", "\u{301}".repeat(500))).len(), "text-".len() + 8);
    }
}
