//! Cells, one after another, each finished one in its file.

use std::collections::BTreeSet;

use super::cell::{Cell, Choice};
use super::store::{About, Curve, Point, Store, Want, names};
use crate::error::{Error, Result};
use crate::prune::StackHead;

/// What a study runs on: a model with texts.
pub trait Bench {
    /// What all curves have in common.
    fn about(&self) -> &About;

    /// The heads that a cell removes, one set for each fraction, each within the next. `like` are the
    /// sets to match.
    ///
    /// # Errors
    /// Those of [`Chooser::masks`](crate::prune::Chooser::masks).
    fn masks(&self, cell: &Cell, like: &[BTreeSet<StackHead>]) -> Result<Vec<BTreeSet<StackHead>>>;

    /// Item by item, what the model gives without these heads.
    ///
    /// # Errors
    /// Those of [`Model::forward`](crate::Model::forward).
    fn found(&self, off: &BTreeSet<StackHead>) -> Result<Vec<f64>>;

    /// The heads of these names.
    ///
    /// # Errors
    /// [`Error::Usage`] for heads that the model does not have.
    fn heads(&self, names: &[String]) -> Result<BTreeSet<StackHead>>;
}

/// What became of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// Its result was there.
    Before,
    /// It was run.
    Now,
}

/// Runs the cells that have no result yet. `told` hears of each.
///
/// # Errors
/// Those of [`Store::read`], [`Store::write`] and of the bench.
pub fn run(
    fractions: &[f64],
    cells: &[Cell],
    bench: &dyn Bench,
    store: &Store,
    mut told: impl FnMut(&Cell, Done),
) -> Result<()> {
    let mut runner = Runner { fractions, bench, store, unpruned: None, chosen: None };
    // a stale result is found before anything is computed
    let want = Want::All(bench.about());
    let states = cells.iter().map(|cell| Ok(store.read(cell, &want)?.is_some()));
    let finished = states.collect::<Result<Vec<bool>>>()?;
    for (cell, finished) in cells.iter().zip(finished) {
        if !finished {
            store.write(cell, &runner.curve(cell)?)?;
        }
        told(cell, if finished { Done::Before } else { Done::Now });
    }
    Ok(())
}

struct Runner<'a> {
    fractions: &'a [f64],
    bench: &'a dyn Bench,
    store: &'a Store,
    /// What the model gives with all heads.
    unpruned: Option<Vec<f64>>,
    /// The masks of the choice that came last.
    chosen: Option<(Choice, Vec<BTreeSet<StackHead>>)>,
}

impl Runner<'_> {
    fn curve(&mut self, cell: &Cell) -> Result<Curve> {
        let masks = match cell {
            Cell::Chosen(choice) => self.chosen(choice)?,
            Cell::Matched(choice, _) => {
                let like = self.chosen(choice)?;
                self.bench.masks(cell, &like)?
            }
            Cell::Random(_) => self.bench.masks(cell, &[])?,
        };
        if masks.len() != self.fractions.len() {
            return Err(Error::Array {
                what: format!("masks of {cell}"),
                want: format!("{}, one for each fraction", self.fractions.len()),
                found: masks.len().to_string(),
            });
        }
        let none = BTreeSet::new();
        let first = self.point(0.0, &none)?;
        let mut points = vec![first];
        for (&fraction, off) in self.fractions.iter().zip(&masks) {
            points.push(self.point(fraction, off)?);
        }
        let (cell, about) = (cell.to_string(), self.bench.about().clone());
        Ok(Curve { cell, attnviz: env!("CARGO_PKG_VERSION").into(), about, points })
    }

    fn point(&mut self, fraction: f64, off: &BTreeSet<StackHead>) -> Result<Point> {
        let found = match &self.unpruned {
            Some(found) if off.is_empty() => found.clone(),
            _ => self.bench.found(off)?,
        };
        let items = self.bench.about().against.items();
        if found.len() != items {
            return Err(Error::Array {
                what: "what was found".into(),
                want: format!("{items} items"),
                found: found.len().to_string(),
            });
        }
        if let Some(other) = found.iter().find(|value| !value.is_finite()) {
            return Err(Error::Array {
                what: format!("what was found with {} heads off", off.len()),
                want: "numbers".into(),
                found: other.to_string(),
            });
        }
        if off.is_empty() {
            self.unpruned = Some(found.clone());
        }
        let kept = self.bench.about().heads.saturating_sub(off.len());
        Ok(Point { fraction, kept, off: names(off), found })
    }

    /// The masks of a choice: those that came last, those of its result, or new ones.
    fn chosen(&mut self, choice: &Choice) -> Result<Vec<BTreeSet<StackHead>>> {
        if let Some((last, masks)) = &self.chosen
            && last == choice
        {
            return Ok(masks.clone());
        }
        let cell = Cell::Chosen(choice.clone());
        let masks = match self.store.read(&cell, &Want::All(self.bench.about()))? {
            Some(curve) => {
                let points = curve.points.iter().skip(1); // the unpruned model
                points.map(|point| self.bench.heads(&point.off)).collect::<Result<_>>()?
            }
            None => self.bench.masks(&cell, &[])?,
        };
        self.chosen = Some((choice.clone(), masks.clone()));
        Ok(masks)
    }
}
