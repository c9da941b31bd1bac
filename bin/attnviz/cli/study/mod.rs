//! `attnviz study`: strategies and scores against masks at random.

mod report;

use std::path::{Path, PathBuf};

use attnviz::output::{prove_writable, write_file};
use attnviz::picture::{Style, TextEngine, chart};
use attnviz::study::{
    self, Data, Done, EXAMPLE, Measure, Plain, Plan, Store, Subject, Table, Texts,
};
use attnviz::task::Set;
use attnviz::tokens::Limit;
use attnviz::{Error, Model, Result, Task};
use serde_json::json;

use super::args::{FilesArgs, ModelArgs, RunArgs, StudyArgs, TextsArgs};
use super::console::{Console, one_line};
use super::prune::loss::Loss;
use super::prune::texts::texts;
use super::report::many;
use super::session;

pub fn run(args: &StudyArgs, console: &Console) -> Result<u8> {
    if args.init {
        return init(args, console);
    }
    let mut plan = Plan::read(&args.plan)?;
    if let Some(out) = &args.out {
        plan.out.clone_from(out);
    }
    if !args.merge {
        let counts = cells(args, &plan, console)?;
        if args.cell.is_some() {
            console.result(&share(args, &plan, counts));
            return Ok(0);
        }
    }
    let store = Store::existing(&plan.out)?;
    let table = study::merge(&plan, &store)?;
    let files = write(args, &plan.out, &table)?;
    if !table.missing.is_empty() {
        console.note(&report::missing(&table.missing));
    }
    let listed = files.iter().map(|file| one_line(&file.display().to_string()) + "\n");
    let listed: String = listed.collect();
    console.result(&match (console.talk.json, console.talk.quiet) {
        (true, _) => table.json(),
        (_, true) => listed,
        _ => report::text(&table) + &listed,
    });
    Ok(0)
}

/// Writes a plan to start from.
fn init(args: &StudyArgs, console: &Console) -> Result<u8> {
    let path = &args.plan;
    if path.exists() && !args.force {
        let why = "exists already; --force overwrites it".into();
        return Err(Error::Output { path: path.clone(), why });
    }
    prove_writable(path.parent().unwrap_or(Path::new("")))?;
    write_file(path, EXAMPLE.as_bytes())?;
    let name = one_line(&path.display().to_string());
    console.result(&match (console.talk.json, console.talk.quiet) {
        (true, _) => format!("{:#}\n", json!({ "plan": name })),
        (_, true) => format!("{name}\n"),
        _ => format!("{name}: run it by `attnviz study {name}`\n"),
    });
    Ok(0)
}

/// Runs the cells of a share, or all: how many there were before, and how many were run.
fn cells(args: &StudyArgs, plan: &Plan, console: &Console) -> Result<(usize, usize)> {
    let store = Store::claim(&plan.out, args.force)?;
    let subject = subject(args, plan, console)?;
    let all = plan.cells();
    let range = args.cell.map_or(0..all.len(), |share| share.of(all.len()));
    let bar = console.bar(range.len() as u64, "cells");
    let (mut before, mut now) = (0, 0);
    study::run(&plan.fractions, &all[range], &subject, &store, |cell, done| {
        match done {
            Done::Before => before += 1,
            Done::Partly(steps, of) => {
                bar.set_message(format!("cells; {cell}: {steps} of {of}"));
                return;
            }
            Done::Now => {
                now += 1;
                console.detail(&cell.to_string());
            }
        }
        bar.inc(1);
    })?;
    bar.finish_and_clear();
    Ok((before, now))
}

fn share(args: &StudyArgs, plan: &Plan, (before, now): (usize, usize)) -> String {
    let share = args.cell.map(|share| share.to_string()).unwrap_or_default();
    let folder = one_line(&plan.out.display().to_string());
    match (args.talk.json, args.talk.quiet) {
        (true, _) => format!(
            "{:#}\n",
            json!({ "share": share, "folder": folder, "before": before, "run": now })
        ),
        (_, true) => format!("{folder}\n"),
        _ => format!("share {share} of {folder}: {} run, {before} were there\n", many(now, "cell")),
    }
}

/// The model with the texts of the plan.
fn subject(args: &StudyArgs, plan: &Plan, console: &Console) -> Result<Subject> {
    let model = ModelArgs {
        model: plan.model.clone(),
        files: FilesArgs {
            revision: plan.revision.clone(),
            tokenizer: plan.tokenizer.clone(),
            ..FilesArgs::default()
        },
        task: plan.task.and_then(|task| {
            Task::NAMES.iter().find(|(_, known)| *known == task).map(|(name, _)| (*name).into())
        }),
    };
    let run = RunArgs {
        truncate: plan.max_length.is_some(),
        max_length: plan.max_length.and_then(|most| u32::try_from(most).ok()),
        threads: args.threads,
        device: args.device.clone(),
    };
    let files = session::files(&model, console)?;
    let (model, _) = session::open(&model, &run, console)?;
    let texts = match &plan.data {
        Data::Labelled(name) => {
            let limit = Limit { max: plan.max_length, truncate: run.truncate };
            Texts::Labelled(Box::new(Set::open(name, &model, &limit, plan.batch_size)?))
        }
        Data::Texts { file, loss, mask_share } => {
            Texts::Plain(plain(plan, (file, loss, *mask_share), (&model, &run, console))?)
        }
    };
    Subject::new(plan, model, &files, texts)
}

/// The texts of a file in their parts.
fn plain(
    plan: &Plan,
    (file, loss, mask_share): (&Path, &Option<String>, f64),
    (model, run, console): (&Model, &RunArgs, &Console),
) -> Result<Plain> {
    let asked = TextsArgs {
        file: Some(file.into()),
        data: None,
        batch_size: u16::try_from(plan.batch_size).unwrap_or(u16::MAX),
        loss: loss.clone(),
        mask_share,
        seed: 0,
    };
    let read = texts(&asked, None, true, (model, run, console))?;
    let name = file.display().to_string();
    if read.bad > 0 {
        return Err(Error::Input {
            place: name,
            why: format!("{} could not be read; a study takes all or none", many(read.bad, "line")),
        });
    }
    let measure = match read.loss {
        Some(Loss::Embedding) | None => Measure::Likeness,
        Some(Loss::Logits) => Measure::Divergence,
        Some(_) => Measure::Loss,
    };
    Ok(Plain {
        validation: read.validation().to_vec(),
        test: read.test().to_vec(),
        train: read.samples,
        name,
        measure,
    })
}

/// The table and the picture, each whole.
fn write(args: &StudyArgs, folder: &Path, table: &Table) -> Result<Vec<PathBuf>> {
    let (drawn, engine) = (table.chart(), TextEngine::new());
    let style = Style { dark: args.dark, dpi: args.dpi, ..Style::default() };
    let mut files = vec![
        ("table.csv".to_owned(), table.csv().into_bytes()),
        ("table.json".to_owned(), table.json().into_bytes()),
    ];
    for &format in &args.format {
        let bytes = chart(&drawn, &style, format, &engine)?;
        files.push((format!("curves.{}", format.extension()), bytes));
    }
    let mut written = Vec::new();
    for (name, bytes) in files {
        let path = folder.join(name);
        write_file(&path, &bytes)?;
        written.push(path);
    }
    Ok(written)
}
