//! The picture of a study: the metric against the heads that are kept.

use super::table::{Masks, Row, Table};
use crate::picture::{Chart, Line, Panel};

impl Table {
    /// A panel for each score with its strategies, the masks that match them and those at random.
    pub fn chart(&self) -> Chart {
        let mut scores: Vec<Option<&String>> = Vec::new();
        for row in self.rows.iter().filter(|row| row.masks == Masks::Chosen) {
            if !scores.contains(&row.score.as_ref()) {
                scores.push(row.score.as_ref());
            }
        }
        if scores.is_empty() {
            scores.push(None); // random masks alone
        }
        let panel = |score: &Option<&String>| Panel {
            title: score.map_or_else(|| self.without_score(), |name| name.to_string()),
            curves: self.lines(*score),
        };
        Chart {
            title: format!("{}: {} of {}", self.model.name, self.measure, self.data.name),
            x: format!("heads kept, % of {}", self.heads),
            y: self.measure.clone(),
            panels: scores.iter().map(panel).collect(),
            notes: self.notes(),
        }
    }

    fn without_score(&self) -> String {
        let without = |row: &&Row| row.masks == Masks::Chosen && row.score.is_none();
        let strategy = self.rows.iter().find(without).and_then(|row| row.strategy);
        strategy.unwrap_or("random masks").to_owned()
    }

    fn lines(&self, score: Option<&String>) -> Vec<Line> {
        let mut ways: Vec<Option<&str>> = self.rows.iter().map(|row| row.strategy).collect();
        ways.dedup();
        let colour = |row: &Row| match row.masks {
            Masks::Random => 0,
            _ => 1 + ways.iter().position(|way| *way == row.strategy).unwrap_or(0),
        };
        let here = |row: &&Row| row.masks == Masks::Random || row.score.as_ref() == score;
        let mut rows: Vec<&Row> = self.rows.iter().filter(here).collect();
        // what was chosen lies on top
        rows.sort_by_key(|row| match row.masks {
            Masks::Random => 0,
            Masks::LayerMatched => 1,
            Masks::Chosen => 2,
        });
        rows.into_iter().map(|row| self.line(row, colour(row))).collect()
    }

    fn line(&self, row: &Row, colour: usize) -> Line {
        let way = row.strategy.unwrap_or_default();
        let name = match row.masks {
            Masks::Chosen => way.to_owned(),
            Masks::LayerMatched => format!("random, heads per layer as {way}"),
            Masks::Random => "random".into(),
        };
        let heads = self.heads.max(1) as f64;
        let points = || row.points.iter().rev(); // from few heads to all
        let band = match row.curves > 1 {
            true => points().map(|point| point.reached.spread).collect(),
            false => Vec::new(),
        };
        let place =
            |point: &super::table::At| (point.kept / heads * 100.0, point.reached.estimate.value);
        Line {
            name,
            colour,
            dashed: row.masks != Masks::Chosen,
            points: points().map(place).collect(),
            band,
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![format!("{} items for tests; {}.", self.items, self.means)];
        if self.rows.iter().any(|row| row.curves > 1) {
            let most = |masks: Masks| {
                let rows = self.rows.iter().filter(|row| row.masks == masks && row.curves > 1);
                rows.map(|row| row.curves).max()
            };
            let kinds = [
                (Masks::Chosen, "seeds"),
                (Masks::LayerMatched, "masks matched by layer"),
                (Masks::Random, "random masks"),
            ];
            let parts = kinds
                .into_iter()
                .filter_map(|(masks, what)| most(masks).map(|count| format!("{count} {what}")));
            let parts: Vec<String> = parts.collect();
            notes.push(format!(
                "Lines are means; bands leave out 5 % at either end: of {}.",
                parts.join(", of ")
            ));
        }
        if !self.missing.is_empty() {
            let count = self.missing.len();
            notes.push(format!("{count} cells of the plan are not finished yet."));
        }
        notes
    }
}
