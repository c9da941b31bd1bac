//! One input → its folder, and what is said about it.

use attnviz::picture::TextEngine;
use attnviz::tokens::Encoding;
use attnviz::{Attention, Model, Result};

use crate::cli::args::ViewArgs;
use crate::cli::console::Console;
use crate::cli::named::{Named, Source};
use crate::cli::pages;
use crate::cli::parts::Part;
use crate::cli::pictures::{Shown, Target, arguments, by_words, draw};
use crate::cli::report::{Found, Report};

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
        let (page, source) = pages::of_parts(model, &args.choice, named, parts, encodings)?;
        let place = (args.out.as_path(), args.force);
        let path = pages::store(&page, place, &args.choice, (&named.text, &source))?;
        self.page = Some(path);
        Ok(self)
    }
}
