//! `attnviz inspect`: what a checkpoint is, also one that cannot run.

use std::fmt::Write;

use attnviz::config::Generation;
use attnviz::model::{Inspection, Report};
use attnviz::prune::operations;
use attnviz::tokens::Tokenizer;
use attnviz::{Config, Error, LoadOptions, Result, Task};
use serde_json::{Value, json};

use super::args::{InspectArgs, ModelArgs};
use super::console::{Console, one_line};
use super::session;

/// Exit code of a checkpoint that cannot be used.
const UNUSABLE: u8 = 4;

pub fn run(args: &InspectArgs, console: &Console) -> Result<u8> {
    let options = LoadOptions { task: session::task(&args.model)?, ..LoadOptions::default() };
    let model = args.target.clone().or(args.model.model.clone());
    let asked = ModelArgs { model, ..args.model.clone() };
    let files = session::files(&asked, console)?;
    let seen = Inspection::of(&files, &options);
    let noted = seen.report.iter().flat_map(|report| &report.notes);
    for note in noted.chain(seen.tokenizer.iter().flat_map(|tokenizer| tokenizer.notes())) {
        console.note(note);
    }
    let work = seen.config.as_ref().zip(args.flops);
    let work = work.map(|(config, tokens)| (tokens, operations(config, tokens as usize)));
    console.result(&match console.talk.json {
        true => format!("{:#}\n", as_json(&seen, work)),
        false => as_text(&seen, console.talk.verbose) + &about_work(work),
    });
    let Some(first) = seen.problems.first() else { return Ok(0) };
    console.error(&cannot_run(&files.name, first, seen.problems.len()));
    Ok(UNUSABLE)
}

fn cannot_run(name: &str, first: &str, count: usize) -> Error {
    let more = if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
    Error::Checkpoint { path: name.into(), why: format!("cannot run: {first}{more}") }
}

/// What a pass takes, where it is asked for.
fn about_work(work: Option<(u32, f64)>) -> String {
    let mut rows = Rows::default();
    if let Some((tokens, operations)) = work {
        let giga = operations / 1e9;
        rows.add("operations", format!("{giga:.3} GFLOP in a pass over {tokens} tokens"));
    }
    rows.0
}

fn as_json(seen: &Inspection, work: Option<(u32, f64)>) -> Value {
    let tokenizer = seen.tokenizer.as_ref().map(|tokenizer| {
        json!({
            "kind": tokenizer.kind(),
            "behaviour": tokenizer.behaviour(),
            "vocab_size": tokenizer.vocab_size(),
            "notes": tokenizer.notes(),
        })
    });
    json!({
        "report": seen.report,
        "config": seen.config,
        "tokenizer": tokenizer,
        "operations": work.map(|(tokens, count)| json!({ "tokens": tokens, "count": count })),
        "problems": seen.problems,
    })
}

/// Rows of a name and what belongs to it.
#[derive(Default)]
struct Rows(String);

impl Rows {
    fn add(&mut self, name: &str, value: impl AsRef<str>) {
        let _ = writeln!(self.0, "{name:<13} {}", one_line(value.as_ref()));
    }

    /// A list, cut short unless all is asked for.
    fn list(&mut self, name: &str, items: &[String], all: bool) {
        if items.is_empty() {
            return;
        }
        let shown = if all { usize::MAX } else { 4 };
        let mut text = items.iter().take(shown).cloned().collect::<Vec<_>>().join(", ");
        if items.len() > shown {
            text += ", … (-v for all)";
        }
        self.add(name, format!("{}: {text}", items.len()));
    }
}

fn as_text(seen: &Inspection, verbose: bool) -> String {
    let mut rows = Rows::default();
    if let Some(report) = &seen.report {
        rows.add("model", &report.name);
        if let Some(revision) = &report.revision {
            rows.add("revision", revision);
        }
    }
    if let Some(config) = &seen.config {
        about_sizes(&mut rows, config);
        about_writing(&mut rows, config, seen.tokenizer.as_ref());
    }
    if let Some(report) = &seen.report {
        about_tensors(&mut rows, report);
    }
    match &seen.tokenizer {
        Some(tokenizer) => {
            let (kind, count) = (tokenizer.kind(), grouped(tokenizer.vocab_size()));
            rows.add("tokenizer", format!("{kind}, {count} tokens"));
            rows.add("letters", tokenizer.behaviour().to_string());
        }
        None => rows.add("tokenizer", "none"),
    }
    if let Some(report) = &seen.report {
        rows.list("not used", &report.unused, verbose);
    }
    let shown = if verbose { usize::MAX } else { 20 };
    for problem in seen.problems.iter().take(shown) {
        rows.add("problem", problem);
    }
    if seen.problems.len() > shown {
        rows.add("", format!("{} more problems (-v for all)", seen.problems.len() - shown));
    }
    rows.0
}

/// What is said of the stack, or of both of them.
fn each(config: &Config, say: impl Fn(&Config) -> String) -> String {
    match &config.decoder {
        None => say(config),
        Some(decoder) => format!("encoder {}, decoder {}", say(config), say(decoder)),
    }
}

/// The same, once where it is the same in both.
fn both(config: &Config, say: impl Fn(&Config) -> String) -> String {
    match &config.decoder {
        Some(decoder) if say(decoder) != say(config) => each(config, say),
        _ => say(config),
    }
}

fn about_sizes(rows: &mut Rows, config: &Config) {
    rows.add("family", &config.model_type);
    let labels = match config.labels.is_empty() || !classifies(config.task) {
        true => String::new(),
        false => format!(": {}", config.labels.join(", ")),
    };
    rows.add("task head", format!("{}{labels}", config.task.name()));
    let causal = if config.causal { ", causal" } else { "" };
    rows.add("layers", format!("{}{causal}", each(config, |one| one.layers().to_string())));
    let wide = both(config, |one| format!("{} wide", one.head_dim));
    rows.add("heads", format!("{}, {wide}", each(config, heads)));
    if let Some(decoder) = &config.decoder {
        let heads = decoder.cross_heads.iter().map(Vec::len).max().unwrap_or(0);
        rows.add("cross", format!("{heads} heads per layer of the decoder, over the encoder"));
    }
    let pruned = pruned(config);
    if !pruned.is_empty() {
        let whole: usize = stacks(config).iter().flat_map(|(_, counts, _)| counts.iter()).sum();
        rows.add("pruned", format!("{} of {whole}: {}", pruned.len(), pruned.join(", ")));
    }
    let inside = both(config, |one| format!("{} inside", one.intermediate_size));
    rows.add("width", format!("{}, {inside}", config.hidden_size));
    let (positions, most) = (config.position_kind(), config.max_positions);
    let most = match most >= ANY_LENGTH {
        true => "any number of tokens".to_owned(),
        false => format!("at most {most} tokens"),
    };
    rows.add("positions", format!("{positions}, {most}"));
    rows.add("token types", config.type_vocab_size.to_string());
    rows.add("vocabulary", both(config, |one| grouped(one.vocab_size)));
    let gated = if config.gated { ", gated" } else { "" };
    rows.add("activation", format!("{}{gated}", spelt(config.activation)));
}

/// What a model takes that has no table of positions.
const ANY_LENGTH: usize = 1 << 20;

fn classifies(task: Task) -> bool {
    matches!(task, Task::SequenceClassification | Task::TokenClassification)
}

/// Heads per layer, and those that share keys and values.
fn heads(config: &Config) -> String {
    let counts = &config.head_counts;
    let count = match counts.iter().all(|n| Some(n) == counts.first()) {
        true => counts.first().map(usize::to_string).unwrap_or_default(),
        false => format!("{counts:?}"),
    };
    let groups = counts.first().map_or(0, |count| count / config.group_size.max(1));
    let groups = match config.group_size > 1 {
        true => format!(", {groups} of keys and values"),
        false => String::new(),
    };
    format!("{count} per layer{groups}")
}

/// Where writing begins and ends.
fn about_writing(rows: &mut Rows, config: &Config, tokenizer: Option<&Tokenizer>) {
    let side = config.decoder.as_deref().unwrap_or(config);
    if !side.causal {
        return;
    }
    let tokenizer = tokenizer.map(|one| one.target().unwrap_or(one));
    let named = |&id: &u32| match tokenizer.and_then(|tokenizer| tokenizer.piece(id)) {
        Some(piece) => format!("{id} ({piece})"),
        None => id.to_string(),
    };
    let list = |ids: &[u32]| ids.iter().map(named).collect::<Vec<_>>().join(", ");
    let Generation { start, first, ends, last, forbidden } = &side.generation;
    if let Some(start) = start {
        rows.add("starts with", named(start));
    }
    if let Some(first) = first {
        rows.add("first token", format!("{}, behind the start token", named(first)));
    }
    if !ends.is_empty() {
        rows.add("ends with", list(ends));
    }
    if !last.is_empty() {
        rows.add("last token", format!("{}, where a text is cut", list(last)));
    }
    if !forbidden.is_empty() {
        let phrases =
            forbidden.iter().map(|one| one.iter().map(named).collect::<Vec<_>>().join(" "));
        rows.add("never writes", phrases.collect::<Vec<_>>().join(", "));
    }
}

/// A stack's name, its heads before any pruning and those that are left.
type Heads<'a> = (&'static str, &'a [usize], &'a [Vec<usize>]);

/// Each attention, with its heads before any pruning and those that are left.
fn stacks(config: &Config) -> Vec<Heads<'_>> {
    match &config.decoder {
        None => vec![("", &config.head_counts, &config.heads)],
        Some(decoder) => vec![
            ("encoder ", &config.head_counts, &config.heads),
            ("decoder ", &decoder.head_counts, &decoder.heads),
            ("cross ", &decoder.head_counts, &decoder.cross_heads),
        ],
    }
}

/// The heads that are gone, as they were numbered before.
fn pruned(config: &Config) -> Vec<String> {
    let gone = |(name, counts, heads): (&'static str, &[usize], &[Vec<usize>])| {
        let layers = counts.iter().zip(heads).enumerate();
        let gone = layers.flat_map(|(layer, (&count, left))| {
            let gone = (0..count).filter(|head| !left.contains(head));
            gone.map(move |head| format!("{name}L{layer}H{head}"))
        });
        gone.collect::<Vec<_>>()
    };
    stacks(config).into_iter().flat_map(gone).collect()
}

fn about_tensors(rows: &mut Rows, report: &Report) {
    let parts: Vec<String> =
        report.parts.iter().map(|(part, n)| format!("{part} {}", grouped(*n))).collect();
    let parts = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    rows.add("parameters", format!("{}{parts}", grouped(report.parameters)));
    if !report.dtypes.is_empty() {
        rows.add("numbers", report.dtypes.join(", "));
    }
    rows.add("tensor names", &report.naming);
}

/// An enum by its name in JSON, with spaces.
fn spelt(value: impl serde::Serialize) -> String {
    let name = serde_json::to_value(value).unwrap_or_default();
    name.as_str().unwrap_or_default().replace('_', " ")
}

/// 1234567 → 1,234,567
fn grouped(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
