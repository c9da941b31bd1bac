//! What a run came to.

use std::time::Duration;

use attnviz::Model;
use attnviz::picture::{Chart, Line, Panel};
use attnviz::train::{Examples, Point, Tuned, Windows};
use serde_json::{Value, json};

use super::super::args::TrainArgs;
use super::super::console::{one_line, plain};
use super::super::report::many;
use super::samples::TEMPERATURE;

/// Everything there is to report.
pub struct Found {
    out: String,
    text: String,
    parameters: usize,
    vocabulary: usize,
    tokens: (usize, usize),
    context: usize,
    /// To learn from, and for validation.
    windows: (usize, usize),
    points: Vec<Point>,
    files: Vec<String>,
    seconds: f64,
    pub samples: Vec<String>,
}

/// A look at validation in a line.
pub fn line(point: &Point) -> String {
    format!("step {}: training loss {:.3}, {}", point.step, point.loss, validation(point))
}

/// The same beside a bar.
pub fn short(point: &Point) -> String {
    format!("validation {:.3}, steps", -point.worth)
}

fn validation(point: &Point) -> String {
    let loss = -point.worth;
    format!("validation {loss:.3} nats, perplexity {:.1}", loss.exp())
}

impl Found {
    pub fn new(args: &TrainArgs, model: &Model, windows: &Windows) -> Self {
        Self {
            out: args.out.display().to_string(),
            text: args.text.display().to_string(),
            parameters: model.report().parameters,
            vocabulary: model.config().vocab_size,
            tokens: windows.tokens,
            context: args.course.context,
            windows: (windows.learnt.count(), windows.held.count()),
            points: Vec::new(),
            files: Vec::new(),
            seconds: 0.0,
            samples: Vec::new(),
        }
    }

    pub fn took(&mut self, tuned: Tuned, time: Duration) {
        self.points = tuned.points.into_iter().flatten().collect();
        self.files = tuned.files;
        self.seconds = time.as_secs_f64();
    }

    /// What is going to be trained on what.
    pub fn about(&self) -> String {
        let (tokens, unknown) = self.tokens;
        format!(
            "{}: {}, {unknown} unknown to a vocabulary of {}\n\
             {} of {} tokens to learn from, {} for validation; {} parameters\n",
            one_line(&self.text),
            many(tokens, "token"),
            self.vocabulary,
            many(self.windows.0, "window"),
            self.context,
            self.windows.1,
            self.parameters
        )
    }

    /// The look whose weights were kept.
    fn best<'p>(&'p self) -> Option<&'p Point> {
        let first = self.points.first()?;
        // of equal ones the first, as the run keeps them
        let better =
            |best: &'p Point, one: &'p Point| if one.worth > best.worth { one } else { best };
        Some(self.points.iter().fold(first, better))
    }

    /// Loss by step.
    pub fn chart(&self) -> Chart {
        let line = |name: &str, colour, y: &dyn Fn(&Point) -> f64| Line {
            name: name.into(),
            colour,
            points: self.points.iter().map(|point| (point.step as f64, y(point))).collect(),
            ..Line::default()
        };
        let training = line("training", 1, &|point| point.loss);
        let validation = line("validation", 2, &|point| -point.worth);
        Chart {
            title: one_line(&self.out),
            x: "step".into(),
            y: "nats per token".into(),
            panels: vec![Panel { title: String::new(), curves: vec![training, validation] }],
            notes: Vec::new(),
        }
    }

    pub fn json(&self) -> String {
        let point = |point: &Point| {
            json!({
                "step": point.step,
                "training": point.loss,
                "validation": -point.worth,
                "perplexity": (-point.worth).exp(),
            })
        };
        let all = json!({
            "folder": self.out,
            "text": self.text,
            "parameters": self.parameters,
            "vocabulary": self.vocabulary,
            "tokens": self.tokens.0,
            "unknown": self.tokens.1,
            "windows": { "tokens": self.context, "training": self.windows.0, "validation": self.windows.1 },
            "best": self.best().map(point),
            "looks": self.points.iter().map(point).collect::<Vec<Value>>(),
            "seconds": self.seconds,
            "samples": self.samples,
            "files": self.files,
        });
        format!("{all:#}\n")
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        for point in &self.points {
            text += &format!("{}\n", line(point));
        }
        if let Some(best) = self.best() {
            text += &format!("kept: step {}, {}\n", best.step, validation(best));
        }
        if !self.samples.is_empty() {
            text += &format!("written at temperature {TEMPERATURE}:\n");
        }
        for sample in &self.samples {
            text += &format!("  {}\n", plain(sample));
        }
        text + &format!("{}: the model, training.json and training.png\n", one_line(&self.out))
    }
}
