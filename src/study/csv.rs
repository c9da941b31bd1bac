//! The table of a study as text.

use super::area::Estimate;
use super::table::{Compared, Row, Table};

/// The columns of the table as text.
const COLUMNS: &str = "strategy,score,masks,curves,at,heads_kept,metric,low,high,spread_low,\
                       spread_high,minus_random,minus_random_low,minus_random_high,minus_matched,\
                       minus_matched_low,minus_matched_high,above_random,random\n";

impl Table {
    /// Comma-separated: for each row of the table a line per fraction, then one of the area.
    pub fn csv(&self) -> String {
        let mut text = COLUMNS.to_owned();
        for row in &self.rows {
            for point in &row.points {
                let above = [String::new(), String::new()];
                let at = [point.fraction.to_string(), point.kept.to_string()];
                text += &line(row, at, &point.reached, above);
            }
            let above = row.above_random.map(|(below, of)| [below.to_string(), of.to_string()]);
            let at = ["area".into(), String::new()];
            text += &line(row, at, &row.area, above.unwrap_or_default());
        }
        text
    }

    /// The same and all that it is of, as JSON.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

fn line(row: &Row, at: [String; 2], reached: &Compared, above: [String; 2]) -> String {
    let start = [
        row.strategy.unwrap_or_default().to_owned(),
        row.score.clone().unwrap_or_default(),
        row.masks.name().to_owned(),
        row.curves.to_string(),
    ];
    let number = |x: f64| x.to_string();
    let three = |one: Option<Estimate>| match one {
        Some(one) => [one.value, one.low, one.high].map(number),
        None => Default::default(),
    };
    let spread = [reached.spread.0, reached.spread.1].map(number);
    let cells = start
        .into_iter()
        .chain(at)
        .chain(three(Some(reached.estimate)))
        .chain(spread)
        .chain(three(reached.minus_random))
        .chain(three(reached.minus_matched))
        .chain(above);
    cells.collect::<Vec<_>>().join(",") + "\n"
}
