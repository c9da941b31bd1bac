//! `attnviz view --file`: many inputs in padded batches, going on past bad ones.

use std::path::Path;

use attnviz::picture::TextEngine;
use attnviz::tokens::{Encoding, group_by_length};
use attnviz::{Error, Model, Result};
use serde_json::{Value, json};

use super::one::{encoder_alone, one};
use crate::cli::args::ViewArgs;
use crate::cli::console::Console;
use crate::cli::lines::{self, Given, place};
use crate::cli::named::{Named, Source};
use crate::cli::parts::{Chosen, Part, attend};
use crate::cli::report::{Report, header, many};
use crate::cli::session;

/// An input that can run.
struct Ready {
    number: usize,
    given: Given,
    encoding: Encoding,
}

/// What became of the lines.
struct Outcome<'a> {
    path: &'a Path,
    console: &'a Console,
    results: Vec<(usize, Value)>,
    /// Exit code of the worst failure: 1 for what is not the input's fault.
    code: u8,
    bad: usize,
}

impl Outcome<'_> {
    fn tell(&mut self, ready: &Ready, drawn: Result<Report>) {
        let report = match drawn {
            Ok(report) => report,
            Err(error) => return self.failed(ready.number, &error),
        };
        for note in session::token_notes(&ready.encoding) {
            self.console.note(&format!("{}: {note}", place(self.path, ready.number)));
        }
        let number = ready.number;
        match (self.console.talk.json, self.console.talk.quiet) {
            (true, _) => {
                let mut value = report.json();
                value["line"] = number.into();
                self.results.push((number, value));
            }
            (_, true) => self.console.result(&format!("{}\n", report.folder())),
            _ => self.console.result(&format!("line {number}: {}\n", report.folder())),
        }
    }

    fn failed(&mut self, number: usize, error: &Error) {
        let why = match error {
            Error::Input { place, why } if place == "line" => why.clone(),
            other => other.to_string(),
        };
        let at = place(self.path, number);
        self.console.error(&Error::Input { place: at, why: why.clone() });
        self.results.push((number, json!({ "line": number, "error": why })));
        self.bad += 1;
        self.code = match (self.code, error.exit_code()) {
            (0, code) | (5, code) => code,
            (code, _) => code,
        };
    }
}

fn draw(
    args: &ViewArgs,
    (model, source): (&Model, &Source),
    ready: &Ready,
    parts: &[Part],
    engine: &TextEngine,
) -> Result<Report> {
    let notes = session::token_notes(&ready.encoding);
    let mut named = Named::new(&ready.given.input, &ready.encoding, notes);
    if let Some(spans) = &ready.given.spans {
        named.input["spans"] = json!(spans);
    }
    let names: Vec<Vec<&str>> = (0..2).map(|s| ready.encoding.words(s)).collect();
    let report = one(args, source, &named, parts, &names, engine)?;
    match args.html {
        true => report.with_page(args, model, &named, parts, &[&ready.encoding]),
        false => Ok(report),
    }
}

pub fn run(args: &ViewArgs, console: &Console) -> Result<u8> {
    let Some(path) = args.many.file.as_deref() else { return Ok(0) };
    let read = lines::read(path)?;
    let total = read.len();
    let (model, engine) = session::open(&args.model, &args.run, console)?;
    let chosen = Chosen::new(&args.choice, model.config(), false)?;
    encoder_alone(&model, args, console);
    let mut outcome = Outcome { path, console, results: Vec::new(), code: 0, bad: 0 };
    let mut ready = Vec::new();
    for line in read {
        let encoded = line.given.and_then(|given| {
            let encoding = session::encode_line(&model, &given, &args.run)?;
            Ok(Ready { number: line.number, given, encoding })
        });
        match encoded {
            Ok(one) => ready.push(one),
            Err(error) => outcome.failed(line.number, &error),
        }
    }
    let source = Source::of(&model);
    if !console.talk.json && !console.talk.quiet {
        console.result(&header(&source.model, Some(&model)));
    }
    let bar = console.bar(ready.len() as u64, "texts");
    let lengths: Vec<usize> = ready.iter().map(|one| one.encoding.len()).collect();
    for group in group_by_length(&lengths, args.many.batch_size.into()) {
        let encodings: Vec<Encoding> = group.iter().map(|&i| ready[i].encoding.clone()).collect();
        let attentions = attend(&model, &encodings, &[], &chosen)?;
        for (&i, parts) in group.iter().zip(&attentions) {
            let drawn = draw(args, (&model, &source), &ready[i], parts, &engine);
            bar.suspend(|| outcome.tell(&ready[i], drawn));
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    for warning in engine.warnings() {
        console.note(&warning);
    }
    Ok(summary(outcome, &source, total))
}

fn summary(mut outcome: Outcome<'_>, source: &Source, total: usize) -> u8 {
    let done = total - outcome.bad;
    if outcome.console.talk.json {
        outcome.results.sort_by_key(|(number, _)| *number);
        let inputs: Vec<Value> = outcome.results.into_iter().map(|(_, value)| value).collect();
        let all = json!({ "model": source.model, "inputs": inputs, "failed": outcome.bad });
        outcome.console.result(&format!("{all:#}\n"));
    } else if !outcome.console.talk.quiet {
        let bad = if outcome.bad == 0 { String::new() } else { format!(", {} bad", outcome.bad) };
        outcome.console.result(&format!("{} drawn{bad}\n", many(done, "text")));
    }
    outcome.code
}
