//! plotters' SVG back end with text and images of our own: it knows neither writing direction nor
//! scaled images.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use plotters::backend::{DrawingBackend, SVGBackend};

use crate::error::Result;
use crate::picture::bitmap::strips;
use crate::picture::draw::{Canvas, colour};
use crate::picture::encode::png;
use crate::picture::layout::{Anchor, Area, Block, TextBox, failed};
use crate::picture::marks::{Mark, Place};
use crate::picture::palette::Rgb;
use crate::picture::text::{TextEngine, display};

/// Font family of all text.
const FAMILY: &str = "DejaVu Sans";

/// Leaves shapes to plotters; collects text and images in `extra`, to be spliced in by [`finish`].
pub(super) struct Svg<'a> {
    inner: SVGBackend<'a>,
    extra: &'a mut String,
    engine: &'a TextEngine,
}

impl<'a> Svg<'a> {
    pub fn new(
        shapes: &'a mut String,
        extra: &'a mut String,
        size: (u32, u32),
        engine: &'a TextEngine,
    ) -> Self {
        Self { inner: SVGBackend::with_string(shapes, size), extra, engine }
    }
}

/// The document: shapes, then text and images, under a title for readers that do not see.
pub(super) fn finish(shapes: &str, extra: &str, title: &str) -> String {
    let (head, body) = shapes.split_once(">\n").unwrap_or((shapes, ""));
    let body = body.trim_end().strip_suffix("</svg>").unwrap_or(body);
    format!(
        "{head} shape-rendering=\"crispEdges\" role=\"img\">\n<title>{}</title>\n{body}{extra}</svg>\n",
        escape(&display(title))
    )
}

/// `text` as XML character data or attribute value.
fn escape(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut safe, c| {
        match c {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&apos;"),
            // not allowed in XML, not even escaped; text for a picture has none
            '\u{0}'..='\u{8}'
            | '\u{b}'
            | '\u{c}'
            | '\u{e}'..='\u{1f}'
            | '\u{fffe}'
            | '\u{ffff}' => {
                safe.push('\u{fffd}');
            }
            c => safe.push(c),
        }
        safe
    })
}

fn hex([r, g, b]: Rgb) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

impl Canvas for Svg<'_> {
    fn fill(&mut self, area: Area, rgb: Rgb) -> Result<()> {
        let (from, to) = ((area.left, area.top), (area.right, area.bottom));
        self.inner.draw_rect(from, to, &colour(rgb, 1.0), true).map_err(failed)
    }

    fn cells(&mut self, block: &Block) -> Result<()> {
        let (width, height) = block.cell();
        if block.shapes {
            for (i, &rgb) in block.colours.iter().enumerate() {
                let (row, column) = (i / block.columns, i % block.columns);
                let (x, y) = (column as i32 * width, row as i32 * height);
                self.fill(Area::new(block.area.left + x, block.area.top + y, width, height), rgb)?;
            }
            return Ok(());
        }
        // at its full size: not every reader leaves pixels sharp when it enlarges them
        let pixels: Vec<u8> = strips(block).flatten().collect();
        let size = (block.area.width().max(0) as u32, block.area.height().max(0) as u32);
        let image = png(&pixels, size, None)?;
        let (x, y) = (block.area.left, block.area.top);
        let (width, height) = (block.area.width(), block.area.height());
        let _ = writeln!(
            self.extra,
            "<image x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" \
             preserveAspectRatio=\"none\" \
             style=\"image-rendering:pixelated\" \
             href=\"data:image/png;base64,{}\"/>",
            STANDARD.encode(image)
        );
        Ok(())
    }

    fn mark(&mut self, mark: &Mark) -> Result<()> {
        let colour = hex(mark.colour());
        let _ = match mark {
            Mark::Line { points: line, width, dash, .. } => {
                let dash = dash.map(|dash| format!(" stroke-dasharray=\"{dash:.2}\""));
                writeln!(
                    self.extra,
                    "<polyline shape-rendering=\"auto\" fill=\"none\" stroke=\"{colour}\" \
                     stroke-width=\"{width:.2}\"{} points=\"{}\"/>",
                    dash.unwrap_or_default(),
                    points(line.iter().copied())
                )
            }
            Mark::Band { low, high, opacity, .. } => writeln!(
                self.extra,
                "<polygon shape-rendering=\"auto\" fill=\"{colour}\" \
                 fill-opacity=\"{opacity:.2}\" points=\"{}\"/>",
                points(low.iter().chain(high.iter().rev()).copied())
            ),
        };
        Ok(())
    }
    fn text(&mut self, text: &TextBox) -> Result<()> {
        let ((x, y), kind) = (text.at, text.kind);
        let rtl = self.engine.label(&text.text, kind).rtl;
        // start and end follow the writing direction, the anchor does not
        let anchor = match (text.anchor, rtl) {
            (Anchor::Middle, _) => " text-anchor=\"middle\"",
            (Anchor::Start, false) | (Anchor::End, true) => "",
            (Anchor::Start, true) | (Anchor::End, false) => " text-anchor=\"end\"",
        };
        let direction = if rtl { " direction=\"rtl\"" } else { "" };
        let weight = if kind.bold { " font-weight=\"bold\"" } else { "" };
        let (x, y, turn) = if text.turned {
            let x = x + kind.middle();
            (x, y, format!(" transform=\"rotate(-90 {x} {y})\""))
        } else {
            (x, y + kind.middle(), String::new())
        };
        let _ = writeln!(
            self.extra,
            "<text x=\"{x}\" y=\"{y}\"{turn}{anchor}{direction} xml:space=\"preserve\" \
             font-family=\"{FAMILY}, Verdana, Noto Sans, sans-serif\" font-size=\"{}\"{weight} \
             fill=\"{}\">{}</text>",
            kind.size,
            hex(text.colour),
            escape(&text.text)
        );
        Ok(())
    }
}

fn points(places: impl Iterator<Item = Place>) -> String {
    places.map(|(x, y)| format!("{x:.2},{y:.2}")).collect::<Vec<_>>().join(" ")
}
