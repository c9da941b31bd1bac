//! Axes of charts.

use crate::picture::desk::Desk;

/// The range of an axis with round numbers on it.
#[derive(Debug)]
pub(super) struct Range {
    pub low: f64,
    pub high: f64,
    /// Values and how they are written.
    pub ticks: Vec<(f64, String)>,
}

impl Range {
    /// About all of `values`, those that are numbers; `round` lets it begin and end at round ones.
    pub fn new(values: impl Iterator<Item = f64>, round: bool) -> Option<Self> {
        let values = values.filter(|value| value.is_finite());
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        if low > high {
            return None;
        }
        // of one value alone something around it
        let spare = if high > low { 0.0 } else { low.abs().max(1.0) * 0.1 };
        let (low, high) = (low - spare, high + spare);
        let rough = (high - low) / 5.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|&s| s >= rough * 0.999)?;
        let (first, last) = match round {
            true => ((low / step + 1e-9).floor(), (high / step - 1e-9).ceil()),
            false => ((low / step - 1e-9).ceil(), (high / step + 1e-9).floor()),
        };
        let decimals = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
        let ticks = (0..=(last - first).clamp(0.0, 20.0) as usize).map(|n| {
            let value = (first + n as f64) * step;
            (value, format!("{:.decimals$}", if value.abs() < step / 2.0 { 0.0 } else { value }))
        });
        let ticks = ticks.collect();
        let (low, high) = if round { (first * step, last * step) } else { (low, high) };
        Some(Self { low, high, ticks })
    }

    pub fn share(&self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }

    /// Pixels of the longest number.
    pub fn widest(&self, desk: &Desk<'_>) -> i32 {
        let kind = desk.regular(10.5);
        self.ticks.iter().map(|(_, text)| desk.engine.width(text, kind)).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_numbers() {
        let texts = |values: &[f64], round| {
            let range = Range::new(values.iter().copied(), round).expect("range");
            let texts: Vec<String> = range.ticks.iter().map(|tick| tick.1.clone()).collect();
            (range.low, range.high, texts.join(" "))
        };
        assert_eq!(texts(&[10.0, 100.0], false), (10.0, 100.0, "20 40 60 80 100".into()));
        let (low, high, text) = texts(&[0.512, 0.788], true);
        assert!((low - 0.5).abs() < 1e-12 && (high - 0.8).abs() < 1e-12);
        assert_eq!(text, "0.5 0.6 0.7 0.8");
        assert_eq!(texts(&[-0.1, 0.2], true).2, "-0.1 0.0 0.1 0.2");
        assert_eq!(texts(&[3.0], true).2, "2.6 2.8 3.0 3.2 3.4");
        assert!(Range::new([f64::NAN].into_iter(), true).is_none());
    }
}
