//! Values to colours: perceptually even, colour-blind-safe palettes of a fixed number of steps.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// Steps of a palette. With the shades of the type they leave a picture within the 256 colours of a
/// palette PNG; the reading error of half a step is 0.22 % of the range.
pub const LEVELS: usize = 224;
/// Steps below the bend of a palette that has one: four fifths.
pub const BELOW: usize = LEVELS * 4 / 5;

/// Red, green, blue.
pub type Rgb = [u8; 3];

/// A palette in which equal differences of value look equally large, also with the common kinds of
/// colour blindness and in greyscale.
///
/// # Source
/// Viridis, magma, inferno, plasma: van der Walt and Smith 2015. Cividis: Nuñez et al. 2018. The
/// single-hue ones and RdBu: Harrower and Brewer 2003 (ColorBrewer). All as in d3-scale-chromatic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)] // the names are those of matplotlib
pub enum Colormap {
    Viridis,
    Cividis,
    Magma,
    Inferno,
    Plasma,
    Blues,
    Greens,
    Greys,
    Oranges,
    Purples,
    Reds,
    /// From red over white to blue, for values on both sides of a middle.
    RdBu,
}

impl Colormap {
    /// All palettes that run one way, from which weights take theirs.
    pub const ALL: [Self; 11] = [
        Self::Viridis,
        Self::Cividis,
        Self::Magma,
        Self::Inferno,
        Self::Plasma,
        Self::Blues,
        Self::Greens,
        Self::Greys,
        Self::Oranges,
        Self::Purples,
        Self::Reds,
    ];

    /// The name on the command line, as in matplotlib in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Viridis => "viridis",
            Self::Cividis => "cividis",
            Self::Magma => "magma",
            Self::Inferno => "inferno",
            Self::Plasma => "plasma",
            Self::Blues => "blues",
            Self::Greens => "greens",
            Self::Greys => "greys",
            Self::Oranges => "oranges",
            Self::Purples => "purples",
            Self::Reds => "reds",
            Self::RdBu => "rdbu",
        }
    }

    /// The colours from the smallest value to the largest. The single-hue palettes start near the
    /// ground of the picture, so they run the other way on a dark one.
    pub fn colours(self, dark: bool) -> [Rgb; LEVELS] {
        let (gradient, single_hue) = match self {
            Self::Viridis => (colorous::VIRIDIS, false),
            Self::Cividis => (colorous::CIVIDIS, false),
            Self::Magma => (colorous::MAGMA, false),
            Self::Inferno => (colorous::INFERNO, false),
            Self::Plasma => (colorous::PLASMA, false),
            Self::Blues => (colorous::BLUES, true),
            Self::Greens => (colorous::GREENS, true),
            Self::Greys => (colorous::GREYS, true),
            Self::Oranges => (colorous::ORANGES, true),
            Self::Purples => (colorous::PURPLES, true),
            Self::Reds => (colorous::REDS, true),
            Self::RdBu => (colorous::RED_BLUE, false),
        };
        let mut colours: [Rgb; LEVELS] =
            std::array::from_fn(|level| gradient.eval_rational(level, LEVELS).as_array());
        // flat ends round two steps to one colour: a channel moves on by 1, so that values differ
        for level in 1..LEVELS {
            if colours[level] == colours[level - 1] {
                let [red, ..] = &mut colours[level];
                *red = red.saturating_sub(1);
            }
        }
        if single_hue && dark {
            colours.reverse();
        }
        colours
    }
}

impl fmt::Display for Colormap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Colormap {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let name = text.trim().to_ascii_lowercase();
        let name = if name == "grays" { "greys" } else { &name };
        Self::ALL.into_iter().find(|map| map.name() == name).ok_or_else(|| Error::Usage {
            flag: "--cmap".into(),
            want: format!("one of {}", Self::ALL.map(Self::name).join(", ")),
            found: text.into(),
        })
    }
}

/// Values at the two ends of a palette, and where it bends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// At the lower end.
    pub low: f32,
    /// At the upper end.
    pub high: f32,
    /// Up to here the first [`BELOW`] steps are even, from here on the others; `None` where all are.
    pub bend: Option<f32>,
}

impl Span {
    /// The step of a palette for `value`; `None` for what is not a number.
    pub fn level(&self, value: f32) -> Option<usize> {
        if value.is_nan() {
            return None;
        }
        let share = |low: f32, high: f32| {
            let share = (f64::from(value) - f64::from(low)) / (f64::from(high) - f64::from(low));
            share.clamp(0.0, 1.0)
        };
        let steps = |share: f64, last: usize| (share * last as f64 + 0.5) as usize;
        Some(match self.bend {
            None => steps(share(self.low, self.high), LEVELS - 1),
            Some(bend) if value <= bend => steps(share(self.low, bend), BELOW - 1),
            Some(bend) => BELOW + steps(share(bend, self.high), LEVELS - 1 - BELOW),
        })
    }

    /// The value that a step of a palette stands for.
    pub fn value(&self, level: usize) -> f32 {
        let between = |low: f32, high: f32, step: usize, last: usize| {
            let share = step as f64 / last as f64;
            (f64::from(low) + (f64::from(high) - f64::from(low)) * share) as f32
        };
        match self.bend {
            None => between(self.low, self.high, level, LEVELS - 1),
            Some(bend) if level < BELOW => between(self.low, bend, level, BELOW - 1),
            Some(bend) => between(bend, self.high, level - BELOW, LEVELS - 1 - BELOW),
        }
    }
}

impl From<(f32, f32)> for Span {
    fn from((low, high): (f32, f32)) -> Self {
        Self { low, high, bend: None }
    }
}

/// `share` of the way from `from` to `to`.
pub(crate) fn mix(from: Rgb, to: Rgb, share: f32) -> Rgb {
    std::array::from_fn(|i| {
        (f32::from(from[i]) + (f32::from(to[i]) - f32::from(from[i])) * share).round() as u8
    })
}

/// Relative luminance from 0 (black) to 1 (white), as WCAG 2 defines it.
pub(crate) fn luminance(colour: Rgb) -> f32 {
    let linear = colour.map(|channel| {
        let c = f32::from(channel) / 255.0;
        // close enough to the sRGB curve to choose between black and white type
        c * c * (0.6975 * c + 0.3025)
    });
    0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_step_of_every_palette_is_a_colour_of_its_own() {
        for map in Colormap::ALL.into_iter().chain([Colormap::RdBu]) {
            for dark in [false, true] {
                let distinct: HashSet<Rgb> = map.colours(dark).into_iter().collect();
                assert_eq!(distinct.len(), LEVELS, "{map}");
            }
        }
    }

    #[test]
    fn lightness_runs_one_way() {
        for map in Colormap::ALL {
            let colours = map.colours(false);
            let light: Vec<f32> = colours.iter().map(|&c| luminance(c)).collect();
            let rising = light.last() > light.first();
            for pair in light.windows(8) {
                assert!((pair[7] > pair[0]) == rising, "{map}: {pair:?}");
            }
        }
    }

    #[test]
    fn a_palette_of_two_sides_is_lightest_in_its_middle() {
        let light = Colormap::RdBu.colours(false).map(luminance);
        let (left, right) = light.split_at(LEVELS / 2);
        assert!(left.windows(8).all(|pair| pair[7] > pair[0]));
        assert!(right.windows(8).all(|pair| pair[7] < pair[0]));
        assert!(left[LEVELS / 2 - 1] > 0.8 && Colormap::RdBu.colours(false)[0][0] > 100);
    }

    #[test]
    fn names_parse_back() {
        for map in Colormap::ALL {
            assert_eq!(map.name().parse::<Colormap>().unwrap(), map);
        }
        assert!("jet".parse::<Colormap>().unwrap_err().to_string().contains("viridis"));
    }

    #[test]
    fn levels_clamp_and_leave_nan_out() {
        let level = |value, range: (f32, f32)| Span::from(range).level(value);
        assert_eq!(level(-1.0, (0.0, 1.0)), Some(0));
        assert_eq!(level(0.5, (0.0, 1.0)), Some(112));
        assert_eq!(level(f32::INFINITY, (0.0, 1.0)), Some(LEVELS - 1));
        assert_eq!(level(f32::NAN, (0.0, 1.0)), None);
        assert_eq!(level(f32::MAX, (-f32::MAX, f32::MAX)), Some(LEVELS - 1));
    }

    #[test]
    fn steps_of_a_bent_palette_stand_for_values() {
        let span = Span { low: 0.0, high: 1.0, bend: Some(0.1) };
        assert_eq!(span.level(0.1), Some(BELOW - 1));
        assert_eq!(span.level(0.100_001), Some(BELOW));
        assert_eq!(span.level(1.0), Some(LEVELS - 1));
        for i in 0..=1000 {
            let value = i as f32 / 1000.0;
            let (below, above) = ((BELOW - 1) as f32, (LEVELS - 1 - BELOW) as f32);
            let step = if value <= 0.1 { 0.1 / below } else { 0.9 / above };
            let back = span.value(span.level(value).unwrap());
            assert!((back - value).abs() <= step / 2.0 + 1e-6, "{value}: {back}");
        }
    }
}
