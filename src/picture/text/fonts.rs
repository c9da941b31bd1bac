//! Fonts, and which of them has a character.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use cosmic_text::fontdb::{Database, Family, ID, Source};
use cosmic_text::{Attrs, Buffer, FontSystem, Metrics, PlatformFallback, Shaping, Weight, Wrap};
use unicode_segmentation::UnicodeSegmentation;

use super::label::joins;
use super::raster::{Glyph, Label, Raster};
use super::{Type, code_point};

static REGULAR: &[u8] = include_bytes!("../../../assets/fonts/DejaVuSans.ttf");
static BOLD: &[u8] = include_bytes!("../../../assets/fonts/DejaVuSans-Bold.ttf");

// a name that no font on a system has: an installed DejaVu Sans may be another version
const FAMILY: &str = "attnviz embedded DejaVu Sans";

/// The fonts in use and what is known about them.
pub(super) struct Fonts {
    system: FontSystem,
    embedded: Vec<ID>,
    raster: Raster,
    has: HashMap<char, bool>,
    may_search: bool,
}

impl fmt::Debug for Fonts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fonts").field("faces", &self.system.db().len()).finish_non_exhaustive()
    }
}

impl Fonts {
    /// The embedded fonts, then `more`; with `may_search` the system's when something is missing.
    pub fn new(more: Vec<Vec<u8>>, may_search: bool) -> Self {
        let mut db = Database::new();
        let embedded = [REGULAR, BOLD].iter().flat_map(|&data| embed(&mut db, data)).collect();
        for data in more {
            db.load_font_source(Source::Binary(Arc::new(data)));
        }
        // the user's locale must not change a picture; it decides between Han variants only
        let system =
            FontSystem::new_with_locale_and_db_and_fallback("en".into(), db, PlatformFallback);
        Self { system, embedded, raster: Raster::default(), has: HashMap::new(), may_search }
    }

    /// Shapes and rasterises `text`; also the characters that no font has, which it shows as code
    /// points.
    pub fn draw(&mut self, text: &str, kind: Type) -> (Label, Vec<char>) {
        let mut missing = self.missing(text);
        let mut shown = spell(text, &missing);
        // a font may have all characters of a cluster and still not their combination
        for _ in 0..2 {
            let (glyphs, advance, rtl) = self.shape(&shown, kind);
            let clusters = glyphs.iter().filter(|glyph| glyph.is_missing());
            let texts = clusters.filter_map(|glyph| shown.get(glyph.cluster.clone()));
            let broken: Vec<char> = texts.flat_map(misfits).collect();
            if broken.is_empty() {
                return (self.raster.label(&mut self.system, &glyphs, advance, rtl, kind), missing);
            }
            shown = spell(&shown, &broken);
            missing.extend(broken);
        }
        let (glyphs, advance, rtl) = self.shape(&shown, kind);
        (self.raster.label(&mut self.system, &glyphs, advance, rtl, kind), missing)
    }

    /// `text` with the characters that no font has as code points.
    pub fn spelt(&mut self, text: &str) -> String {
        let missing = self.missing(text);
        spell(text, &missing)
    }

    fn missing(&mut self, text: &str) -> Vec<char> {
        let mut missing: Vec<char> = text.chars().filter(|&c| !self.has(c)).collect();
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    /// Glyphs from left to right, the width, and whether the text runs from right to left.
    fn shape(&mut self, text: &str, kind: Type) -> (Vec<Glyph>, f32, bool) {
        let mut buffer = Buffer::new_empty(Metrics::new(kind.size, kind.size * 1.25));
        let weight = if kind.bold { Weight::BOLD } else { Weight::NORMAL };
        let attrs = Attrs::new().family(Family::Name(FAMILY)).weight(weight);
        buffer.set_wrap(Wrap::None);
        buffer.set_text(text, &attrs, Shaping::Advanced, None);
        buffer.shape_until_scroll(&mut self.system, false);
        let Some(run) = buffer.layout_runs().next() else {
            return (Vec::new(), 0.0, false);
        };
        // lines that run from right to left are set against the far edge: bring them to 0
        let start = run.glyphs.iter().map(|glyph| glyph.x).fold(f32::INFINITY, f32::min);
        let shift = if start.is_finite() { -start } else { 0.0 };
        let glyphs = run.glyphs.iter().map(|glyph| Glyph::new(glyph, shift)).collect();
        (glyphs, run.line_w, run.rtl)
    }

    /// Whether some font has `c`; looks on the system at the first character that is not here.
    fn has(&mut self, c: char) -> bool {
        if c.is_ascii_graphic() || c == ' ' || joins(c) {
            return true;
        }
        if let Some(&known) = self.has.get(&c) {
            return known;
        }
        let mut found = self.find(c);
        if !found && self.may_search {
            self.may_search = false;
            self.system.db_mut().load_system_fonts();
            found = self.find(c);
        }
        self.has.insert(c, found);
        found
    }

    fn find(&mut self, c: char) -> bool {
        let others = self.system.db().faces().map(|face| face.id);
        let faces: Vec<ID> = self.embedded.iter().copied().chain(others).collect();
        faces.into_iter().any(|id| {
            let font = self.system.get_font(id, Weight::NORMAL);
            font.is_some_and(|font| font.as_swash().charmap().map(c) != 0)
        })
    }
}

/// Registers an embedded font under [`FAMILY`].
fn embed(db: &mut Database, data: &'static [u8]) -> Vec<ID> {
    let mut read = Database::new();
    read.load_font_source(Source::Binary(Arc::new(data)));
    let mut infos: Vec<_> = read.faces().cloned().collect();
    for info in &mut infos {
        for (family, _) in &mut info.families {
            FAMILY.clone_into(family);
        }
    }
    infos.into_iter().map(|info| db.push_face_info(info)).collect()
}

/// What to spell of a cluster that no font can draw whole: its marks, so that the letter stays, or
/// all of it where there is no mark.
fn misfits(cluster: &str) -> Vec<char> {
    // the embedded font has all of ASCII: it is what stands with it that does not fit
    let seen = |c: &char| !joins(*c) && !c.is_whitespace() && !c.is_ascii();
    let marks = cluster.chars().filter(seen).filter(|&c| extends(c));
    let marks: Vec<char> = marks.collect();
    if marks.is_empty() { cluster.chars().filter(seen).collect() } else { marks }
}

/// Whether `c` joins the letter before it.
fn extends(c: char) -> bool {
    let mut bytes = [0; 4];
    ["a", c.encode_utf8(&mut bytes)].concat().graphemes(true).count() == 1
}

/// `text` with each of `missing` as its code point, set off from its neighbours.
fn spell(text: &str, missing: &[char]) -> String {
    if missing.is_empty() {
        return text.to_owned();
    }
    let mut spelt = String::with_capacity(text.len() * 2);
    let mut after = false;
    for c in text.chars() {
        let here = missing.contains(&c);
        if after && joins(c) {
            continue;
        }
        if (here || after) && !spelt.is_empty() && !spelt.ends_with(' ') && c != ' ' {
            spelt.push(' ');
        }
        if here {
            spelt.push_str(&code_point(c))
        } else {
            spelt.push(c)
        }
        after = here;
    }
    spelt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_cluster_the_marks_are_spelt() {
        assert_eq!(misfits("7\u{93f}"), ['\u{93f}']);
        assert_eq!(misfits("我"), ['我']);
        assert!(misfits("\u{200d}").is_empty());
    }

    #[test]
    fn missing_characters_are_spelt_apart() {
        assert_eq!(spell("我爱", &['我', '爱']), "U+6211 U+7231");
        assert_eq!(spell("[UNK] 我a", &['我']), "[UNK] U+6211 a");
        assert_eq!(spell("👩\u{200d}🔬", &['👩', '🔬']), "U+1F469 U+1F52C");
        assert_eq!(spell("abc", &[]), "abc");
    }
}
