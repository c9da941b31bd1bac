//! What a study says in the terminal.

use attnviz::study::{Estimate, Masks, Row, Table};

use super::super::console::one_line;
use super::super::report::wrapped;

/// How many unfinished cells are named.
const NAMED: usize = 6;

/// The table for people, 80 columns wide.
pub fn text(table: &Table) -> String {
    let Estimate { value, low, high } = table.unpruned;
    let about = format!(
        "{}, {} heads; {}, {} items for tests: {} by {}, unpruned {value:.3} [{low:.3}, {high:.3}]",
        table.model.name, table.heads, table.data.name, table.items, table.measure, table.means
    );
    let mut text = wrapped("", one_line(&about).split(' ').map(str::to_owned));
    let (least, most) = table.span;
    text += &format!(
        "\narea under {} from {:.0} to {:.0} % of the heads, over its width\n",
        table.measure,
        least * 100.0,
        most * 100.0
    );
    let count = |masks: Masks| {
        table.rows.iter().filter(|row| row.masks == masks).map(|row| row.curves).max().unwrap_or(0)
    };
    let (random, matched) = (count(Masks::Random), count(Masks::LayerMatched));
    let mut heads = [String::new(), String::new()];
    if random > 0 {
        heads[0] = format!("- {random} random");
    }
    if matched > 0 {
        heads[1] = format!("- {matched} layer-matched");
    }
    text += &line(["", "", "area", &heads[0], &heads[1]]);
    let mut last = None;
    for row in table.rows.iter().filter(|row| row.masks != Masks::LayerMatched) {
        let strategy = match row.strategy {
            Some(name) if last == Some(name) => "",
            Some(name) => name,
            None => "random",
        };
        last = row.strategy;
        text += &row_line(strategy, row);
    }
    text += "95 % intervals by the bootstrap over items, masks and seeds, items paired\n";
    text
}

fn row_line(strategy: &str, row: &Row) -> String {
    let area = format!("{:.3}", row.area.estimate.value);
    let difference = |one: Option<Estimate>| match one {
        Some(Estimate { value, low, high }) => format!("{value:+.3} [{low:+.3}, {high:+.3}]"),
        None => String::new(),
    };
    let score = row.score.as_deref().unwrap_or_default();
    let differences = [difference(row.area.minus_random), difference(row.area.minus_matched)];
    line([strategy, score, &area, &differences[0], &differences[1]])
}

fn line([strategy, score, area, random, matched]: [&str; 5]) -> String {
    let line = format!("{strategy:<9} {score:<11} {area:>6}  {random:<24} {matched}");
    format!("{}\n", line.trim_end())
}

/// What is not finished yet.
pub fn missing(names: &[String]) -> String {
    let mut named: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
    let more = format!("and {} more", names.len().saturating_sub(NAMED));
    if names.len() > NAMED {
        named.push(&more);
    }
    let verb = if names.len() == 1 { "cell is" } else { "cells are" };
    format!("{} {verb} not finished: {}", names.len(), named.join(", "))
}
