//! `attnviz gradcheck`: derivatives by weights and gates against differences.

use attnviz::model::Trainable;
use attnviz::task::{Sample, embedding};
use attnviz::train::{Check, Checked, Gating, LearnedGates, Penalty};
use attnviz::{Intervention, LoadOptions, Model, Recorder, Result};
use candle_core::Tensor;
use serde_json::json;

use super::args::GradcheckArgs;
use super::console::Console;
use super::prune::loss::Loss;
use super::prune::table::number;
use super::prune::texts::texts;
use super::report::many;
use super::session;

pub fn run(args: &GradcheckArgs, console: &Console) -> Result<u8> {
    let (model, _) = session::open(&args.model, &args.run, console)?;
    let around = (&model, &args.run, console);
    let read = texts(&args.texts, args.text.as_deref(), false, around)?;
    let loss = read.loss.filter(|loss| loss.signed());
    let sample = read.samples.into_iter().next().ok_or_else(|| attnviz::Error::Usage {
        flag: "--file".into(),
        want: "a text".into(),
        found: "none".into(),
    })?;
    let options = LoadOptions {
        task: session::task(&args.model)?,
        device: session::device(&args.run.device)?,
    };
    let trainable = Trainable::open(&session::files(&args.model, console)?, &options)?;
    let bar = console.bar(1, "tensors");
    let chosen = |name: &str| args.only.as_deref().is_none_or(|part| name.contains(part));
    let check = Check {
        seed: args.texts.seed,
        directions: args.directions.into(),
        only: &chosen,
        progress: &|done, all| {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
        },
    };
    let mut found = check.weights(&trainable, |model| terms(model, &sample, loss, &[]))?;
    let gating = Gating { penalty: Penalty::L1, weight: 0.0 };
    let (frozen, device) = (trainable.frozen()?, &options.device);
    let gates = LearnedGates::new(frozen.config(), gating, device)?;
    found.extend(check.variables(gates.variables(), || {
        terms(&frozen, &sample, loss, &gates.interventions(None)?)
    })?);
    bar.finish_and_clear();
    let bad = found.iter().filter(|one| one.error() > args.tolerance).count();
    console.result(&match console.talk.json {
        true => as_json(args, loss, &found),
        false => as_text(args, loss, &found, bad, console.talk.quiet),
    });
    Ok(if bad > 0 || found.is_empty() { 1 } else { 0 })
}

/// The loss of each example, or a projection of its mean embedding where there is none.
fn terms(
    model: &Model,
    sample: &Sample,
    loss: Option<Loss>,
    changes: &[Intervention],
) -> Result<Tensor> {
    let hidden = sample.run(model, &mut Recorder::new(), changes)?;
    if let (Some(target), Some(_)) = (&sample.target, loss) {
        return target.losses(model, &hidden, sample.last());
    }
    let found = embedding(&hidden, sample.last())?;
    let width = found.dim(1)?;
    let factor = |i: usize| ((i * 7 + 3) % 11) as f32 / 11.0 - 0.4;
    let factors = (0..width).map(factor).collect::<Vec<_>>();
    Ok(found.broadcast_mul(&Tensor::from_vec(factors, (1, width), found.device())?)?.sum(1)?)
}

fn name(loss: Option<Loss>) -> &'static str {
    loss.map_or("a fixed projection of the mean embedding", Loss::name)
}

fn as_json(args: &GradcheckArgs, loss: Option<Loss>, found: &[Checked]) -> String {
    let each = found.iter().map(|one| {
        json!({
            "tensor": one.name,
            "analytic": one.analytic,
            "numeric": one.numeric,
            "uncertainty": one.uncertainty,
            "error": one.error(),
        })
    });
    let all = json!({
        "of": name(loss),
        "tolerance": args.tolerance,
        "checked": each.collect::<Vec<_>>(),
    });
    format!("{all:#}\n")
}

/// The worst direction of each tensor.
fn as_text(
    args: &GradcheckArgs,
    loss: Option<Loss>,
    found: &[Checked],
    bad: usize,
    quiet: bool,
) -> String {
    let mut worst: Vec<&Checked> = Vec::new();
    for one in found {
        match worst.last_mut().filter(|last| last.name == one.name) {
            Some(last) if one.error() > last.error() => *last = one,
            Some(_) => {}
            None => worst.push(one),
        }
    }
    let mut text = match quiet {
        true => String::new(),
        false => {
            format!("{:<44}{:>11}{:>12}{:>10}\n", name(loss), "gradient", "difference", "apart")
        }
    };
    for one in worst.iter().filter(|one| !quiet || one.error() > args.tolerance) {
        let mark = if one.error() > args.tolerance { " *" } else { "" };
        text += &format!(
            "{:<44}{:>11}{:>12}{:>10}{mark}\n",
            one.name,
            number(one.analytic),
            number(one.numeric),
            number(one.error())
        );
    }
    let largest = found.iter().map(Checked::error).fold(0.0, f64::max);
    text + &format!(
        "{} in {} checked, largest error {}, {bad} above {}\n",
        many(worst.len(), "tensor"),
        many(found.len(), "direction"),
        number(largest),
        args.tolerance
    )
}
