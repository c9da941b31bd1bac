//! `attnviz html --attention`: a page of arrays from elsewhere.

use attnviz::picture::page::{Page, Sheet, Side};
use attnviz::{Attention, Result};
use serde_json::{Value, json};

use super::side::usage;
use super::{Asked, target, tell, told, write};
use crate::cli::args::HtmlArgs;
use crate::cli::console::Console;
use crate::cli::pictures::{Named, Source};
use crate::cli::threads;
use crate::cli::view;

pub fn run(args: &HtmlArgs, named: bool, console: &Console) -> Result<u8> {
    threads::set(args.run.threads)?;
    let (attention, name, source) = view::arrays_of(&args.arrays, &args.choice, console)?;
    let compared = Asked::compared_of(args, attention.head_counts.len())?;
    let mut layers = compared.iter().flat_map(|&(a, b)| [a, b]);
    if let Some(empty) = layers.find(|&layer| attention.layer(layer).next().is_none()) {
        return Err(usage("--compare-layers", "layers with heads", &empty.to_string()));
    }
    let (page, source) = page(attention, &name, &source);
    let page = Page { compared_layers: compared, ..page };
    let (file, options) = target(args, named, &name.text, &source)?;
    let written = write(&page, &options, &file)?;
    tell(&told(&page, &written, &file), console);
    Ok(0)
}

/// The page of arrays, and what makes it the same page again.
pub fn page(attention: Attention, named: &Named, source: &Source) -> (Page, Value) {
    let about = json!([source.model, null, named.input]);
    let sheet = Sheet::new("self", attention);
    let side = Side::new(&named.text, &source.model, vec![sheet]);
    (Page { notes: named.notes.clone(), ..Page::new(&named.text, side) }, about)
}
