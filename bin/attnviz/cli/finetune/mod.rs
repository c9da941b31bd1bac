//! `attnviz finetune`: trains a checkpoint further, and cuts heads whose gates close.

mod lesson;
mod report;

use attnviz::hub::ModelFiles;
use attnviz::output::write_file;
use attnviz::picture::{Format, Style, TextEngine, chart};
use attnviz::task::Reached;
use attnviz::train::{Bench, Dropout, Gating, Penalty, Plan, Run, Schedule, Shape, Tune};
use attnviz::{Error, LoadOptions, Model, Result, Task};

use super::args::{FinetuneArgs, ModelArgs, RunArgs};
use super::console::Console;
use super::session;
use super::threads;
use lesson::{Lesson, Named};
use report::Found;

pub fn run(args: &FinetuneArgs, console: &Console) -> Result<u8> {
    check(args)?;
    let data = args.data.as_deref().map(Named::open).transpose()?;
    let bench = Bench::claim(&args.out, args.force, args.resume)?;
    threads::set(args.run.threads)?;
    let options = LoadOptions {
        task: session::task(&args.model)?,
        device: session::device(&args.run.device)?,
    };
    let begun = begin(args, data.as_ref(), &options, &bench, console);
    let Begun { start, lesson, against } = begun.inspect_err(|_| bench.discard())?;
    let (plan, then) = plans(args, lesson.examples().count());
    let bar = console.bar(plan.schedule.steps, "steps");
    let progress = |run: &Run, which: usize| {
        if bar.position() > run.steps() {
            bar.set_length(run.plan().schedule.steps);
        }
        bar.set_position(run.steps());
        if let Some(point) = run.points().last().filter(|point| point.step == run.steps()) {
            bar.suspend(|| console.detail(&report::line(which, point, lesson.told())));
        }
    };
    let tune = Tune {
        plan,
        then,
        examples: lesson.examples(),
        worth: &|model, changes| lesson.worth(model, changes),
        options: options.clone(),
        progress: &progress,
        enough: &|_| false,
    };
    let tuned = bench.run(&tune, &start)?;
    bar.finish_and_clear();
    let mut found = Found::new(&args.out, tuned, lesson.told());
    if let (Some(data), Some((before, other))) = (&data, against) {
        let after = of(&args.out.display().to_string(), &args.run, console)?;
        found.hold(before, data.reached(&after, args)?, args.against.clone().zip(other), args);
    }
    draw(args, &found)?;
    bench.finish()?;
    console.result(&match (console.talk.json, console.talk.quiet) {
        (true, _) => found.json(),
        (_, true) => format!("{}\n", super::console::one_line(&args.out.display().to_string())),
        _ => found.text(),
    });
    Ok(0)
}

/// What there is before the first step.
struct Begun {
    start: ModelFiles,
    lesson: Lesson,
    /// What the checkpoint reaches as it is, and what another model does, where there are labels.
    against: Option<(Told, Option<Reached>)>,
}

/// By what items were told, and how well.
type Told = (String, Reached);

/// Everything that may turn out to be unusable, before anything is trained.
fn begin(
    args: &FinetuneArgs,
    data: Option<&Named<'_>>,
    options: &LoadOptions,
    bench: &Bench,
    console: &Console,
) -> Result<Begun> {
    let original = session::files(&args.model, console)?;
    let start = bench.start(|to| lesson::start(data, &original, args.course.seed, to))?;
    let model = Model::open(&start, options)?;
    let lesson = Lesson::new(args, data, &model)?;
    bench.about(&lesson.about(args, &original))?;
    let against = data.map(|data| -> Result<_> {
        let before = data.reached(&before(&model, &original, options)?, args)?;
        let other = args
            .against
            .as_ref()
            .map(|name| -> Result<_> { Ok(data.reached(&of(name, &args.run, console)?, args)?.1) });
        Ok((before, other.transpose()?))
    });
    Ok(Begun { start, lesson, against: against.transpose()? })
}

/// The model as it was: without its head where the start has a new one, which tells nothing yet.
fn before(start: &Model, original: &ModelFiles, options: &LoadOptions) -> Result<Model> {
    let model = Model::open(original, options)?;
    let head = |model: &Model| (model.config().task, model.config().labels.clone());
    if head(&model) == head(start) {
        return Ok(model);
    }
    Model::open(original, &LoadOptions { task: Some(Task::Encoder), ..options.clone() })
}

/// Another model by its name.
fn of(name: &str, run: &RunArgs, console: &Console) -> Result<Model> {
    let args = ModelArgs { model: Some(name.to_owned()), ..ModelArgs::default() };
    session::open_model(&args, run, console)
}

/// The curve of the run, and its numbers, beside the weights.
fn draw(args: &FinetuneArgs, found: &Found) -> Result<()> {
    let picture = chart(&found.chart(), &Style::default(), Format::Png, &TextEngine::new())?;
    write_file(&args.out.join("training.png"), &picture)?;
    write_file(&args.out.join("training.json"), found.json().as_bytes())
}

/// Refuses numbers that no run can be made with.
fn check(args: &FinetuneArgs) -> Result<()> {
    let (course, gates) = (&args.course, &args.gates);
    let share = "a share from 0 to below 1";
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
        ("--mask-share", args.mask_share, "a share above 0 and up to 1", {
            args.mask_share > 0.0 && args.mask_share <= 1.0
        }),
        ("--gate-weight", gates.gate_weight, "0 or above", gates.gate_weight >= 0.0),
        ("--gate-rate", gates.gate_rate, "a number above 0", gates.gate_rate > 0.0),
        ("--fraction", gates.fraction, share, (0.0..1.0).contains(&gates.fraction)),
        ("--margin", args.margin, "a number above 0", args.margin > 0.0),
    ])
}

/// Refuses the first number that does not fit: `(flag, number, what was expected, whether it fits)`.
pub fn refuse(numbers: &[(&str, f64, &str, bool)]) -> Result<()> {
    for &(flag, found, want, fits) in numbers {
        if !fits || !found.is_finite() {
            let (flag, want, found) = (flag.into(), want.into(), found.to_string());
            return Err(Error::Usage { flag, want, found });
        }
    }
    Ok(())
}

/// How the rate falls, by its name.
pub fn shape(name: &str) -> Shape {
    match name {
        "cosine" => Shape::Cosine,
        "constant" => Shape::Constant,
        _ => Shape::Linear,
    }
}

/// The plan of the run, and with gates that of the one after the cut.
fn plans(args: &FinetuneArgs, examples: usize) -> (Plan, Option<(f64, Plan)>) {
    let course = &args.course;
    let per_pass = (examples / usize::from(course.batch_size)).max(1) as u64;
    let schedule = |steps: u64| Schedule {
        rate: course.rate,
        warmup: (steps as f64 * course.warmup).round() as u64,
        steps,
        shape: shape(&course.schedule),
    };
    let penalty = match args.gates.gates.as_deref() {
        Some("l1") => Some(Penalty::L1),
        Some(_) => Some(Penalty::L0),
        None => None,
    };
    let weight = args.gates.gate_weight;
    let plan = Plan {
        schedule: schedule(course.steps.unwrap_or(u64::from(course.epochs) * per_pass)),
        batch_size: course.batch_size.into(),
        weight_decay: course.weight_decay,
        clip: (course.clip > 0.0).then_some(course.clip),
        dropout: Dropout { hidden: course.dropout, attention: course.attention_dropout },
        seed: course.seed,
        gating: penalty.map(|penalty| Gating { penalty, weight }),
        gate_rate: args.gates.gate_rate,
        every: course.every.unwrap_or(per_pass),
        // gates make validation worse for a while, as they should
        patience: course.patience.filter(|_| penalty.is_none()),
    };
    let then = penalty.map(|_| {
        let steps = u64::from(args.gates.recover_epochs) * per_pass;
        let plan = Plan {
            schedule: schedule(steps),
            gating: None,
            patience: course.patience,
            ..plan.clone()
        };
        (args.gates.fraction, plan)
    });
    (plan, then)
}
