//! Glyphs to one mask per label.

use std::ops::Range;

use cosmic_text::{CacheKey, FontSystem, LayoutGlyph, SwashCache, SwashContent, SwashImage};

use super::Type;
use crate::picture::layout::Area;

/// Shades between ground and full colour of the type, so few that a picture keeps within the 256
/// colours of a palette PNG.
pub(crate) const SHADES: u8 = 15;

/// Text ready to be put onto a picture: a mask of shades and, where there are coloured glyphs, their
/// pixels. All in pixels relative to the left end of the baseline, y downwards.
#[derive(Debug, Clone, Default)]
pub(crate) struct Label {
    /// How far the text reaches.
    pub advance: i32,
    /// Left edge and top of the mask.
    pub left: i32,
    pub top: i32,
    /// Width and height of the mask.
    pub width: i32,
    pub height: i32,
    /// Shades 0..=[`SHADES`], row by row.
    pub shades: Vec<u8>,
    /// Red, green, blue, alpha, row by row; empty without coloured glyphs.
    pub coloured: Vec<[u8; 4]>,
    /// Runs from right to left.
    pub rtl: bool,
}

/// One shaped glyph.
pub(super) struct Glyph {
    key: CacheKey,
    x: i32,
    y: i32,
    /// The bytes of the text it stands for.
    pub cluster: Range<usize>,
}

impl Glyph {
    pub fn new(glyph: &LayoutGlyph, shift: f32) -> Self {
        let placed = glyph.physical((shift, 0.0), 1.0);
        Self { key: placed.cache_key, x: placed.x, y: placed.y, cluster: glyph.start..glyph.end }
    }

    /// The font's box for characters it lacks.
    pub fn is_missing(&self) -> bool {
        self.key.glyph_id == 0
    }
}

/// Draws glyphs.
pub(super) struct Raster(SwashCache);

impl Default for Raster {
    fn default() -> Self {
        Self(SwashCache::new())
    }
}

impl Raster {
    /// `glyphs` as one label.
    pub fn label(
        &mut self,
        fonts: &mut FontSystem,
        glyphs: &[Glyph],
        advance: f32,
        rtl: bool,
        kind: Type,
    ) -> Label {
        // whatever was tried before, the box for what a font lacks is never drawn
        let there = glyphs.iter().filter(|glyph| !glyph.is_missing());
        let images = there.filter_map(|glyph| {
            let image = self.0.get_image(fonts, glyph.key).clone()?;
            (!image.data.is_empty()).then(|| Placed::new(glyph, image))
        });
        let images: Vec<Placed> = images.collect();
        let mut label = Label { advance: advance.ceil() as i32, rtl, ..Label::default() };
        let area = bounds(&images, kind);
        (label.left, label.top) = (area.left, area.top);
        (label.width, label.height) = (area.width(), area.height());
        let pixels = (label.width * label.height) as usize;
        let mut alpha = vec![0; pixels];
        for placed in &images {
            match placed.image.content {
                SwashContent::Mask | SwashContent::SubpixelMask => {
                    placed.paint(&label, 1, |i, data| alpha[i] = over(alpha[i], data[0]));
                }
                SwashContent::Color => {
                    let mut coloured = std::mem::take(&mut label.coloured);
                    coloured.resize(pixels, [0; 4]);
                    placed.paint(&label, 4, |i, data| coloured[i].copy_from_slice(data));
                    label.coloured = coloured;
                }
            }
        }
        let shade = |a: u8| (u16::from(a) * u16::from(SHADES) + 127) / 255;
        label.shades = alpha.into_iter().map(|a| shade(a) as u8).collect();
        label
    }
}

/// A glyph's pixels and where they belong.
struct Placed {
    area: Area,
    image: SwashImage,
}

impl Placed {
    fn new(glyph: &Glyph, image: SwashImage) -> Self {
        let place = image.placement;
        let (left, top) = (glyph.x + place.left, glyph.y - place.top);
        Self { area: Area::new(left, top, place.width as i32, place.height as i32), image }
    }

    /// Calls `put` with the place in the label's mask and the bytes of each pixel inside it.
    fn paint(&self, label: &Label, bytes: usize, mut put: impl FnMut(usize, &[u8])) {
        let width = self.area.width() as usize;
        for (i, data) in self.image.data.chunks_exact(bytes).enumerate() {
            let x = self.area.left + (i % width) as i32 - label.left;
            let y = self.area.top + (i / width) as i32 - label.top;
            if (0..label.width).contains(&x) && (0..label.height).contains(&y) {
                put((y * label.width + x) as usize, data);
            }
        }
    }
}

/// What all of `images` cover, but not far beyond a line: marks stacked without end must not reach
/// into other lines.
fn bounds(images: &[Placed], kind: Type) -> Area {
    let all = images.iter().map(|placed| placed.area).reduce(|all, one| Area {
        left: all.left.min(one.left),
        top: all.top.min(one.top),
        right: all.right.max(one.right),
        bottom: all.bottom.max(one.bottom),
    });
    let all = all.unwrap_or_default();
    let (above, below) = ((-1.3 * kind.size) as i32, (0.6 * kind.size) as i32);
    Area { top: all.top.clamp(above, below), bottom: all.bottom.clamp(above, below), ..all }
}

/// One cover over another.
fn over(under: u8, more: u8) -> u8 {
    let (under, more) = (u16::from(under), u16::from(more));
    (under + more - (under * more + 127) / 255).min(255) as u8
}
