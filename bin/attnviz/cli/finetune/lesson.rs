//! What a run learns from, and what tells how it goes.

use std::path::Path;

use attnviz::export::{ConvertOptions, convert, write_start};
use attnviz::hub::ModelFiles;
use attnviz::task::{Label, Labelled, Reached, Set, Split};
use attnviz::tokens::Encoding;
use attnviz::train::{Examples, LabelledExamples, TextExamples, mean_loss, sha256};
use attnviz::{Error, Intervention, Model, Result, Task};
use serde_json::{Value, json};

use super::super::args::FinetuneArgs;
use super::super::{lines, session};
use super::report::Told;

/// Of so many texts one is for validation.
const HELD: usize = 10;

/// The labelled set of the command line, with its name.
pub struct Named<'a> {
    name: &'a str,
    set: Labelled,
}

impl<'a> Named<'a> {
    /// Reads it, and refuses one without all three parts.
    pub fn open(name: &'a str) -> Result<Self> {
        let set = Labelled::open(name)?;
        for split in [Split::Train, Split::Validation, Split::Test] {
            if set.part(split).next().is_none() {
                let why = format!("holds no items for {split:?}").to_lowercase();
                return Err(Error::Input { place: name.into(), why });
            }
        }
        Ok(Self { name, set })
    }

    fn of(&self, model: &Model, args: &FinetuneArgs) -> Result<Set> {
        let limit = session::limit(&args.run);
        Set::new(self.set.clone(), self.name, model, &limit, args.course.batch_size.into())
    }

    /// What a model reaches on the part for tests, and by what.
    pub fn reached(&self, model: &Model, args: &FinetuneArgs) -> Result<(String, Reached)> {
        let set = self.of(model, args)?;
        Ok((set.by(), set.reached(model, &[], Split::Test)?))
    }

    /// The checkpoint that the run starts from: with a head for the classes of the set.
    fn start(&self, files: &ModelFiles, seed: u64, folder: &Path) -> Result<()> {
        let task = match self.set.items.first().map(|item| &item.label) {
            Some(Label::Words(_)) => Task::TokenClassification,
            Some(Label::Class(_)) => Task::SequenceClassification,
            _ => return unchanged(files, folder),
        };
        write_start(files, task, &self.set.classes, seed, folder)
    }
}

fn unchanged(files: &ModelFiles, folder: &Path) -> Result<()> {
    convert(files, folder, &ConvertOptions::default()).map(drop)
}

/// The checkpoint that the run starts from.
pub fn start(data: Option<&Named<'_>>, files: &ModelFiles, seed: u64, folder: &Path) -> Result<()> {
    data.map_or_else(|| unchanged(files, folder), |data| data.start(files, seed, folder))
}

/// Examples, and what a model is worth.
pub enum Lesson {
    /// The part of a labelled set that is for training.
    Set(Box<LabelledExamples>),
    /// Texts, by the loss on those that are held.
    Texts {
        learnt: TextExamples,
        held: TextExamples,
        /// Of their tokens.
        sha256: String,
        batch_size: usize,
        seed: u64,
    },
}

impl Lesson {
    pub fn new(args: &FinetuneArgs, data: Option<&Named<'_>>, model: &Model) -> Result<Self> {
        if let Some(data) = data {
            let set = data.of(model, args)?;
            return Ok(Self::Set(Box::new(LabelledExamples::new(set, Split::Train, model)?)));
        }
        let (texts, mut learnt, mut held) = (texts(args, model)?, Vec::new(), Vec::new());
        let ids = texts.iter().flat_map(|text| text.tokens.iter().map(|token| token.id));
        let sha256 = sha256(format!("{:?}", ids.collect::<Vec<_>>()).as_bytes());
        for (place, encoding) in texts.into_iter().enumerate() {
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
        let examples = |some| TextExamples::new(some, args.mask_share, model);
        let (learnt, held) = (examples(learnt)?, examples(held)?);
        let (batch_size, seed) = (args.course.batch_size.into(), args.course.seed);
        Ok(Self::Texts { learnt, held, sha256, batch_size, seed })
    }

    /// What a run is about besides its plan: it goes on with the same.
    pub fn about(&self, args: &FinetuneArgs, files: &ModelFiles) -> Value {
        let run = &args.run;
        let set = |set: &Labelled| sha256(format!("{set:?}").as_bytes());
        match self {
            Self::Set(examples) => json!({
                "model": files.name,
                "max_length": run.max_length,
                "truncate": run.truncate,
                "set_sha256": set(examples.set().labelled()),
            }),
            Self::Texts { sha256, .. } => json!({
                "model": files.name,
                "mask_share": args.mask_share,
                "text_sha256": sha256,
            }),
        }
    }

    pub fn examples(&self) -> &dyn Examples {
        match self {
            Self::Set(examples) => examples.as_ref(),
            Self::Texts { learnt, .. } => learnt,
        }
    }

    /// What [`worth`](Self::worth) stands for.
    pub fn told(&self) -> Told {
        match self {
            Self::Set(examples) if !examples.set().has_loss() => Told::Spearman,
            _ => Told::Loss,
        }
    }

    /// What a model is worth on the part for validation.
    pub fn worth(&self, model: &Model, changes: &[Intervention]) -> Result<f64> {
        match self {
            Self::Set(examples) => examples.set().worth(model, changes, Split::Validation),
            Self::Texts { held, batch_size, seed, .. } => {
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
