//! Labels of both axes: which of them are shown, how large, how long.

use crate::picture::desk::Desk;
use crate::picture::text::Type;
use crate::picture::view::View;

/// Longest label, in design units.
const LONGEST: f32 = 150.0;
/// Least distance of two labels, in design units.
const PITCH: f32 = 10.0;

/// The labels along one side of a matrix.
pub(super) struct Axis {
    /// Every how many tokens there is a label.
    pub every: usize,
    /// Positions and texts.
    pub labels: Vec<(usize, String)>,
    /// Width of the longest text in pixels.
    pub extent: i32,
}

/// The labels of both sides, in one type.
pub(super) struct Axes {
    pub kind: Type,
    pub rows: Axis,
    pub columns: Axis,
}

impl Axes {
    /// Labels for cells of `cell` pixels: all, or as many as there is room for.
    pub fn new(view: &View, cell: i32, desk: &Desk<'_>) -> Self {
        let (rows, columns) = view.values.dim();
        let every = |count: usize| {
            let apart = (desk.px(PITCH) + cell - 1) / cell.max(1);
            if count < 2 { 1 } else { apart.max(1) as usize }
        };
        let (down, across) = (every(rows), every(columns));
        let apart = desk.units(cell * down.max(across) as i32);
        let kind = desk.regular((apart * 0.84).clamp(9.0, 13.0));
        let axis = |texts: &[String], count: usize, every: usize| {
            let shown = texts.iter().take(count).enumerate().step_by(every);
            let fit = |text: &str| desk.engine.fit(text, kind, desk.px(LONGEST));
            let labels: Vec<(usize, String)> = shown.map(|(i, text)| (i, fit(text))).collect();
            let widths = labels.iter().map(|(_, text)| desk.engine.width(text, kind));
            let extent = widths.max().unwrap_or(0);
            Axis { every, labels, extent }
        };
        Self {
            kind,
            rows: axis(&view.rows, rows, down),
            columns: axis(&view.columns, columns, across),
        }
    }

    /// Whether some tokens have no label.
    pub fn thinned(&self) -> bool {
        self.rows.every > 1 || self.columns.every > 1
    }

    /// The sentence that says which tokens are labelled, where not all are.
    pub fn note(&self) -> Option<String> {
        let (rows, columns) = (self.rows.every, self.columns.every);
        if !self.thinned() {
            None
        } else if rows == columns {
            let each = ordinal(rows);
            Some(format!(
                "Every {each} token is labelled, from the first on; every token has its row and column."
            ))
        } else {
            let (row, column) = (ordinal(rows), ordinal(columns));
            Some(format!("Labelled: every {row} row and every {column} column, from the first on."))
        }
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
