//! Curves with bands, in panels that share their axes.

use crate::error::{Error, Result};
use crate::picture::desk::Desk;
use crate::picture::layout::{Anchor, Area, Layout, check_size};
use crate::picture::marks::{Mark, Place};
use crate::picture::palette::{Rgb, mix};
use crate::picture::range::Range;
use crate::picture::style::{Format, Style};
use crate::picture::text::TextEngine;

/// Panels of curves.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Chart {
    /// Over everything.
    pub title: String,
    /// Under each panel.
    pub x: String,
    /// Beside the panels.
    pub y: String,
    /// One for each set of curves, all with the same axes.
    pub panels: Vec<Panel>,
    /// Sentences under the panels.
    pub notes: Vec<String>,
}

/// One set of curves.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Panel {
    /// Over it.
    pub title: String,
    /// From the one that lies lowest to the one on top.
    pub curves: Vec<Line>,
}

/// One curve.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Line {
    /// In the legend; curves of one name have one entry.
    pub name: String,
    /// Which colour: 0 is grey, from 1 on they differ, also to those who are colour-blind.
    pub colour: usize,
    /// With gaps.
    pub dashed: bool,
    /// x and y, x rising. What is not a number is left out.
    pub points: Vec<(f64, f64)>,
    /// Below and above each point; empty where there is no band.
    pub band: Vec<(f64, f64)>,
}

/// Okabe and Ito 2008; on a dark ground those that are light enough come first.
const COLOURS: [Rgb; 6] = [
    [0x00, 0x72, 0xb2],
    [0xd5, 0x5e, 0x00],
    [0x00, 0x9e, 0x73],
    [0xcc, 0x79, 0xa7],
    [0x8c, 0x6b, 0x00],
    [0x56, 0xb4, 0xe9],
];
const ON_DARK: [Rgb; 6] = [
    [0x56, 0xb4, 0xe9],
    [0xe6, 0x9f, 0x00],
    [0x2f, 0xc1, 0x96],
    [0xd9, 0x8c, 0xb8],
    [0xf0, 0xe4, 0x42],
    [0xff, 0x7f, 0x3f],
];

/// The picture of a chart, as the bytes of a file.
///
/// # Errors
/// Those of [`chart_layout`].
pub fn chart(chart: &Chart, style: &Style, format: Format, engine: &TextEngine) -> Result<Vec<u8>> {
    chart_layout(chart, style, engine)?.render(format, engine)
}

/// Lays out a chart. Of the style, theme and resolution count.
///
/// # Errors
/// [`Error::Array`] where there is no point to draw or the picture would be larger than
/// [`MAX_SIDE`](crate::picture::MAX_SIDE) or [`MAX_PIXELS`](crate::picture::MAX_PIXELS);
/// [`Error::Usage`] for a resolution out of range.
pub fn chart_layout(chart: &Chart, style: &Style, engine: &TextEngine) -> Result<Layout> {
    style.check()?;
    let mut desk = Desk::new(&chart.title, style, engine);
    let plan = Plan::new(chart, style, &desk)?;
    let (ink, margin) = (desk.theme.ink, plan.margin);
    let room = plan.panel(chart.panels.len() - 1).right.max(plan.right) - margin;
    let title = engine.fit(&chart.title, desk.bold(15.0), room);
    desk.text(title, desk.bold(15.0), ink, (margin, margin + desk.px(8.0)), Anchor::Start);
    plan.legend(&mut desk);
    for (place, panel) in chart.panels.iter().enumerate() {
        plan.draw(place, panel, &mut desk);
    }
    plan.captions(chart, &mut desk);
    desk.notes(&chart.notes, margin, plan.notes, room);
    desk.finish(margin)
}

/// Sizes and places, in pixels, and the ranges of both axes.
struct Plan {
    margin: i32,
    columns: usize,
    count: usize,
    /// Of the first panel.
    first: Area,
    /// From one panel to the next.
    pitch: (i32, i32),
    right: i32,
    notes: i32,
    x: Range,
    y: Range,
    colours: [Rgb; 6],
    /// Entries of the legend with their lines from the top.
    entries: Vec<(Line, i32, i32)>,
}

impl Plan {
    fn new(chart: &Chart, style: &Style, desk: &Desk<'_>) -> Result<Self> {
        let curves = || chart.panels.iter().flat_map(|panel| &panel.curves);
        let points = || curves().flat_map(shown);
        let bands = curves().flat_map(|line| line.band.iter().flat_map(|&(a, b)| [a, b]));
        let x = Range::new(points().map(|point| point.0), false);
        let y = Range::new(points().map(|point| point.1).chain(bands), true);
        let (Some(x), Some(y)) = (x, y) else {
            return Err(Error::Array {
                what: format!("picture `{}`", chart.title),
                want: "at least one point".into(),
                found: "none".into(),
            });
        };
        let count = chart.panels.len();
        let columns = if count == 4 { 2 } else { count.min(3) };
        let (wide, high) = if count == 1 { (520.0, 320.0) } else { (280.0, 190.0) };
        let (wide, high) = (desk.px(wide), desk.px(high));
        let numbers = desk.px(12.0) + y.widest(desk);
        let (left, down) = (desk.px(22.0) + numbers, desk.px(52.0));
        let margin = desk.px(14.0);
        let right = margin + (left + wide) * columns as i32 + desk.px(14.0) * (columns as i32 - 1);
        let entries = legend(curves(), margin, right, desk);
        let legend = entries.last().map_or(0, |last| last.2 + desk.px(20.0));
        let top = margin + desk.px(24.0) + legend + desk.px(30.0);
        let pitch = (left + wide + desk.px(14.0), high + down);
        let rows = count.div_ceil(columns) as i32;
        let notes = top + rows * pitch.1;
        check_size(&chart.title, right.max(0) as usize, notes.max(0) as usize)?;
        let first = Area::new(margin + left, top, wide, high);
        let colours = if style.dark { ON_DARK } else { COLOURS };
        Ok(Self { margin, columns, count, first, pitch, right, notes, x, y, colours, entries })
    }

    fn panel(&self, place: usize) -> Area {
        let (column, row) = (place % self.columns, place / self.columns);
        let (dx, dy) = (self.pitch.0 * column as i32, self.pitch.1 * row as i32);
        Area::new(
            self.first.left + dx,
            self.first.top + dy,
            self.first.width(),
            self.first.height(),
        )
    }

    fn colour(&self, line: &Line, desk: &Desk<'_>) -> Rgb {
        match line.colour {
            0 => desk.theme.muted,
            n => self.colours[(n - 1) % self.colours.len()],
        }
    }

    fn dash(line: &Line, desk: &Desk<'_>) -> Option<f32> {
        line.dashed.then(|| desk.px(50.0) as f32 / 10.0)
    }

    fn legend(&self, desk: &mut Desk<'_>) {
        let (kind, long) = (desk.regular(11.5), desk.px(22.0));
        for (line, x, y) in &self.entries {
            let middle = self.margin + desk.px(34.0) + y;
            let colour = self.colour(line, desk);
            let (from, to) = (*x as f32, (x + long) as f32);
            if !line.band.is_empty() {
                let half = desk.px(5.0) as f32;
                let edge = |dy: f32| vec![(from, middle as f32 + dy), (to, middle as f32 + dy)];
                let (low, high) = (edge(half), edge(-half));
                desk.layout.marks.push(Mark::Band { low, high, opacity: OPACITY, colour });
            }
            let points = vec![(from, middle as f32), (to, middle as f32)];
            let (width, dash) = (desk.px(20.0) as f32 / 10.0, Self::dash(line, desk));
            desk.layout.marks.push(Mark::Line { points, width, dash, colour });
            let at = (x + long + desk.px(6.0), middle);
            desk.text(line.name.as_str(), kind, desk.theme.ink, at, Anchor::Start);
        }
    }

    fn draw(&self, place: usize, panel: &Panel, desk: &mut Desk<'_>) {
        let area = self.panel(place);
        let (ink, muted, line) = (desk.theme.ink, desk.theme.muted, desk.theme.line);
        let kind = desk.regular(10.5);
        let title = desk.engine.fit(&panel.title, desk.bold(12.0), area.width());
        let at = (area.left, area.top - desk.px(11.0));
        desk.text(title, desk.bold(12.0), ink, at, Anchor::Start);
        let thin = desk.px(1.0);
        let faint = mix(desk.theme.ground, line, 0.45);
        for (value, text) in &self.y.ticks {
            let y = self.place(area, (self.x.low, *value)).1.round() as i32;
            desk.fill(Area::new(area.left, y - thin / 2, area.width(), thin), faint);
            desk.text(text.as_str(), kind, muted, (area.left - desk.px(7.0), y), Anchor::End);
        }
        for (value, text) in &self.x.ticks {
            let x = self.place(area, (*value, self.y.low)).0.round() as i32;
            desk.fill(Area::new(x - thin / 2, area.bottom, thin, desk.px(4.0)), line);
            desk.text(text.as_str(), kind, muted, (x, area.bottom + desk.px(13.0)), Anchor::Middle);
        }
        desk.fill(Area::new(area.left, area.bottom, area.width(), thin), line);
        desk.fill(Area::new(area.left - thin, area.top, thin, area.height() + thin), line);
        for curve in &panel.curves {
            self.band(area, curve, desk);
        }
        for curve in &panel.curves {
            let points = shown(curve).map(|point| self.place(area, point)).collect();
            let (colour, dash) = (self.colour(curve, desk), Self::dash(curve, desk));
            let width = desk.px(20.0) as f32 / 10.0;
            desk.layout.marks.push(Mark::Line { points, width, dash, colour });
        }
    }

    fn band(&self, area: Area, curve: &Line, desk: &mut Desk<'_>) {
        let colour = self.colour(curve, desk);
        let both = curve.points.iter().zip(&curve.band);
        let known = both.filter(|(point, band)| {
            [point.0, point.1, band.0, band.1].into_iter().all(f64::is_finite)
        });
        let (low, high): (Vec<Place>, Vec<Place>) = known
            .map(|(point, band)| {
                (self.place(area, (point.0, band.0)), self.place(area, (point.0, band.1)))
            })
            .unzip();
        if low.len() > 1 {
            desk.layout.marks.push(Mark::Band { low, high, opacity: OPACITY, colour });
        }
    }

    /// Where a point is, in pixels.
    fn place(&self, area: Area, (x, y): (f64, f64)) -> Place {
        let (across, up) = (self.x.share(x), self.y.share(y));
        let x = area.left as f64 + across * f64::from(area.width());
        (x as f32, (area.bottom as f64 - up * f64::from(area.height())) as f32)
    }

    fn captions(&self, chart: &Chart, desk: &mut Desk<'_>) {
        let (kind, muted) = (desk.regular(11.0), desk.theme.muted);
        for place in 0..self.count {
            // under the last panel of each column, and beside the first of each row
            let area = self.panel(place);
            if place + self.columns >= self.count {
                let text = desk.engine.fit(&chart.x, kind, area.width());
                let at = ((area.left + area.right) / 2, area.bottom + desk.px(29.0));
                desk.text(text, kind, muted, at, Anchor::Middle);
            }
            if place % self.columns == 0 {
                let text = desk.engine.fit(&chart.y, kind, area.height());
                let at = (self.margin + desk.px(6.0), (area.top + area.bottom) / 2);
                desk.turned(text, kind, muted, at, Anchor::Middle);
            }
        }
    }
}

/// How strong a band is.
const OPACITY: f32 = 0.22;

/// The points of a curve that are numbers.
fn shown(line: &Line) -> impl Iterator<Item = (f64, f64)> + '_ {
    line.points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite())
}

/// A curve of each name, with its place: from the left, and from the top of the legend.
fn legend<'a>(
    curves: impl Iterator<Item = &'a Line>,
    left: i32,
    right: i32,
    desk: &Desk<'_>,
) -> Vec<(Line, i32, i32)> {
    let kind = desk.regular(11.5);
    let mut entries: Vec<(Line, i32, i32)> = Vec::new();
    let (mut x, mut y) = (left, 0);
    for line in curves {
        if line.name.is_empty() || entries.iter().any(|(known, ..)| known.name == line.name) {
            continue;
        }
        let name = desk.engine.fit(&line.name, kind, desk.px(240.0));
        let width = desk.px(28.0) + desk.engine.width(&name, kind);
        if x > left && x + width > right {
            (x, y) = (left, y + desk.px(19.0));
        }
        entries.push((Line { name, points: Vec::new(), ..line.clone() }, x, y));
        x += width + desk.px(18.0);
    }
    entries
}
