//! The one drawing of a layout, over any plotters back end.

use plotters::coord::Shift;
use plotters::element::{Drawable, PointCollection, Rectangle, Text};
use plotters::prelude::{DrawingArea, DrawingAreaErrorKind, DrawingBackend, RGBColor};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontDesc, FontFamily, FontStyle, FontTransform, TextStyle};
use plotters_backend::{BackendCoord, DrawingErrorKind};

use crate::picture::layout::{Anchor, Area, Block, Layout, TextBox};
use crate::picture::marks::Mark;
use crate::picture::palette::Rgb;

/// Font family of all text.
pub(super) const FAMILY: &str = "DejaVu Sans";

/// A plotters back end that can also draw a matrix of cells, and what lies between pixels.
pub(super) trait Canvas: DrawingBackend {
    /// Draws `block`, cell by cell or at once.
    fn cells(&mut self, block: &Block) -> Result<(), DrawingErrorKind<Self::ErrorType>>;

    /// Draws a line or a band.
    fn mark(&mut self, mark: &Mark) -> Result<(), DrawingErrorKind<Self::ErrorType>>;
}

/// Draws everything of `layout`.
pub(super) fn draw<C: Canvas>(
    layout: &Layout,
    area: &DrawingArea<C, Shift>,
) -> Result<(), DrawingAreaErrorKind<C::ErrorType>> {
    area.fill(&colour(layout.ground))?;
    for &(Area { left, top, right, bottom }, fill) in &layout.fills {
        area.draw(&Rectangle::new([(left, top), (right, bottom)], colour(fill).filled()))?;
    }
    for block in &layout.blocks {
        let at = (block.area.left, block.area.top);
        area.draw(&Own { at, draw: |canvas: &mut C| canvas.cells(block) })?;
    }
    for mark in &layout.marks {
        area.draw(&Own { at: (0, 0), draw: |canvas: &mut C| canvas.mark(mark) })?;
    }
    for text in &layout.texts {
        area.draw(&Text::new(text.text.as_str(), text.at, style(text)))?;
    }
    area.present()
}

fn colour([r, g, b]: Rgb) -> RGBColor {
    RGBColor(r, g, b)
}

/// Anchored at the middle of the letters' height: back ends take `VPos::Center` as that.
fn style(text: &TextBox) -> TextStyle<'static> {
    let weight = if text.kind.bold { FontStyle::Bold } else { FontStyle::Normal };
    let font = FontDesc::new(FontFamily::Name(FAMILY), f64::from(text.kind.size), weight);
    let turn = if text.turned { FontTransform::Rotate270 } else { FontTransform::None };
    let place = match text.anchor {
        Anchor::Start => HPos::Left,
        Anchor::Middle => HPos::Center,
        Anchor::End => HPos::Right,
    };
    TextStyle {
        font: font.transform(turn),
        color: colour(text.colour).to_backend_color(),
        pos: Pos::new(place, VPos::Center),
    }
}

/// What plotters has no element for, as one.
struct Own<F> {
    at: BackendCoord,
    draw: F,
}

impl<'a, F> PointCollection<'a, BackendCoord> for &'a Own<F> {
    type Point = &'a BackendCoord;
    type IntoIter = std::iter::Once<&'a BackendCoord>;

    fn point_iter(self) -> Self::IntoIter {
        std::iter::once(&self.at)
    }
}

impl<C: Canvas, F> Drawable<C> for Own<F>
where
    F: Fn(&mut C) -> Result<(), DrawingErrorKind<C::ErrorType>>,
{
    fn draw<I: Iterator<Item = BackendCoord>>(
        &self,
        _: I,
        backend: &mut C,
        _: (u32, u32),
    ) -> Result<(), DrawingErrorKind<C::ErrorType>> {
        (self.draw)(backend)
    }
}
