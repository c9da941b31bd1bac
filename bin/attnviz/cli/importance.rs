//! `attnviz importance`: how much each head matters, by several measures.

use attnviz::prune::{HeadScore, by_layer, importance, rank_correlation};
use attnviz::{Model, Result};
use serde_json::{Value, json};

use super::args::ImportanceArgs;
use super::console::Console;
use super::prune::loss::score;
use super::prune::table::{label, number, place, table};
use super::prune::texts::{Texts, texts};
use super::report::{header, many, wrapped};
use super::session;

/// How many heads are listed at either end.
const LISTED: usize = 5;

pub fn run(args: &ImportanceArgs, console: &Console) -> Result<u8> {
    let (model, _) = session::open(&args.model, &args.run, console)?;
    let around = (&model, &args.run, console);
    let read = texts(&args.texts, args.text.as_deref(), false, around)?;
    let names: Vec<Option<&str>> = match args.score.is_empty() {
        true => vec![None],
        false => args.score.iter().map(|name| Some(name.as_str())).collect(),
    };
    let bar = console.bar(names.len() as u64, "scores");
    let mut found: Vec<(&str, Vec<HeadScore>)> = Vec::new();
    for name in names {
        let score = score(name, &args.scoring, args.texts.seed, read.loss);
        let scores = importance(&model, score, &read.samples, &[])?;
        found.push((score.name(), if args.scoring.by_layer { by_layer(&scores) } else { scores }));
        bar.inc(1);
    }
    bar.finish_and_clear();
    console.result(&match (console.talk.json, console.talk.quiet) {
        (true, _) => format!("{:#}\n", as_json(args, &model, &read, &found)),
        (_, true) => ranked(&model, &found),
        _ => as_text(args, &model, &read, &found),
    });
    Ok(if read.bad > 0 { 5 } else { 0 })
}

/// From the least to the most, a head per line with all its scores; by the first of them.
fn ranked(model: &Model, found: &[(&str, Vec<HeadScore>)]) -> String {
    let Some((_, first)) = found.first() else { return String::new() };
    let mut order: Vec<usize> = (0..first.len()).collect();
    order.sort_by(|&a, &b| first[a].score.total_cmp(&first[b].score));
    let line = |i: usize| {
        let scores: Vec<String> = found.iter().map(|(_, s)| s[i].score.to_string()).collect();
        format!("{}\t{}\n", label(model.config(), first[i].head), scores.join("\t"))
    };
    order.into_iter().map(line).collect()
}

fn correlations(found: &[(&str, Vec<HeadScore>)]) -> Vec<(String, String, Option<f64>)> {
    let pairs = (0..found.len()).flat_map(|i| (i + 1..found.len()).map(move |j| (i, j)));
    let one = |(i, j): (usize, usize)| {
        let r = rank_correlation(&found[i].1, &found[j].1);
        (found[i].0.to_owned(), found[j].0.to_owned(), r)
    };
    pairs.map(one).collect()
}

fn as_json(
    args: &ImportanceArgs,
    model: &Model,
    read: &Texts,
    found: &[(&str, Vec<HeadScore>)],
) -> Value {
    let scores = found.iter().map(|(name, scores)| {
        let heads = scores.iter().map(|one| {
            let mut keys = place(model.config(), one.head);
            keys.insert("score".into(), one.score.into());
            Value::Object(keys)
        });
        json!({ "score": name, "by_layer": args.scoring.by_layer,
                "heads": heads.collect::<Vec<_>>() })
    });
    let pairs = correlations(found);
    let pairs = pairs.into_iter().map(|(a, b, r)| json!({ "a": a, "b": b, "spearman": r }));
    json!({
        "model": model.report().name,
        "texts": read.count,
        "tokens": read.tokens,
        "failed": read.bad,
        "loss": read.loss.map(|loss| loss.name()),
        "scores": scores.collect::<Vec<_>>(),
        "rank_correlations": pairs.collect::<Vec<_>>(),
    })
}

fn as_text(
    args: &ImportanceArgs,
    model: &Model,
    read: &Texts,
    found: &[(&str, Vec<HeadScore>)],
) -> String {
    let mut text = header(&model.report().name, Some(model));
    let loss = read.loss.map(|loss| format!("; {}", loss.name())).unwrap_or_default();
    let (texts, tokens) = (many(read.count, "text"), many(read.tokens, "token"));
    text += &format!("{texts}, {tokens}{loss}\n");
    for (name, scores) in found {
        let kind = if args.scoring.by_layer { ", by layer" } else { "" };
        text += &format!("\n{name}{kind}\n{}", table(scores, model.config(), |_| false));
        let mut order: Vec<&HeadScore> = scores.iter().collect();
        order.sort_by(|a, b| a.score.total_cmp(&b.score));
        let named = |(i, one): (usize, &&HeadScore)| {
            let comma = if i + 1 < order.len().min(LISTED) { "," } else { "" };
            format!("{} {}{comma}", label(model.config(), one.head), number(one.score))
        };
        let least = order.iter().take(LISTED).enumerate().map(named);
        let most = order.iter().rev().take(LISTED).enumerate().map(named);
        text += &(wrapped("least: ", least) + &wrapped("most:  ", most));
    }
    let pairs = correlations(found);
    if !pairs.is_empty() {
        text += "\nrank correlation (Spearman)\n";
        for (a, b, r) in pairs {
            let r = r.map_or("-".into(), |r| format!("{r:.2}"));
            text += &format!("  {a:<12} {b:<12} {r:>6}\n");
        }
    }
    text
}
