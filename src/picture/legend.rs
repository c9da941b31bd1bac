//! The colour bar: numbers to colours.

use crate::picture::desk::Desk;
use crate::picture::layout::{Anchor, Area, Block};
use crate::picture::palette::{BELOW, LEVELS, Rgb, Span};

/// What the colour bar says.
pub(crate) struct Legend<'a> {
    /// Lines over the bar.
    pub heading: &'a [String],
    pub colours: &'a [Rgb; LEVELS],
    /// Whether the palette bends, which a line across the bar shows.
    pub bent: bool,
    /// Numbers along the bar: share of its height from the bottom, and text.
    pub ticks: Vec<(f32, String)>,
}

impl Legend<'_> {
    /// Puts the bar at `left`, `top`, with its heading above.
    pub fn place(&self, desk: &mut Desk<'_>, left: i32, top: i32, height: i32) {
        let (kind, line) = (desk.regular(11.0), desk.px(15.0));
        for (i, text) in self.heading.iter().rev().enumerate() {
            let y = top - desk.px(8.0) - i as i32 * line - line / 2;
            let colour =
                if i + 1 == self.heading.len() { desk.theme.ink } else { desk.theme.muted };
            let text = desk.engine.fit(text, kind, desk.px(200.0));
            desk.text(text, kind, colour, (left, y), Anchor::Start);
        }
        let area = Area::new(left, top, desk.px(14.0), height);
        let rows = height.max(1) as usize;
        let bend = (BEND * (height - 1) as f32).round() as usize;
        let line = desk.px(1.0) as usize;
        let colours = (0..rows).map(|y| {
            if self.bent && (bend..bend + line).contains(&(rows - 1 - y)) {
                return desk.theme.ground;
            }
            let share = (rows - 1 - y) as f32 / (rows - 1).max(1) as f32;
            self.colours[(share * (LEVELS - 1) as f32).round() as usize]
        });
        let colours: Vec<Rgb> = colours.collect();
        desk.layout.blocks.push(Block { area, rows, columns: 1, colours, shapes: false });
        desk.frame(area, desk.theme.line);
        for (share, text) in &self.ticks {
            let y = area.bottom - 1 - (share * (height - 1) as f32).round() as i32;
            let mark = Area::new(area.right + desk.px(1.0), y, desk.px(4.0), desk.px(1.0));
            desk.fill(mark, desk.theme.line);
            let at = (mark.right + desk.px(4.0), y);
            desk.text(text.as_str(), kind, desk.theme.ink, at, Anchor::Start);
        }
    }
}

/// Where a bent palette bends: share of the bar's height from the bottom.
pub(crate) const BEND: f32 = (BELOW - 1) as f32 / (LEVELS - 1) as f32;

/// Numbers for a bar of `height` design units: both ends and the bend to three digits, round values
/// between.
pub(crate) fn ticks(span: Span, height: f32) -> Vec<(f32, String)> {
    let Some(bend) = span.bend else { return even((span.low, span.high), height) };
    let mut ticks = even((span.low, bend), height * BEND);
    ticks.iter_mut().for_each(|(share, _)| *share *= BEND);
    ticks.push((1.0, significant(span.high.into())));
    ticks
}

/// Numbers along an even bar.
fn even((low, high): (f32, f32), height: f32) -> Vec<(f32, String)> {
    let (low, high) = (f64::from(low), f64::from(high));
    let span = high - low;
    let mut ticks = vec![(0.0, significant(low)), (1.0, significant(high))];
    let room = 16.0 / f64::from(height.max(1.0)); // of the bar, between two numbers
    let rough = span * (0.2_f64).max(room);
    let power = 10_f64.powi(rough.log10().floor() as i32);
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|&s| s >= rough * 0.999);
    let Some(step) = step.filter(|step| step.is_finite() && *step > 0.0) else { return ticks };
    let first = (low / step).ceil() as i64;
    for n in first..first.saturating_add(12) {
        let value = n as f64 * step;
        let share = (value - low) / span;
        if share > room && share < 1.0 - room {
            let decimals = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
            ticks.push((share as f32, format!("{value:.decimals$}")));
        }
    }
    ticks
}

/// A number to three significant digits, without trailing zeros.
pub(crate) fn significant(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let power = value.abs().log10().floor();
    if !(-4.0..6.0).contains(&power) {
        return format!("{value:.2e}");
    }
    let decimals = (2.0 - power).max(0.0) as usize;
    let text = format!("{value:.decimals$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits() {
        let cases = [(0.0, "0"), (1.0, "1"), (0.6472, "0.647"), (0.5, "0.5"), (1234.5, "1234")];
        for (value, text) in cases {
            assert_eq!(significant(value), text);
        }
        assert_eq!(significant(0.000_012), "1.20e-5");
        assert_eq!(significant(-0.25), "-0.25");
    }

    #[test]
    fn ends_and_round_values_between() {
        let mut at: Vec<_> = ticks((0.0, 0.647).into(), 400.0);
        at.sort_by(|a, b| a.0.total_cmp(&b.0));
        let texts: Vec<&str> = at.iter().map(|tick| tick.1.as_str()).collect();
        assert_eq!(texts, ["0", "0.2", "0.4", "0.6", "0.647"]);
        assert_eq!(ticks((0.0, 1.0).into(), 20.0).len(), 2);
    }
}
