//! `--layers` and `--heads` against what there is.

use std::collections::BTreeMap;

use attnviz::{Error, HeadChoice, Result};

use super::args::ChoiceArgs;

/// The heads to show, by layer. `counts` are heads per layer before any pruning, `there` those that
/// are left; a pruned head that is asked for by name is an error.
pub fn choose(
    args: &ChoiceArgs,
    counts: &[usize],
    there: &[Vec<usize>],
) -> Result<BTreeMap<usize, Vec<usize>>> {
    let all: Vec<usize> = (0..counts.len()).collect();
    let layers = match &args.layers {
        Some(layers) => layers.value.resolve("layers", counts.len())?,
        None => all,
    };
    // a layer that arrays from elsewhere leave out has no heads to choose from
    let layers: Vec<usize> = layers.into_iter().filter(|&layer| counts[layer] > 0).collect();
    let mut chosen = match &args.heads {
        Some(heads) => heads.value.resolve(&layers, counts)?,
        None => layers.iter().map(|&layer| (layer, (0..counts[layer]).collect())).collect(),
    };
    chosen.retain(|layer, _| layers.contains(layer));
    let named = matches!(&args.heads, Some(given) if matches!(given.value, HeadChoice::Pairs(_)));
    for (&layer, heads) in &mut chosen {
        let has = there.get(layer).map_or(&[][..], Vec::as_slice);
        if let Some(gone) = heads.iter().find(|head| named && !has.contains(head)) {
            return Err(usage("heads that are not pruned", &format!("L{layer}H{gone}")));
        }
        heads.retain(|head| has.contains(head));
    }
    chosen.retain(|_, heads| !heads.is_empty());
    if chosen.is_empty() {
        return Err(usage("at least one head of the chosen layers", "none"));
    }
    Ok(chosen)
}

fn usage(want: &str, found: &str) -> Error {
    Error::Usage { flag: "--layers and --heads".into(), want: want.into(), found: found.into() }
}
