//! What the model still does on the way to the heads that go, for a reader.

use std::collections::BTreeSet;

use attnviz::prune::{HeadMeans, StackHead, heads_left, off};
use attnviz::task::{Outputs, Reached, Split, cosines, effect, outputs};
use attnviz::{Intervention, Model, Result};
use serde_json::{Value, json};

use super::loss::Loss;
use super::table::number;
use super::texts::Texts;

/// Resamplings behind intervals.
const ROUNDS: usize = 1000;

/// The metric on the items for reports, set by set of heads that are off.
pub struct Curve {
    /// What the unpruned model reaches, where there are labels.
    pub unpruned: Option<Reached>,
    metric: &'static str,
    points: Vec<Point>,
}

/// The metric without some heads.
struct Point {
    left: usize,
    metric: f64,
    interval: (f64, f64),
}

impl Curve {
    /// Runs the unpruned model and then each of the masks, by gates.
    pub fn new(
        model: &Model,
        read: &Texts,
        masks: &[BTreeSet<StackHead>],
        means: Option<&HeadMeans>,
        seed: u64,
    ) -> Result<Self> {
        let unpruned = match read.set {
            None => Some(outputs(model, read.test(), &[], &[])?),
            Some(_) => None,
        };
        let all = heads_left(model.config()).len();
        let mut curve = Self { unpruned: None, metric: "", points: Vec::new() };
        for mask in std::iter::once(&BTreeSet::new()).chain(masks) {
            let changes = means.map_or_else(|| off(mask), |means| means.off(mask));
            let left = all - mask.len();
            if let Some(set) = &read.set {
                let reached = set.reached(model, &changes, Split::Test)?;
                let (metric, interval) = (reached.metric(), reached.interval(ROUNDS, seed));
                curve.metric = reached.metric_name();
                curve.points.push(Point { left, metric, interval });
                curve.unpruned.get_or_insert(reached);
                continue;
            }
            let (name, each) = by_text(model, read, unpruned.as_ref(), &changes)?;
            let found = effect(&each, ROUNDS, seed);
            curve.metric = name;
            curve.points.push(Point { left, metric: found.mean, interval: found.interval });
        }
        Ok(curve)
    }

    pub fn json(&self) -> Value {
        let point = |one: &Point| {
            json!({ "heads_left": one.left, "metric": one.metric,
                                         "interval": one.interval })
        };
        json!({ "metric": self.metric, "points": self.points.iter().map(point).collect::<Vec<_>>() })
    }

    pub fn text(&self) -> String {
        let mut text = format!("heads left   {}\n", self.metric);
        for Point { left, metric, interval: (low, high) } in &self.points {
            let (metric, low, high) = (number(*metric), number(*low), number(*high));
            text += &format!("{left:>10}   {metric} [{low}, {high}]\n");
        }
        text + "with 95 % intervals by the bootstrap over items\n"
    }
}

/// The name of the metric, and what it is of each text.
fn by_text(
    model: &Model,
    read: &Texts,
    unpruned: Option<&Outputs>,
    changes: &[Intervention],
) -> Result<(&'static str, Vec<f64>)> {
    let changed = outputs(model, read.test(), changes, &[])?;
    Ok(match (read.loss, unpruned) {
        (Some(loss), _) if loss.signed() => (loss.name(), changed.losses),
        (_, Some(unpruned)) => ("cosine to the unpruned embeddings", cosines(unpruned, &changed)?),
        _ => (Loss::Embedding.name(), Vec::new()),
    })
}
