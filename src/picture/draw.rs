//! The one drawing of a layout, onto either canvas.

use plotters_backend::BackendColor;

use crate::error::Result;
use crate::picture::layout::{Area, Block, Layout, TextBox};
use crate::picture::marks::Mark;
use crate::picture::palette::Rgb;

/// A back end of plotters for its shapes, with everything else drawn by ourselves: matrices at once,
/// what lies between pixels, shaped text.
pub(super) trait Canvas {
    /// Fills an area.
    fn fill(&mut self, area: Area, colour: Rgb) -> Result<()>;

    /// Draws `block`, cell by cell or at once.
    fn cells(&mut self, block: &Block) -> Result<()>;

    /// Draws a line or a band.
    fn mark(&mut self, mark: &Mark) -> Result<()>;

    /// Draws a text.
    fn text(&mut self, text: &TextBox) -> Result<()>;
}

/// Draws everything of `layout`.
pub(super) fn draw(layout: &Layout, canvas: &mut impl Canvas) -> Result<()> {
    canvas.fill(Area::new(0, 0, layout.width.max(0), layout.height.max(0)), layout.ground)?;
    for &(area, colour) in &layout.fills {
        canvas.fill(area, colour)?;
    }
    layout.blocks.iter().try_for_each(|block| canvas.cells(block))?;
    layout.marks.iter().try_for_each(|mark| canvas.mark(mark))?;
    layout.texts.iter().try_for_each(|text| canvas.text(text))
}

/// A colour as plotters has it.
pub(super) fn colour([r, g, b]: Rgb, alpha: f64) -> BackendColor {
    BackendColor { alpha, rgb: (r, g, b) }
}
