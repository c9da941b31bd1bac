//! Pixels to PNG.

use png::{BitDepth, ColorType, Compression, Encoder, Filter, PixelDimensions, Unit};

use crate::error::Result;
use crate::picture::layout::failed;
use crate::picture::palette::Rgb;

/// Slots of the colour table: a power of two, roomy for 256 colours.
const SLOTS: usize = 1024;

/// Pixels compared at once with those above.
const RUN: usize = 8;

/// A PNG of `pixels` (width × height × 3 bytes): with a palette where 256 colours do, else in true
/// colour. Without loss either way. With `dpi` it is a file of its own, made fast; without, it goes
/// into another file and is made small.
pub(super) fn png(pixels: &[u8], (width, height): (u32, u32), dpi: Option<u32>) -> Result<Vec<u8>> {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, width, height);
    encoder.set_depth(BitDepth::Eight);
    encoder.set_compression(dpi.map_or(Compression::Balanced, |_| Compression::Fast));
    encoder.set_filter(Filter::Up);
    let per_metre = dpi.map(|dpi| (f64::from(dpi) / 0.0254).round() as u32);
    encoder.set_pixel_dims(per_metre.map(|density| PixelDimensions {
        xppu: density,
        yppu: density,
        unit: Unit::Meter,
    }));
    let indexed = index(pixels, width as usize);
    let data = match &indexed {
        Some((palette, indices)) => {
            encoder.set_color(ColorType::Indexed);
            encoder.set_palette(palette.as_flattened());
            indices.as_slice()
        }
        None => {
            encoder.set_color(ColorType::Rgb);
            pixels
        }
    };
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(data).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(file)
}

/// The colours in order of appearance and a place among them for each pixel; `None` beyond 256.
fn index(pixels: &[u8], width: usize) -> Option<(Vec<Rgb>, Vec<u8>)> {
    let mut colours = Colours::default();
    let width = width.max(1);
    let mut indices = vec![0; pixels.len() / 3];
    let mut above: (&[u8], &[u8]) = (&[], &[]);
    for (row, places) in pixels.chunks_exact(width * 3).zip(indices.chunks_exact_mut(width)) {
        let (runs, rest) = row.as_chunks::<{ RUN * 3 }>();
        let (out, out_rest) = places.as_chunks_mut::<RUN>();
        let runs_above = above.0.as_chunks::<{ RUN * 3 }>().0;
        let out_above = above.1.as_chunks::<RUN>().0;
        for (i, (run, out)) in runs.iter().zip(out).enumerate() {
            // most of a picture repeats what is above
            match (runs_above.get(i), out_above.get(i)) {
                (Some(other), Some(known)) if same(run, other) => *out = *known,
                _ => colours.look_up(run, out)?,
            }
        }
        colours.look_up(rest, out_rest)?;
        above = (row, places);
    }
    Some((colours.palette, indices))
}

/// Equality word by word, which is much faster here than byte by byte or by a library call.
fn same(one: &[u8; RUN * 3], other: &[u8; RUN * 3]) -> bool {
    let words = one.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0);
    words.fold(0, |d, (&a, &b)| d | (u64::from_ne_bytes(a) ^ u64::from_ne_bytes(b))) == 0
}

/// The colours so far, in order of appearance and by a hash.
struct Colours {
    palette: Vec<Rgb>,
    slots: Vec<u16>,
    last: (Rgb, u8),
}

impl Default for Colours {
    fn default() -> Self {
        Self { palette: Vec::new(), slots: vec![u16::MAX; SLOTS], last: ([0; 3], 0) }
    }
}

impl Colours {
    /// A place for each of `pixels`; `None` beyond 256 colours.
    fn look_up(&mut self, pixels: &[u8], places: &mut [u8]) -> Option<()> {
        let (mut last, mut known) = self.last;
        for (&pixel, place) in pixels.as_chunks::<3>().0.iter().zip(places) {
            if pixel != last || self.palette.is_empty() {
                (last, known) = (pixel, self.find(pixel)?);
            }
            *place = known;
        }
        self.last = (last, known);
        Some(())
    }

    fn find(&mut self, pixel: Rgb) -> Option<u8> {
        let [r, g, b] = pixel.map(usize::from);
        let mut slot = (r * 0x9e37 + g * 0x79b9 + b * 0x3c6f) >> 4;
        loop {
            slot %= SLOTS;
            let known = self.slots[slot];
            if known == u16::MAX {
                let new = u8::try_from(self.palette.len()).ok()?;
                self.slots[slot] = u16::from(new);
                self.palette.push(pixel);
                return Some(new);
            }
            if self.palette.get(usize::from(known)) == Some(&pixel) {
                return Some(known as u8);
            }
            slot += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn palettes_hold_256_colours_and_no_more() {
        let colours =
            |n: u32| (0..n).flat_map(|i| [(i >> 8) as u8, i as u8, 7]).collect::<Vec<_>>();
        let (palette, indices) = index(&colours(256), 64).unwrap();
        assert_eq!((palette.len(), indices[255]), (256, 255));
        assert!(index(&colours(257), 257).is_none());
    }
}
