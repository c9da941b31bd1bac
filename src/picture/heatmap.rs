//! The layout of one matrix: labels on both axes, title, colour bar, notes.

use crate::error::Result;
use crate::picture::axes::Axes;
use crate::picture::desk::Desk;
use crate::picture::layout::{Anchor, Area, Block, Layout, check_size};
use crate::picture::legend::{Legend, significant, ticks};
use crate::picture::palette::{LEVELS, Rgb, Span, luminance, mix};
use crate::picture::style::{Scale, Style};
use crate::picture::text::TextEngine;
use crate::picture::view::View;

/// Longest caption of an axis, in design units.
const CAPTION: f32 = 300.0;
/// Cells up to this number are shapes in an SVG.
const SHAPES: usize = 32 * 32;

/// Over the weights lost.
const LEFT_OUT: &str = "left out";

/// Lays out the picture of one matrix.
///
/// # Errors
/// [`Error::Array`](crate::Error::Array) when the picture would be larger than
/// [`MAX_SIDE`](crate::picture::MAX_SIDE) or [`MAX_PIXELS`](crate::picture::MAX_PIXELS);
/// [`Error::Usage`](crate::Error::Usage) for a resolution out of range.
pub fn heatmap_layout(view: &View, style: &Style, engine: &TextEngine) -> Result<Layout> {
    style.check()?;
    let mut desk = Desk::new(&view.title, style, engine);
    let plan = Plan::new(view, style, &desk)?;
    let colours = style.cmap.colours(style.dark);
    let legend = Legend {
        heading: &view.legend,
        colours: &colours,
        bent: view.span.bend.is_some(),
        ticks: ticks(view.span, desk.units(plan.bar)),
    };
    plan.labels(view, &mut desk);
    plan.breaks(view, &mut desk);
    plan.captions(view, &mut desk);
    let left = plan.lost(view, &mut desk) + desk.px(18.0);
    legend.place(&mut desk, left, plan.matrix.top, plan.bar);
    // the matrix comes before the bar, whatever the order of placing
    let block = plan.block(view, &colours, &desk);
    if plan.annotate {
        plan.numbers(view, &block, &mut desk);
    }
    desk.layout.blocks.insert(0, block);
    desk.frame(plan.matrix, desk.theme.line);
    plan.title_and_notes(view, style, &mut desk);
    desk.finish(plan.margin)
}

/// Sizes and places that all parts share, in pixels.
struct Plan {
    margin: i32,
    matrix: Area,
    cell: i32,
    axes: Axes,
    /// From a label to the matrix.
    gap: i32,
    /// What a caption takes.
    caption: i32,
    /// What the longest text over the columns takes.
    above: i32,
    /// Height of the colour bar.
    bar: i32,
    annotate: bool,
}

impl Plan {
    fn new(view: &View, style: &Style, desk: &Desk<'_>) -> Result<Self> {
        let (rows, columns) = view.values.dim();
        let count = rows.max(columns);
        let annotate = style.annotate && count <= Style::ANNOTATE_LIMIT;
        let cell = desk.px(cell_size(count, annotate));
        check_size(&view.title, columns * cell as usize, rows * cell as usize)?;

        let axes = Axes::new(view, cell, desk);
        let (margin, caption) = (desk.px(14.0), desk.px(18.0));
        let gap = desk.px(if axes.thinned() { 9.0 } else { 6.0 });
        let left = margin + caption + axes.rows.extent + gap;
        let lost = view.lost.as_ref().map(|_| desk.engine.width(LEFT_OUT, desk.regular(11.0)));
        let above = axes.columns.extent.max(lost.unwrap_or(0));
        let heading = desk.px(view.legend.len() as f32 * 15.0 + 10.0);
        let top = margin + desk.px(26.0) + (caption + above + gap).max(heading);
        let matrix = Area::new(left, top, columns as i32 * cell, rows as i32 * cell);
        let bar = matrix.height().clamp(desk.px(96.0), desk.px(320.0));
        Ok(Self { margin, matrix, cell, axes, gap, caption, above, bar, annotate })
    }

    /// Middle of the row or column `i`, from the edge of the matrix.
    fn centre(&self, i: usize) -> i32 {
        i as i32 * self.cell + self.cell / 2
    }

    fn labels(&self, view: &View, desk: &mut Desk<'_>) {
        let (ink, muted, line) = (desk.theme.ink, desk.theme.muted, desk.theme.line);
        let mark = desk.px(3.0);
        for (i, text) in &self.axes.rows.labels {
            let y = self.matrix.top + self.centre(*i);
            let colour = if view.greyed(*i) { muted } else { ink };
            let at = (self.matrix.left - self.gap, y);
            desk.text(text.as_str(), self.axes.kind, colour, at, Anchor::End);
            if self.axes.rows.every > 1 {
                desk.fill(Area::new(self.matrix.left - 1 - mark, y, mark, desk.px(1.0)), line);
            }
        }
        for (i, text) in &self.axes.columns.labels {
            let x = self.matrix.left + self.centre(*i);
            let at = (x, self.matrix.top - self.gap);
            desk.turned(text.as_str(), self.axes.kind, ink, at, Anchor::Start);
            if self.axes.columns.every > 1 {
                desk.fill(Area::new(x, self.matrix.top - 1 - mark, desk.px(1.0), mark), line);
            }
        }
    }

    /// Lines between the labels of the two texts of a pair.
    fn breaks(&self, view: &View, desk: &mut Desk<'_>) {
        let (matrix, line, muted) = (self.matrix, desk.px(1.0), desk.theme.muted);
        let (across, up) = (self.axes.rows.extent + self.gap, self.axes.columns.extent + self.gap);
        for &row in view.row_breaks.iter().filter(|&&row| row < view.values.nrows()) {
            let y = matrix.top + row as i32 * self.cell - line / 2;
            desk.fill(Area::new(matrix.left - across, y, across - line, line), muted);
        }
        for &column in view.column_breaks.iter().filter(|&&i| i < view.values.ncols()) {
            let x = matrix.left + column as i32 * self.cell - line / 2;
            desk.fill(Area::new(x, matrix.top - up, line, up - line), muted);
        }
    }

    fn captions(&self, view: &View, desk: &mut Desk<'_>) {
        let (kind, muted) = (desk.regular(11.0), desk.theme.muted);
        let (matrix, half) = (self.matrix, self.caption / 2);
        let columns = desk.engine.fit(&view.column_caption, kind, desk.px(CAPTION));
        let rows = desk.engine.fit(&view.row_caption, kind, desk.px(CAPTION));
        let width = desk.engine.width(&columns, kind);
        let y = matrix.top - self.gap - self.above - half - 1;
        let (at, anchor) = if width <= matrix.width() {
            ((matrix.left + matrix.width() / 2, y), Anchor::Middle)
        } else {
            ((matrix.left, y), Anchor::Start)
        };
        desk.text(columns, kind, muted, at, anchor);
        let length = desk.engine.width(&rows, kind);
        let x = self.margin + half - desk.px(3.0);
        let (at, anchor) = if length <= matrix.height() {
            ((x, matrix.top + matrix.height() / 2), Anchor::Middle)
        } else {
            ((x, matrix.top), Anchor::End)
        };
        desk.turned(rows, kind, muted, at, anchor);
    }

    /// The column of weights lost, right of the matrix; returns its right edge.
    fn lost(&self, view: &View, desk: &mut Desk<'_>) -> i32 {
        let Some(lost) = &view.lost else { return self.matrix.right };
        let (muted, left) = (desk.theme.muted, self.matrix.right + desk.px(7.0));
        let mut right = left;
        for (i, &share) in lost.iter().enumerate().step_by(self.axes.rows.every) {
            let percent = (share.clamp(0.0, 1.0) * 100.0).round();
            let text = if percent > 0.0 { format!("−{percent}%") } else { "0%".into() };
            let at = (left, self.matrix.top + self.centre(i));
            right = right.max(desk.text(text, self.axes.kind, muted, at, Anchor::Start).right);
        }
        let at = ((left + right) / 2, self.matrix.top - self.gap);
        desk.turned(LEFT_OUT, desk.regular(11.0), muted, at, Anchor::Start);
        right
    }

    fn block(&self, view: &View, colours: &[Rgb; LEVELS], desk: &Desk<'_>) -> Block {
        let (rows, columns) = view.values.dim();
        let theme = desk.theme;
        let grey = |colour: Rgb| {
            let grey = (luminance(colour).sqrt() * 255.0).round() as u8;
            mix([grey; 3], theme.ground, 0.6)
        };
        let greys = colours.map(grey);
        let mut cells = Vec::with_capacity(rows * columns);
        for (row, values) in view.values.rows().into_iter().enumerate() {
            let palette = if view.greyed(row) { &greys } else { colours };
            for &value in values {
                cells.push(view.span.level(value).map_or(theme.line, |level| palette[level]));
            }
        }
        let shapes = rows * columns <= SHAPES;
        Block { area: self.matrix, rows, columns, colours: cells, shapes }
    }

    fn numbers(&self, view: &View, block: &Block, desk: &mut Desk<'_>) {
        let columns = view.values.ncols();
        let texts: Vec<String> = view.values.iter().map(|&value| number(value)).collect();
        let longest = texts.iter().map(|text| text.chars().count()).max().unwrap_or(1);
        let units = desk.units(self.cell);
        let size = (units * 0.86 / (longest as f32 * 0.64)).min(units * 0.4);
        let kind = desk.regular(size.clamp(5.0, 12.0));
        for (i, (text, &colour)) in texts.into_iter().zip(&block.colours).enumerate() {
            let (row, column) = (i / columns, i % columns);
            let on = luminance(colour);
            let ink = if on > 0.22 { [0, 0, 0] } else { [255, 255, 255] };
            let x = self.matrix.left + self.centre(column);
            desk.text(text, kind, ink, (x, self.matrix.top + self.centre(row)), Anchor::Middle);
        }
    }

    fn title_and_notes(&self, view: &View, style: &Style, desk: &mut Desk<'_>) {
        let texts = desk.layout.texts.iter().map(|text| text.area);
        let areas = texts.chain(desk.layout.blocks.iter().map(|block| block.area));
        let (right, bottom) =
            areas.fold((0, 0), |(r, b), area| (area.right.max(r), area.bottom.max(b)));
        let room = (right - self.margin).max(desk.px(420.0));
        let kind = desk.bold(15.0);
        let title = desk.engine.fit(&view.title, kind, room);
        let at = (self.margin, self.margin + desk.px(8.0));
        let ink = desk.theme.ink;
        let title = desk.text(title, kind, ink, at, Anchor::Start);
        let room = (right.max(title.right) - self.margin).max(desk.px(300.0));
        let notes = self.sentences(view, style);
        desk.notes(&notes, self.margin, bottom + desk.px(10.0), room);
    }

    /// What the reader of the picture must know, then what the caller has to say.
    fn sentences(&self, view: &View, style: &Style) -> Vec<String> {
        let mut notes: Vec<String> = self.axes.note().into_iter().collect();
        if style.annotate && !self.annotate {
            let limit = Style::ANNOTATE_LIMIT;
            notes.push(format!("More than {limit} tokens: no room for numbers in the cells."));
        }
        let Span { low, high, bend } = view.span;
        if let Some(bend) = bend {
            let bend = significant(bend.into());
            notes.push(format!(
                "Over {bend} the palette is coarser: its upper fifth spans the rest."
            ));
        }
        if view.values.iter().any(|value| value.is_nan()) {
            notes.push("Grey cells: not a number.".into());
        }
        let outside = view.values.iter().any(|&value| value < low || value > high);
        if outside && matches!(style.scale, Scale::Fixed(..)) {
            notes.push("Values beyond the scale take its end colours.".into());
        }
        if !view.row_breaks.is_empty() || !view.column_breaks.is_empty() {
            notes.push("A line between labels: there the second text begins.".into());
        }
        if view.lost.is_some() {
            notes.push(
                "Right of a row: the share of its weight that went to tokens left out.".into(),
            );
        }
        if (0..view.values.nrows()).any(|row| view.greyed(row)) {
            notes.push("Greyed rows lost more than 95% and say little.".into());
        }
        notes.extend(view.notes.iter().cloned());
        notes
    }
}

/// Design size of a cell for so many tokens a side.
fn cell_size(count: usize, annotate: bool) -> f32 {
    let count = count.max(1) as f32;
    if annotate {
        return (400.0 / count).clamp(32.0, 64.0);
    }
    let most = (360.0 / count).clamp(28.0, 64.0);
    let least = if count <= 512.0 { 3.0 } else { 1.0 };
    (1280.0 / count).floor().clamp(least, most)
}

/// A value for a cell: short, two decimals for shares.
fn number(value: f32) -> String {
    let size = value.abs();
    if value.is_nan() {
        "–".into()
    } else if size < 0.005 {
        "0".into()
    } else if size < 9.995 {
        format!("{value:.2}")
    } else if size < 99.95 {
        format!("{value:.1}")
    } else if size < 99_999.5 {
        format!("{value:.0}")
    } else {
        format!("{value:.0e}")
    }
}
