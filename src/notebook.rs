//! Values that show themselves in a Rust notebook.
//!
//! The Rust kernel for Jupyter, [evcxr], calls `evcxr_display` on the value of a cell and takes what
//! is printed between two marks. This is the one place where the library prints.
//!
//! | value | what a cell shows |
//! |---|---|
//! | [`Attention`] | a heatmap of each head, layers down and heads across |
//! | [`View`] | the heatmap |
//! | [`Picture`] | the picture: bytes of [`grid`] or [`heatmap`] |
//! | [`Rendered`] | the page in a frame that can reach nothing outside it |
//! | [`Trace`] | a table of what was kept |
//!
//! ```
//! use attnviz::notebook::Picture;
//! use attnviz::picture::{Format, Style, TextEngine, View, heatmap};
//! use ndarray::array;
//!
//! let words: Vec<String> = ["a", "cat"].map(String::from).to_vec();
//! let view = View::new("two words", words.clone(), words, array![[0.9, 0.1], [0.4, 0.6]])?;
//! let png = heatmap(&view, &Style::default(), Format::Png, &TextEngine::new())?;
//! Picture::new(png, Format::Png).evcxr_display(); // what a cell does that ends in the picture
//! # Ok::<(), attnviz::Error>(())
//! ```
//!
//! [evcxr]: https://github.com/evcxr/evcxr

use std::io::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::attention::Attention;
use crate::error::Result;
use crate::picture::page::Rendered;
use crate::picture::{Format, Style, TextEngine, View, grid, heatmap};
use crate::trace::Trace;

/// Height of a page's frame, in CSS pixels.
const HEIGHT: u32 = 760;

/// The bytes of a picture and what they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    bytes: Vec<u8>,
    format: Format,
}

impl Picture {
    /// A picture as [`grid`] or [`heatmap`] drew it in `format`.
    pub fn new(bytes: Vec<u8>, format: Format) -> Self {
        Self { bytes, format }
    }

    /// Shows the picture as the value of a notebook's cell.
    pub fn evcxr_display(&self) {
        match self.format {
            Format::Png => show("image/png", &STANDARD.encode(&self.bytes)),
            Format::Svg => show("image/svg+xml", &unmarked(&String::from_utf8_lossy(&self.bytes))),
        }
    }
}

impl View {
    /// Shows the heatmap as the value of a notebook's cell.
    pub fn evcxr_display(&self) {
        show_drawn(heatmap(self, &Style::default(), Format::Png, &TextEngine::new()));
    }
}

impl Attention {
    /// Shows a heatmap of each head as the value of a notebook's cell.
    pub fn evcxr_display(&self) {
        let (rows, columns) = (self.queries.len(), self.keys.len());
        let title = format!("{} heads, {rows} by {columns} tokens", self.heads.len());
        let (style, engine) = (Style::default(), TextEngine::new());
        show_drawn(grid(self, &title, &[], &style, Format::Png, &engine));
    }
}

impl Trace {
    /// Shows what was kept, and where, as the value of a notebook's cell.
    pub fn evcxr_display(&self) {
        let mut html = String::from(
            "<table><tr><th>stack</th><th>layer</th><th>site</th><th>shape</th><th>heads</th></tr>\n",
        );
        for (stack, layer, site, kept) in self.iter() {
            html += &format!(
                "<tr><td>{stack:?}</td><td>{layer}</td><td>{site:?}</td><td>{:?}</td><td>{:?}</td></tr>\n",
                kept.tensor.dims(),
                kept.heads
            );
        }
        show("text/html", &(html + "</table>"));
    }
}

impl Rendered {
    /// Shows the page as the value of a notebook's cell.
    pub fn evcxr_display(&self) {
        show("text/html", &self.frame(HEIGHT));
    }

    /// The page in a frame, `height` CSS pixels high, for an HTML document around it: its script runs
    /// and files can be saved from it, but it has no origin and reaches nothing of the document.
    pub fn frame(&self, height: u32) -> String {
        let page = String::from_utf8_lossy(&self.html);
        let page = unmarked(&page.replace('&', "&amp;").replace('"', "&quot;"));
        format!(
            "<iframe title=\"attention\" sandbox=\"allow-scripts allow-downloads\" \
             allow=\"clipboard-write\" style=\"width:100%;height:{height}px;border:1px solid #ccc\" \
             srcdoc=\"{page}\"></iframe>"
        )
    }
}

/// A picture, or why there is none.
fn show_drawn(drawn: Result<Vec<u8>>) {
    match drawn {
        Ok(bytes) => Picture::new(bytes, Format::Png).evcxr_display(),
        Err(error) => show("text/plain", &error.to_string()),
    }
}

/// The same HTML or XML in which nothing reads as a mark of the kernel's.
fn unmarked(markup: &str) -> String {
    markup.replace("EVCXR_", "EVCXR&#95;")
}

/// Hands the kernel a value of a type. A reader that is gone wants none.
fn show(kind: &str, content: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "EVCXR_BEGIN_CONTENT {kind}\n{content}\nEVCXR_END_CONTENT");
    let _ = out.flush();
}
