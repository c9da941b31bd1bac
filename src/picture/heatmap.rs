//! The layout of one matrix: labels on both axes, title, colour bar, notes.

use crate::error::Result;
use crate::picture::layout::{Anchor, Area, Block, Desk, Layout, check_size};
use crate::picture::legend::{Legend, ticks};
use crate::picture::palette::{LEVELS, Rgb, level, luminance, mix};
use crate::picture::style::{Scale, Style};
use crate::picture::text::{TextEngine, Type};
use crate::picture::view::View;

/// Longest label, in design units.
const LABEL: f32 = 150.0;
/// Longest caption of an axis, in design units.
const CAPTION: f32 = 300.0;
/// Least distance of two labels, in design units.
const PITCH: f32 = 10.0;
/// Cells up to this number are shapes in an SVG.
const SHAPES: usize = 32 * 32;

/// Over the weights lost.
const LEFT_OUT: &str = "left out";

/// Lays out the picture of one matrix.
///
/// # Errors
/// [`Error::Array`](crate::Error::Array) when the picture would be larger than
/// [`MAX_SIDE`](crate::picture::MAX_SIDE) or [`MAX_PIXELS`](crate::picture::MAX_PIXELS).
pub fn layout(view: &View, style: &Style, engine: &TextEngine) -> Result<Layout> {
    let mut desk = Desk::new(&view.title, style, engine);
    let plan = Plan::new(view, style, &desk)?;
    let colours = style.cmap.colours(style.dark);
    let legend = Legend {
        heading: &view.legend,
        colours: &colours,
        ticks: ticks(view.range, plan.bar as f32 / desk.px(100.0) as f32 * 100.0),
    };
    plan.labels(view, &mut desk);
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
    /// Every how many tokens there is a label, along rows and columns.
    every: (usize, usize),
    label: Type,
    row_labels: Vec<(usize, String)>,
    column_labels: Vec<(usize, String)>,
    gap: i32,
    caption: i32,
    /// What the longest text over the columns takes.
    above: i32,
    bar: i32,
    annotate: bool,
    /// Numbers were asked for and do not fit.
    no_room: bool,
}

impl Plan {
    fn new(view: &View, style: &Style, desk: &Desk<'_>) -> Result<Self> {
        let (rows, columns) = view.values.dim();
        let count = rows.max(columns);
        let annotate = style.annotate && count <= Style::ANNOTATE_LIMIT;
        let cell = desk.px(cell_size(count, annotate));
        check_size(&view.title, columns * cell as usize, rows * cell as usize)?;

        let pitch = desk.px(PITCH).max(1);
        let step = |count: usize| if count < 2 { 1 } else { (pitch + cell - 1) / cell }.max(1);
        let every = (step(rows) as usize, step(columns) as usize);
        let units = cell as f32 * every.0.max(every.1) as f32 / desk.px(100.0) as f32 * 100.0;
        let label = desk.regular((units * 0.84).clamp(9.0, 13.0));
        let longest = desk.px(LABEL);
        let fitted = |texts: &[String], every: usize| -> Vec<(usize, String)> {
            let shown = texts.iter().enumerate().step_by(every);
            shown.map(|(i, text)| (i, desk.engine.fit(text, label, longest))).collect()
        };
        let (row_labels, column_labels) =
            (fitted(&view.rows, every.0), fitted(&view.columns, every.1));
        let extent = |labels: &[(usize, String)]| {
            labels.iter().map(|(_, text)| desk.engine.width(text, label)).max().unwrap_or(0)
        };

        let (margin, gap, caption) = (desk.px(14.0), desk.px(6.0), desk.px(18.0));
        let tick = if every == (1, 1) { 0 } else { desk.px(3.0) };
        let left = margin + caption + extent(&row_labels) + gap + tick;
        let heading = desk.px(view.legend.len() as f32 * 15.0 + 10.0);
        let lost =
            view.lost.as_ref().map_or(0, |_| desk.engine.width(LEFT_OUT, desk.regular(11.0)));
        let above = extent(&column_labels).max(lost);
        let header = (caption + above + gap + tick).max(heading);
        let top = margin + desk.px(26.0) + header;
        let matrix = Area::new(left, top, columns as i32 * cell, rows as i32 * cell);
        let bar = matrix.height().clamp(desk.px(96.0), desk.px(320.0));
        let gap = gap + tick;
        let no_room = style.annotate && !annotate;
        Ok(Self {
            margin,
            matrix,
            cell,
            every,
            label,
            row_labels,
            column_labels,
            gap,
            caption,
            above,
            bar,
            annotate,
            no_room,
        })
    }

    /// Middle of the row or column `i`, from the edge of the matrix.
    fn centre(&self, i: usize) -> i32 {
        i as i32 * self.cell + self.cell / 2
    }

    fn labels(&self, view: &View, desk: &mut Desk<'_>) {
        let (ink, muted, line) = (desk.theme.ink, desk.theme.muted, desk.theme.line);
        let mark = desk.px(3.0);
        for (i, text) in &self.row_labels {
            let y = self.matrix.top + self.centre(*i);
            let colour = if view.greyed(*i) { muted } else { ink };
            let at = (self.matrix.left - self.gap, y);
            desk.text(text.as_str(), self.label, colour, at, Anchor::End);
            if self.every.0 > 1 {
                desk.fill(Area::new(self.matrix.left - 1 - mark, y, mark, desk.px(1.0)), line);
            }
        }
        for (i, text) in &self.column_labels {
            let x = self.matrix.left + self.centre(*i);
            let at = (x, self.matrix.top - self.gap);
            desk.turned(text.as_str(), self.label, ink, at, Anchor::Start);
            if self.every.1 > 1 {
                desk.fill(Area::new(x, self.matrix.top - 1 - mark, desk.px(1.0), mark), line);
            }
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
        for (i, &share) in lost.iter().enumerate().step_by(self.every.0) {
            let text = format!("−{:.0}%", share.clamp(0.0, 1.0) * 100.0);
            let at = (left, self.matrix.top + self.centre(i));
            right = right.max(desk.text(text, self.label, muted, at, Anchor::Start).right);
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
                cells.push(level(value, view.range).map_or(theme.line, |level| palette[level]));
            }
        }
        let shapes = rows * columns <= SHAPES;
        Block { area: self.matrix, rows, columns, colours: cells, shapes }
    }

    fn numbers(&self, view: &View, block: &Block, desk: &mut Desk<'_>) {
        let columns = view.values.ncols();
        let texts: Vec<String> = view.values.iter().map(|&value| number(value)).collect();
        let longest = texts.iter().map(|text| text.chars().count()).max().unwrap_or(1);
        let units = self.cell as f32 / desk.px(100.0) as f32 * 100.0;
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
        let mut notes = Vec::new();
        match self.every {
            (1, 1) => {}
            (rows, columns) if rows == columns => notes.push(format!(
                "Every {} token is labelled, from the first on; every token has its row and column.",
                ordinal(rows)
            )),
            (rows, columns) => notes.push(format!(
                "Labelled: every {} row and every {} column, from the first on.",
                ordinal(rows),
                ordinal(columns)
            )),
        }
        if self.no_room {
            notes.push(format!(
                "More than {} tokens: no room for numbers in the cells.",
                Style::ANNOTATE_LIMIT
            ));
        }
        let (low, high) = view.range;
        if view.values.iter().any(|value| value.is_nan()) {
            notes.push("Grey cells: not a number.".into());
        }
        let outside = view.values.iter().any(|&value| value < low || value > high);
        if outside && matches!(style.scale, Scale::Fixed(..)) {
            notes.push("Values beyond the scale take its end colours.".into());
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

/// 2nd, 3rd, 4th
fn ordinal(n: usize) -> String {
    let ending = match (n % 10, n % 100) {
        (1, tens) if tens != 11 => "st",
        (2, tens) if tens != 12 => "nd",
        (3, tens) if tens != 13 => "rd",
        _ => "th",
    };
    format!("{n}{ending}")
}
