//! `attnviz ablate`: what the model loses without each head.

mod picture;

use std::collections::BTreeMap;

use attnviz::prune::{HeadScore, Off, StackHead, ablate, heads_left};
use attnviz::task::{Effect, Outputs, benjamini_hochberg, cosines, effect, holm};
use attnviz::{Model, Result, Stack};
use serde_json::{Value, json};

use super::args::AblateArgs;
use super::console::{Console, one_line};
use super::prune::loss::Loss;
use super::prune::table::{label, number, place, table};
use super::prune::texts::{Texts, texts};
use super::report::{commas, header, many, wrapped};
use super::session;
use picture::{format_of, picture};

/// Chance of any false mark.
const LEVEL: f64 = 0.05;
/// How many heads are listed.
const LISTED: usize = 5;

/// What one head's set does.
struct Found {
    head: StackHead,
    effect: Effect,
    /// Holm-adjusted; of losses that may fall as well as rise.
    p: Option<f64>,
    /// The same after Benjamini-Hochberg.
    q: Option<f64>,
}

impl Found {
    fn marked(&self) -> bool {
        self.p.is_some_and(|p| p < LEVEL)
    }
}

pub fn run(args: &AblateArgs, console: &Console) -> Result<u8> {
    let format = args.out.as_deref().map(|path| format_of(path, args.force)).transpose()?;
    let (model, engine) = session::open(&args.model, &args.run, console)?;
    let around = (&model, &args.run, console);
    let read = texts(&args.texts, args.text.as_deref(), false, around)?;
    let off = Off::NAMES.iter().find(|(name, _)| *name == args.off).map_or(Off::Zero, |n| n.1);
    let heads = heads(&model, &read);
    let sets: Vec<Vec<StackHead>> =
        heads.iter().map(|&head| set(head, &heads, &args.sets)).collect();
    let bar = console.bar((read.samples.len() * (sets.len() + 1)) as u64, "runs");
    let divergence = read.loss == Some(Loss::Logits);
    let outputs = ablate(&model, &read.samples, off, &sets, divergence, || bar.inc(1))?;
    bar.finish_and_clear();
    let rounds = rounds(args.rounds, heads.len());
    let found = effects(args, (&read, rounds), &heads, &outputs)?;
    if let Some(least) = least_after_holm(rounds, &found) {
        let heads = many(found.len(), "head");
        console.note(&format!(
            "{rounds} resamplings of {heads} leave no p below {least:.2} after Holm: no mark is \
             possible"
        ));
    }
    if let (Some(path), Some(format)) = (&args.out, format) {
        picture(path, format, args, &read, &model, &found, &engine)?;
    }
    console.result(&match (console.talk.json, console.talk.quiet) {
        (true, _) => as_json(args, &model, &read, &found),
        (_, true) => found
            .iter()
            .map(|one| format!("{}\t{}\n", label(model.config(), one.head), one.effect.mean))
            .collect(),
        _ => as_text(args, &model, &read, &found),
    });
    Ok(if read.bad > 0 { 5 } else { 0 })
}

/// Resamplings: a p value is no smaller than one over them, and Holm multiplies the smallest by the
/// number of heads.
fn rounds(asked: Option<u32>, heads: usize) -> usize {
    asked.map_or((40 * heads).max(1000), |rounds| rounds as usize)
}

/// The least p value that there can be after Holm, where that is too large for a mark.
fn least_after_holm(rounds: usize, found: &[Found]) -> Option<f64> {
    let least = found.len() as f64 / (rounds + 1) as f64;
    (least >= LEVEL && found.iter().any(|one| one.p.is_some())).then_some(least.min(1.0))
}

/// The heads of the stacks that run.
fn heads(model: &Model, read: &Texts) -> Vec<StackHead> {
    let config = model.config();
    let whole = read.samples.iter().any(|sample| sample.written.is_some());
    let runs = |one: &StackHead| whole || one.stack == config.stack();
    heads_left(config).into_iter().filter(runs).collect()
}

/// The heads that are off for one head's row of the table.
fn set(head: StackHead, all: &[StackHead], sets: &str) -> Vec<StackHead> {
    let others = all.iter().copied().filter(|&other| other != head);
    match sets {
        "layer-others" => {
            let layer = |one: StackHead| (one.stack, one.head.layer);
            others.filter(|&other| layer(other) == layer(head)).collect()
        }
        "all-others" => others.collect(),
        _ => vec![head],
    }
}

/// Text by text, what rises without the heads.
fn effects(
    args: &AblateArgs,
    (read, rounds): (&Texts, usize),
    heads: &[StackHead],
    outputs: &[Outputs],
) -> Result<Vec<Found>> {
    let Some((unpruned, changed)) = outputs.split_first() else { return Ok(Vec::new()) };
    let signed = read.loss.is_some_and(Loss::signed);
    let mut found = Vec::new();
    for (&head, changed) in heads.iter().zip(changed) {
        let differences: Vec<f64> = match read.loss {
            Some(Loss::Logits) => changed.divergences.clone(),
            Some(loss) if loss.signed() => {
                changed.losses.iter().zip(&unpruned.losses).map(|(a, b)| a - b).collect()
            }
            _ => cosines(unpruned, changed)?.into_iter().map(|cosine| 1.0 - cosine).collect(),
        };
        let effect = effect(&differences, rounds, args.texts.seed);
        found.push(Found { head, effect, p: None, q: None });
    }
    if signed {
        let p: Vec<f64> = found.iter().map(|one| one.effect.p).collect();
        let adjusted = holm(&p).into_iter().zip(benjamini_hochberg(&p));
        for (one, (holm, hochberg)) in found.iter_mut().zip(adjusted) {
            (one.p, one.q) = (Some(holm), Some(hochberg));
        }
    }
    Ok(found)
}

/// The head of each layer that does best with all others of its layer off.
fn best_alone(found: &[Found]) -> Vec<&Found> {
    let mut best: BTreeMap<(Stack, usize), &Found> = BTreeMap::new();
    for one in found {
        let layer = best.entry((one.head.stack, one.head.head.layer)).or_insert(one);
        if one.effect.mean < layer.effect.mean {
            *layer = one;
        }
    }
    best.into_values().collect()
}

fn what(read: &Texts) -> &'static str {
    match read.loss {
        Some(Loss::MaskedLm) => "rise of the masked-LM loss",
        Some(Loss::CausalLm) => "rise of the causal-LM loss",
        Some(Loss::Logits) => "divergence from the unpruned logits, in nats",
        Some(Loss::Seq2SeqLm) => "rise of the loss of the text to write",
        Some(Loss::Classes) => "rise of the cross entropy of the classes",
        _ => "1 - cosine to the unpruned embedding",
    }
}

fn off(args: &AblateArgs) -> String {
    let which = match args.sets.as_str() {
        "layer-others" => "all other heads of its layer off",
        "all-others" => "all other heads off",
        _ => "each head off",
    };
    format!("{which} ({})", args.off)
}

fn as_json(args: &AblateArgs, model: &Model, read: &Texts, found: &[Found]) -> String {
    let heads = found.iter().map(|one| {
        let own = &one.effect;
        let mut keys = place(model.config(), one.head);
        keys.insert("mean".into(), own.mean.into());
        keys.insert("interval".into(), json!(own.interval));
        keys.insert("size".into(), own.size.into());
        keys.insert("p".into(), json!(one.p.map(|_| own.p)));
        keys.insert("p_holm".into(), json!(one.p));
        keys.insert("p_benjamini_hochberg".into(), json!(one.q));
        Value::Object(keys)
    });
    let mut all = json!({
        "model": model.report().name,
        "texts": read.count,
        "tokens": read.tokens,
        "failed": read.bad,
        "off": args.off,
        "sets": args.sets,
        "measure": what(read),
        "heads": heads.collect::<Vec<_>>(),
    });
    if args.sets == "layer-others" {
        let best = best_alone(found).into_iter().map(|one| label(model.config(), one.head));
        all["best_alone"] = best.collect();
    }
    format!("{all:#}\n")
}

fn as_text(args: &AblateArgs, model: &Model, read: &Texts, found: &[Found]) -> String {
    let mut text = header(&model.report().name, Some(model));
    let (texts, tokens) = (many(read.count, "text"), many(read.tokens, "token"));
    text += &format!("{texts}, {tokens}; {}: {}\n\n", off(args), what(read));
    let score = |one: &Found| HeadScore { head: one.head, score: one.effect.mean };
    let scores: Vec<HeadScore> = found.iter().map(score).collect();
    text += &table(&scores, model.config(), |i| found[i].marked());
    if args.sets == "layer-others" {
        let named = |one: &Found| {
            format!("{} {}", label(model.config(), one.head), number(one.effect.mean))
        };
        text += "\neach layer with only its best head\n";
        text += &wrapped("  ", commas(best_alone(found).into_iter().map(named)));
    }
    let mut order: Vec<&Found> = found.iter().collect();
    order.sort_by(|a, b| b.effect.mean.total_cmp(&a.effect.mean));
    let line = |one: &&Found| {
        let (low, high) = one.effect.interval;
        let both = one.p.zip(one.q);
        let p = both.map(|(p, q)| format!(", p {p:.3} (Holm), {q:.3} (BH)")).unwrap_or_default();
        let size = number(one.effect.size);
        let (mean, low, high) = (number(one.effect.mean), number(low), number(high));
        let head = label(model.config(), one.head);
        format!("  {head} {mean} [{low}, {high}], d {size}{p}\n")
    };
    text += "\nmost, with 95 % intervals over the texts\n";
    text.extend(order.iter().take(LISTED).map(line));
    if order.len() > LISTED {
        text += "least\n";
        text.extend(order.iter().rev().take(LISTED.min(order.len() - LISTED)).map(line));
    }
    if found.iter().any(|one| one.p.is_some()) {
        text += "* p below 0.05 after Holm, by signs at random text by text; BH is after\n  \
                 Benjamini and Hochberg; d is the mean over the deviation\n";
    }
    if let Some(path) = &args.out {
        text += &format!("{}\n", one_line(&path.display().to_string()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_possible_after_holm() {
        for heads in [1, 6, 72, 144, 1024] {
            let least = heads as f64 / (rounds(None, heads) + 1) as f64;
            assert!(least < LEVEL, "{heads} heads: {least}");
        }
        assert_eq!((rounds(None, 6), rounds(None, 72), rounds(Some(9), 72)), (1000, 2880, 9));
    }
}
