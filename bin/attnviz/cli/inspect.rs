//! `attnviz inspect`: what a checkpoint is.

use std::fmt::Write;

use attnviz::{LoadOptions, Model, Result};
use serde_json::{Value, json};

use super::args::{InspectArgs, ModelArgs};
use super::console::{Console, one_line};
use super::session;

pub fn run(args: &InspectArgs, console: &Console) -> Result<u8> {
    let options = LoadOptions { task: session::task(&args.model)?, ..LoadOptions::default() };
    let asked = ModelArgs {
        model: args.target.clone().or(args.model.model.clone()),
        tokenizer: args.model.tokenizer.clone(),
        config: args.model.config.clone(),
        subfolder: args.model.subfolder.clone(),
        revision: args.model.revision.clone(),
        token: args.model.token.clone(),
        task: args.model.task.clone(),
    };
    let model = session::load(&asked, &options, console)?;
    console.result(&if console.talk.json {
        format!("{:#}\n", as_json(&model))
    } else {
        as_text(&model, console.talk.verbose)
    });
    Ok(0)
}

fn as_json(model: &Model) -> Value {
    let tokenizer = model.tokenizer().ok().map(
        |tokenizer| json!({ "vocab_size": tokenizer.vocab_size(), "notes": tokenizer.notes() }),
    );
    json!({ "report": model.report(), "config": model.config(), "tokenizer": tokenizer })
}

fn as_text(model: &Model, verbose: bool) -> String {
    let (report, config) = (model.report(), model.config());
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<13} {}", one_line(&value));
    };
    row("model", report.name.clone());
    if let Some(revision) = &report.revision {
        row("revision", revision.clone());
    }
    row("family", format!("{}, {}", config.model_type, config.task.name()));
    let (layers, whole) = (config.layers(), config.head_counts.iter().sum::<usize>());
    let left: usize = config.heads.iter().map(Vec::len).sum();
    let counts = match config.head_counts.iter().all(|n| *n == config.head_counts[0]) {
        true => config.head_counts.first().map(usize::to_string).unwrap_or_default(),
        false => format!("{:?}", config.head_counts),
    };
    let pruned = if left < whole { format!(", {left} of {whole} left") } else { String::new() };
    row("layers", layers.to_string());
    row("heads", format!("{counts} per layer, {} wide{pruned}", config.head_dim));
    row("width", format!("{}, {} inside", config.hidden_size, config.intermediate_size));
    row(
        "positions",
        format!("{}, at most {} tokens", config.position_kind(), config.max_positions),
    );
    row("token types", config.type_vocab_size.to_string());
    row("vocabulary", grouped(config.vocab_size));
    row("activation", spelt(config.activation));
    let parts: Vec<String> =
        report.parts.iter().map(|(part, n)| format!("{part} {}", grouped(*n))).collect();
    row("parameters", format!("{} ({})", grouped(report.parameters), parts.join(", ")));
    row("numbers", report.dtypes.join(", "));
    row("tensor names", report.naming.clone());
    match model.tokenizer() {
        Ok(tokenizer) => row("tokenizer", format!("{} tokens", grouped(tokenizer.vocab_size()))),
        Err(_) => row("tokenizer", "none".into()),
    }
    let (shown, unused) = (if verbose { usize::MAX } else { 4 }, &report.unused);
    if !unused.is_empty() {
        let mut names = unused.iter().take(shown).cloned().collect::<Vec<_>>().join(", ");
        if unused.len() > shown {
            names += ", … (-v for all)";
        }
        row("not used", format!("{}: {names}", unused.len()));
    }
    text
}

/// An enum by its name in JSON, with spaces.
fn spelt(value: impl serde::Serialize) -> String {
    let name = serde_json::to_value(value).unwrap_or_default();
    name.as_str().unwrap_or_default().replace('_', " ")
}

/// 1234567 → 1,234,567
fn grouped(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
