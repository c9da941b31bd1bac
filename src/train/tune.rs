//! From a start folder to trained weights in a folder: one run, or one with gates, a cut and another.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::examples::Examples;
use super::gates::LearnedGates;
use super::held::scale_heads;
use super::run::{Plan, Point, Run};
use super::settings::same;
use crate::error::{Error, Result};
use crate::export::write_trained;
use crate::hub::{self, HubEnv, ModelFiles, ModelRequest};
use crate::model::{LoadOptions, Model, Trainable};
use crate::output::write_file;
use crate::prune::{HeadScore, PruneOptions, StackHead, lowest, prune};
use crate::trace::Intervention;

/// What is trained, on what, and how it is told.
pub struct Tune<'a> {
    /// The first run; with gates where heads are to go.
    pub plan: Plan,
    /// After gates: the share of all heads that goes, and the run without gates that follows.
    pub then: Option<(f64, Plan)>,
    /// What it learns from.
    pub examples: &'a dyn Examples,
    /// What a model is worth on the part for validation, the larger the better.
    pub worth: &'a dyn Fn(&Model, &[Intervention]) -> Result<f64>,
    /// How the model is loaded.
    pub options: LoadOptions,
    /// Told after every step: the run, and which of the runs it is, from 0.
    pub progress: &'a dyn Fn(&Run, usize),
    /// Asked after every look: whether the run is to end there, before its last step.
    pub enough: &'a dyn Fn(&Run) -> bool,
}

/// What came of it.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Tuned {
    /// What was seen on the way, run after run.
    pub points: Vec<Vec<Point>>,
    /// The gates at the end of the first run, by head.
    pub gates: Vec<HeadScore>,
    /// The heads that went.
    pub removed: Vec<StackHead>,
    /// Files of the result, by name.
    pub files: Vec<String>,
}

/// Folders of a run in progress, beside its result.
#[derive(Debug, Clone)]
pub struct Bench {
    out: PathBuf,
    folder: PathBuf,
    force: bool,
}

/// What a run makes in its folder.
const MADE: [&str; 6] = [ABOUT, "start", "run-0", "gated", "cut", "run-1"];
/// What the run is about besides its plan.
const ABOUT: &str = "about.json";

/// The folder `OUT.run`, beside `OUT` also where that ends with a slash or is the one that one is in.
fn beside(out: &Path) -> Result<PathBuf> {
    let place = out.canonicalize().unwrap_or_else(|_| out.components().collect());
    let Some(name) = place.file_name() else {
        let why = "has no place beside it for the run";
        return Err(Error::Output { path: out.into(), why: why.into() });
    };
    let mut name = name.to_owned();
    name.push(".run");
    Ok(place.with_file_name(name))
}

/// Refuses a folder that holds anything that no run made: it may be removed.
fn ours(folder: &Path) -> Result<()> {
    for entry in std::fs::read_dir(folder).map_err(Error::io(folder, "list it"))? {
        let name = entry.map_err(Error::io(folder, "list it"))?.file_name();
        let name = name.to_string_lossy();
        // what a kill left of a folder that was being written is hidden
        if !MADE.contains(&&*name) && !name.starts_with(".attnviz-") {
            let why = format!("is where the run would be, and holds `{name}`, which is no run's");
            return Err(Error::Output { path: folder.into(), why });
        }
    }
    Ok(())
}

impl Bench {
    /// The folder `OUT.run` for a result in `out`. A run that was interrupted goes on where `resume`
    /// says so.
    ///
    /// # Errors
    /// [`Error::Output`] where `out` holds files or a run was interrupted, and nothing is said of
    /// that, where `OUT.run` is no run's, and where `out` is a root that nothing can be beside;
    /// [`Error::Io`] where nothing can be written.
    pub fn claim(out: &Path, force: bool, resume: bool) -> Result<Self> {
        let folder = beside(out)?;
        let begun = folder.exists();
        if begun {
            ours(&folder)?;
        }
        // without a step there is nothing to lose
        if begun && !resume && !force && folder.join("run-0").exists() {
            let why = "holds a run that was interrupted; --resume goes on with it, --force starts \
                       anew";
            return Err(Error::Output { path: folder, why: why.into() });
        }
        // a run that was killed at its very end has written its result
        let force = force || (resume && begun);
        crate::export::prove_folder(out, force)?;
        if begun && !resume {
            std::fs::remove_dir_all(&folder).map_err(Error::io(&folder, "remove it"))?;
        }
        Ok(Self { out: out.into(), folder, force })
    }

    /// A folder inside.
    fn at(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Keeps what a run is about besides its plan, such as its data, where it begins; where it goes
    /// on, that must be the same.
    ///
    /// # Errors
    /// [`Error::Usage`] that says what differs, [`Error::Io`] where it cannot be kept or read.
    pub fn about(&self, about: &Value) -> Result<()> {
        let path = self.at(ABOUT);
        if path.exists() {
            let bytes = std::fs::read(&path).map_err(Error::io(&path, "read it"))?;
            return same(&path, &serde_json::from_slice(&bytes).unwrap_or_default(), about);
        }
        std::fs::create_dir_all(&self.folder).map_err(Error::io(&self.folder, "create it"))?;
        write_file(&path, format!("{about:#}\n").as_bytes())
    }

    /// The checkpoint that training starts from, which `write` makes where it is not there yet.
    ///
    /// # Errors
    /// Those of `write`, and of [`hub::resolve`].
    pub fn start(&self, write: impl FnOnce(&Path) -> Result<()>) -> Result<ModelFiles> {
        self.made("start", write)
    }

    /// Removes the folder of a run that has not begun, once it is known that it will not.
    pub fn discard(&self) {
        if !self.at("run-0").exists() {
            // what is left over is in nobody's way but the next run's, which says so
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }

    fn made(&self, name: &str, write: impl FnOnce(&Path) -> Result<()>) -> Result<ModelFiles> {
        let folder = self.at(name);
        if !folder.exists() {
            std::fs::create_dir_all(&self.folder).map_err(Error::io(&self.folder, "create it"))?;
            if let Err(error) = write(&folder) {
                let _ = std::fs::remove_dir(&self.folder); // where there is nothing else in it
                return Err(error);
            }
        }
        let request =
            ModelRequest { model: Some(folder.display().to_string()), ..ModelRequest::default() };
        hub::resolve(&request, &HubEnv::from_env(), &())
    }

    /// Runs what is left to run, and writes the result where it belongs. Whenever the program is killed,
    /// the result is not there or whole, and the run goes on from its last look at validation to the
    /// same numbers.
    ///
    /// # Errors
    /// Those of [`Run::advance`], [`Run::save`], [`prune`] and [`write_trained`].
    pub fn run(&self, tune: &Tune<'_>, start: &ModelFiles) -> Result<Tuned> {
        let mut run = self.phase(tune, &tune.plan, start, 0)?;
        let mut tuned = Tuned {
            points: vec![run.points().to_vec()],
            gates: run.gates().map_or(Ok(Vec::new()), |gates| gates.values())?,
            removed: Vec::new(),
            files: Vec::new(),
        };
        run.take_best()?;
        let mut from = start.clone();
        if let Some((fraction, plan)) = &tune.then {
            let open = run.gates().map_or(Ok(Vec::new()), LearnedGates::openness)?;
            let config = run.trainable().config();
            let remove = lowest(&open, config, *fraction, false, &Default::default());
            let gated = self.made("gated", |folder| {
                scale_heads(run.trainable(), &tuned.gates)?;
                write_trained(run.trainable(), start, folder, false).map(drop)
            })?;
            from = self.made("cut", |folder| {
                prune(&gated, folder, &remove, &PruneOptions::default()).map(drop)
            })?;
            tuned.removed = remove.into_iter().collect();
            run = self.phase(tune, plan, &from, 1)?;
            run.take_best()?;
            tuned.points.push(run.points().to_vec());
        }
        tuned.files = write_trained(run.trainable(), &from, &self.out, self.force)?;
        Ok(tuned)
    }

    /// Removes the folder of the run, once everything is written.
    ///
    /// # Errors
    /// [`Error::Io`] where it cannot be removed.
    pub fn finish(self) -> Result<()> {
        std::fs::remove_dir_all(&self.folder).map_err(Error::io(&self.folder, "remove it"))
    }

    /// One run to its end, from where it is.
    fn phase(&self, tune: &Tune<'_>, plan: &Plan, files: &ModelFiles, which: usize) -> Result<Run> {
        let folder = self.at(&format!("run-{which}"));
        std::fs::create_dir_all(&folder).map_err(Error::io(&folder, "create it"))?;
        let open = || Trainable::open(files, &tune.options);
        let mut run = match Run::resume(&folder, plan, open()?)? {
            Some(run) => run,
            None => Run::new(plan.clone(), open()?)?,
        };
        while !run.is_done() {
            run.advance(tune.examples)?;
            if run.is_due() {
                run.look(tune.worth)?;
                run.save(&folder)?;
                if (tune.enough)(&run) {
                    break;
                }
            }
            (tune.progress)(&run, which);
        }
        Ok(run)
    }
}
