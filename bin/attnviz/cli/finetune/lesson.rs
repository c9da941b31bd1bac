//! What a run learns from, and what tells how it goes.

use std::path::Path;

use attnviz::export::{ConvertOptions, convert, write_start};
use attnviz::hub::ModelFiles;
use attnviz::task::{Labelled, Set, Split};
use attnviz::tokens::{Encoding, Limit};
use attnviz::train::{Examples, LabelledExamples, TextExamples, mean_loss};
use attnviz::{Error, Intervention, Model, Result};

use super::super::args::{FinetuneArgs, RunArgs};
use super::super::{lines, session};

/// Of so many texts one is for validation.
const HELD: usize = 10;

/// Examples, and what a model is worth.
pub struct Lesson {
    examples: Box<dyn Examples>,
    told: Told,
}

enum Told {
    Set(Box<Set>),
    /// Texts, by the loss on them.
    Texts {
        held: TextExamples,
        batch_size: usize,
        seed: u64,
    },
}

pub fn limit(run: &RunArgs) -> Limit {
    Limit { max: run.max_length.map(|most| most as usize), truncate: run.truncate }
}

/// The checkpoint that the run starts from: with a head for the classes of the set.
pub fn start(args: &FinetuneArgs, files: &ModelFiles, folder: &Path) -> Result<()> {
    let classes = match &args.data {
        Some(name) => Labelled::open(name)?.classes,
        None => Vec::new(),
    };
    match classes.is_empty() {
        true => convert(files, folder, &ConvertOptions::default()).map(drop),
        false => write_start(files, &classes, args.course.seed, folder),
    }
}

impl Lesson {
    pub fn new(args: &FinetuneArgs, model: &Model) -> Result<Self> {
        let (limit, batch_size) = (limit(&args.run), usize::from(args.course.batch_size));
        if let Some(name) = &args.data {
            let set = Labelled::open(name)?;
            let examples = LabelledExamples::new(&set, name, Split::Train, model, &limit)?;
            let set = Set::new(set, name, model, &limit, batch_size)?;
            return Ok(Self { examples: Box::new(examples), told: Told::Set(Box::new(set)) });
        }
        let (mut learnt, mut held) = (Vec::new(), Vec::new());
        for (place, encoding) in texts(args, model)?.into_iter().enumerate() {
            match place % HELD == HELD - 1 {
                true => held.push(encoding),
                false => learnt.push(encoding),
            }
        }
        if held.is_empty() {
            let place = args.file.as_ref().map(|path| path.display().to_string());
            let why = format!("{} texts; expected {HELD} or more", learnt.len());
            return Err(Error::Input { place: place.unwrap_or_default(), why });
        }
        let held = TextExamples::new(held, args.mask_share, model)?;
        let told = Told::Texts { held, batch_size, seed: args.course.seed };
        Ok(Self { examples: Box::new(TextExamples::new(learnt, args.mask_share, model)?), told })
    }

    pub fn examples(&self) -> &dyn Examples {
        self.examples.as_ref()
    }

    pub fn count(&self) -> usize {
        self.examples.count()
    }

    /// What [`worth`](Self::worth) is called.
    pub fn worth_name(&self) -> &'static str {
        match &self.told {
            Told::Set(set) if set.has_loss() => "minus the loss",
            Told::Set(_) => "Spearman",
            Told::Texts { .. } => "minus the loss",
        }
    }

    /// What a model is worth on the part for validation.
    pub fn worth(&self, model: &Model, changes: &[Intervention]) -> Result<f64> {
        match &self.told {
            Told::Set(set) => set.worth(model, changes, Split::Validation),
            Told::Texts { held, batch_size, seed } => {
                Ok(-mean_loss(model, held, *batch_size, *seed, changes)?)
            }
        }
    }
}

fn texts(args: &FinetuneArgs, model: &Model) -> Result<Vec<Encoding>> {
    let Some(path) = &args.file else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for line in lines::read(path)? {
        let place = |error: Error| match error {
            Error::Input { why, .. } => {
                Error::Input { place: lines::place(path, line.number), why }
            }
            other => other,
        };
        let given = line.given.map_err(place)?;
        all.push(session::encode_line(model, &given, &args.run).map_err(place)?);
    }
    Ok(all)
}
