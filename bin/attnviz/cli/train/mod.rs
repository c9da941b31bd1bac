//! `attnviz train`: a small model from nothing but a text.

mod report;
mod samples;

use std::time::{Duration, Instant};

use attnviz::hub::ModelFiles;
use attnviz::output::write_file;
use attnviz::picture::{Format, Style, TextEngine, chart};
use attnviz::train::{
    Bench, Dropout, Examples, Init, Masking, NewModel, Plan, Recipe, Run, Schedule, Tune, Windows,
    mean_loss,
};
use attnviz::{LoadOptions, Model, Result, Task};

use super::args::TrainArgs;
use super::console::{Console, one_line};
use super::finetune::{refuse, shape};
use super::lines;
use super::threads;
use report::Found;

pub fn run(args: &TrainArgs, console: &Console) -> Result<u8> {
    check(args)?;
    let recipe = recipe(args);
    recipe.check()?;
    threads::set(args.threads)?;
    let text = lines::whole(&args.text)?;
    let bench = Bench::claim(&args.out, args.force, args.resume)?;
    let begun = begin(&recipe, &text, &bench).inspect_err(|_| bench.discard());
    let (start, model, windows) = begun?;
    let mut found = Found::new(args, &model, &windows);
    if !console.talk.json && !console.talk.quiet {
        console.result(&found.about());
    }
    let plan = plan(args, windows.learnt.count());
    let bar = console.bar(plan.schedule.steps, "steps");
    let told = |run: &Run, _: usize| {
        bar.set_position(run.steps());
        if let Some(point) = run.points().last().filter(|point| point.step == run.steps()) {
            bar.set_message(report::short(point));
            bar.suspend(|| console.detail(&report::line(point)));
        }
    };
    let (size, seed) = (plan.batch_size, plan.seed);
    let began = Instant::now();
    let most = args.course.minutes.map(|minutes| Duration::from_secs_f64(60.0 * minutes));
    let tune = Tune {
        plan,
        then: None,
        examples: &windows.learnt,
        worth: &|model, changes| Ok(-mean_loss(model, &windows.held, size, seed, changes)?),
        options: LoadOptions::default(),
        progress: &told,
        enough: &|_| most.is_some_and(|most| began.elapsed() >= most),
    };
    let tuned = bench.run(&tune, &start)?;
    bar.finish_and_clear();
    found.took(tuned, began.elapsed());
    if args.samples > 0 && recipe.model.task == Task::CausalLm {
        found.samples = samples::write(&args.out, args.samples, seed)?;
    }
    let picture = chart(&found.chart(), &Style::default(), Format::Png, &TextEngine::new())?;
    write_file(&args.out.join("training.png"), &picture)?;
    write_file(&args.out.join("training.json"), found.json().as_bytes())?;
    bench.finish()?;
    console.result(&match (console.talk.json, console.talk.quiet) {
        (true, _) => found.json(),
        (_, true) => format!("{}\n", one_line(&args.out.display().to_string())),
        _ => found.text(),
    });
    Ok(0)
}

/// First weights, the model of them, and the text in its words.
fn begin(recipe: &Recipe, text: &str, bench: &Bench) -> Result<(ModelFiles, Model, Windows)> {
    let start = recipe.start(text, bench)?;
    let model = Model::open(&start, &LoadOptions::default())?;
    let windows = recipe.windows(text, &model)?;
    Ok((start, model, windows))
}

fn recipe(args: &TrainArgs) -> Recipe {
    let (sizes, course) = (&args.sizes, &args.course);
    let init = Init::NAMES.iter().find(|(name, _)| *name == sizes.init);
    Recipe {
        model: NewModel {
            task: if args.task == "masked" { Task::MaskedLm } else { Task::CausalLm },
            layers: sizes.layers,
            heads: sizes.heads,
            width: sizes.width,
            inner: sizes.inner.unwrap_or(sizes.width.saturating_mul(4)),
            positions: sizes.positions.unwrap_or(course.context),
            init: init.map_or(Init::Xavier, |&(_, init)| init),
            seed: course.seed,
        },
        vocabulary: sizes.vocab,
        lowercase: sizes.lowercase,
        context: course.context,
        masking: Masking { share: course.mask_share, mixed: !course.mask_all },
    }
}

fn plan(args: &TrainArgs, windows: usize) -> Plan {
    let course = &args.course;
    let per_pass = (windows / usize::from(course.batch_size)).max(1) as u64;
    let steps = course.steps.unwrap_or(u64::from(course.epochs) * per_pass);
    Plan {
        schedule: Schedule {
            rate: course.rate,
            warmup: (steps as f64 * course.warmup).round() as u64,
            steps,
            shape: shape(&course.schedule),
        },
        batch_size: course.batch_size.into(),
        weight_decay: course.weight_decay,
        clip: (course.clip > 0.0).then_some(course.clip),
        dropout: Dropout { hidden: course.dropout, attention: course.attention_dropout },
        seed: course.seed,
        gating: None,
        gate_rate: 1.0,
        every: course.every,
        patience: course.patience,
    }
}

/// Refuses numbers that no run can be made with.
fn check(args: &TrainArgs) -> Result<()> {
    let course = &args.course;
    let share = "a share from 0 to below 1";
    let minutes = course.minutes.unwrap_or(1.0);
    refuse(&[
        ("--rate", course.rate, "a number above 0", course.rate > 0.0),
        ("--warmup", course.warmup, "a share from 0 to 1", (0.0..=1.0).contains(&course.warmup)),
        ("--weight-decay", course.weight_decay, "0 or above", course.weight_decay >= 0.0),
        ("--clip", course.clip, "0 or above", course.clip >= 0.0),
        ("--dropout", course.dropout, share, (0.0..1.0).contains(&course.dropout)),
        (
            "--attention-dropout",
            course.attention_dropout,
            share,
            (0.0..1.0).contains(&course.attention_dropout),
        ),
        ("--mask-share", course.mask_share, "a share above 0 and up to 1", {
            course.mask_share > 0.0 && course.mask_share <= 1.0
        }),
        // what a duration of seconds can hold
        ("--minutes", minutes, "a number from 0 to 1e9", (0.0..=1e9).contains(&minutes)),
    ])
}
