//! What patching found, for people and for machines.

use attnviz::patch::{By, Cell, Direction, Place, Point};
use attnviz::{Model, Stack};
use serde_json::{Value, json};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::question::Question;
use super::{Both, Found, Written};
use crate::cli::args::PatchArgs;
use crate::cli::console::one_line;
use crate::cli::prune::table::number;
use crate::cli::report::{WIDTH, header, listed, many, wrapped};

/// Columns of a label before a row.
const LABEL: usize = 16;
/// Of the name of a place.
const NAME: usize = 52;

pub struct Report<'a> {
    pub args: &'a PatchArgs,
    pub model: &'a Model,
    pub stack: Stack,
    pub both: &'a Both,
    pub question: &'a Question,
    /// The metric of the clean and of the corrupted run.
    pub measured: (f64, f64),
    pub found: &'a [Found],
    pub written: Option<Written>,
}

impl Report<'_> {
    /// The stack, where the model has several.
    pub fn stack_name(&self) -> Option<&'static str> {
        self.model.config().decoder.as_ref()?;
        Some(match self.stack {
            Stack::Encoder => "encoder",
            Stack::Decoder => "decoder",
            Stack::Cross => "cross",
        })
    }

    pub fn way(&self) -> &'static str {
        let way = Direction::NAMES.iter().find(|(_, way)| *way == self.args.direction);
        way.map_or("", |(name, _)| name)
    }

    /// The metric in words.
    pub fn metric(&self) -> String {
        let word = |word: &Option<String>| format!("`{}`", one_line(word.as_deref().unwrap_or("")));
        let (answer, wrong) = (word(&self.question.answer), word(&self.question.wrong));
        let of = match self.question.metric.name() {
            "logit-difference" => format!("logit of {answer} less that of {wrong}"),
            "probability" => format!("probability of {answer}"),
            "divergence" => "divergence from the clean run, in nats".into(),
            _ => "cosine to the clean run's embedding".into(),
        };
        let tokens = self.both.written.as_ref().unwrap_or(&self.both.clean);
        let at = self.question.at.and_then(|at| Some((at, tokens.tokens.get(at)?)));
        at.map_or(of.clone(), |(at, token)| format!("{of}, at {at} ({})", listed(token)))
    }

    /// A position with its token, in both texts where they differ.
    pub fn label(&self, point: Point, position: usize) -> String {
        let (clean, corrupted) = self.both.tokens(self.stack, point);
        let name = |at: usize, all: &attnviz::tokens::Encoding| {
            all.tokens.get(at).map(listed).unwrap_or_default()
        };
        let (one, other) = (name(position, clean), name(position, corrupted));
        if one == other { one } else { format!("{one}/{other}") }
    }

    pub fn json(&self) -> Value {
        let tokens = |encoding: &attnviz::tokens::Encoding| {
            encoding.tokens.iter().map(|token| token.text.clone()).collect::<Vec<_>>()
        };
        let results = self.found.iter().map(
            |one| json!({ "site": one.point.name(), "by": one.by.name(), "cells": one.cells }),
        );
        let mut all = json!({
            "model": self.model.report().name,
            "clean": { "text": self.args.clean, "tokens": tokens(&self.both.clean),
                       "value": self.measured.0 },
            "corrupted": { "text": self.args.corrupted, "tokens": tokens(&self.both.corrupted),
                           "value": self.measured.1 },
            "metric": { "name": self.question.metric.name(), "at": self.question.at,
                        "answer": self.question.answer, "wrong": self.question.wrong },
            "direction": self.way(),
            "stack": format!("{:?}", self.stack).to_lowercase(),
            "results": results.collect::<Vec<_>>(),
        });
        if let Some(written) = &self.both.written {
            all["decoder_tokens"] = json!(tokens(written));
        }
        if let Some(written) = &self.written {
            all["folder"] = written.folder.display().to_string().into();
            all["files"] = json!(written.files);
        }
        all
    }

    /// The folder, or a line per place: site, place, position, what is restored.
    pub fn quiet(&self) -> String {
        if let Some(written) = &self.written {
            return format!("{}\n", one_line(&written.folder.display().to_string()));
        }
        let line = |point: Point, cell: &Cell| {
            let at = cell.place.position.map_or("-".into(), |at| at.to_string());
            format!("{}\t{}\t{at}\t{}\n", point.name(), head(&cell.place), cell.restored)
        };
        let all = self.found.iter();
        all.flat_map(|one| one.cells.iter().map(move |cell| line(one.point, cell))).collect()
    }

    pub fn text(&self) -> String {
        let mut text = header(&self.model.report().name, Some(self.model));
        let (clean, corrupted) = (&self.both.clean, &self.both.corrupted);
        text += &wrapped("clean:     ", clean.tokens.iter().map(listed));
        text += &wrapped("corrupted: ", corrupted.tokens.iter().map(listed));
        if let Some(written) = &self.both.written {
            text += &wrapped("decoder:   ", written.tokens.iter().map(listed));
        }
        let (one, other) = (number(self.measured.0), number(self.measured.1));
        let metric = format!("{}: {one} clean, {other} corrupted", self.metric());
        text += &wrapped("", metric.split(' ').map(str::to_owned));
        let how = match self.args.direction {
            Direction::Denoising => "the corrupted run with one place of the clean one",
            Direction::Noising => "the clean run with one place of the corrupted one",
        };
        text += &format!("{}: {how}\n0 is the corrupted run, 1 the clean one\n", self.way());
        for one in self.found {
            let stack = self.stack_name().map(|stack| format!("{stack}, ")).unwrap_or_default();
            let by = match one.by {
                By::Head => "by head",
                By::Position => "by position, all heads of a layer",
                By::HeadPosition => "by head and position",
            };
            let by = if one.point.has_heads() { by } else { "by position" };
            text += &format!("\n{stack}{}, {by}\n", one.point.name());
            text += &match one.by {
                By::Head => by_head(&one.cells),
                By::Position => self.by_position(one.point, &one.cells),
                By::HeadPosition => {
                    format!("{}; --json has them\n", many(one.cells.len(), "place"))
                }
            };
        }
        text += &self.most();
        if let Some(written) = &self.written {
            let folder = one_line(&written.folder.display().to_string());
            text += &format!("\n{folder}/\n  {}\n", many(written.files.len(), "picture"));
        }
        text
    }

    /// Layers across and positions down.
    fn by_position(&self, point: Point, cells: &[Cell]) -> String {
        let mut layers: Vec<usize> = cells.iter().map(|cell| cell.place.layer).collect();
        layers.dedup();
        let count =
            cells.iter().filter_map(|cell| cell.place.position).max().map_or(0, |at| at + 1);
        let rows = (0..count).map(|at| {
            let label = format!("{at:>3} {}", self.label(point, at));
            let one = |&layer: &usize| {
                let here =
                    |cell: &&Cell| cell.place.layer == layer && cell.place.position == Some(at);
                cells.iter().find(here).map(|cell| cell.restored)
            };
            (label, layers.iter().map(one).collect())
        });
        let names: Vec<String> = layers.iter().map(|layer| format!("L{layer}")).collect();
        table(&names, &rows.collect::<Vec<_>>())
    }

    /// The places that change most, of all sweeps.
    fn most(&self) -> String {
        let start = self.args.direction.start();
        let all = self.found.iter();
        let mut all: Vec<(&Found, &Cell)> =
            all.flat_map(|one| one.cells.iter().map(move |cell| (one, cell))).collect();
        let far = |cell: &Cell| (cell.restored - start).abs();
        all.sort_by(|a, b| far(b.1).total_cmp(&far(a.1)));
        all.truncate(self.args.top.get());
        let name = |(one, cell): &(&Found, &Cell)| {
            let at = cell.place.position.map(|at| (at, self.label(one.point, at)));
            let at = at.map(|(at, label)| format!(" at {at} ({label})")).unwrap_or_default();
            fitted(&format!("{} {}{at}", one.point.name(), head(&cell.place)), NAME)
        };
        let names: Vec<String> = all.iter().map(name).collect();
        let widest = names.iter().map(|name| name.width()).max().unwrap_or(0);
        let line = |(name, (_, cell)): (&String, &(&Found, &Cell))| {
            let space = " ".repeat(widest - name.width());
            format!("  {name}{space} {:>6}  ({})\n", two(cell.restored), number(cell.value))
        };
        let lines: String = names.iter().zip(&all).map(line).collect();
        format!("\nmost\n{lines}")
    }
}

/// A layer with its head or heads, as in `L3H1` or `L3H0-3`.
pub fn head(place: &Place) -> String {
    format!("L{}{}", place.layer, place.heads.as_deref().map(group).unwrap_or_default())
}

/// `H1`, or `H0-3` of heads that share.
pub fn group(heads: &[usize]) -> String {
    match heads {
        [] => String::new(),
        [one] => format!("H{one}"),
        [first, .., last] => format!("H{first}-{last}"),
    }
}

/// The heads, or groups of them, that cells are of, in order.
pub fn groups(cells: &[Cell]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for heads in cells.iter().filter_map(|cell| cell.place.heads.as_ref()) {
        if !groups.contains(heads) {
            groups.push(heads.clone());
        }
    }
    groups.sort();
    groups
}

/// Layers down and heads across.
fn by_head(cells: &[Cell]) -> String {
    let groups = groups(cells);
    let mut layers: Vec<usize> = cells.iter().map(|cell| cell.place.layer).collect();
    layers.dedup();
    let row = |layer: usize| {
        let one = |heads: &Vec<usize>| {
            let here = |cell: &&Cell| {
                cell.place.layer == layer && cell.place.heads.as_ref() == Some(heads)
            };
            cells.iter().find(here).map(|cell| cell.restored)
        };
        (format!("L{layer}"), groups.iter().map(one).collect())
    };
    let names: Vec<String> = groups.iter().map(|heads| group(heads)).collect();
    table(&names, &layers.into_iter().map(row).collect::<Vec<_>>())
}

/// Two decimals under each name, in blocks that fit the terminal; what is not there is a dot.
fn table(names: &[String], rows: &[(String, Vec<Option<f64>>)]) -> String {
    let cell = |value: &Option<f64>| value.map_or(".".into(), two);
    let label = rows.iter().map(|(name, _)| name.width()).max().unwrap_or(0).min(LABEL);
    let cells = rows.iter().flat_map(|(_, values)| values.iter().map(|value| cell(value).len()));
    let widest = cells.chain(names.iter().map(String::len)).max().unwrap_or(0).max(5) + 1;
    let block = ((WIDTH - label) / widest).max(1);
    let mut text = String::new();
    for start in (0..names.len()).step_by(block) {
        let end = (start + block).min(names.len());
        text += &" ".repeat(label);
        text.extend(names[start..end].iter().map(|name| format!("{name:>widest$}")));
        text.push('\n');
        for (name, values) in rows {
            let name = fitted(name, label);
            text += &format!("{name}{}", " ".repeat(label.saturating_sub(name.width())));
            text.extend(values[start..end].iter().map(|one| format!("{:>widest$}", cell(one))));
            text.push('\n');
        }
    }
    text
}

/// Two decimals, and no sign of what they do not show.
fn two(value: f64) -> String {
    let text = format!("{value:.2}");
    if text == "-0.00" { "0.00".into() } else { text }
}

/// At most so many columns of a text.
fn fitted(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let (mut cut, mut used) = (String::new(), 1);
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        cut.push(c);
    }
    cut + "…"
}
