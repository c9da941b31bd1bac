//! Cells, one after another, each finished one in its file.

use std::cell::RefCell;
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
    /// sets to match; `told` hears of steps, as [`Chooser::progress`](crate::prune::Chooser::progress)
    /// does.
    ///
    /// # Errors
    /// Those of [`Chooser::masks`](crate::prune::Chooser::masks).
    fn masks(
        &self,
        cell: &Cell,
        like: &[BTreeSet<StackHead>],
        told: &dyn Fn(usize, usize),
    ) -> Result<Vec<BTreeSet<StackHead>>>;

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
    /// So many steps of it are done, of about so many.
    Partly(usize, usize),
    /// It was run.
    Now,
}

/// Runs the cells that have no result yet. `told` hears of each, and of its steps.
///
/// # Errors
/// Those of [`Store::read`], [`Store::write`] and of the bench.
pub fn run(
    fractions: &[f64],
    cells: &[Cell],
    bench: &dyn Bench,
    store: &Store,
    told: impl FnMut(&Cell, Done),
) -> Result<()> {
    let told = RefCell::new(told);
    let told = |cell: &Cell, done| (*told.borrow_mut())(cell, done);
    let mut runner = Runner { fractions, bench, store, told: &told, unpruned: None, chosen: None };
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
    told: &'a dyn Fn(&Cell, Done),
    /// What the model gives with all heads.
    unpruned: Option<Vec<f64>>,
    /// The masks of the choice that came last.
    chosen: Option<(Choice, Vec<BTreeSet<StackHead>>)>,
}

impl Runner<'_> {
    fn curve(&mut self, cell: &Cell) -> Result<Curve> {
        // the steps of the choice, and a pass for each point
        let (told, points, steps) = (self.told, self.fractions.len() + 1, std::cell::Cell::new(0));
        let chosen = |done, of| {
            steps.set(of);
            told(cell, Done::Partly(done, of + points));
        };
        let masks = self.masks(cell, &chosen)?;
        let none = BTreeSet::new();
        let places =
            std::iter::once((0.0, &none)).chain(self.fractions.iter().copied().zip(&masks));
        let mut points = Vec::new();
        for (fraction, off) in places {
            points.push(self.point(fraction, off)?);
            let (done, of) = (steps.get() + points.len(), steps.get() + masks.len() + 1);
            told(cell, Done::Partly(done, of));
        }
        let (cell, about) = (cell.to_string(), self.bench.about().clone());
        Ok(Curve { cell, attnviz: env!("CARGO_PKG_VERSION").into(), about, points })
    }

    fn masks(
        &mut self,
        cell: &Cell,
        told: &dyn Fn(usize, usize),
    ) -> Result<Vec<BTreeSet<StackHead>>> {
        let masks = match cell {
            Cell::Chosen(choice) => self.chosen(choice, told)?,
            Cell::Matched(choice, _) => {
                let like = self.chosen(choice, told)?;
                self.bench.masks(cell, &like, &|_, _| ())?
            }
            Cell::Random(_) => self.bench.masks(cell, &[], told)?,
        };
        match masks.len() == self.fractions.len() {
            true => Ok(masks),
            false => Err(Error::Array {
                what: format!("masks of {cell}"),
                want: format!("{}, one for each fraction", self.fractions.len()),
                found: masks.len().to_string(),
            }),
        }
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
    fn chosen(
        &mut self,
        choice: &Choice,
        told: &dyn Fn(usize, usize),
    ) -> Result<Vec<BTreeSet<StackHead>>> {
        if let Some((last, masks)) = &self.chosen
            && last == choice
        {
            return Ok(masks.clone());
        }
        let cell = Cell::Chosen(choice.clone());
        let masks = match self.store.read(&cell, &Want::All(self.bench.about()))? {
            Some(curve) => {
                let heads = |point: &Point| {
                    let path = self.store.path(&cell);
                    let broken = |error: Error| Error::Output { path, why: error.to_string() };
                    self.bench.heads(&point.off).map_err(broken)
                };
                curve.points.iter().skip(1).map(heads).collect::<Result<_>>()? // all are there first
            }
            None => self.bench.masks(&cell, &[], told)?,
        };
        self.chosen = Some((choice.clone(), masks.clone()));
        Ok(masks)
    }
}
