//! `attnviz view`: a heatmap for each head.

use std::path::Path;
use std::{iter, slice};

use attnviz::export::read_attention;
use attnviz::output::prove_writable;
use attnviz::picture::TextEngine;
use attnviz::picture::page::{Page, Side};
use attnviz::tokens::{Encoding, Input};
use attnviz::{Attention, HeadWeights, Model, Result};
use ndarray::ArrayView1;
use serde_json::{Value, json};

use super::args::{ArrayArgs, ChoiceArgs, ViewArgs};
use super::batch;
use super::choice::choose;
use super::console::Console;
use super::html::{page_of_arrays, sheet, store};
use super::parts::{Chosen, Part, attend};
use super::pictures::{Named, Shown, Source, Target, arguments, by_words, draw};
use super::report::{Found, Report};
use super::session;
use super::threads;

pub fn run(args: &ViewArgs, console: &Console) -> Result<u8> {
    prove_writable(&args.out)?;
    if args.arrays.attention.is_some() {
        return arrays(args, console);
    }
    if args.many.file.is_some() {
        return batch::run(args, console);
    }
    let input = session::input(&args.input)?;
    let (model, engine) = session::open(&args.model, &args.run, console)?;
    let chosen = Chosen::new(&args.choice, model.config(), args.target.is_some())?;
    let encoding = session::encode_given(&model, &input, &args.input, &args.run)?;
    let target = session::encode_target(&model, args.target.as_deref(), &args.run)?;
    encoder_alone(&model, args, console);
    let notes = session::token_notes(&encoding);
    for note in &notes {
        console.note(note);
    }
    let mut named = named(&input, &encoding, notes);
    let mut names: Vec<Vec<&str>> = (0..2).map(|s| encoding.words(s)).collect();
    if let (Some(target), Some(text)) = (&target, &args.target) {
        named.input["target"] = json!(text);
        names[1] = target.words(0);
    }
    let (inputs, targets) = (slice::from_ref(&encoding), target.as_slice());
    let parts = attend(&model, inputs, targets, &chosen)?.remove(0);
    let mut report = one(args, &source(&model), &named, &parts, &names, &engine)?;
    if args.html {
        let encodings: Vec<&Encoding> = iter::once(&encoding).chain(&target).collect();
        report = report.with_page(args, &model, &named, &parts, &encodings)?;
    }
    tell(console, &engine, &report, Some(&model));
    Ok(0)
}

fn arrays(args: &ViewArgs, console: &Console) -> Result<u8> {
    threads::set(args.run.threads)?;
    let (attention, named, source) = arrays_of(&args.arrays, &args.choice, console)?;
    let engine = TextEngine::new();
    let parts = [Part::only(attention)];
    let mut report = one(args, &source, &named, &parts, &[], &engine)?;
    if args.html {
        let (page, source) = page_of_arrays(parts[0].attention.clone(), &named, &source);
        let place = (args.out.as_path(), args.force);
        report.page = Some(store(&page, place, &args.choice, (&named.text, &source))?);
    }
    tell(console, &engine, &report, None);
    Ok(0)
}

/// The chosen heads of arrays from elsewhere, what they are called and where they are from.
pub fn arrays_of(
    args: &ArrayArgs,
    choice: &ChoiceArgs,
    console: &Console,
) -> Result<(Attention, Named, Source)> {
    let path = args.attention.as_deref().unwrap_or(Path::new(""));
    let mut attention = read_attention(path, args.tokens.as_deref())?;
    let there: Vec<Vec<usize>> = (0..attention.head_counts.len())
        .map(|layer| attention.layer(layer).map(|one| one.head.head).collect())
        .collect();
    let chosen = choose(choice, &attention.head_counts, &there)?;
    attention
        .heads
        .retain(|one| chosen.get(&one.head.layer).is_some_and(|h| h.contains(&one.head.head)));
    let file = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
    let texts: Vec<&str> = attention.queries.iter().map(|token| &*token.text).collect();
    let notes: Vec<String> = off_rows(&attention).into_iter().collect();
    for note in &notes {
        console.note(note);
    }
    let named = Named { input: json!({ "tokens": texts }), text: texts.join(" "), notes };
    Ok((attention, named, Source { model: file, revision: None, dtype: None }))
}

/// What is drawn as attention but is none: masked, scored or scaled weights.
fn off_rows(attention: &Attention) -> Option<String> {
    let off = |one: &&HeadWeights| {
        let whole = |row: ArrayView1<'_, f32>| (row.sum() - 1.0).abs() <= WHOLE;
        one.weights.iter().any(|&weight| weight < 0.0) || !one.weights.rows().into_iter().all(whole)
    };
    let heads: Vec<String> =
        attention.heads.iter().filter(off).map(|one| one.head.to_string()).collect();
    let (first, rest) = heads.split_first()?;
    let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
    Some(format!("{first}{more}: not attention, for rows do not sum to 1 or hold less than 0"))
}

/// How far from 1 a row may sum: half precision rounds 512 weights to no worse.
const WHOLE: f32 = 1e-2;

fn tell(console: &Console, engine: &TextEngine, report: &Report, model: Option<&Model>) {
    for warning in engine.warnings() {
        console.note(&warning);
    }
    console.result(&match (console.talk.json, console.talk.quiet) {
        (true, _) => format!("{:#}\n", report.json()),
        (_, true) => format!("{}\n", report.folder()),
        _ => report.text(model, console.talk.verbose),
    });
}

/// Says what of a model is not run.
pub fn encoder_alone(model: &Model, args: &ViewArgs, console: &Console) {
    if model.config().decoder.is_some() && args.target.is_none() {
        console.note("without --target the encoder alone is drawn");
    }
}

/// Analyses and pictures of one input.
pub fn one(
    args: &ViewArgs,
    source: &Source,
    named: &Named,
    parts: &[Part],
    names: &[Vec<&str>],
    engine: &TextEngine,
) -> Result<Report> {
    let words: Vec<Attention> = parts.iter().map(|part| by_words(&part.attention, names)).collect();
    let shown = parts.iter().zip(&words).map(|(part, words)| Shown::new(&args.choice, part, words));
    let shown: Vec<Shown<'_>> = shown.collect();
    let target = Target {
        out: &args.out,
        force: args.force,
        picture: &args.picture,
        arguments: arguments(&args.input, &args.choice, &args.picture, &args.run),
    };
    let written = draw(target, source, named, &shown, engine)?;
    let found = parts.iter().zip(&words).map(|(part, words)| Found::new(part, words, args.top));
    Ok(Report::new(source, named, found.collect(), written))
}

impl Report {
    /// Writes a page too.
    pub fn with_page(
        mut self,
        args: &ViewArgs,
        model: &Model,
        named: &Named,
        parts: &[Part],
        encodings: &[&Encoding],
    ) -> Result<Self> {
        let (page, source) = page(model, &args.choice, named, parts, encodings)?;
        let place = (args.out.as_path(), args.force);
        let path = store(&page, place, &args.choice, (&named.text, &source))?;
        self.page = Some(path);
        Ok(self)
    }
}

/// The page of `parts` under the words of the encodings that they are over, and what makes it the
/// same page again.
pub fn page(
    model: &Model,
    choice: &ChoiceArgs,
    named: &Named,
    parts: &[Part],
    encodings: &[&Encoding],
) -> Result<(Page, Value)> {
    let of = |encoding: &&Encoding| {
        let one = |sequence| encoding.words(sequence).into_iter().map(str::to_owned).collect();
        (0..encoding.texts.len()).map(one).collect::<Vec<Vec<String>>>()
    };
    let words: Vec<Vec<String>> = encodings.iter().flat_map(of).collect();
    let some = parts.iter().filter(|part| !part.attention.heads.is_empty());
    let sheets = some.map(|part| sheet(part.clone(), &words, model)).collect();
    let report = model.report();
    let heads = choice.heads.as_ref().map(|given| &given.text);
    let source = json!([report.name, report.revision, named.input, heads]);
    let side = Side::new(&named.text, &report.name, sheets);
    Ok((Page { notes: named.notes.clone(), ..Page::new(&named.text, side) }, source))
}

pub fn source(model: &Model) -> Source {
    let report = model.report();
    Source {
        model: report.name.clone(),
        revision: report.revision.clone(),
        dtype: Some(report.dtypes.join(", ")),
    }
}

pub fn named(input: &Input, encoding: &Encoding, notes: Vec<String>) -> Named {
    Named { input: as_json(input), text: encoding.texts.join(" "), notes }
}

/// An input as in a JSONL line.
pub fn as_json(input: &Input) -> Value {
    match input {
        Input::Text(text) => json!({ "text": text }),
        Input::Pair(a, b) => json!({ "text": a, "text_b": b }),
        Input::Words(words) => json!({ "words": words }),
        Input::Tokens(tokens) => json!({ "tokens": tokens }),
    }
}
