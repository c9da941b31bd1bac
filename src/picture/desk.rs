//! Putting things into a layout: at design sizes, in the colours of a style.

use crate::error::Result;
use crate::picture::layout::{Anchor, Area, Layout, TextBox, check_size, origin};
use crate::picture::palette::Rgb;
use crate::picture::style::Style;
use crate::picture::text::{TextEngine, Type};

/// Colours of everything but the values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Theme {
    pub ground: Rgb,
    pub ink: Rgb,
    pub muted: Rgb,
    pub line: Rgb,
}

impl Theme {
    pub fn of(style: &Style) -> Self {
        if style.dark {
            let (ground, ink) = ([0x12, 0x14, 0x18], [0xea, 0xec, 0xef]);
            Self { ground, ink, muted: [0x9c, 0xa3, 0xad], line: [0x45, 0x4b, 0x54] }
        } else {
            let (ground, ink) = ([0xff, 0xff, 0xff], [0x1a, 0x1c, 0x20]);
            Self { ground, ink, muted: [0x66, 0x6b, 0x73], line: [0xb9, 0xbd, 0xc4] }
        }
    }
}

/// Puts things into a layout at design sizes times the resolution.
pub(crate) struct Desk<'a> {
    pub layout: Layout,
    pub theme: Theme,
    pub engine: &'a TextEngine,
    factor: f32,
}

impl<'a> Desk<'a> {
    pub fn new(title: &str, style: &Style, engine: &'a TextEngine) -> Self {
        let theme = Theme::of(style);
        let layout = Layout {
            width: 0,
            height: 0,
            texts: Vec::new(),
            blocks: Vec::new(),
            marks: Vec::new(),
            fills: Vec::new(),
            ground: theme.ground,
            title: title.into(),
            dpi: style.dpi,
        };
        Self { layout, theme, engine, factor: style.factor() }
    }

    /// Whole pixels for a design size, at least one.
    pub fn px(&self, size: f32) -> i32 {
        (size * self.factor).round().max(1.0) as i32
    }

    /// Design units for pixels.
    pub fn units(&self, pixels: i32) -> f32 {
        pixels as f32 / self.factor
    }

    /// Regular type at a design size.
    pub fn regular(&self, size: f32) -> Type {
        Type { size: size * self.factor, bold: false }
    }

    /// Bold type at a design size.
    pub fn bold(&self, size: f32) -> Type {
        Type { size: size * self.factor, bold: true }
    }

    /// Puts a text with its anchor at `at`; returns the pixels it covers.
    pub fn text(
        &mut self,
        text: impl Into<String>,
        kind: Type,
        colour: Rgb,
        at: (i32, i32),
        anchor: Anchor,
    ) -> Area {
        self.place(text.into(), kind, colour, at, anchor, false)
    }

    /// The same, turned to read upwards.
    pub fn turned(
        &mut self,
        text: impl Into<String>,
        kind: Type,
        colour: Rgb,
        at: (i32, i32),
        anchor: Anchor,
    ) -> Area {
        self.place(text.into(), kind, colour, at, anchor, true)
    }

    fn place(
        &mut self,
        text: String,
        kind: Type,
        colour: Rgb,
        at: (i32, i32),
        anchor: Anchor,
        turned: bool,
    ) -> Area {
        let label = self.engine.label(&text, kind);
        let (x, y) = origin(label.advance, kind, at, anchor, turned);
        let area = if turned {
            // upwards: what is right in the text is up in the picture
            Area {
                left: x + label.top,
                right: x + label.top + label.height,
                top: y - label.left - label.width,
                bottom: y - label.left,
            }
        } else {
            Area::new(x + label.left, y + label.top, label.width, label.height)
        };
        self.layout.texts.push(TextBox { text, area, turned, kind, colour, anchor, at });
        area
    }

    /// Fills `area`.
    pub fn fill(&mut self, area: Area, colour: Rgb) {
        self.layout.fills.push((area, colour));
    }

    /// A line around `area`, outside of it.
    pub fn frame(&mut self, area: Area, colour: Rgb) {
        let line = self.px(1.0);
        let (width, height) = (area.width() + 2 * line, area.height());
        self.fill(Area::new(area.left - line, area.top - line, width, line), colour);
        self.fill(Area::new(area.left - line, area.bottom, width, line), colour);
        self.fill(Area::new(area.left - line, area.top, line, height), colour);
        self.fill(Area::new(area.right, area.top, line, height), colour);
    }

    /// Sentences from `top` down, wrapped to `width`.
    pub fn notes(&mut self, notes: &[String], left: i32, top: i32, width: i32) -> i32 {
        let (kind, line) = (self.regular(10.5), self.px(15.0));
        let mut y = top;
        for text in notes.iter().flat_map(|note| self.engine.wrap(note, kind, width)) {
            self.text(text, kind, self.theme.muted, (left, y + line / 2), Anchor::Start);
            y += line;
        }
        y
    }

    /// Sizes the picture to hold all that was put, with a margin.
    pub fn finish(mut self, margin: i32) -> Result<Layout> {
        let texts = self.layout.texts.iter().map(|text| text.area);
        let blocks = self.layout.blocks.iter().map(|block| block.area);
        let areas = texts.chain(blocks).chain(self.layout.fills.iter().map(|fill| fill.0));
        let (right, bottom) =
            areas.fold((0, 0), |(r, b), area| (area.right.max(r), area.bottom.max(b)));
        (self.layout.width, self.layout.height) = (right + margin, bottom + margin);
        check_size(&self.layout.title, self.layout.width as usize, self.layout.height as usize)?;
        Ok(self.layout)
    }
}
