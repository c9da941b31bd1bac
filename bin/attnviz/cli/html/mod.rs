//! `attnviz html`: one offline page per text.

mod arrays;
mod many;
mod side;

use std::path::Path;

use attnviz::output::{PageFile, hash8, prove_writable, slug};
use attnviz::picture::page::{Options, Page, Rendered, Side, render};
use attnviz::tokens::Input;
use attnviz::{Error, Model, Result};
use serde_json::{Value, json};

use super::args::{HtmlArgs, ModelArgs};
use super::console::{Console, one_line};
use super::lines::Given;
use super::named::as_json;
use super::report::many as count;
use super::session;
pub use side::Asked;

pub fn run(args: &HtmlArgs, console: &Console) -> Result<u8> {
    let named = check_out(args)?;
    if args.many.file.is_some() {
        return many::run(args, console);
    }
    if args.arrays.attention.is_some() {
        return arrays::run(args, named, console);
    }
    let input = session::input(&args.input)?;
    let (model, _) = session::open(&args.model, &args.run, console)?;
    let encoding = session::encode_given(&model, &input, &args.input, &args.run)?;
    let behind = session::encode_target(&model, args.target.as_deref(), &args.run)?;
    if model.config().decoder.is_some() && behind.is_none() {
        console.note("without --target the encoder alone is shown");
    }
    let asked = Asked::new(args, &model)?;
    let first = asked.side(&model, &encoding, behind.as_ref())?;
    let other = other(args, &model, &input, console)?;
    let mut notes = session::token_notes(&encoding);
    notes.iter().for_each(|note| console.note(note));
    notes.extend(other.iter().flat_map(|other| other.notes.clone()));
    let about = other.as_ref().map(|other| other.about.clone());
    let text = first.name.clone();
    let page = Page {
        title: std::iter::once(&text).chain(&args.compare).cloned().collect::<Vec<_>>().join(" / "),
        sides: std::iter::once(first).chain(other.map(|other| other.side)).collect(),
        notes,
        compared_layers: asked.compared,
    };
    let source =
        json!([model.report().name, model.report().revision, as_json(&input), args.target, about]);
    let (file, options) = target(args, named, &text, &source)?;
    let written = write(&page, &options, &file)?;
    tell(&told(&page, &written, &file), console);
    Ok(0)
}

fn tell(told: &Told, console: &Console) {
    console.result(&match (console.talk.json, console.talk.quiet) {
        (true, _) => format!("{:#}\n", told.json),
        (_, true) => format!("{}\n", told.path),
        _ => format!("{}\n", told.line),
    });
}

/// Whether `--out` names a file; proves that it can be written before any heavy work.
fn check_out(args: &HtmlArgs) -> Result<bool> {
    let end = args.out.extension().and_then(|end| end.to_str());
    let named = matches!(end, Some("html" | "htm")) && !args.out.is_dir();
    match (named, args.many.file.is_some()) {
        (true, true) => Err(Error::Usage {
            flag: "--out".into(),
            want: "a folder, for --file gives a page per text".into(),
            found: args.out.display().to_string(),
        }),
        (true, false) => PageFile::new(&args.out, args.force).map(|_| true),
        (false, _) => prove_writable(&args.out).map(|()| false),
    }
}

/// What stands beside the first text.
struct Other {
    side: Side,
    notes: Vec<String>,
    /// What names it.
    about: Value,
}

/// The other text under the same model, or the same text under another one.
fn other(
    args: &HtmlArgs,
    first: &Model,
    input: &Input,
    console: &Console,
) -> Result<Option<Other>> {
    let named = |name: &String| ModelArgs { model: Some(name.clone()), ..ModelArgs::default() };
    let loaded = match args.compare_model.as_ref().map(named) {
        Some(other) if other != args.model => {
            Some(session::open_model(&other, &args.run, console)?)
        }
        _ => None,
    };
    let (model, input) = match (&args.compare, &args.compare_model) {
        (Some(text), _) => (first, Input::Text(text.clone())),
        (None, Some(_)) => (loaded.as_ref().unwrap_or(first), input.clone()),
        (None, None) => return Ok(None),
    };
    let encoding = session::encode(model, &input, &args.run)?;
    let behind = session::encode_target(model, args.target.as_deref(), &args.run)?;
    let notes = session::token_notes(&encoding);
    notes.iter().for_each(|note| console.note(note));
    let side = Asked::new(args, model)?.side(model, &encoding, behind.as_ref())?;
    let about = json!([model.report().name, as_json(&input)]);
    Ok(Some(Other { side, notes, about }))
}

/// Where the page goes, and how it is written.
fn target(args: &HtmlArgs, named: bool, text: &str, source: &Value) -> Result<(PageFile, Options)> {
    let generator = format!("attnviz {} {}", env!("CARGO_PKG_VERSION"), hash8(&source.to_string()));
    let file = match named {
        true => PageFile::new(&args.out, args.force)?,
        false => PageFile::claim(&args.out, &slug(text), &generator, args.force)?,
    };
    let options = Options {
        exact: args.exact,
        words: args.choice.words,
        no_special: args.choice.no_special,
        residual: args.residual,
        view: args.view.into(),
        generator,
    };
    Ok((file, options))
}

fn write(page: &Page, options: &Options, file: &PageFile) -> Result<Rendered> {
    let rendered = render(page, options)?;
    file.write(&rendered.html)?;
    Ok(rendered)
}

/// What was written, for people and for machines.
struct Told {
    path: String,
    line: String,
    json: Value,
}

fn told(page: &Page, written: &Rendered, file: &PageFile) -> Told {
    let path = display(file.path());
    let bytes = written.html.len();
    let size = match bytes {
        0..1_000_000 => format!("{} kB", bytes.div_ceil(1000)),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    };
    let sheets = page.sides.iter().flat_map(|side| &side.sheets);
    let heads: usize = sheets.map(|sheet| sheet.attention.heads.len()).sum();
    let line = format!(
        "{path}: {}, {size}, weights within {:.1e}",
        count(heads, "head"),
        written.errors.weight
    );
    let models: Vec<&str> = page.sides.iter().map(|side| side.model.as_str()).collect();
    let json = json!({
        "file": path,
        "models": models,
        "heads": heads,
        "bytes": bytes,
        "largest_error": written.errors,
        "notes": page.notes,
    });
    Told { path, line, json }
}

fn display(path: &Path) -> String {
    one_line(&path.display().to_string())
}

/// A page of one side, for a line of a file.
fn of_line(args: &HtmlArgs, model: &Model, asked: &Asked, given: &Given) -> Result<Told> {
    let encoding = session::encode_line(model, given, &args.run)?;
    let side = asked.side(model, &encoding, None)?;
    let text = side.name.clone();
    let page = Page {
        notes: session::token_notes(&encoding),
        compared_layers: asked.compared,
        ..Page::new(&text, side)
    };
    let input = as_json(&given.input);
    let source = json!([model.report().name, model.report().revision, input, null, null]);
    let (file, options) = target(args, false, &text, &source)?;
    let written = write(&page, &options, &file)?;
    Ok(told(&page, &written, &file))
}
