//! plotters' bitmap back end with shaped text.

use plotters::backend::{BitMapBackend, DrawingBackend};
use plotters_backend::text_anchor::HPos;
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingErrorKind, FontStyle,
    FontTransform,
};

use crate::picture::draw::Canvas;
use crate::picture::layout::{Anchor, Block, origin};
use crate::picture::marks::Mark;
use crate::picture::text::{Label, SHADES, TextEngine, Type};

type Failure = <BitMapBackend<'static> as DrawingBackend>::ErrorType;
type Drawn = Result<(), DrawingErrorKind<Failure>>;

/// Forwards to plotters, but draws text by itself.
pub(super) struct Bitmap<'a> {
    inner: BitMapBackend<'a>,
    engine: &'a TextEngine,
}

impl<'a> Bitmap<'a> {
    /// Over a buffer of width × height × 3 bytes.
    pub fn new(pixels: &'a mut [u8], size: (u32, u32), engine: &'a TextEngine) -> Self {
        Self { inner: BitMapBackend::with_buffer(pixels, size), engine }
    }

    fn put(&mut self, label: &Label, colour: BackendColor, (x, y): (i32, i32), up: bool) -> Drawn {
        let place = |dx: i32, dy: i32| if up { (x + dy, y - dx) } else { (x + dx, y + dy) };
        let width = label.width.max(1) as usize;
        for (dy, row) in (label.top..).zip(label.shades.chunks(width)) {
            for (dx, &shade) in (label.left..).zip(row) {
                if shade > 0 {
                    let alpha = f64::from(shade) / f64::from(SHADES);
                    let colour = BackendColor { alpha, rgb: colour.rgb };
                    self.inner.draw_pixel(place(dx, dy), colour)?;
                }
            }
        }
        for (dy, row) in (label.top..).zip(label.coloured.chunks(width)) {
            for (dx, &[r, g, b, a]) in (label.left..).zip(row).filter(|(_, pixel)| pixel[3] > 0) {
                let colour = BackendColor { alpha: f64::from(a) / 255.0, rgb: (r, g, b) };
                self.inner.draw_pixel(place(dx, dy), colour)?;
            }
        }
        Ok(())
    }
}

/// What a text style of plotters asks for, in our terms.
pub(super) fn asked<S: BackendTextStyle>(style: &S) -> (Type, Anchor, bool) {
    let bold = matches!(style.style(), FontStyle::Bold);
    let anchor = match style.anchor().h_pos {
        HPos::Left => Anchor::Start,
        HPos::Center => Anchor::Middle,
        HPos::Right => Anchor::End,
    };
    let turned = matches!(style.transform(), FontTransform::Rotate270);
    (Type { size: style.size() as f32, bold }, anchor, turned)
}

impl Canvas for Bitmap<'_> {
    fn cells(&mut self, block: &Block) -> Drawn {
        let (width, height) = (block.area.width(), block.cell().1);
        for (i, strip) in strips(block).enumerate() {
            let at = (block.area.left, block.area.top + i as i32 * height);
            self.inner.blit_bitmap(at, (width.max(0) as u32, height.max(0) as u32), &strip)?;
        }
        Ok(())
    }

    fn mark(&mut self, mark: &Mark) -> Drawn {
        let [r, g, b] = mark.colour();
        let mut drawn = Ok(());
        mark.cover(|x, y, share| {
            let colour = BackendColor { alpha: f64::from(share), rgb: (r, g, b) };
            if drawn.is_ok() {
                drawn = self.inner.draw_pixel((x, y), colour);
            }
        });
        drawn
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

impl DrawingBackend for Bitmap<'_> {
    type ErrorType = Failure;

    fn get_size(&self) -> (u32, u32) {
        self.inner.get_size()
    }

    fn ensure_prepared(&mut self) -> Drawn {
        self.inner.ensure_prepared()
    }

    fn present(&mut self) -> Drawn {
        self.inner.present()
    }

    fn draw_pixel(&mut self, at: BackendCoord, colour: BackendColor) -> Drawn {
        self.inner.draw_pixel(at, colour)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Drawn {
        self.inner.draw_rect(from, to, style, fill)
    }

    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, at: BackendCoord) -> Drawn {
        let (kind, anchor, turned) = asked(style);
        let label = self.engine.label(text, kind);
        let at = origin(label.advance, kind, at, anchor, turned);
        self.put(&label, style.color(), at, turned)
    }
}
