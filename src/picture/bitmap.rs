//! plotters' bitmap back end with shaped text.

use plotters::backend::{BitMapBackend, DrawingBackend};
use plotters_backend::text_anchor::HPos;
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingErrorKind, FontStyle,
    FontTransform,
};

use crate::picture::draw::Canvas;
use crate::picture::layout::{Anchor, Block, origin};
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
        let width = label.width.max(1) as usize;
        for (i, &shade) in label.shades.iter().enumerate() {
            let coloured = label.coloured.get(i).filter(|pixel| pixel[3] > 0);
            if shade == 0 && coloured.is_none() {
                continue;
            }
            let (dx, dy) = (label.left + (i % width) as i32, label.top + (i / width) as i32);
            let at = if up { (x + dy, y - dx) } else { (x + dx, y + dy) };
            if let Some(&[r, g, b, a]) = coloured {
                let alpha = f64::from(a) / 255.0;
                self.inner.draw_pixel(at, BackendColor { alpha, rgb: (r, g, b) })?;
            }
            if shade > 0 {
                let alpha = f64::from(shade) / f64::from(SHADES);
                self.inner.draw_pixel(at, BackendColor { alpha, rgb: colour.rgb })?;
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
        let (width, height) = block.cell();
        let (across, down) = (width.max(0) as usize, height.max(0) as usize);
        let row_width = across * block.columns;
        let mut strip = vec![0; row_width * down * 3];
        for (i, row) in block.colours.chunks(block.columns.max(1)).enumerate() {
            let Some((first, rest)) = strip.split_at_mut_checked(row_width * 3) else { break };
            for (pixels, colour) in first.chunks_exact_mut(across.max(1) * 3).zip(row) {
                pixels.chunks_exact_mut(3).for_each(|pixel| pixel.copy_from_slice(colour));
            }
            rest.chunks_exact_mut(row_width * 3).for_each(|line| line.copy_from_slice(first));
            let at = (block.area.left, block.area.top + i as i32 * height);
            self.inner.blit_bitmap(at, (row_width as u32, down as u32), &strip)?;
        }
        Ok(())
    }
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
