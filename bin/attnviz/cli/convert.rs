//! `attnviz convert`: a checkpoint as a clean safetensors folder.

use attnviz::Result;
use attnviz::export::{ConvertOptions, Converted, FloatType, convert};
use serde_json::json;

use super::args::{ConvertArgs, ModelArgs};
use super::console::{Console, one_line};
use super::report::many;
use super::session;

pub fn run(args: ConvertArgs, console: &Console) -> Result<u8> {
    let wanted = |name: &String| {
        FloatType::NAMES.iter().find(|(known, _)| known == name).map(|&(_, dtype)| dtype)
    };
    let dtype = args.dtype.as_ref().and_then(wanted);
    let options = ConvertOptions { dtype, force: args.force };
    let asked = ModelArgs { model: Some(args.source), files: args.files, task: None };
    let files = session::files(&asked, console)?;
    let done = convert(&files, &args.out, &options)?;
    for note in &done.notes {
        console.note(note);
    }
    let path = one_line(&done.folder.display().to_string());
    console.result(&match (console.talk.json, console.talk.quiet) {
        (true, _) => format!("{:#}\n", json!(done)),
        (_, true) => format!("{path}\n"),
        _ => as_text(&path, &done),
    });
    Ok(0)
}

fn as_text(path: &str, done: &Converted) -> String {
    let size = done.bytes as f64 / 1e6;
    let (tensors, dtypes) = (many(done.tensors, "tensor"), done.dtypes.join(", "));
    format!("{path}: {tensors} ({dtypes}), {size:.1} MB; {}\n", done.files.join(", "))
}
