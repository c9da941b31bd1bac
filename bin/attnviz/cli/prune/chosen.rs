//! Which heads go, by the flags.

use std::collections::BTreeSet;

use attnviz::hub::ModelFiles;
use attnviz::prune::{Chooser, StackHead, Strategy};
use attnviz::task::{Outputs, Split, cosines, outputs};
use attnviz::{Error, Intervention, Model, Result};

use super::super::args::PruneArgs;
use super::super::console::Console;
use super::super::report::many;
use super::loss::{Loss, score};
use super::texts::Texts;

/// Rounds of an iterative strategy that names none.
const ROUNDS: u16 = 5;

/// What heads were chosen by.
pub struct By {
    /// The score, or the strategy that has none.
    pub name: &'static str,
    pub strategy: Strategy,
}

impl By {
    /// For a reader.
    pub fn text(&self) -> String {
        match self.strategy {
            Strategy::Iterative { rounds } => format!("{} in {}", self.name, many(rounds, "round")),
            _ => self.name.into(),
        }
    }
}

/// The strategy that the flags ask for.
pub fn strategy(args: &PruneArgs) -> Result<Strategy> {
    let random = args.score.as_deref() == Some("random");
    let name = match (args.strategy.as_deref(), random, args.rounds) {
        (Some("random") | None, true, None) => "random",
        (None, false, Some(rounds)) if rounds > 1 => "iterative",
        (None, false, _) => "one-shot",
        (Some(name @ ("one-shot" | "greedy" | "random")), false, None) => name,
        (Some("iterative"), false, _) => "iterative",
        (Some(name), _, rounds) => {
            let (flag, want) = match rounds {
                Some(_) if name != "iterative" => ("--rounds", "--strategy iterative beside it"),
                _ => ("--score", "a score, or --strategy random"),
            };
            let found = format!("--strategy {name}");
            return Err(Error::Usage { flag: flag.into(), want: want.into(), found });
        }
        (None, true, Some(_)) => {
            return Err(Error::Usage {
                flag: "--rounds".into(),
                want: "a score to make again in each round".into(),
                found: "--score random".into(),
            });
        }
    };
    Ok(match name {
        "random" => Strategy::Random { seed: args.texts.seed },
        "iterative" => Strategy::Iterative { rounds: args.rounds.unwrap_or(ROUNDS).into() },
        "greedy" => Strategy::Greedy,
        _ => Strategy::OneShot,
    })
}

/// The heads that go at each tenth of the way and at its end, with what they were chosen by.
pub fn chosen(
    args: &PruneArgs,
    strategy: &Strategy,
    (model, files): (&Model, &ModelFiles),
    read: Option<&Texts>,
    console: &Console,
) -> Result<(Vec<BTreeSet<StackHead>>, By)> {
    let loss = read.and_then(|read| read.loss);
    let score = score(args.score.as_deref(), &args.scoring, args.texts.seed, loss);
    let unpruned = match (strategy, read) {
        (Strategy::Greedy, Some(read)) => Some(outputs(model, read.validation(), &[], &[])?),
        _ => None,
    };
    let worth = |changes: &[Intervention]| worth(model, read, unpruned.as_ref(), changes);
    let bar = console.bar(0, if *strategy == Strategy::Greedy { "runs" } else { "rounds" });
    let chooser = Chooser {
        model,
        score,
        by_layer: args.scoring.by_layer,
        samples: read.map_or(&[], |read| &read.samples),
        worth: &worth,
        allow_empty: args.allow_empty_layers,
        progress: &|done, of| {
            bar.set_length(of as u64);
            bar.set_position(done as u64);
        },
    };
    let mut masks = match &args.budget {
        Some(budget) => {
            let allowance = chooser.allowance(budget, files)?;
            let way = tenths(allowance.fractions.first().copied().unwrap_or(0.0));
            let all: Vec<f64> = way.iter().chain(&allowance.fractions).copied().collect();
            let mut masks = chooser.masks(strategy, &all)?;
            masks.truncate(allowance.first(&masks)? + 1);
            masks
        }
        None => {
            let end = args.fraction.unwrap_or(0.0);
            let all: Vec<f64> = tenths(end).into_iter().chain([end]).collect();
            chooser.masks(strategy, &all)?
        }
    };
    bar.finish_and_clear();
    masks.dedup();
    let name = if strategy.scores() { score.name() } else { strategy.name() };
    let by = By { name, strategy: strategy.clone() };
    Ok((masks, by))
}

/// Tenths below a share.
fn tenths(end: f64) -> Vec<f64> {
    (1..10).map(|i| f64::from(i) / 10.0).filter(|share| *share < end - 1e-9).collect()
}

/// What the model is worth on the texts to choose by.
fn worth(
    model: &Model,
    read: Option<&Texts>,
    unpruned: Option<&Outputs>,
    changes: &[Intervention],
) -> Result<f64> {
    let (Some(read), Some(unpruned)) = (read, unpruned) else { return Ok(0.0) };
    if let Some(set) = &read.set {
        return set.worth(model, changes, Split::Validation);
    }
    let changed = outputs(model, read.validation(), changes, &[])?;
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len().max(1) as f64;
    match read.loss.is_some_and(Loss::signed) {
        true => Ok(-mean(&changed.losses)),
        false => Ok(mean(&cosines(unpruned, &changed)?)),
    }
}
