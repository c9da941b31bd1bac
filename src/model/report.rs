//! What was loaded, from where, and what was noticed on the way.

use super::{LoadOptions, Model};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::family::Family;
use crate::hub::ModelFiles;
use crate::tokens::Tokenizer;
use crate::weights::{Checkpoint, Weights};

/// An account of a loaded checkpoint, as `attnviz inspect` shows it.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Report {
    /// What the user asked for.
    pub name: String,
    /// Commit of a Hub model.
    pub revision: Option<String>,
    /// Storage types of the weights in use, such as `F16`.
    pub dtypes: Vec<String>,
    /// How the file names its tensors: with its family's prefix such as `bert.` or without, and
    /// whether norms have the old `gamma`/`beta`.
    pub naming: String,
    /// Numbers in the tensors in use.
    pub parameters: usize,
    /// The same by part: embeddings, layers or encoder and decoder, head.
    pub parts: Vec<(String, usize)>,
    /// What the model needs and the files do not hold as it should be; empty for one that runs.
    pub missing: Vec<String>,
    /// Tensors of the file that this model does not use.
    pub unused: Vec<String>,
    /// What was assumed or chosen, one sentence each.
    pub notes: Vec<String>,
}

impl Report {
    pub(super) fn new(
        files: &ModelFiles,
        family: &Family,
        weights: &Weights,
        left: Vec<String>,
        notes: Vec<String>,
    ) -> Self {
        let mut unused = weights.unused();
        unused.extend(left);
        unused.sort();
        let mut parts = PARTS.map(|part| (part.to_owned(), 0));
        let used = weights.tensors().filter(|(_, stored)| !unused.contains(&stored.raw));
        for (name, stored) in used {
            parts[part(name)].1 += stored.shape.iter().product::<usize>();
        }
        Self {
            name: files.name.clone(),
            revision: files.revision.clone(),
            dtypes: weights.dtypes(),
            naming: naming(weights, family.prefix),
            parameters: weights.parameters(),
            parts: parts.into_iter().filter(|(_, count)| *count > 0).collect(),
            missing: weights.wrong(),
            unused,
            notes,
        }
    }

    /// Of a checkpoint whose family or sizes are not known: what its files hold.
    fn of_files(files: &ModelFiles, checkpoint: &Checkpoint) -> Self {
        let mut dtypes: Vec<String> =
            checkpoint.tensors().map(|(_, one, _)| format!("{:?}", one.dtype)).collect();
        dtypes.sort();
        dtypes.dedup();
        let sizes = checkpoint.tensors().map(|(_, one, _)| one.shape.iter().product::<usize>());
        Self {
            name: files.name.clone(),
            revision: files.revision.clone(),
            dtypes,
            naming: "of no known model".into(),
            parameters: sizes.sum(),
            parts: Vec::new(),
            missing: Vec::new(),
            unused: checkpoint.names().map(str::to_owned).collect(),
            notes: [files.notes.as_slice(), checkpoint.notes()].concat(),
        }
    }
}

/// What can be said of a checkpoint without reading its numbers, whether it runs or not.
pub struct Inspection {
    /// What its files hold, and how it would be used; nothing where they cannot be read at all.
    pub report: Option<Report>,
    /// Sizes and choices, where the configuration can be read.
    pub config: Option<Config>,
    /// The tokenizer that came with it.
    pub tokenizer: Option<Tokenizer>,
    /// What keeps it from running, one line each; empty for a model that [`Model::open`] loads.
    pub problems: Vec<String>,
}

impl Inspection {
    /// Looks at the files of a model as [`Model::open`] would, but reads no numbers and goes on
    /// past what is missing or misshapen.
    pub fn of(files: &ModelFiles, options: &LoadOptions) -> Self {
        let mut problems = Vec::new();
        let mut keep = |error: Error| problems.push(error.to_string());
        let (report, config) = match survey(files, options) {
            Ok(model) => (Some(model.report), Some(model.config)),
            Err(error) => {
                keep(error);
                let checkpoint = Checkpoint::open(files).ok();
                (checkpoint.map(|checkpoint| Report::of_files(files, &checkpoint)), None)
            }
        };
        let tokenizer = Tokenizer::find(&files.tokenizer).map_err(keep).ok().flatten();
        problems.extend(report.iter().flat_map(|report| report.missing.iter().cloned()));
        Self { report, config, tokenizer, problems }
    }
}

const PARTS: [&str; 5] = ["embeddings", "layers", "encoder", "decoder", "head"];

/// Which of them a tensor belongs to, by its name here.
fn part(name: &str) -> usize {
    let (stack, rest) = match (name.strip_prefix("encoder."), name.strip_prefix("decoder.")) {
        (Some(rest), _) => (2, rest),
        (_, Some(rest)) => (3, rest),
        _ => (1, name),
    };
    match rest.split('.').next() {
        Some("embeddings") => 0,
        // what all layers share, or what stands between them and the head
        Some("layers" | "distance" | "convolution" | "final") => stack,
        _ => 4,
    }
}

fn survey(files: &ModelFiles, options: &LoadOptions) -> Result<Model> {
    let options = LoadOptions { task: options.task, ..LoadOptions::default() };
    Model::assemble(files, &options, Checkpoint::open(files)?.surveyed())
}

fn naming(weights: &Weights, prefix: &str) -> String {
    let raw = |test: &dyn Fn(&str) -> bool| weights.tensors().any(|(_, one)| test(&one.raw));
    if raw(&|name| name.starts_with("blk.")) {
        return "llama.cpp's".into();
    }
    let prefixed = match !prefix.is_empty() && raw(&|name| name.starts_with(prefix)) {
        true => format!("`{prefix}` prefix"),
        false => "no prefix".to_string(),
    };
    match raw(&|name| name.ends_with(".gamma")) {
        true => format!("{prefixed}, old gamma/beta norms"),
        false => prefixed,
    }
}
