//! Where everything of a picture goes, in pixels, before anything is drawn.

use std::fmt::Display;

use crate::error::{Error, Result};
use crate::picture::marks::Mark;
use crate::picture::palette::Rgb;
use crate::picture::text::Type;

/// Longest side of a picture in pixels.
pub const MAX_SIDE: usize = 16_384;
/// Most pixels of a picture; they take three bytes each while it is drawn.
pub const MAX_PIXELS: usize = 40_000_000;

/// A rectangle of pixels; the right and bottom edges are outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)] // the four edges
pub struct Area {
    pub left: i32,
    pub top: i32,
    pub right: i32,
    pub bottom: i32,
}

impl Area {
    /// From the upper left corner and the size.
    pub fn new(left: i32, top: i32, width: i32, height: i32) -> Self {
        Self { left, top, right: left + width, bottom: top + height }
    }

    /// Whether a pixel belongs to both.
    pub fn overlaps(self, other: Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    /// Whether all of `other` is inside.
    pub fn contains(self, other: Self) -> bool {
        self.left <= other.left
            && self.top <= other.top
            && other.right <= self.right
            && other.bottom <= self.bottom
    }

    pub(crate) fn width(self) -> i32 {
        self.right - self.left
    }

    pub(crate) fn height(self) -> i32 {
        self.bottom - self.top
    }
}

/// Which point of a text is fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A text in its place.
#[derive(Debug, Clone, PartialEq)]
pub struct TextBox {
    /// What is shown.
    pub text: String,
    /// The pixels it covers.
    pub area: Area,
    /// Turned to read upwards.
    pub turned: bool,
    pub(crate) kind: Type,
    pub(crate) colour: Rgb,
    pub(crate) anchor: Anchor,
    /// The anchor, halfway up the letters.
    pub(crate) at: (i32, i32),
}

/// A matrix of equal cells, each of one colour.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// The pixels it covers: rows and columns times whole pixels.
    pub area: Area,
    /// Cells from top to bottom.
    pub rows: usize,
    /// Cells from left to right.
    pub columns: usize,
    /// Row by row.
    pub colours: Vec<Rgb>,
    /// Small enough to be shapes in an SVG; otherwise it is one image there.
    pub(crate) shapes: bool,
}

impl Block {
    /// Width and height of a cell in pixels.
    pub fn cell(&self) -> (i32, i32) {
        let share = |length: i32, count: usize| length / (count.max(1) as i32);
        (share(self.area.width(), self.columns), share(self.area.height(), self.rows))
    }
}

/// Everything of one picture in its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    /// Pixels.
    pub width: i32,
    /// Pixels.
    pub height: i32,
    /// Texts, in drawing order.
    pub texts: Vec<TextBox>,
    /// Matrices: of a heatmap, the matrix first, then the colour bar.
    pub blocks: Vec<Block>,
    pub(crate) marks: Vec<Mark>,
    pub(crate) fills: Vec<(Area, Rgb)>,
    pub(crate) ground: Rgb,
    pub(crate) title: String,
    pub(crate) dpi: u32,
}

/// Left end of the baseline for a text of this advance.
pub(crate) fn origin(
    advance: i32,
    kind: Type,
    (x, y): (i32, i32),
    anchor: Anchor,
    turned: bool,
) -> (i32, i32) {
    let back = match anchor {
        Anchor::Start => 0,
        Anchor::Middle => advance / 2,
        Anchor::End => advance,
    };
    if turned { (x + kind.middle(), y + back) } else { (x - back, y + kind.middle()) }
}

/// Refuses pictures beyond [`MAX_SIDE`] or [`MAX_PIXELS`].
pub(crate) fn check_size(title: &str, width: usize, height: usize) -> Result<()> {
    if width.max(height) <= MAX_SIDE && width.saturating_mul(height) <= MAX_PIXELS {
        return Ok(());
    }
    Err(Error::Array {
        what: format!("picture `{title}`"),
        want: format!(
            "at most {MAX_SIDE} pixels a side and {MAX_PIXELS} in all (fewer tokens or a lower \
             resolution)"
        ),
        found: format!("{width} by {height}"),
    })
}

/// What a drawing back end or an encoder reports; with sizes checked it is not expected.
pub(crate) fn failed(error: impl Display) -> Error {
    Error::Array { what: "picture".into(), want: "to be drawn".into(), found: error.to_string() }
}
