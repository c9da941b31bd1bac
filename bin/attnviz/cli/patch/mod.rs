//! `attnviz patch`: activations of one run put into another.

mod pictures;
mod question;
mod report;

use std::collections::BTreeMap;
use std::path::PathBuf;

use attnviz::output::prove_writable;
use attnviz::patch::{By, Cell, Patching, Point, Prompt};
use attnviz::tokens::{Batch, Encoding};
use attnviz::{Error, Model, Result, Stack};

use super::args::{ChoiceArgs, PatchArgs};
use super::choice::choose;
use super::console::Console;
use super::session;
use question::{Question, texts};
use report::Report;

/// One sweep.
pub struct Found {
    pub point: Point,
    pub by: By,
    pub cells: Vec<Cell>,
}

/// Both texts as the model reads them.
pub struct Both {
    pub clean: Encoding,
    pub corrupted: Encoding,
    /// What the decoder of an encoder-decoder reads, the same in both runs.
    pub written: Option<Encoding>,
}

impl Both {
    /// The tokens on the position axis of a point, clean and corrupted.
    pub fn tokens(&self, stack: Stack, point: Point) -> (&Encoding, &Encoding) {
        let of_keys = matches!(point, Point::Key | Point::Value);
        match (&self.written, stack) {
            (Some(written), Stack::Decoder) => (written, written),
            (Some(written), Stack::Cross) if !of_keys => (written, written),
            _ => (&self.clean, &self.corrupted),
        }
    }
}

pub fn run(args: &PatchArgs, console: &Console) -> Result<u8> {
    if args.png {
        prove_writable(&args.out)?;
    }
    let sweeps = sweeps(args)?;
    let (model, engine) = session::open(&args.model, &args.run, console)?;
    let stack = stack(args, &model);
    let heads = heads(args, &model, stack)?;
    let both = texts(args, &model, console)?;
    let question = Question::new(args, &model, &both)?;
    let prompts = prompts(&model, &both)?;
    let points: Vec<Point> = args.site.clone();
    let patching = Patching::new(
        &model,
        stack,
        (&prompts.0, &prompts.1),
        &points,
        question.metric,
        args.direction,
    )?;
    let count: usize =
        sweeps.iter().map(|&(point, by)| patching.places(point, by, &heads).len()).sum();
    let bar = console.bar(count as u64, "runs");
    let mut found = Vec::new();
    for (point, by) in sweeps {
        let cells = patching.sweep(point, by, &heads, || bar.inc(1))?;
        found.push(Found { point, by, cells });
    }
    bar.finish_and_clear();
    let mut report = Report {
        args,
        model: &model,
        stack,
        both: &both,
        question: &question,
        measured: (patching.clean(), patching.corrupted()),
        found: &found,
        written: None,
    };
    if args.png {
        report.written = Some(pictures::draw(&report, &engine)?);
        engine.warnings().iter().for_each(|warning| console.note(warning));
    }
    console.result(&match (console.talk.json, console.talk.quiet) {
        (true, _) => format!("{:#}\n", report.json()),
        (_, true) => report.quiet(),
        _ => report.text(),
    });
    Ok(0)
}

/// The pictures of a run.
pub struct Written {
    pub folder: PathBuf,
    pub files: Vec<String>,
}

/// What is swept: the residual stream has no heads.
fn sweeps(args: &PatchArgs) -> Result<Vec<(Point, By)>> {
    let mut sweeps = Vec::new();
    for &point in &args.site {
        for by in [By::Head, By::Position, By::HeadPosition] {
            let asked = match args.by.is_empty() {
                true => by != By::HeadPosition,
                false => args.by.contains(&by),
            };
            let has = point.has_heads() || by == By::Position;
            if asked && has && !sweeps.contains(&(point, by)) {
                sweeps.push((point, by));
            }
        }
    }
    match sweeps.is_empty() {
        false => Ok(sweeps),
        true => Err(Error::Usage {
            flag: "--by".into(),
            want: "position, for the residual stream has no heads".into(),
            found: args.by.iter().map(|by| by.name()).collect::<Vec<_>>().join(","),
        }),
    }
}

fn stack(args: &PatchArgs, model: &Model) -> Stack {
    match args.stack.as_deref() {
        Some("encoder") => Stack::Encoder,
        Some("decoder") => Stack::Decoder,
        Some(_) => Stack::Cross,
        None => model.config().stack(),
    }
}

fn heads(args: &PatchArgs, model: &Model, stack: Stack) -> Result<BTreeMap<usize, Vec<usize>>> {
    let config = model.config().of(stack);
    let there = if stack == Stack::Cross { &config.cross_heads } else { &config.heads };
    let (layers, heads) = (args.layers.clone(), args.heads.clone());
    let choice = ChoiceArgs { layers, heads, ..ChoiceArgs::default() };
    choose(&choice, &config.head_counts, there)
}

fn prompts(model: &Model, both: &Both) -> Result<(Prompt, Prompt)> {
    let (tokenizer, single) = (model.tokenizer()?, std::slice::from_ref::<Encoding>);
    let (pad, target) = (tokenizer.pad_id(), tokenizer.target().unwrap_or(tokenizer));
    let prompt = |encoding: &Encoding| Prompt {
        read: Batch::new(single(encoding), pad),
        written: both.written.as_ref().map(|one| Batch::new(single(one), target.pad_id())),
    };
    Ok((prompt(&both.clean), prompt(&both.corrupted)))
}
