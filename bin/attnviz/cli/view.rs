//! `attnviz view`: a heatmap for each head.

mod batch;
mod one;

use std::{iter, slice};

use attnviz::output::prove_writable;
use attnviz::picture::TextEngine;
use attnviz::tokens::Encoding;
use attnviz::{Model, Result};
use serde_json::json;

use super::args::ViewArgs;
use super::console::Console;
use super::named::{Named, Source};
use super::parts::{Chosen, Part, attend};
use super::report::Report;
use super::{arrays, pages, session, threads};
use one::{encoder_alone, one};

pub fn run(args: &ViewArgs, console: &Console) -> Result<u8> {
    prove_writable(&args.out)?;
    if args.arrays.attention.is_some() {
        return of_arrays(args, console);
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
    let mut named = Named::new(&input, &encoding, notes);
    let mut names: Vec<Vec<&str>> = (0..2).map(|s| encoding.words(s)).collect();
    if let (Some(target), Some(text)) = (&target, &args.target) {
        named.input["target"] = json!(text);
        names[1] = target.words(0);
    }
    let (inputs, targets) = (slice::from_ref(&encoding), target.as_slice());
    let parts = attend(&model, inputs, targets, &chosen)?.remove(0);
    let mut report = one(args, &Source::of(&model), &named, &parts, &names, &engine)?;
    if args.html {
        let encodings: Vec<&Encoding> = iter::once(&encoding).chain(&target).collect();
        report = report.with_page(args, &model, &named, &parts, &encodings)?;
    }
    tell(console, &engine, &report, Some(&model));
    Ok(0)
}

fn of_arrays(args: &ViewArgs, console: &Console) -> Result<u8> {
    threads::set(args.run.threads)?;
    let (attention, named, source) = arrays::read(&args.arrays, &args.choice, console)?;
    let engine = TextEngine::new();
    let parts = [Part::only(attention)];
    let mut report = one(args, &source, &named, &parts, &[], &engine)?;
    if args.html {
        let (page, source) = pages::of_arrays(parts[0].attention.clone(), &named, &source);
        let place = (args.out.as_path(), args.force);
        report.page = Some(pages::store(&page, place, &args.choice, (&named.text, &source))?);
    }
    tell(console, &engine, &report, None);
    Ok(0)
}

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
