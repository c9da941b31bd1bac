//! A checkpoint that heads are cut out of.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Mutex;

use super::cut::{Cut, Cuts};
use super::place::StackHead;
use super::surgery::whole;
use crate::config::{Config, Stack};
use crate::error::{Error, Result};
use crate::export;
use crate::family::{self, Family, fields::Fields};
use crate::hub::ModelFiles;
use crate::weights::Checkpoint;

/// A checkpoint with its configuration, before anything is cut.
pub(super) struct Source {
    pub checkpoint: Checkpoint,
    /// The text of its configuration.
    pub bytes: Cow<'static, [u8]>,
    /// The configuration's file, or the one that it is in.
    pub path: PathBuf,
    pub family: &'static Family,
    pub config: Config,
}

impl Source {
    pub fn open(files: &ModelFiles) -> Result<Self> {
        let checkpoint = Checkpoint::open(files)?;
        let bytes = export::config(files, &checkpoint, None)?;
        let path = match (&files.config, checkpoint.config()) {
            (Some(asset), _) => asset.path(),
            (None, found) => found.map_or(checkpoint.path(), |(path, _)| path),
        };
        let path = path.to_path_buf();
        let fields = Fields::parse(&path, &bytes)?;
        let family = match fields.text("model_type")? {
            Some(model_type) => family::of(&fields, &model_type)?,
            None => family::infer(checkpoint.path(), checkpoint.names())?,
        };
        let config = (family.read)(&fields)?;
        Ok(Self { checkpoint, bytes, path, family, config })
    }

    /// Numbers in all tensors.
    pub fn count(&self) -> usize {
        self.checkpoint.tensors().map(|(_, one, _)| one.shape.iter().product::<usize>()).sum()
    }

    /// Every tensor with what is cut out of it.
    pub fn cut<'a>(
        &'a self,
        gone: &BTreeSet<StackHead>,
        too_large: &'a Mutex<Option<String>>,
    ) -> Result<Vec<(&'a str, Cut<'a>)>> {
        let Self { checkpoint, family, config, .. } = self;
        let cuts = Cuts { config, family, gone };
        let mut cut: BTreeSet<(Stack, usize)> = BTreeSet::new();
        let mut parts = Vec::new();
        for (name, tensor, bytes) in checkpoint.tensors() {
            let plan = cuts.plan(name);
            if let Some(plan) = &plan {
                cut.insert((plan.stack, plan.block));
            }
            let whole = export::plain(tensor, bytes, too_large);
            parts.push((name, Cut::new(whole, plan, checkpoint.path())?));
        }
        let lacking = gone.iter().find(|one| {
            let block = config.of(one.stack).shared[one.head.layer];
            !cut.contains(&(one.stack, block))
        });
        match lacking {
            None => Ok(parts),
            Some(one) => {
                let why = format!("holds no weights of {one}, which is to be removed");
                Err(Error::checkpoint(checkpoint.path(), why))
            }
        }
    }
}

/// Numbers that are left.
pub(super) fn count(parts: &[(&str, Cut<'_>)]) -> usize {
    parts.iter().map(|(_, cut)| cut.count()).sum()
}

/// Numbers in all tensors of a checkpoint, before and after these heads are cut out; layers may lose
/// all of theirs. Nothing is written.
pub(super) fn parameters(
    files: &ModelFiles,
    remove: &BTreeSet<StackHead>,
) -> Result<(usize, usize)> {
    let source = Source::open(files)?;
    let gone = whole(&source.config, remove, &mut Vec::new())?;
    let too_large = Mutex::default();
    let after = count(&source.cut(&gone, &too_large)?);
    Ok((source.count(), after))
}
