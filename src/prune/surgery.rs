//! Heads out of the weights, into a checkpoint that loads again.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde_json::{Map, Value};

use super::cut::{Cut, Cuts};
use super::place::{StackHead, left, name, stacks};
use crate::config::{Config, Stack};
use crate::error::{Error, Result};
use crate::export;
use crate::family::{self, Family, fields::Fields};
use crate::hub::ModelFiles;
use crate::select::Head;
use crate::weights::Checkpoint;

/// What may be cut and written.
#[derive(Debug, Clone, Copy, Default)]
pub struct PruneOptions {
    /// Lets a layer lose all its heads; what is left of its attention is the output bias.
    pub allow_empty_layers: bool,
    /// Write into a folder that holds other files; those of the same names are replaced.
    pub force: bool,
}

/// What was cut and written.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Pruned {
    /// The folder.
    pub folder: PathBuf,
    /// Its files, by name.
    pub files: Vec<String>,
    /// The heads that went, those of layers that share a block included.
    pub removed: Vec<StackHead>,
    /// Heads that are left.
    pub left: usize,
    /// Numbers in all tensors, before and after.
    pub parameters: (usize, usize),
    /// Bytes of `model.safetensors`, and of the weights that it comes from.
    pub bytes: (u64, u64),
    /// What was assumed or left aside, one sentence each.
    pub notes: Vec<String>,
}

/// Cuts heads out of a checkpoint and writes what is left into the folder `out`: the rows of query,
/// key and value (and of their biases) and the columns of the output projection; the output bias
/// stays. Numbers that stay keep their bytes, tensors their names and number format.
///
/// `config.json` names what went under `pruned_heads`, numbered as before any pruning, as
/// transformers 4 wrote it; of a decoder under `decoder_pruned_heads` and of cross-attention under
/// `cross_pruned_heads`, which transformers does not know. Pruning what was pruned gives the bytes
/// that pruning once would have given.
///
/// - Layers that share one block (ALBERT) lose a head together; `pruned_heads` then has the block's
///   number in place of the layer's, as transformers 4 has it.
/// - Heads that share keys and values go only as a whole group.
/// - A bias by distance that all layers share (T5, MPNet) stays whole, its columns under their
///   original numbers.
///
/// # Errors
/// [`Error::Usage`] for heads that the model does not have, part of a group, and for a layer that
/// would lose its last head unless the options allow it; those of [`convert`](crate::export::convert)
/// for what cannot be read or written.
pub fn prune(
    files: &ModelFiles,
    out: &Path,
    remove: &BTreeSet<StackHead>,
    options: &PruneOptions,
) -> Result<Pruned> {
    let source = Source::open(files)?;
    let Source { checkpoint, config, .. } = &source;
    let mut notes = [files.notes.as_slice(), checkpoint.notes()].concat();
    let gone = whole(config, remove, &mut notes)?;
    check(config, &gone, options)?;
    let too_large = Mutex::default();
    let parts = source.cut(&gone, &too_large)?;
    let text = described(&source, &gone)?;

    let parameters = (source.count(), count(&parts));
    let stored = checkpoint.tensors().map(|(.., bytes)| bytes.len() as u64).sum();
    let (names, written, ()) =
        export::write_folder(files, out, &text, options.force, |path, shown| {
            // what transformers asks for before it loads a file
            let about = HashMap::from([("format".to_owned(), "pt".to_owned())]);
            safetensors::serialize_to_file(parts, Some(about), path)
                .map_err(|why| Error::Output { path: shown.into(), why: why.to_string() })
        })?;
    let all: usize =
        stacks(config).filter_map(|stack| left(config, stack)).flatten().map(Vec::len).sum();
    Ok(Pruned {
        folder: out.to_path_buf(),
        files: names,
        left: all - gone.len(),
        removed: gone.into_iter().collect(),
        parameters,
        bytes: (written, stored),
        notes,
    })
}

/// A checkpoint with its configuration, before anything is cut.
struct Source {
    checkpoint: Checkpoint,
    bytes: Cow<'static, [u8]>,
    /// The configuration's file, or the one that it is in.
    path: PathBuf,
    family: &'static Family,
    config: Config,
}

impl Source {
    fn open(files: &ModelFiles) -> Result<Self> {
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
    fn count(&self) -> usize {
        self.checkpoint.tensors().map(|(_, one, _)| one.shape.iter().product::<usize>()).sum()
    }

    /// Every tensor with what is cut out of it.
    fn cut<'a>(
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

fn count(parts: &[(&str, Cut<'_>)]) -> usize {
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

/// The heads that go of those that are there: with them those of all layers of a shared block.
fn whole(
    config: &Config,
    remove: &BTreeSet<StackHead>,
    notes: &mut Vec<String>,
) -> Result<BTreeSet<StackHead>> {
    let mut gone = BTreeSet::new();
    for one in remove {
        let (of, Head { layer, head }) = (config.of(one.stack), one.head);
        let layers = left(config, one.stack).filter(|layers| layer < layers.len());
        let Some(layers) = layers.filter(|_| head < of.head_counts[layer]) else {
            let have = stacks(config).map(name).collect::<Vec<_>>().join(", ");
            return Err(Error::Usage {
                flag: "--remove".into(),
                want: format!(
                    "a head of {have} with layers below {} and heads below {}",
                    of.layers(),
                    of.head_counts.iter().max().copied().unwrap_or(0)
                ),
                found: one.to_string(),
            });
        };
        if !layers[layer].contains(&head) {
            notes.push(format!("{one} was removed before"));
            continue;
        }
        let together = (0..layers.len()).filter(|&other| of.shared[other] == of.shared[layer]);
        let place = |layer| StackHead { head: Head { layer, head }, ..*one };
        let before = gone.len();
        gone.extend(together.map(place));
        if gone.len() > before + 1 {
            notes.push(format!("{one} goes from every layer that shares its block"));
        }
    }
    Ok(gone)
}

/// Refuses parts of groups, and layers that would be empty.
fn check(config: &Config, gone: &BTreeSet<StackHead>, options: &PruneOptions) -> Result<()> {
    let wrong = |want: String, found: String| Error::Usage { flag: "--remove".into(), want, found };
    for stack in stacks(config) {
        let group = config.of(stack).group_size;
        for (layer, heads) in left(config, stack).into_iter().flatten().enumerate() {
            let goes =
                |&head: &usize| gone.contains(&StackHead { stack, head: Head { layer, head } });
            let count = heads.iter().filter(|head| goes(head)).count();
            if count > 0 && count == heads.len() && !options.allow_empty_layers {
                let want = "a head left in each layer, or --allow-empty-layers".into();
                let at = StackHead { stack, head: Head { layer, head: heads[0] } };
                return Err(wrong(want, format!("all {count} heads of layer {layer} ({at}, …)")));
            }
            for shared in heads.chunk_by(|a, b| a / group == b / group) {
                let (some, all) = (shared.iter().any(&goes), shared.iter().all(&goes));
                if some && !all {
                    let names: Vec<String> =
                        shared.iter().map(|h| format!("L{layer}H{h}")).collect();
                    let chosen: Vec<String> = shared
                        .iter()
                        .filter(|h| goes(h))
                        .map(|h| format!("L{layer}H{h}"))
                        .collect();
                    let number = config.of(stack).key_value_head(shared[0]);
                    let want = format!(
                        "the whole group {number} of layer {layer}, which shares its keys and \
                         values: {}",
                        names.join(", ")
                    );
                    return Err(wrong(want, format!("{} alone", chosen.join(", "))));
                }
            }
        }
    }
    Ok(())
}

/// Keys under which the removed heads of a stack are named.
fn key(config: &Config, stack: Stack) -> &'static str {
    match (stack, &config.decoder) {
        (Stack::Cross, _) => family::CROSS_PRUNED,
        (Stack::Decoder, Some(_)) => family::DECODER_PRUNED,
        _ => family::PRUNED,
    }
}

/// The configuration with the heads that went, in every stack.
fn described(source: &Source, gone: &BTreeSet<StackHead>) -> Result<Vec<u8>> {
    let Source { bytes, config, family, path, .. } = source;
    let broken = |why: serde_json::Error| Error::checkpoint(path, why.to_string());
    let mut text: Map<String, Value> = serde_json::from_slice(bytes).map_err(broken)?;
    // always in one order, so that the order of prunings leaves no trace
    for key in [family::PRUNED, family::DECODER_PRUNED, family::CROSS_PRUNED] {
        text.shift_remove(key);
    }
    if !text.contains_key("model_type") {
        text.insert("model_type".into(), family.model_type.into());
    }
    for stack in stacks(config) {
        let of = config.of(stack);
        let mut listed: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (layer, heads) in left(config, stack).into_iter().flatten().enumerate() {
            let stays = |head: &usize| {
                let place = StackHead { stack, head: Head { layer, head: *head } };
                heads.contains(head) && !gone.contains(&place)
            };
            let absent: Vec<usize> = (0..of.head_counts[layer]).filter(|h| !stays(h)).collect();
            if !absent.is_empty() {
                listed.insert(of.shared[layer], absent);
            }
        }
        let listed: Map<String, Value> =
            listed.into_iter().map(|(layer, heads)| (layer.to_string(), heads.into())).collect();
        if !listed.is_empty() {
            text.insert(key(config, stack).into(), listed.into());
        }
    }
    let mut text = serde_json::to_vec_pretty(&text).map_err(broken)?;
    text.push(b'\n');
    Ok(text)
}
