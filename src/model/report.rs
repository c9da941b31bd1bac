//! What was loaded, from where, and what was noticed on the way.

use crate::config::Config;
use crate::hub::ModelFiles;
use crate::weights::Weights;

/// An account of a loaded checkpoint, as `attnviz inspect` shows it.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Report {
    /// What the user asked for.
    pub name: String,
    /// Commit of a Hub model.
    pub revision: Option<String>,
    /// Storage types of the weights in use, such as `F16`.
    pub dtypes: Vec<String>,
    /// How the file names its tensors: `bert.`-prefixed, bare, or with the old `gamma`/`beta`.
    pub naming: String,
    /// Numbers in the tensors in use.
    pub parameters: usize,
    /// The same by part: embeddings, layers, head.
    pub parts: Vec<(String, usize)>,
    /// Tensors of the file that this model does not use.
    pub unused: Vec<String>,
    /// What was assumed or chosen, one sentence each.
    pub notes: Vec<String>,
}

impl Report {
    pub(super) fn new(
        files: &ModelFiles,
        config: &Config,
        weights: &Weights,
        left: Vec<String>,
        notes: Vec<String>,
    ) -> Self {
        let mut unused = weights.unused();
        unused.extend(left);
        unused.sort();
        let mut parts: Vec<(String, usize)> = Vec::new();
        for (name, stored) in weights.tensors() {
            let part = match name.split('.').next() {
                Some("embeddings") => "embeddings",
                Some("layers") => "layers",
                _ => "head",
            };
            if unused.contains(&stored.raw) {
                continue;
            }
            let count = stored.shape.iter().product::<usize>();
            match parts.iter_mut().find(|(name, _)| name == part) {
                Some((_, sum)) => *sum += count,
                None => parts.push((part.into(), count)),
            }
        }
        Self {
            name: files.name.clone(),
            revision: files.revision.clone(),
            dtypes: weights.dtypes(),
            naming: naming(weights, config),
            parameters: weights.parameters(),
            parts,
            unused,
            notes,
        }
    }
}

fn naming(weights: &Weights, config: &Config) -> String {
    let prefix = format!("{}.", config.model_type);
    let raw = |test: &dyn Fn(&str) -> bool| weights.tensors().any(|(_, one)| test(&one.raw));
    let prefixed = match raw(&|name| name.starts_with(&prefix)) {
        true => format!("`{prefix}` prefix"),
        false => "no prefix".to_string(),
    };
    match raw(&|name| name.ends_with(".gamma")) {
        true => format!("{prefixed}, old gamma/beta norms"),
        false => prefixed,
    }
}
