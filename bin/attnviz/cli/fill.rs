//! `attnviz fill`: words for the masks of a text.

mod report;

use std::path::PathBuf;

use attnviz::decode::{Candidates, Filled, Filler, Reading, Sampler, Sampling};
use attnviz::output::prove_writable;
use attnviz::picture::TextEngine;
use attnviz::tokens::Encoding;
use attnviz::{Attention, HeadWeights, Result, Token};
use ndarray::Axis;
use serde_json::json;

use super::args::FillArgs;
use super::console::Console;
use super::named::{Named, Source};
use super::parts::{Chosen, Part, attend};
use super::pictures::{Shown, Target, Written, arguments, by_words, draw};
use super::{pages, session};
use report::Report;

/// Everything that was found out about one text.
pub struct Found<'a> {
    pub encoding: &'a Encoding,
    pub sampling: Sampling,
    pub masks: Vec<Candidates>,
    pub layers: Vec<Reading>,
    pub samples: Vec<Filled>,
    pub written: Option<Written>,
    pub page: Option<PathBuf>,
    pub notes: Vec<String>,
}

pub fn run(args: &FillArgs, console: &Console) -> Result<u8> {
    let sampling = args.sampling.sampling(args.iterations > 0);
    let sampler = Sampler::new(sampling.clone(), args.sampling.seed)?.alternatives(args.top.get());
    if args.drawn.any() {
        prove_writable(&args.drawn.out)?;
    }
    let typed = session::input(&args.input)?;
    let (model, engine) = session::open(&args.model, &args.run, console)?;
    let filler = Filler::new(&model)?;
    let renamed = filler.with_own_mask(&typed);
    let input = renamed.as_ref().unwrap_or(&typed);
    let encoding = session::encode_given(&model, input, &args.input, &args.run)?;
    let mut notes = session::token_notes(&encoding);
    if renamed.is_some() {
        notes.push(format!("the mask of this model is {}, and read as that", filler.mask()));
    }
    for note in &notes {
        console.note(note);
    }
    let mut found = Found {
        masks: filler.candidates(&encoding, &sampling, args.top.get())?,
        layers: match args.per_layer {
            true => filler.lens(&encoding, &sampling, args.top.get())?,
            false => Vec::new(),
        },
        samples: samples(args, &filler, &encoding, sampler, console)?,
        encoding: &encoding,
        sampling,
        written: None,
        page: None,
        notes,
    };
    if args.drawn.any() {
        let named = Named::new(input, &encoding, found.notes.clone());
        let part = Part::only(attention(args, &filler, &encoding)?);
        if args.drawn.png {
            found.written = Some(pictures(args, &filler, (&encoding, &part), &named, &engine)?);
        }
        if args.drawn.html {
            found.page = Some(
                pages::of_parts(&model, &args.drawn.choice, &named, &[part], &[&encoding])
                    .and_then(|(page, source)| {
                        let place = (args.drawn.out.as_path(), args.drawn.force);
                        pages::store(&page, place, &args.drawn.choice, (&named.text, &source))
                    })?,
            );
        }
        for warning in engine.warnings() {
            console.note(&warning);
        }
    }
    let report = Report { args, filler: &filler, input, found: &found };
    console.result(&match (console.talk.json, console.talk.quiet) {
        (true, _) => format!("{:#}\n", report.json()),
        (_, true) => report.quiet(),
        _ => report.text(),
    });
    Ok(0)
}

fn samples(
    args: &FillArgs,
    filler: &Filler<'_>,
    encoding: &Encoding,
    mut sampler: Sampler,
    console: &Console,
) -> Result<Vec<Filled>> {
    let bar = console.bar(args.sampling.samples.into(), "texts");
    let filled = (0..args.sampling.samples).map(|_| {
        let filled = filler.fill(encoding, args.fill_order, args.iterations as usize, &mut sampler);
        bar.inc(1);
        filled
    });
    let filled = filled.collect();
    bar.finish_and_clear();
    filled
}

/// The rows of the masks out of each head's matrix.
fn attention(args: &FillArgs, filler: &Filler<'_>, encoding: &Encoding) -> Result<Attention> {
    let model = filler.model();
    let chosen = Chosen::new(&args.drawn.choice, model.config(), false)?;
    let inputs = std::slice::from_ref(encoding);
    let whole = attend(model, inputs, &[], &chosen)?.remove(0).remove(0).attention;
    let masks = filler.masks(encoding)?;
    let rows = |one: &HeadWeights| HeadWeights {
        head: one.head,
        weights: one.weights.select(Axis(0), &masks),
    };
    Attention::new(
        masks
            .iter()
            .enumerate()
            .map(|(i, &at)| row(&encoding.tokens[at], i, masks.len()))
            .collect(),
        whole.keys,
        whole.heads.iter().map(rows).collect(),
        whole.head_counts,
    )
}

fn pictures(
    args: &FillArgs,
    filler: &Filler<'_>,
    (encoding, part): (&Encoding, &Part),
    named: &Named,
    engine: &TextEngine,
) -> Result<Written> {
    let model = filler.model();
    let names: Vec<Vec<&str>> = (0..2).map(|sequence| encoding.words(sequence)).collect();
    let words = by_words(&part.attention, &names);
    let mut arguments = arguments(&args.input, &args.drawn.choice, &args.drawn.picture, &args.run);
    arguments.insert("rows".into(), json!("masks"));
    let target = Target {
        out: &args.drawn.out,
        force: args.drawn.force,
        picture: &args.drawn.picture,
        arguments,
    };
    let shown = Shown::new(&args.drawn.choice, part, &words);
    draw(target, &Source::of(model), named, &[shown], engine)
}

/// A mask as the label of a row: numbered where there are several, never merged with another.
fn row(mask: &Token, index: usize, count: usize) -> Token {
    let text = if count > 1 { format!("{} {}", mask.text, index + 1) } else { mask.text.clone() };
    Token { text, word: None, ..mask.clone() }
}
