//! Heads out of the weights, into a checkpoint that loads again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde_json::{Map, Value};

use super::cut::{Cut, Cuts};
use super::means::HeadMeans;
use super::place::{StackHead, left, name, stacks};
use super::source::{Source, count};
use crate::config::{Config, Stack};
use crate::error::{Error, Result};
use crate::export;
use crate::family;
use crate::hub::ModelFiles;
use crate::select::Head;

/// What may be cut and written.
#[derive(Debug, Clone, Default)]
pub struct PruneOptions {
    /// Lets a layer lose all its heads; what is left of its attention is the output bias.
    pub allow_empty_layers: bool,
    /// Write into a folder that holds other files; those of the same names are replaced.
    pub force: bool,
    /// Adds the mean output of the heads that go to the output bias of their layer.
    pub fold_bias: Option<HeadMeans>,
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
/// With [`PruneOptions::fold_bias`] the output bias keeps what the heads gave on the mean, rounded to
/// its own number format; `config.json` names these heads under `folded_heads`.
///
/// # Errors
/// [`Error::Usage`] for heads that the model does not have, part of a group, for a layer that
/// would lose its last head unless the options allow it, and for means where there is no output bias
/// to keep them (T5, LLaMA) or several layers share it (ALBERT); those of [`convert`](crate::export::convert)
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
    let mut parts = source.cut(&gone, &too_large)?;
    if let Some(means) = &options.fold_bias {
        notes.extend(fold(&source, &mut parts, &gone, means)?);
    }
    let text = described(&source, &gone, options.fold_bias.is_some())?;

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

/// The heads that go of those that are there: with them those of all layers of a shared block.
pub(super) fn whole(
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

/// Adds the means of the heads that go to the output biases of their layers, and says where.
fn fold(
    source: &Source,
    parts: &mut [(&str, Cut<'_>)],
    gone: &BTreeSet<StackHead>,
    means: &HeadMeans,
) -> Result<Vec<String>> {
    let Source { checkpoint, config, family, .. } = source;
    let wrong = |want: &str, found: String| Error::Usage {
        flag: "--fold-bias".into(),
        want: want.into(),
        found,
    };
    let cuts = Cuts { config, family, gone };
    let mut layers: BTreeMap<(Stack, usize), Vec<StackHead>> = BTreeMap::new();
    for &one in gone {
        layers.entry((one.stack, one.head.layer)).or_default().push(one);
    }
    let mut notes = Vec::new();
    for ((stack, layer), heads) in layers {
        let shared = &config.of(stack).shared;
        let block = shared[layer];
        if shared.iter().filter(|&&other| other == block).count() > 1 {
            let found = format!("{}, whose layers share theirs", config.model_type);
            return Err(wrong("an output bias for each layer to keep the means in", found));
        }
        let place =
            |(name, _): &&mut (&str, Cut<'_>)| cuts.output_bias(name) == Some((stack, block));
        let Some((name, bias)) = parts.iter_mut().find(place) else {
            let found = format!("{}, which has none in layer {layer}", config.model_type);
            return Err(wrong(
                "a model whose attention has an output bias to keep the means in",
                found,
            ));
        };
        let sum = means.sum(&heads).ok_or_else(|| {
            wrong("means of all heads that go", format!("none of {}, …", heads[0]))
        })?;
        bias.add(&sum, checkpoint.path())?;
        let names: Vec<String> = heads.iter().map(StackHead::to_string).collect();
        notes.push(format!("`{name}` now holds the mean output of {}", names.join(", ")));
    }
    Ok(notes)
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
fn described(source: &Source, gone: &BTreeSet<StackHead>, folded: bool) -> Result<Vec<u8>> {
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
    if folded {
        let before = text.get(family::FOLDED).and_then(Value::as_array).cloned();
        let now = gone.iter().map(|one| Value::from(one.to_string()));
        let all: Vec<Value> = before.into_iter().flatten().chain(now).collect();
        text.insert(family::FOLDED.into(), all.into());
    }
    let mut text = serde_json::to_vec_pretty(&text).map_err(broken)?;
    text.push(b'\n');
    Ok(text)
}
