//! plotters' bitmap back end with shaped text.

use plotters::backend::{BitMapBackend, DrawingBackend};

use crate::error::Result;
use crate::picture::draw::{Canvas, colour};
use crate::picture::layout::{Area, Block, TextBox, failed, origin};
use crate::picture::marks::Mark;
use crate::picture::palette::Rgb;
use crate::picture::text::{Label, SHADES, TextEngine};

/// Leaves shapes to plotters, and draws text by itself.
pub(super) struct Bitmap<'a> {
    inner: BitMapBackend<'a>,
    engine: &'a TextEngine,
}

impl<'a> Bitmap<'a> {
    /// Over a buffer of width × height × 3 bytes.
    pub fn new(pixels: &'a mut [u8], size: (u32, u32), engine: &'a TextEngine) -> Self {
        Self { inner: BitMapBackend::with_buffer(pixels, size), engine }
    }

    fn pixel(&mut self, at: (i32, i32), rgb: Rgb, alpha: f64) -> Result<()> {
        self.inner.draw_pixel(at, colour(rgb, alpha)).map_err(failed)
    }

    fn put(&mut self, label: &Label, colour: Rgb, (x, y): (i32, i32), up: bool) -> Result<()> {
        let place = |dx: i32, dy: i32| if up { (x + dy, y - dx) } else { (x + dx, y + dy) };
        let width = label.width.max(1) as usize;
        for (dy, row) in (label.top..).zip(label.shades.chunks(width)) {
            for (dx, &shade) in (label.left..).zip(row).filter(|(_, shade)| **shade > 0) {
                self.pixel(place(dx, dy), colour, f64::from(shade) / f64::from(SHADES))?;
            }
        }
        for (dy, row) in (label.top..).zip(label.coloured.chunks(width)) {
            for (dx, &[r, g, b, a]) in (label.left..).zip(row).filter(|(_, pixel)| pixel[3] > 0) {
                self.pixel(place(dx, dy), [r, g, b], f64::from(a) / 255.0)?;
            }
        }
        Ok(())
    }
}

impl Canvas for Bitmap<'_> {
    fn fill(&mut self, area: Area, rgb: Rgb) -> Result<()> {
        let (from, to) = ((area.left, area.top), (area.right, area.bottom));
        self.inner.draw_rect(from, to, &colour(rgb, 1.0), true).map_err(failed)
    }

    fn cells(&mut self, block: &Block) -> Result<()> {
        let (width, height) = (block.area.width(), block.cell().1);
        for (i, strip) in strips(block).enumerate() {
            let at = (block.area.left, block.area.top + i as i32 * height);
            let size = (width.max(0) as u32, height.max(0) as u32);
            self.inner.blit_bitmap(at, size, &strip).map_err(failed)?;
        }
        Ok(())
    }

    fn mark(&mut self, mark: &Mark) -> Result<()> {
        let mut drawn = Ok(());
        mark.cover(|x, y, share| {
            if drawn.is_ok() {
                drawn = self.pixel((x, y), mark.colour(), f64::from(share));
            }
        });
        drawn
    }

    fn text(&mut self, text: &TextBox) -> Result<()> {
        let label = self.engine.label(&text.text, text.kind);
        let at = origin(label.advance, text.kind, text.at, text.anchor, text.turned);
        self.put(&label, text.colour, at, text.turned)
    }
}

/// The pixels of each row of cells, three bytes each.
pub(super) fn strips(block: &Block) -> impl Iterator<Item = Vec<u8>> + '_ {
    let (width, height) = block.cell();
    let (across, down) = (width.max(0) as usize, height.max(0) as usize);
    block.colours.chunks(block.columns.max(1)).map(move |row| {
        let mut strip = Vec::with_capacity(row.len() * across * down * 3);
        for colour in row {
            for _ in 0..across {
                strip.extend_from_slice(colour);
            }
        }
        let line = strip.len();
        for _ in 1..down {
            strip.extend_from_within(..line);
        }
        strip
    })
}
