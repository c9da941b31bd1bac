//! `attnviz prune`: a checkpoint without the heads that are named or that matter least.

mod chosen;
mod curve;
mod labelled;
pub mod loss;
pub mod table;
pub mod texts;

use std::time::Instant;

use attnviz::export::prove_folder;
use attnviz::hub::{HubEnv, ModelRequest, resolve};
use attnviz::prune::{HeadMeans, PruneOptions, Pruned, StackHead, Strategy, operations, prune};
use attnviz::task::{Likeness, Reached, Split, likeness, outputs};
use attnviz::tokens::Batch;
use attnviz::{Error, LoadOptions, Model, Recorder, Result};
use ndarray::Array2;
use serde_json::json;

use super::args::PruneArgs;
use super::console::{Console, one_line};
use super::report::{many, wrapped};
use super::session;
use chosen::{By, chosen, strategy};
use curve::Curve;
use labelled::Report;
use table::number;
use texts::{Texts, texts};

/// Neighbours whose staying is counted.
const NEIGHBOURS: usize = 10;
/// Texts at once, and the tokens of each, whose time is measured.
const LATENCIES: [usize; 4] = [1, 4, 16, 64];
const TOKENS: usize = 32;
/// Tokens of the text whose arithmetic is counted.
const COUNTED: usize = 128;

/// Everything there is to report.
struct Found {
    pruned: Pruned,
    chosen_by: Option<By>,
    curve: Option<Curve>,
    likeness: Option<Likeness>,
    labelled: Option<Report>,
    texts: usize,
    operations: (f64, f64),
    latency: Vec<(usize, f64, f64)>,
}

pub fn run(args: &PruneArgs, console: &Console) -> Result<u8> {
    if let Some(fraction) = args.fraction.filter(|f| !(0.0..=1.0).contains(f)) {
        return Err(Error::Usage {
            flag: "--fraction".into(),
            want: "a share from 0 to 1".into(),
            found: fraction.to_string(),
        });
    }
    prove_folder(&args.out, args.force)?;
    let (model, _) = session::open(&args.model, &args.run, console)?;
    let files = session::files(&args.model, console)?;
    let strategy = strategy(args)?;
    let by_what = args.remove.is_empty() && !matches!(strategy, Strategy::Random { .. });
    let given = args.texts.file.is_some() || args.texts.data.is_some();
    let read = match by_what || given || args.fold_bias {
        true => Some(texts(&args.texts, None, true, (&model, &args.run, console))?),
        false => None,
    };
    let (masks, chosen_by) = match args.remove.is_empty() {
        true => {
            let (masks, by) = chosen(args, &strategy, (&model, &files), read.as_ref(), console)?;
            (masks, Some(by))
        }
        false => {
            let lists = args.remove.iter().map(|list| list.resolve(model.config()));
            (vec![lists.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect()], None)
        }
    };
    let means = match (&read, args.fold_bias) {
        (Some(read), true) => Some(HeadMeans::of(&model, &read.samples)?),
        _ => None,
    };
    let curve = match &read {
        Some(read) => Some(Curve::new(&model, read, &masks, means.as_ref(), args.texts.seed)?),
        None => None,
    };
    let options = PruneOptions {
        allow_empty_layers: args.allow_empty_layers,
        force: args.force,
        fold_bias: means,
    };
    let pruned =
        prune(&files, &args.out, &masks.into_iter().next_back().unwrap_or_default(), &options)?;
    for note in &pruned.notes {
        console.note(note);
    }
    let before = curve.as_ref().and_then(|curve| curve.unpruned.as_ref());
    let mut found = measured(args, &model, pruned, read.as_ref(), before)?;
    (found.chosen_by, found.curve) = (chosen_by, curve);
    console.result(&match (console.talk.json, console.talk.quiet) {
        (true, _) => as_json(&found),
        (_, true) => format!("{}\n", one_line(&found.pruned.folder.display().to_string())),
        _ => as_text(&found),
    });
    Ok(if read.is_some_and(|read| read.bad > 0) { 5 } else { 0 })
}

/// Holds what was written against what it came from.
fn measured(
    args: &PruneArgs,
    model: &Model,
    pruned: Pruned,
    read: Option<&Texts>,
    before: Option<&Reached>,
) -> Result<Found> {
    let name = Some(args.out.display().to_string());
    let request = ModelRequest { model: name, ..ModelRequest::default() };
    let options = LoadOptions { task: session::task(&args.model)?, device: model.device().clone() };
    let after = Model::open(&resolve(&request, &HubEnv::from_env(), &())?, &options)?;
    let count =
        |model: &Model| operations(model.config(), COUNTED.min(model.config().max_positions));
    let mut found = Found {
        pruned,
        chosen_by: None,
        curve: None,
        likeness: None,
        labelled: None,
        texts: 0,
        operations: (count(model), count(&after)),
        latency: Vec::new(),
    };
    if let Some(read) = read {
        let unpruned = outputs(model, read.test(), &[], &[])?;
        let changed = outputs(&after, read.test(), &[], &[])?;
        found.likeness = Some(likeness(&unpruned, &changed, NEIGHBOURS)?);
        found.texts = unpruned.embeddings.nrows();
        if let (Some(set), Some(before)) = (&read.set, before) {
            let after = set.reached(&after, &[], Split::Test)?;
            found.labelled = Some(Report::new(set, before, &after, args.texts.seed));
        }
    }
    if args.latency {
        for texts in LATENCIES {
            found.latency.push((texts, time(model, texts)?, time(&after, texts)?));
        }
    }
    Ok(found)
}

/// Median milliseconds of a pass over so many texts.
fn time(model: &Model, texts: usize) -> Result<f64> {
    let config = model.config();
    let tokens = TOKENS.min(config.max_positions);
    let id = |(b, t): (usize, usize)| ((b * 31 + t * 7) % config.vocab_size.max(1)) as u32;
    let batch =
        Batch::from_ids(Array2::from_shape_fn((texts, tokens), id), Array2::ones((texts, tokens)));
    let once = || -> Result<f64> {
        let start = Instant::now();
        model.forward(&batch, &mut Recorder::new(), &[])?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    };
    once()?; // warms up
    let mut times = (0..7).map(|_| once()).collect::<Result<Vec<f64>>>()?;
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

fn as_json(found: &Found) -> String {
    let names: Vec<String> = found.pruned.removed.iter().map(StackHead::to_string).collect();
    let latency = found.latency.iter().map(|(texts, before, after)| {
        json!({ "texts": texts, "tokens": TOKENS, "before_ms": before, "after_ms": after })
    });
    let all = json!({
        "folder": found.pruned.folder,
        "files": found.pruned.files,
        "chosen_by": found.chosen_by.as_ref().map(|by| by.name),
        "strategy": found.chosen_by.as_ref().map(|by| by.strategy.name()),
        "removed": names,
        "left": found.pruned.left,
        "parameters": { "before": found.pruned.parameters.0, "after": found.pruned.parameters.1 },
        "bytes": { "before": found.pruned.bytes.1, "after": found.pruned.bytes.0 },
        "operations": { "tokens": COUNTED, "before": found.operations.0,
                        "after": found.operations.1 },
        "texts": found.texts,
        "likeness": found.likeness,
        "curve": found.curve.as_ref().map(Curve::json),
        "labelled": found.labelled.as_ref().map(Report::json),
        "latency": latency.collect::<Vec<_>>(),
        "notes": found.pruned.notes,
    });
    format!("{all:#}\n")
}

fn as_text(found: &Found) -> String {
    let pruned = &found.pruned;
    let path = one_line(&pruned.folder.display().to_string());
    let names: Vec<String> = pruned.removed.iter().map(StackHead::to_string).collect();
    let by = found.chosen_by.as_ref().map(|by| format!(" by {}", by.text())).unwrap_or_default();
    let removed = many(names.len(), "head");
    let mut text = format!("{path}: {removed} removed{by}, {} left\n", pruned.left);
    if !names.is_empty() {
        text += &wrapped("  ", names);
    }
    let share = |before: f64, after: f64| format!("{:+.1} %", (after / before - 1.0) * 100.0);
    let (before, after) = (pruned.parameters.0 as f64, pruned.parameters.1 as f64);
    let (mb, mb_after) = (pruned.bytes.1 as f64 / 1e6, pruned.bytes.0 as f64 / 1e6);
    text += &format!(
        "parameters {:.2} M -> {:.2} M ({}), weights {mb:.1} MB -> {mb_after:.1} MB\n",
        before / 1e6,
        after / 1e6,
        share(before, after)
    );
    let (before, after) = found.operations;
    text += &format!(
        "arithmetic of {COUNTED} tokens {:.3} G -> {:.3} G operations ({})\n",
        before / 1e9,
        after / 1e9,
        share(before, after)
    );
    if let Some(like) = &found.likeness {
        text += &format!(
            "on {}: cosine to the unpruned embeddings {:.3} (other texts {:.3}),\n  {:.0} % of \
             the {} nearest neighbours stay\n",
            many(found.texts, "text"),
            like.cosine,
            like.chance,
            like.recall * 100.0,
            like.neighbours
        );
        if let Some((before, after)) = like.loss {
            text += &format!("loss {} -> {}\n", number(before), number(after));
        }
    }
    if let Some(report) = &found.labelled {
        text += &report.text();
    }
    if let Some(curve) = &found.curve {
        text += &curve.text();
    }
    for (texts, before, after) in &found.latency {
        text += &format!(
            "{texts:>3} × {TOKENS} tokens: {before:.1} ms -> {after:.1} ms ({})\n",
            share(*before, *after)
        );
    }
    text
}
