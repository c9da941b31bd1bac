//! `attnviz html --file`: a page per line, going on past bad ones.

use attnviz::{Error, Result};
use serde_json::{Value, json};

use super::{Asked, of_line};
use crate::cli::args::HtmlArgs;
use crate::cli::console::Console;
use crate::cli::lines::{self, place};
use crate::cli::report::many as count;
use crate::cli::session;

pub fn run(args: &HtmlArgs, console: &Console) -> Result<u8> {
    let Some(path) = args.many.file.as_deref() else { return Ok(0) };
    let read = lines::read(path)?;
    let (model, _) = session::open(&args.model, &args.run, console)?;
    let asked = Asked::new(args, &model)?;
    let bar = console.bar(read.len() as u64, "texts");
    let (mut results, mut code, total) = (Vec::new(), 0, read.len());
    for line in read {
        let number = line.number;
        let made = line.given.and_then(|given| of_line(args, &model, &asked, &given));
        bar.suspend(|| match made {
            Ok(told) => {
                match (console.talk.json, console.talk.quiet) {
                    (true, _) => {}
                    (_, true) => console.result(&format!("{}\n", told.path)),
                    _ => console.result(&format!("line {number}: {}\n", told.line)),
                }
                let mut value = told.json;
                value["line"] = number.into();
                results.push(value);
            }
            Err(error) => {
                let why = match &error {
                    Error::Input { place, why } if place == "line" => why.clone(),
                    other => other.to_string(),
                };
                console.error(&Error::Input { place: place(path, number), why: why.clone() });
                results.push(json!({ "line": number, "error": why }));
                // the worst: what is not the input's fault goes before
                code = if code == 0 || code == 5 { error.exit_code() } else { code };
            }
        });
        bar.inc(1);
    }
    bar.finish_and_clear();
    summary(console, &model.report().name, results, total);
    Ok(code)
}

fn summary(console: &Console, model: &str, results: Vec<Value>, total: usize) {
    let bad = results.iter().filter(|one| one.get("error").is_some()).count();
    if console.talk.json {
        let all = json!({ "model": model, "inputs": results, "failed": bad });
        console.result(&format!("{all:#}\n"));
    } else if !console.talk.quiet {
        let failed = if bad == 0 { String::new() } else { format!(", {bad} bad") };
        console.result(&format!("{} written{failed}\n", count(total - bad, "page")));
    }
}
