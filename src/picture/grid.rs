//! All heads at a glance: layers down, heads across, in the manner of BertViz's model view.

use ndarray::ArrayView2;

use crate::attention::Attention;
use crate::error::{Error, Result};
use crate::picture::desk::Desk;
use crate::picture::layout::{Anchor, Area, Block, Layout, check_size};
use crate::picture::legend::{BEND, Legend, ticks};
use crate::picture::palette::{LEVELS, Rgb, mix};
use crate::picture::style::{Ranges, Scale, Style};
use crate::picture::text::TextEngine;
use crate::select::Head;

/// Design size of a small picture.
const SMALL: usize = 84;
/// Most pixels of a small picture at the base resolution; larger matrices are pooled.
const MOST: usize = 128;

/// Lays out the overview of all heads that are here; gaps are heads that are not.
///
/// `notes` go under the picture. Matrices of more than 128 tokens are pooled: a pixel shows the
/// largest of several weights, and a note says so.
///
/// # Errors
/// [`Error::Array`] when there is nothing to draw or the picture would be larger than
/// [`MAX_SIDE`](crate::picture::MAX_SIDE) or [`MAX_PIXELS`](crate::picture::MAX_PIXELS);
/// [`Error::Usage`] for a resolution out of range.
pub fn grid_layout(
    attention: &Attention,
    title: &str,
    notes: &[String],
    style: &Style,
    engine: &TextEngine,
) -> Result<Layout> {
    let (rows, columns) = (attention.queries.len(), attention.keys.len());
    if attention.heads.is_empty() || rows == 0 || columns == 0 {
        return Err(Error::Array {
            what: format!("picture `{title}`"),
            want: "at least one head and one token".into(),
            found: format!("{} heads, {rows} by {columns} tokens", attention.heads.len()),
        });
    }
    style.check()?;
    let mut desk = Desk::new(title, style, engine);
    let plan = Plan::new(attention, title, &desk)?;
    let ranges = style.scale.resolve(attention);
    let colours = style.cmap.colours(style.dark);
    plan.numbers(&mut desk);
    for layer in 0..plan.layers {
        for head in 0..attention.head_counts.get(layer).copied().unwrap_or(0) {
            plan.small(attention, Head { layer, head }, &ranges, &colours, &mut desk);
        }
    }
    plan.legend(attention, &ranges, &colours, &mut desk);
    plan.title_and_notes(attention, (title, style.scale), notes, &mut desk);
    desk.finish(plan.margin)
}

/// Sizes and places, in pixels.
struct Plan {
    margin: i32,
    layers: usize,
    heads: usize,
    /// Upper left corner of the first small picture.
    left: i32,
    top: i32,
    /// Size of a small picture.
    width: i32,
    height: i32,
    gap: i32,
    cell: i32,
    /// How many weights a side become one pixel.
    pool: usize,
}

impl Plan {
    fn new(attention: &Attention, title: &str, desk: &Desk<'_>) -> Result<Self> {
        let (rows, columns) = (attention.queries.len(), attention.keys.len());
        let pool = rows.max(columns).div_ceil(MOST);
        let (rows, columns) = (rows.div_ceil(pool), columns.div_ceil(pool));
        let cell = desk.px((SMALL / rows.max(columns)).max(1) as f32);
        let (width, height) = (columns as i32 * cell, rows as i32 * cell);
        let layers = attention.head_counts.len();
        let heads = attention.head_counts.iter().copied().max().unwrap_or(0);
        let (margin, gap) = (desk.px(14.0), desk.px(8.0));
        let (across, down) = ((width + gap) as usize * heads, (height + gap) as usize * layers);
        check_size(title, across, down)?;
        let number = desk.engine.width(&layers.to_string(), desk.bold(12.0));
        let left = margin + desk.px(18.0) + number + desk.px(8.0);
        let top = margin + desk.px(26.0) + desk.px(18.0) + desk.px(22.0);
        Ok(Self { margin, layers, heads, left, top, width, height, gap, cell, pool })
    }

    fn spot(&self, head: Head) -> Area {
        let x = self.left + head.head as i32 * (self.width + self.gap);
        let y = self.top + head.layer as i32 * (self.height + self.gap);
        Area::new(x, y, self.width, self.height)
    }

    fn right(&self) -> i32 {
        self.left + self.heads as i32 * (self.width + self.gap) - self.gap
    }

    fn bottom(&self) -> i32 {
        self.top + self.layers as i32 * (self.height + self.gap) - self.gap
    }

    /// Layer and head numbers, and what they are.
    fn numbers(&self, desk: &mut Desk<'_>) {
        let (bold, ink) = (desk.bold(12.0), desk.theme.ink);
        for head in 0..self.heads {
            let spot = self.spot(Head { layer: 0, head });
            let at = (spot.left + self.width / 2, self.top - desk.px(12.0));
            desk.text(head.to_string(), bold, ink, at, Anchor::Middle);
        }
        for layer in 0..self.layers {
            let spot = self.spot(Head { layer, head: 0 });
            let at = (self.left - desk.px(8.0), spot.top + self.height / 2);
            desk.text(layer.to_string(), bold, ink, at, Anchor::End);
        }
        let (kind, muted) = (desk.regular(11.0), desk.theme.muted);
        let at = ((self.left + self.right()) / 2, self.top - desk.px(31.0));
        desk.text("head", kind, muted, at, Anchor::Middle);
        let at = (self.margin + desk.px(6.0), (self.top + self.bottom()) / 2);
        desk.turned("layer", kind, muted, at, Anchor::Middle);
    }

    /// One head, or the gap where it would be.
    fn small(
        &self,
        attention: &Attention,
        head: Head,
        ranges: &Ranges,
        colours: &[Rgb; LEVELS],
        desk: &mut Desk<'_>,
    ) {
        let area = self.spot(head);
        let Some(one) = attention.get(head) else {
            desk.frame(area, mix(desk.theme.line, desk.theme.ground, 0.4));
            let at = (area.left + self.width / 2, area.top + self.height / 2);
            desk.text("–", desk.regular(12.0), desk.theme.muted, at, Anchor::Middle);
            return;
        };
        let span = ranges.span(Some(head.layer), &one.weights);
        let line = desk.theme.line;
        let pooled = pool(one.weights.view(), self.pool);
        let colours = pooled.map(|value| span.level(value).map_or(line, |level| colours[level]));
        let (rows, columns) = (self.height / self.cell, self.width / self.cell);
        desk.layout.blocks.push(Block {
            area,
            rows: rows as usize,
            columns: columns as usize,
            colours: colours.collect(),
            shapes: false,
        });
    }

    fn legend(
        &self,
        attention: &Attention,
        ranges: &Ranges,
        colours: &[Rgb; LEVELS],
        desk: &mut Desk<'_>,
    ) {
        // values below 0 exist only in arrays from elsewhere
        let least = if negative(attention) { "smallest" } else { "0" };
        let ends = vec![(0.0, least.to_owned()), (1.0, "largest".to_owned())];
        let (heading, ticks) = match ranges.scale() {
            Scale::Head => ("scale: each head", ends),
            Scale::Robust => {
                let bend = (BEND, "99%".to_owned());
                ("scale: robust, each head", vec![ends[0].clone(), bend, ends[1].clone()])
            }
            Scale::Layer => ("scale: each layer", ends),
            Scale::Global | Scale::Fixed(..) => {
                let none: [&f32; 0] = [];
                let height = desk.units(self.bottom() - self.top).min(320.0);
                (ranges.caption(false), ticks(ranges.span(None, none), height))
            }
        };
        let heading = ["attention".to_owned(), heading.to_owned()];
        let legend =
            Legend { heading: &heading, colours, bent: ranges.scale() == Scale::Robust, ticks };
        let height = (self.bottom() - self.top).clamp(desk.px(96.0), desk.px(320.0));
        let left = self.right() + desk.px(20.0);
        legend.place(desk, left, self.top, height);
    }

    fn title_and_notes(
        &self,
        attention: &Attention,
        (title, scale): (&str, Scale),
        more: &[String],
        desk: &mut Desk<'_>,
    ) {
        let kind = desk.bold(15.0);
        let room = (self.right() - self.margin).max(desk.px(420.0));
        let text = desk.engine.fit(title, kind, room);
        let at = (self.margin, self.margin + desk.px(8.0));
        let title = desk.text(text, kind, desk.theme.ink, at, Anchor::Start);
        let mut notes = vec![
            "In each square, rows are queries and columns are keys; the first token is at the top \
             left."
                .to_owned(),
        ];
        if scale == Scale::Robust {
            notes.push(
                "99%: of the head's weights, those of the first and of special tokens left out; \
                 over it the palette is coarser."
                    .to_owned(),
            );
        }
        if self.pool > 1 {
            notes.push(format!("A cell shows the largest of {0} × {0} weights.", self.pool));
        }
        if attention.heads.len() < attention.head_counts.iter().sum() {
            notes.push("Empty squares: heads that are not here, pruned or not chosen.".into());
        }
        notes.extend(more.iter().cloned());
        let room = (self.right().max(title.right) - self.margin).max(desk.px(300.0));
        let bottom = desk.layout.blocks.iter().map(|block| block.area.bottom);
        let bottom = bottom.fold(self.bottom(), i32::max);
        desk.notes(&notes, self.margin, bottom + desk.px(10.0), room);
    }
}

fn negative(attention: &Attention) -> bool {
    attention.heads.iter().any(|one| one.weights.iter().any(|&value| value < 0.0))
}

/// Row by row, the largest value of each `size` × `size` block.
fn pool(values: ArrayView2<'_, f32>, size: usize) -> impl Iterator<Item = f32> {
    let (rows, columns) = (values.nrows().div_ceil(size), values.ncols().div_ceil(size));
    (0..rows * columns).map(move |i| {
        let (row, column) = (i / columns * size, i % columns * size);
        let (end, right) = ((row + size).min(values.nrows()), (column + size).min(values.ncols()));
        let block = values.slice(ndarray::s![row..end, column..right]);
        block.iter().copied().fold(f32::NAN, f32::max)
    })
}
