//! What a study found, as one table: each strategy and score against masks at random.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use super::area::{Curves, Estimate, Group, Said, quantiles};
use super::cell::{Cell, Choice};
use super::metric::Against;
use super::plan::{Metric, Plan};
use super::store::{Curve, Source, Store, Want};
use crate::error::{Error, Result};

/// What a study found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Table {
    /// The checkpoint.
    pub model: Source,
    /// What it was measured on.
    pub data: Source,
    /// The part for tests: how many items.
    pub items: usize,
    /// What was measured: `accuracy`.
    pub measure: String,
    /// How.
    pub means: String,
    /// Heads before any were removed.
    pub heads: usize,
    /// The plan's settings that numbers depend on.
    pub settings: Map<String, Value>,
    /// Resamplings behind the intervals.
    pub resamplings: usize,
    /// The metric with all heads.
    pub unpruned: Estimate,
    /// The shares of heads kept that areas span.
    pub span: (f64, f64),
    /// Each strategy and score, followed by the masks that match it; last the masks at random.
    pub rows: Vec<Row>,
    /// Cells of the plan that have no result yet.
    pub missing: Vec<String>,
}

/// Which masks a row is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Masks {
    /// Those that a strategy chose.
    Chosen,
    /// Random ones with as many heads of each layer.
    LayerMatched,
    /// Random ones.
    Random,
}

impl Masks {
    /// Its name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chosen => "chosen",
            Self::LayerMatched => "layer-matched",
            Self::Random => "random",
        }
    }
}

/// The curves of one kind, averaged.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// How heads were chosen.
    pub strategy: Option<&'static str>,
    /// By which score.
    pub score: Option<String>,
    /// Which masks these are.
    pub masks: Masks,
    /// How many curves: of seeds, or of draws.
    pub curves: usize,
    /// The area under the curve over its width: the mean metric over the span.
    pub area: Compared,
    /// Random masks of a smaller area, of so many.
    pub above_random: Option<(usize, usize)>,
    /// By rising fraction, the unpruned model first.
    pub points: Vec<At>,
}

/// One point of averaged curves.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct At {
    /// The share of heads that was to be removed.
    pub fraction: f64,
    /// Heads that are left, the mean over the curves.
    pub kept: f64,
    /// What is reached there.
    #[serde(flatten)]
    pub reached: Compared,
}

/// A number of a row, compared item by item with the same of the others.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// The mean over the curves.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// All but 5 % of the curves at either end.
    pub spread: (f64, f64),
    /// What it is more than that of random masks.
    pub minus_random: Option<Estimate>,
    /// What it is more than that of the masks that match it.
    pub minus_matched: Option<Estimate>,
}

/// Reads the results that are there and makes the table.
///
/// # Errors
/// [`Error::Output`] for results of other settings or of several models, where no cell is finished,
/// and for masks that match another choice; [`Error::Io`] for files that cannot be read.
pub fn merge(plan: &Plan, store: &Store) -> Result<Table> {
    let settings = plan.settings();
    let (mut curves, mut cells, mut missing) = (Vec::<Curve>::new(), Vec::new(), Vec::new());
    for cell in plan.cells() {
        let want = match curves.first() {
            Some(first) => Want::All(&first.about),
            None => Want::Settings(&settings),
        };
        match store.read(&cell, &want)? {
            Some(curve) => {
                curves.push(curve);
                cells.push(cell);
            }
            None => missing.push(cell.to_string()),
        }
    }
    let Some(about) = curves.first().map(|curve| curve.about.clone()) else {
        let why = format!("none of the {} cells of the study is finished", missing.len());
        return Err(Error::Output { path: store.folder().into(), why });
    };
    matching(&cells, &curves, store)?;
    let metric = plan.metric.unwrap_or(Metric::Spearman);
    let found = Curves::new(&curves, &about.against, metric);
    let maker = Maker::new(plan, &cells, &curves, &found);
    let (rows, unpruned) = maker.rows(plan.resamplings);
    let span = curves.iter().flat_map(|curve| &curve.points).map(|point| point.kept);
    let heads = about.heads.max(1) as f64;
    let span = span.fold((1.0f64, 0.0f64), |(low, high), kept| {
        (low.min(kept as f64 / heads), high.max(kept as f64 / heads))
    });
    let measure = match (metric, &about.against) {
        (Metric::Pearson, Against::Scores(_)) => "Pearson".into(),
        _ => about.measure,
    };
    Ok(Table {
        model: about.model,
        data: about.data,
        items: about.against.items(),
        measure,
        means: about.means,
        heads: about.heads,
        settings,
        resamplings: plan.resamplings,
        unpruned,
        span,
        rows,
        missing,
    })
}

/// Holds masks against the choices that they match.
fn matching(cells: &[Cell], curves: &[Curve], store: &Store) -> Result<()> {
    let by_layer = |curve: &Curve| -> Vec<BTreeMap<String, usize>> {
        let count = |off: &Vec<String>| {
            let mut counts = BTreeMap::new();
            for name in off {
                let layer = name.rsplit_once('H').map_or(name.as_str(), |(layer, _)| layer);
                *counts.entry(layer.to_owned()).or_default() += 1;
            }
            counts
        };
        curve.points.iter().map(|point| count(&point.off)).collect()
    };
    let mut chosen = None;
    for (cell, curve) in cells.iter().zip(curves) {
        match cell {
            Cell::Chosen(choice) => chosen = Some((choice, by_layer(curve))),
            Cell::Matched(choice, _) => {
                let other = chosen.as_ref().filter(|(made, _)| *made == choice);
                if other.is_some_and(|(_, layers)| *layers != by_layer(curve)) {
                    let path = store.path(cell);
                    let why = format!(
                        "has not as many heads in each layer as {choice}, which it is to match: \
                         one of them is of another machine or version; delete both and run again"
                    );
                    return Err(Error::Output { path, why });
                }
            }
            Cell::Random(_) => {}
        }
    }
    Ok(())
}

/// Curves put into rows.
struct Maker<'a> {
    curves: &'a [Curve],
    found: &'a Curves<'a>,
    kinds: Vec<Choice>,
    groups: Vec<Group>,
    random: Vec<usize>,
    /// The metric at each point of each curve, and last its area.
    values: Vec<Vec<f64>>,
}

impl<'a> Maker<'a> {
    fn new(plan: &Plan, cells: &[Cell], curves: &'a [Curve], found: &'a Curves<'a>) -> Self {
        let (mut kinds, mut groups) = (Vec::<Choice>::new(), Vec::<Group>::new());
        for choice in plan.choices() {
            let place = cells.iter().position(|cell| *cell == Cell::Chosen(choice.clone()));
            let Some(place) = place else { continue };
            let same = |kind: &Choice| (kind.way, &kind.score) == (choice.way, &choice.score);
            let at = kinds.iter().position(same).unwrap_or_else(|| {
                kinds.push(choice.clone());
                groups.push(Group::default());
                kinds.len() - 1
            });
            let matched = |(_, cell): &(usize, &Cell)| matches!(cell, Cell::Matched(other, _) if *other == choice);
            groups[at].chosen.push(place);
            let matched = cells.iter().enumerate().filter(matched).map(|(i, _)| i);
            groups[at].matched.push(matched.collect());
        }
        let random = cells.iter().enumerate().filter(|(_, cell)| matches!(cell, Cell::Random(_)));
        let random = random.map(|(place, _)| place).collect();
        let items = curves.first().map_or(0, |curve| curve.about.against.items());
        let values = found.values(&vec![1.0; items]);
        Self { curves, found, kinds, groups, random, values }
    }

    fn rows(&self, rounds: usize) -> (Vec<Row>, Estimate) {
        // the unpruned model is the first point of every curve
        let mut groups = self.groups.clone();
        groups.push(Group { chosen: vec![0], matched: Vec::new() });
        let mut said = self.found.compare(&groups, &self.random, rounds);
        let random = said.pop().unwrap_or_default();
        let first = said.pop().and_then(|said| said.chosen.first().copied());
        let unpruned = first.unwrap_or(Estimate { value: 0.0, low: 0.0, high: 0.0 });
        let mut rows = Vec::new();
        for ((kind, group), said) in self.kinds.iter().zip(&self.groups).zip(said) {
            rows.push(self.row(Some(kind), Masks::Chosen, &group.chosen, &said));
            let matched = group.matched.concat();
            if !matched.is_empty() {
                let own = Said { chosen: said.matched, ..Said::default() };
                rows.push(self.row(Some(kind), Masks::LayerMatched, &matched, &own));
            }
        }
        if !self.random.is_empty() {
            rows.push(self.row(None, Masks::Random, &self.random, &random));
        }
        (rows, unpruned)
    }

    fn row(&self, kind: Option<&Choice>, masks: Masks, curves: &[usize], said: &Said) -> Row {
        let compared = |place: usize| {
            let mut all: Vec<f64> = curves.iter().map(|&curve| self.values[curve][place]).collect();
            Compared {
                spread: quantiles(&mut all, 0.05, 0.0),
                estimate: said.chosen[place],
                minus_random: said.to_random.get(place).copied(),
                minus_matched: said.to_matched.get(place).copied(),
            }
        };
        let points = curves.first().map_or(0, |&curve| self.curves[curve].points.len());
        let at = |place: usize| {
            let kept = curves.iter().map(|&curve| self.curves[curve].points[place].kept as f64);
            At {
                fraction: self.curves[curves[0]].points[place].fraction,
                kept: kept.sum::<f64>() / curves.len() as f64,
                reached: compared(place),
            }
        };
        let area = compared(points);
        let below = |&&curve: &&usize| self.values[curve][points] < area.estimate.value;
        let above = (self.random.iter().filter(below).count(), self.random.len());
        Row {
            strategy: kind.map(|kind| kind.way.name()),
            score: kind.and_then(|kind| kind.score.clone()),
            masks,
            curves: curves.len(),
            above_random: (masks != Masks::Random && above.1 > 0).then_some(above),
            points: (0..points).map(at).collect(),
            area,
        }
    }
}
