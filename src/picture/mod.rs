//! Pictures of attention: a matrix per head with its tokens on both axes, and all heads at a glance.
//!
//! Renderers take arrays and labels alone, wherever they come from, and return the bytes of a file.
//! The same matrix and labels give the same bytes, on any machine as long as the embedded font
//! covers the labels, and at any number of threads. In a PNG a cell is a square of whole pixels of
//! one colour of the palette, so every value can be read back to within a step of
//! 1/[`LEVELS`] of the range, or of the part of it that [`Span`] says.
//!
//! ```
//! use attnviz::picture::{Format, Style, TextEngine, View, heatmap};
//! use ndarray::array;
//!
//! let tokens: Vec<String> = ["a", "cat", "sat"].map(String::from).to_vec();
//! let weights = array![[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.6, 0.3]];
//! let view = View::new("three tokens", tokens.clone(), tokens, weights)?;
//! let png = heatmap(&view, &Style::default(), Format::Png, &TextEngine::new())?;
//! assert!(png.starts_with(b"\x89PNG"));
//! # Ok::<(), attnviz::Error>(())
//! ```

mod axes;
mod bitmap;
mod chart;
mod desk;
mod draw;
mod encode;
mod grid;
mod heatmap;
mod layout;
mod legend;
mod marks;
pub mod page;
mod palette;
mod range;
mod style;
mod svg;
mod text;
mod view;

use crate::attention::Attention;
use crate::error::Result;

pub use chart::{Chart, Line, Panel, chart, chart_layout};
pub use grid::grid_layout;
pub use heatmap::heatmap_layout;
pub use layout::{Area, Block, Layout, MAX_PIXELS, MAX_SIDE, TextBox};
pub use palette::{BELOW, Colormap, LEVELS, Rgb, Span};
pub use style::{Format, Ranges, Scale, Style};
pub use text::TextEngine;
pub use view::{NEARLY_ALL, View, token_label};

/// The picture of one matrix, as the bytes of a file.
///
/// # Errors
/// [`Error::Array`](crate::Error::Array) when the picture would be larger than [`MAX_SIDE`] or
/// [`MAX_PIXELS`]; [`Error::Usage`](crate::Error::Usage) for a resolution out of range.
pub fn heatmap(view: &View, style: &Style, format: Format, engine: &TextEngine) -> Result<Vec<u8>> {
    heatmap_layout(view, style, engine)?.render(format, engine)
}

/// The overview of all heads, layers down and heads across, as the bytes of a file. Heads that are
/// not in `attention` are gaps under their numbers; `notes` go under the picture.
///
/// # Errors
/// [`Error::Array`](crate::Error::Array) when there is nothing to draw or the picture would be
/// larger than [`MAX_SIDE`] or [`MAX_PIXELS`]; [`Error::Usage`](crate::Error::Usage) for a resolution
/// out of range.
pub fn grid(
    attention: &Attention,
    title: &str,
    notes: &[String],
    style: &Style,
    format: Format,
    engine: &TextEngine,
) -> Result<Vec<u8>> {
    grid_layout(attention, title, notes, style, engine)?.render(format, engine)
}

impl Layout {
    /// Draws the layout with the engine it was made with.
    ///
    /// # Errors
    /// [`Error::Array`](crate::Error::Array) when drawing or encoding fails, which a layout within
    /// the limits does not.
    pub fn render(&self, format: Format, engine: &TextEngine) -> Result<Vec<u8>> {
        let size = (self.width.max(0) as u32, self.height.max(0) as u32);
        match format {
            Format::Png => {
                let mut pixels = vec![0; size.0 as usize * size.1 as usize * 3];
                draw::draw(self, &mut bitmap::Bitmap::new(&mut pixels, size, engine))?;
                encode::png(&pixels, size, Some(self.dpi))
            }
            Format::Svg => {
                let (mut shapes, mut extra) = (String::new(), String::new());
                draw::draw(self, &mut svg::Svg::new(&mut shapes, &mut extra, size, engine))?;
                Ok(svg::finish(&shapes, &extra, &self.title).into_bytes())
            }
        }
    }
}
