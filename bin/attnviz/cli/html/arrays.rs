//! `attnviz html --attention`: a page of arrays from elsewhere.

use attnviz::Result;
use attnviz::picture::page::Page;

use super::side::usage;
use super::{Asked, target, tell, told, write};
use crate::cli::args::HtmlArgs;
use crate::cli::console::Console;
use crate::cli::{arrays, pages, threads};

pub fn run(args: &HtmlArgs, named: bool, console: &Console) -> Result<u8> {
    threads::set(args.run.threads)?;
    let (attention, name, source) = arrays::read(&args.arrays, &args.choice, console)?;
    let compared = Asked::compared_of(args, attention.head_counts.len())?;
    let mut layers = compared.iter().flat_map(|&(a, b)| [a, b]);
    if let Some(empty) = layers.find(|&layer| attention.layer(layer).next().is_none()) {
        return Err(usage("--compare-layers", "layers with heads", &empty.to_string()));
    }
    let (page, source) = pages::of_arrays(attention, &name, &source);
    let page = Page { compared_layers: compared, ..page };
    let (file, options) = target(args, named, &name.text, &source)?;
    let written = write(&page, &options, &file)?;
    tell(&told(&page, &written, &file), console);
    Ok(0)
}
