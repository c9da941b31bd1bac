//! What a run came to.

use std::path::{Path, PathBuf};

use attnviz::picture::{Chart, Line, Panel};
use attnviz::task::Reached;
use attnviz::train::{Point, Tuned};
use serde_json::{Value, json};

use super::super::args::FinetuneArgs;
use super::super::console::one_line;
use super::super::prune::table::number;
use super::super::report::many;

/// Resamplings behind an interval.
const ROUNDS: usize = 2000;

/// Everything there is to report.
pub struct Found {
    out: PathBuf,
    tuned: Tuned,
    told: Told,
    held: Option<Held>,
}

/// What models reach on the part for tests.
struct Held {
    before: (String, Reached),
    after: (String, Reached),
    change: (f64, (f64, f64)),
    against: Option<Against>,
}

struct Against {
    name: String,
    reached: Reached,
    change: (f64, (f64, f64)),
    margin: f64,
}

impl Against {
    /// Whether the lower end of the interval is above what counts as no worse.
    fn no_worse(&self) -> bool {
        self.change.1.0 > -self.margin
    }
}

/// What tells how a run goes on the part for validation.
#[derive(Clone, Copy)]
pub enum Told {
    Loss,
    Spearman,
}

impl Told {
    fn name(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::Spearman => "Spearman",
        }
    }

    /// As people know it: a loss is the better the smaller it is.
    fn of(self, point: &Point) -> f64 {
        match self {
            Self::Loss => -point.worth,
            Self::Spearman => point.worth,
        }
    }
}

/// A look at validation in a line.
pub fn line(which: usize, point: &Point, told: Told) -> String {
    let open = point.open.map(|open| format!(", {} open", many(open, "gate"))).unwrap_or_default();
    let run = if which == 0 { "" } else { "after the cut, " };
    format!(
        "{run}step {}: loss {}, validation {} {}{open}",
        point.step,
        number(point.loss),
        told.name(),
        number(told.of(point))
    )
}

impl Found {
    pub fn new(out: &Path, tuned: Tuned, told: Told) -> Self {
        Self { out: out.into(), tuned, told, held: None }
    }

    pub fn hold(
        &mut self,
        before: (String, Reached),
        after: (String, Reached),
        against: Option<(String, Reached)>,
        args: &FinetuneArgs,
    ) {
        let seed = args.course.seed;
        let against = against.map(|(name, reached)| Against {
            change: reached.change(&after.1, ROUNDS, seed),
            margin: args.margin,
            name,
            reached,
        });
        let change = before.1.change(&after.1, ROUNDS, seed);
        self.held = Some(Held { before, after, change, against });
    }

    /// Loss and validation by step.
    pub fn chart(&self) -> Chart {
        let mut steps_before = 0;
        let mut curves = [Vec::new(), Vec::new()];
        for points in &self.tuned.points {
            for point in points {
                let at = (steps_before + point.step) as f64;
                curves[0].push((at, point.loss));
                curves[1].push((at, self.told.of(point)));
            }
            steps_before += points.last().map_or(0, |point| point.step);
        }
        let [loss, validation] = curves;
        let (name, y) = match self.told {
            Told::Loss => ("validation loss", "loss"),
            Told::Spearman => ("validation Spearman", "loss, Spearman"),
        };
        let line = |name: &str, colour, points| Line {
            name: name.into(),
            colour,
            points,
            ..Line::default()
        };
        let curves = vec![line("training loss", 1, loss), line(name, 2, validation)];
        Chart {
            title: one_line(&self.out.display().to_string()),
            x: "step".into(),
            y: y.into(),
            panels: vec![Panel { title: "training and validation".into(), curves }],
            notes: Vec::new(),
        }
    }

    pub fn json(&self) -> String {
        let held = self.held.as_ref().map(|held| {
            let one = |(by, reached): &(String, Reached)| {
                json!({
                    "by": by,
                    "metric": reached.metric(),
                    "interval": reached.interval(ROUNDS, 0),
                    "told": reached.told(),
                    "correlations": reached.correlations(),
                })
            };
            let against = held.against.as_ref().map(|against| {
                json!({
                    "model": against.name,
                    "metric": against.reached.metric(),
                    "change": against.change.0,
                    "interval": against.change.1,
                    "margin": against.margin,
                    "no_worse": against.no_worse(),
                })
            });
            json!({
                "items": held.after.1.items(),
                "name": held.after.1.metric_name(),
                "before": one(&held.before),
                "after": one(&held.after),
                "change": held.change.0,
                "change_interval": held.change.1,
                "against": against,
            })
        });
        let gates: Vec<Value> = self
            .tuned
            .gates
            .iter()
            .map(|one| json!({ "head": one.head.to_string(), "gate": one.score }))
            .collect();
        let removed: Vec<String> = self.tuned.removed.iter().map(ToString::to_string).collect();
        let one = |point: &Point| {
            json!({
                "step": point.step,
                "loss": point.loss,
                "validation": self.told.of(point),
                "open": point.open,
            })
        };
        let runs = self.tuned.points.iter().map(|points| points.iter().map(one).collect());
        let runs: Vec<Vec<Value>> = runs.collect();
        let all = json!({
            "folder": self.out,
            "validation": self.told.name(),
            "runs": runs,
            "gates": gates,
            "removed": removed,
            "test": held,
        });
        format!("{all:#}\n")
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        for (which, points) in self.tuned.points.iter().enumerate() {
            for point in points {
                text += &format!("{}\n", line(which, point, self.told));
            }
        }
        if !self.tuned.gates.is_empty() {
            let names: Vec<String> = self.tuned.removed.iter().map(ToString::to_string).collect();
            text += &format!("{} removed: {}\n", many(names.len(), "head"), names.join(" "));
        }
        if let Some(held) = &self.held {
            text += &held.text();
        }
        let out = one_line(&self.out.display().to_string());
        text + &format!("{out}: the model, training.json and training.png\n")
    }
}

impl Held {
    fn text(&self) -> String {
        let (name, items) = (self.after.1.metric_name(), self.after.1.items());
        let part = |what: &str, (by, reached): &(String, Reached)| {
            let (low, high) = reached.interval(ROUNDS, 0);
            format!("  {what} {:.3} [{low:.3}, {high:.3}] by {by}\n", reached.metric())
        };
        let mut text = format!("{name} on {} for tests, 95 % by bootstrap:\n", many(items, "item"));
        text += &part("before", &self.before);
        text += &part("after ", &self.after);
        let change =
            |(mean, (low, high)): (f64, (f64, f64))| format!("{mean:+.3} [{low:+.3}, {high:+.3}]");
        text += &format!("  change {}\n", change(self.change));
        if let Some(against) = &self.against {
            text += &format!(
                "  against {} ({:.3}): {}; with a margin of {} {}\n",
                one_line(&against.name),
                against.reached.metric(),
                change(against.change),
                against.margin,
                if against.no_worse() { "no worse" } else { "not shown to be no worse" }
            );
        }
        text
    }
}
