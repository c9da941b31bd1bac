//! Pixels to PNG.

use png::{BitDepth, ColorType, Compression, Encoder, Filter, PixelDimensions, Unit};

use crate::error::Result;
use crate::picture::layout::failed;
use crate::picture::palette::Rgb;

/// Slots of the colour table: a power of two, roomy for 256 colours.
const SLOTS: usize = 1024;

/// A PNG of `pixels` (width × height × 3 bytes): with a palette where 256 colours do, else in true
/// colour. Without loss either way.
pub(super) fn png(pixels: &[u8], (width, height): (u32, u32), dpi: Option<u32>) -> Result<Vec<u8>> {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, width, height);
    encoder.set_depth(BitDepth::Eight);
    encoder.set_compression(Compression::Fast);
    encoder.set_filter(Filter::Up);
    let per_metre = dpi.map(|dpi| (f64::from(dpi) / 0.0254).round() as u32);
    encoder.set_pixel_dims(per_metre.map(|density| PixelDimensions {
        xppu: density,
        yppu: density,
        unit: Unit::Meter,
    }));
    let indexed = index(pixels);
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
fn index(pixels: &[u8]) -> Option<(Vec<Rgb>, Vec<u8>)> {
    let mut palette: Vec<Rgb> = Vec::new();
    let mut slots = vec![u16::MAX; SLOTS];
    let mut last: (Rgb, u8) = ([0; 3], 0);
    let mut indices = Vec::with_capacity(pixels.len() / 3);
    let (whole, _) = pixels.as_chunks::<3>();
    for &pixel in whole {
        if pixel != last.0 || palette.is_empty() {
            last = (pixel, find(pixel, &mut palette, &mut slots)?);
        }
        indices.push(last.1);
    }
    Some((palette, indices))
}

fn find(pixel: Rgb, palette: &mut Vec<Rgb>, slots: &mut [u16]) -> Option<u8> {
    let [r, g, b] = pixel.map(usize::from);
    let mut slot = (r * 0x9e37 + g * 0x79b9 + b * 0x3c6f) >> 4;
    loop {
        slot %= SLOTS;
        let known = slots[slot];
        if known == u16::MAX {
            let new = u8::try_from(palette.len()).ok()?;
            slots[slot] = u16::from(new);
            palette.push(pixel);
            return Some(new);
        }
        if palette.get(usize::from(known)) == Some(&pixel) {
            return Some(known as u8);
        }
        slot += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn palettes_hold_256_colours_and_no_more() {
        let colours =
            |n: u32| (0..n).flat_map(|i| [(i >> 8) as u8, i as u8, 7]).collect::<Vec<_>>();
        let (palette, indices) = index(&colours(256)).unwrap();
        assert_eq!((palette.len(), indices[255]), (256, 255));
        assert!(index(&colours(257)).is_none());
    }
}
