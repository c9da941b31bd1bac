//! The folder of a study: one file for each finished cell.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::cell::Cell;
use super::metric::Against;
use crate::error::{Error, Result};
use crate::output::{prove_writable, write_file};
use crate::prune::StackHead;

/// Something that a curve depends on, by its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// What it is called.
    pub name: String,
    /// SHA-256 of what it holds, hexadecimal.
    pub sha256: String,
}

/// What all curves of a study have in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// The settings of the plan that numbers depend on.
    pub settings: Map<String, Value>,
    /// The checkpoint.
    pub model: Source,
    /// What it is measured on.
    pub data: Source,
    /// What is measured, for a reader: `accuracy`.
    pub measure: String,
    /// How, for a reader.
    pub means: String,
    /// Heads before any were removed.
    pub heads: usize,
    /// What items are held against.
    pub against: Against,
}

/// One set of heads off.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The share of heads that was to be removed.
    pub fraction: f64,
    /// Heads that are left.
    pub kept: usize,
    /// Those that are off: `L3H1`.
    pub off: Vec<String>,
    /// Item by item, what was found.
    pub found: Vec<f64>,
}

/// The result of a cell: what one strategy or draw gives at all fractions, the unpruned model first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// The cell's name.
    pub cell: String,
    /// The version that made it.
    pub attnviz: String,
    /// What it shares with all others.
    #[serde(flatten)]
    pub about: About,
    /// Fraction by fraction.
    pub points: Vec<Point>,
}

impl Curve {
    /// What a whole result of this cell would not have, in words.
    fn broken(&self, cell: &Cell) -> Option<String> {
        let (items, heads) = (self.about.against.items(), self.about.heads);
        let fractions = self.about.settings.get("fractions").and_then(Value::as_array);
        let fractions = fractions.into_iter().flatten().filter_map(Value::as_f64);
        let want: Vec<f64> = std::iter::once(0.0).chain(fractions).collect();
        let found: Vec<f64> = self.points.iter().map(|point| point.fraction).collect();
        if self.cell != cell.to_string() {
            return Some(format!("its `cell` is `{}`", self.cell));
        }
        if items == 0 || want != found {
            return Some(format!("its `points` are of {items} items at {found:?}, not {want:?}"));
        }
        let off = |point: &Point| point.off.iter().collect::<BTreeSet<_>>().len();
        let odd = self.points.iter().find(|point| {
            point.found.len() != items || point.kept + off(point) != heads || point.kept > heads
        });
        odd.map(|point| {
            let Point { fraction, kept, off, found } = point;
            format!(
                "at {fraction} it has {} of {items} items and {kept} heads kept, {} off of {heads}",
                found.len(),
                off.len()
            )
        })
    }
}

/// The folder that a study's results are in.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    /// Whether results of another study are as good as none.
    force: bool,
}

const CELLS: &str = "cells";

impl Store {
    /// A folder for results: a new one, an empty one, or one of a study. `force` takes any, and lets
    /// results of other settings, models or data be replaced.
    ///
    /// # Errors
    /// [`Error::Output`] for a folder that holds something else, [`Error::Io`] where it cannot be
    /// written.
    pub fn claim(folder: &Path, force: bool) -> Result<Self> {
        let failed = || Error::io(folder, "read it");
        if folder.is_dir() && !force && !folder.join(CELLS).is_dir() {
            let mut entries = std::fs::read_dir(folder).map_err(failed())?;
            if let Some(other) = entries.next() {
                let name = other.map_err(failed())?.file_name();
                let why = format!(
                    "expected a new folder or one of a study, found `{}` in it; --force writes there",
                    name.display()
                );
                return Err(Error::Output { path: folder.into(), why });
            }
        }
        prove_writable(folder)?;
        let cells = folder.join(CELLS);
        std::fs::create_dir_all(&cells).map_err(Error::io(&cells, "create it"))?;
        Ok(Self { folder: folder.into(), force })
    }

    /// A folder whose results are only read.
    ///
    /// # Errors
    /// [`Error::Output`] where no study has written there.
    pub fn existing(folder: &Path) -> Result<Self> {
        match folder.join(CELLS).is_dir() {
            true => Ok(Self { folder: folder.into(), force: false }),
            false => {
                let why = "holds no results of a study yet".into();
                Err(Error::Output { path: folder.into(), why })
            }
        }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file of a cell.
    pub fn path(&self, cell: &Cell) -> PathBuf {
        self.folder.join(CELLS).join(format!("{cell}.json"))
    }

    /// The result of a cell, if it is finished. It is held against `about` where that is known, else
    /// against `settings` alone.
    ///
    /// # Errors
    /// [`Error::Output`] for a file that is no result or one of another study, unless it is to be
    /// replaced; [`Error::Io`] where it cannot be read.
    pub fn read(&self, cell: &Cell, want: &Want<'_>) -> Result<Option<Curve>> {
        let path = self.path(cell);
        let bytes = match std::fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            bytes => bytes.map_err(Error::io(&path, "read it"))?,
        };
        let wrong = |why: String| Error::Output { path: path.clone(), why };
        let checked = || -> Result<Curve> {
            let curve: Curve = serde_json::from_slice(&bytes)
                .map_err(|error| wrong(format!("is not the result of a cell: {error}")))?;
            if let Some(why) = curve.broken(cell) {
                return Err(wrong(format!("is not the result of {cell}: {why}")));
            }
            match want.differs(&curve.about) {
                None => Ok(curve),
                Some(what) => {
                    Err(wrong(format!("{what}; another `out`, or --force to replace it")))
                }
            }
        };
        match checked() {
            Err(_) if self.force => Ok(None),
            result => result.map(Some),
        }
    }

    /// Writes the result of a cell, whole or not at all.
    ///
    /// # Errors
    /// [`Error::Io`] where it cannot be written.
    pub fn write(&self, cell: &Cell, curve: &Curve) -> Result<()> {
        let path = self.path(cell);
        let mut bytes = serde_json::to_vec(curve)
            .map_err(|error| Error::Output { path: path.clone(), why: error.to_string() })?;
        bytes.push(b'\n');
        write_file(&path, &bytes)
    }
}

/// What results must have been made with to be of a study.
#[derive(Debug, Clone, Copy)]
pub enum Want<'a> {
    /// All that is known once the model and the data are read.
    All(&'a About),
    /// What the plan says.
    Settings(&'a Map<String, Value>),
}

impl Want<'_> {
    /// What is not as it should be, in words.
    fn differs(&self, found: &About) -> Option<String> {
        let settings = match self {
            Self::All(about) => &about.settings,
            Self::Settings(settings) => settings,
        };
        let keys: BTreeSet<&String> = settings.keys().chain(found.settings.keys()).collect();
        for key in keys {
            let of = |map: &Map<String, Value>| map.get(key).cloned().unwrap_or_default();
            let (was, now) = (of(&found.settings), of(settings));
            if was != now {
                return Some(format!("was made with `{key}` {was}, and the plan says {now}"));
            }
        }
        let Self::All(about) = self else { return None };
        let other = |what: &str, found: &Source, now: &Source| {
            let short = |source: &Source| format!("{} ({:.8})", source.name, source.sha256);
            format!("was made with another {what}: {}, and this is {}", short(found), short(now))
        };
        match () {
            () if found.model.sha256 != about.model.sha256 => {
                Some(other("model", &found.model, &about.model))
            }
            () if found.data.sha256 != about.data.sha256 => {
                Some(other("set of texts", &found.data, &about.data))
            }
            () if (&found.against, found.heads) != (&about.against, about.heads) => {
                Some("was made of other items or heads".into())
            }
            () => None,
        }
    }
}

/// Names of heads, in order.
pub(super) fn names(heads: &BTreeSet<StackHead>) -> Vec<String> {
    heads.iter().map(StackHead::to_string).collect()
}
