//! Text for pictures: shaped, ordered and rasterised once, then shared by all pictures.
//!
//! DejaVu Sans is embedded, so the same text gives the same pixels on every machine as long as that
//! font covers it. Only a character it lacks makes the engine look for fonts on the system; one
//! that no font has is shown as its code point, such as `U+6211`, and reported by
//! [`TextEngine::warnings`].

mod fonts;
mod label;
mod raster;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

pub(crate) use label::{display, shorten};
pub(crate) use raster::{Label, SHADES};

use fonts::Fonts;

/// Font size in pixels and weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Type {
    pub size: f32,
    pub bold: bool,
}

impl Type {
    /// From the middle between baseline and the tops of the letters down to the baseline, in
    /// pixels: text is placed by that middle.
    pub fn middle(self) -> i32 {
        (self.size * 0.34).round() as i32
    }

    fn key(self) -> TypeKey {
        ((self.size * 64.0).round() as u32, self.bold)
    }
}

/// Size in sixty-fourths of a pixel, and weight.
type TypeKey = (u32, bool);
/// By their text.
type Labels = HashMap<String, Arc<Label>>;

/// Shapes and rasterises text. One engine serves any number of pictures and threads: every label is
/// drawn once and kept.
///
/// ```
/// use attnviz::picture::TextEngine;
///
/// let text = TextEngine::with_fonts([]); // the embedded font alone
/// assert!(text.warnings().is_empty());
/// ```
#[derive(Debug)]
pub struct TextEngine {
    fonts: Mutex<Fonts>,
    labels: RwLock<HashMap<TypeKey, Labels>>,
    missing: Mutex<BTreeSet<char>>,
}

impl Default for TextEngine {
    fn default() -> Self {
        Self::new()
    }
}

impl TextEngine {
    /// The embedded font, and the system's fonts for what it lacks.
    pub fn new() -> Self {
        Self::from(Fonts::new(Vec::new(), true))
    }

    /// The embedded font and these font files (TrueType or OpenType, also collections), in this
    /// order; nothing from the system. Data that is no font is passed over.
    pub fn with_fonts(fonts: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self::from(Fonts::new(fonts.into_iter().collect(), false))
    }

    fn from(fonts: Fonts) -> Self {
        Self { fonts: Mutex::new(fonts), labels: RwLock::default(), missing: Mutex::default() }
    }

    /// What the reader of the pictures so far should know: at most one sentence, naming the
    /// characters that no font has.
    pub fn warnings(&self) -> Vec<String> {
        const NAMED: usize = 8;
        let missing = lock(&self.missing);
        if missing.is_empty() {
            return Vec::new();
        }
        let mut names: Vec<String> = missing.iter().take(NAMED).map(|&c| code_point(c)).collect();
        if missing.len() > NAMED {
            names.push(format!("and {} more", missing.len() - NAMED));
        }
        vec![format!(
            "no font here has {}: shown as code points; install a font for that script",
            names.join(", ")
        )]
    }

    /// The rasterised `text`, made on first use.
    pub(crate) fn label(&self, text: &str, kind: Type) -> Arc<Label> {
        let key = kind.key();
        let known = self.labels.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(label) = known.get(&key).and_then(|labels| labels.get(text)) {
            return Arc::clone(label);
        }
        drop(known);
        let (label, missing) = lock(&self.fonts).draw(text, kind);
        if !missing.is_empty() {
            lock(&self.missing).extend(missing);
        }
        let mut known = self.labels.write().unwrap_or_else(PoisonError::into_inner);
        let kept = known.entry(key).or_default().entry(text.to_owned());
        Arc::clone(kept.or_insert_with(|| Arc::new(label)))
    }

    /// The width of `text` in pixels.
    pub(crate) fn width(&self, text: &str, kind: Type) -> i32 {
        self.label(text, kind).advance
    }

    /// `text` as it can be shown within `width` pixels: what cannot be seen made visible, the middle
    /// left out where it is too long.
    pub(crate) fn fit(&self, text: &str, kind: Type, width: i32) -> String {
        let shown = display(text);
        let fitted = self.shorten_to(&shown, kind, width);
        if self.width(&fitted, kind) <= width {
            return fitted;
        }
        // a few clusters that no font has are long as code points: shorten those
        let spelt = lock(&self.fonts).spelt(&shown);
        if spelt == shown { fitted } else { self.shorten_to(&spelt, kind, width) }
    }

    fn shorten_to(&self, text: &str, kind: Type, width: i32) -> String {
        // the first guess is made by length, so that no endless text is ever shaped
        let mut room = 96;
        loop {
            let (shorter, length) = shorten(text, room);
            let now = self.width(&shorter, kind);
            if now <= width || length <= 3 {
                return shorter;
            }
            room = (length * width.max(1) as usize / now as usize).clamp(3, length - 1);
        }
    }

    /// `text` in lines of at most `width` pixels, broken between words.
    pub(crate) fn wrap(&self, text: &str, kind: Type, width: i32) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for word in display(text).split(' ') {
            let joined = match lines.last() {
                Some(line) => format!("{line} {word}"),
                None => String::new(),
            };
            match lines.last_mut() {
                Some(line) if self.width(&joined, kind) <= width => *line = joined,
                _ => lines.push(self.fit(word, kind, width)),
            }
        }
        lines
    }
}

/// `U+6211`
fn code_point(c: char) -> String {
    format!("U+{:04X}", u32::from(c))
}

// a panic elsewhere leaves these caches usable
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
