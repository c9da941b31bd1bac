//! How a picture looks: palette, scale, numbers, theme, resolution, file format.

use std::str::FromStr;

use crate::attention::Attention;
use crate::error::{Error, Result};
use crate::picture::palette::{Colormap, Span};
use crate::tokens::Token;

/// What the caller may choose about a picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Style {
    /// Values to colours.
    pub cmap: Colormap,
    /// Which range of values the palette spans.
    pub scale: Scale,
    /// Write the numbers into the cells, up to [`Style::ANNOTATE_LIMIT`] tokens.
    pub annotate: bool,
    /// Light type on a dark ground.
    pub dark: bool,
    /// Dots per inch: scales everything and is written into the PNG; 100 draws at the base size.
    pub dpi: u32,
}

impl Style {
    /// Tokens beyond which cells are too small for numbers.
    pub const ANNOTATE_LIMIT: usize = 64;
    /// Smallest and largest resolution.
    pub const DPI: (u32, u32) = (50, 1200);

    /// Pixels per design unit.
    pub(crate) fn factor(&self) -> f32 {
        self.dpi as f32 / 100.0
    }

    pub(crate) fn check(&self) -> Result<()> {
        let (least, most) = Self::DPI;
        if (least..=most).contains(&self.dpi) {
            return Ok(());
        }
        Err(Error::Usage {
            flag: "--dpi".into(),
            want: format!("{least} to {most}"),
            found: self.dpi.to_string(),
        })
    }
}

impl Default for Style {
    fn default() -> Self {
        Self { cmap: Colormap::Viridis, scale: Scale::Head, annotate: false, dark: false, dpi: 100 }
    }
}

/// The file format of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Pixels, without loss; a palette image where 256 colours do.
    Png,
    /// Shapes and text; large matrices as one image inside.
    Svg,
}

impl Format {
    /// The file name extension.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Svg => "svg",
        }
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "png" => Ok(Self::Png),
            "svg" => Ok(Self::Svg),
            _ => Err(Error::Usage {
                flag: "--format".into(),
                want: "png or svg".into(),
                found: text.into(),
            }),
        }
    }
}

/// Which range of values the palette spans, so which pictures can be compared by eye.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Scale {
    /// Each picture from 0 to its own largest value.
    Head,
    /// From 0 to the largest value of the layer.
    Layer,
    /// From 0 to the largest value of all heads.
    Global,
    /// Each picture from 0 to its own largest value, with most of the palette for what is not a
    /// sink: it bends at the [`Scale::QUANTILE`] of the weights above 0, columns of special tokens
    /// and of the first token left out. [`BELOW`](crate::picture::BELOW) of its steps are below.
    Robust,
    /// A fixed range, written `0:1`; values outside take the end colours.
    Fixed(f32, f32),
}

impl FromStr for Scale {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::Usage {
            flag: "--scale".into(),
            want: "head, layer, global, robust or a range such as 0:1".into(),
            found: text.into(),
        };
        match text.trim() {
            "head" => Ok(Self::Head),
            "layer" => Ok(Self::Layer),
            "global" => Ok(Self::Global),
            "robust" => Ok(Self::Robust),
            range => {
                let (low, high) = range.split_once(':').ok_or_else(wrong)?;
                let low: f32 = low.trim().parse().map_err(|_| wrong())?;
                let high: f32 = high.trim().parse().map_err(|_| wrong())?;
                let usable = low.is_finite() && high.is_finite() && low < high;
                usable.then_some(Self::Fixed(low, high)).ok_or_else(wrong)
            }
        }
    }
}

impl Scale {
    /// The share of weights below the bend of [`Scale::Robust`], by nearest rank.
    pub const QUANTILE: f64 = 0.99;

    /// Looks at all heads once, so that every picture of them gets its range cheaply.
    pub fn resolve(self, attention: &Attention) -> Ranges {
        let mut layers = vec![Extent::default(); attention.head_counts.len()];
        let mut global = Extent::default();
        if matches!(self, Self::Layer | Self::Global) {
            for one in &attention.heads {
                let extent = Extent::of(one.weights.iter());
                global = global.join(extent);
                if let Some(layer) = layers.get_mut(one.head.layer) {
                    *layer = layer.join(extent);
                }
            }
        }
        let sink = |(i, key): (usize, &Token)| i == 0 || key.special;
        let sinks = attention.keys.iter().enumerate().map(sink).collect();
        Ranges { scale: self, layers, global, sinks }
    }
}

/// A [`Scale`] held against the heads it is for.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranges {
    scale: Scale,
    layers: Vec<Extent>,
    global: Extent,
    /// Columns on which heads rest that have nothing else to do.
    sinks: Vec<bool>,
}

impl Ranges {
    /// The scale behind.
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// What the palette spans in a picture of `values` in `layer`, row by row. The smallest value is
    /// 0 unless there are negative ones; the largest is above the smallest.
    pub fn span<'a>(
        &self,
        layer: Option<usize>,
        values: impl IntoIterator<Item = &'a f32, IntoIter: Clone>,
    ) -> Span {
        let values = values.into_iter();
        match self.scale {
            Scale::Fixed(low, high) => (low, high).into(),
            Scale::Head => Extent::of(values).range().into(),
            Scale::Global => self.global.range().into(),
            Scale::Layer => {
                let of_layer = layer.and_then(|layer| self.layers.get(layer)).copied();
                of_layer.unwrap_or(self.global).range().into()
            }
            Scale::Robust => {
                let (low, high) = Extent::of(values.clone()).range();
                let bend = self.bend(values).filter(|&bend| low < bend && bend < high);
                Span { low, high, bend }
            }
        }
    }

    /// The quantile of the weights outside of sinks.
    fn bend<'a>(&self, values: impl Iterator<Item = &'a f32>) -> Option<f32> {
        let sink = |i: usize| self.sinks.get(i % self.sinks.len().max(1)).is_none_or(|&sink| sink);
        let outside = values.enumerate().filter(|&(i, &value)| !sink(i) && value > 0.0);
        let mut outside: Vec<f32> = outside.map(|(_, &value)| value).collect();
        let rank = (outside.len() as f64 * Scale::QUANTILE).ceil() as usize;
        let place = rank.checked_sub(1)?;
        Some(*outside.select_nth_unstable_by(place, f32::total_cmp).1)
    }

    /// What the legend says about the scale of a picture of one matrix.
    pub fn caption(&self, mean: bool) -> &'static str {
        match self.scale {
            Scale::Head if mean => "scale: this mean",
            Scale::Head => "scale: this head",
            Scale::Robust if mean => "scale: robust, this mean",
            Scale::Robust => "scale: robust, this head",
            Scale::Layer => "scale: this layer",
            Scale::Global => "scale: all heads",
            Scale::Fixed(..) => "scale: fixed",
        }
    }
}

/// Smallest and largest finite value, with 0 always inside.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Extent {
    low: f32,
    high: f32,
}

impl Extent {
    fn of<'a>(values: impl IntoIterator<Item = &'a f32>) -> Self {
        values.into_iter().filter(|value| value.is_finite()).fold(
            Self::default(),
            |extent, &value| Self { low: extent.low.min(value), high: extent.high.max(value) },
        )
    }

    fn join(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    fn range(self) -> (f32, f32) {
        if self.high > self.low { (self.low, self.high) } else { (0.0, 1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_and_formats_parse() {
        assert_eq!("head".parse::<Scale>().unwrap(), Scale::Head);
        assert_eq!("robust".parse::<Scale>().unwrap(), Scale::Robust);
        assert_eq!("0:1".parse::<Scale>().unwrap(), Scale::Fixed(0.0, 1.0));
        assert_eq!(" -2.5 : 3 ".parse::<Scale>().unwrap(), Scale::Fixed(-2.5, 3.0));
        for wrong in ["", "heads", "1:0", "0:0", "0:NaN", "0:inf", "0", "0:1:2"] {
            let message = wrong.parse::<Scale>().unwrap_err().to_string();
            assert!(message.contains("--scale"), "{message}");
        }
        assert_eq!("SVG".parse::<Format>().unwrap(), Format::Svg);
        assert!("gif".parse::<Format>().is_err());
    }
}
