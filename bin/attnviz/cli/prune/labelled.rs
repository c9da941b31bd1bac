//! What a model makes of a labelled set before and after, for a reader.

use attnviz::task::{Effect, McNemar, Reached, Set, Told, effect, mcnemar};
use serde_json::{Value, json};

use super::table::number;

/// Resamplings behind intervals and tests.
const ROUNDS: usize = 2000;

/// What pruning changed on a labelled set.
pub struct Report {
    name: String,
    means: String,
    items: usize,
    told: Option<(Told, Told)>,
    correlations: Option<((f64, f64), (f64, f64))>,
    /// Of the accuracy, item by item.
    change: Option<Effect>,
    mcnemar: Option<McNemar>,
    /// Of Spearman's correlation, with its interval.
    spearman_change: (f64, (f64, f64)),
}

impl Report {
    /// Both models on the part for reports.
    pub fn new(set: &Set, before: &Reached, after: &Reached, seed: u64) -> Self {
        let right = after.right().into_iter().zip(before.right());
        let differences: Vec<f64> = right.map(|(after, before)| after - before).collect();
        Self {
            name: set.name().into(),
            means: set.by(),
            items: before.items(),
            told: before.told().zip(after.told()),
            correlations: before.correlations().zip(after.correlations()),
            mcnemar: before.flags().zip(after.flags()).map(|(a, b)| mcnemar(&a, &b)),
            spearman_change: before.change(after, ROUNDS, seed),
            change: (!differences.is_empty()).then(|| effect(&differences, ROUNDS, seed)),
        }
    }

    pub fn json(&self) -> Value {
        json!({
            "data": self.name,
            "items": self.items,
            "by": self.means,
            "before": self.told.map(|(before, _)| before),
            "after": self.told.map(|(_, after)| after),
            "accuracy_change": self.change,
            "mcnemar": self.mcnemar,
            "spearman": self.correlations.map(|(before, after)| [before.0, after.0]),
            "spearman_change": self.correlations.map(|_| self.spearman_change),
            "pearson": self.correlations.map(|(before, after)| [before.1, after.1]),
        })
    }

    pub fn text(&self) -> String {
        let mut text =
            format!("{}, {} items for reports, {}:\n", self.name, self.items, self.means);
        if let Some((before, after)) = self.told {
            let pair = |name, a: f64, b: f64| format!("{name} {a:.3} -> {b:.3}");
            let parts = [
                pair("accuracy", before.accuracy, after.accuracy),
                pair("F1", before.f1, after.f1),
                pair("Matthews", before.matthews, after.matthews),
            ];
            text += &format!("  {}\n", parts.join(", "));
        }
        if let Some(change) = self.change {
            let (low, high) = change.interval;
            text += &format!(
                "  change of accuracy {} [{}, {}] (bootstrap, 95 %), d {},\n  \
                 p {:.3} (signs at random)",
                number(change.mean),
                number(low),
                number(high),
                number(change.size),
                change.p
            );
            if let Some(McNemar { lost, gained, p }) = self.mcnemar {
                text += &format!(", {p:.3} (McNemar: {lost} lost, {gained} gained)");
            }
            text.push('\n');
        }
        if let Some((before, after)) = self.correlations {
            text += &format!(
                "  Spearman {:.3} -> {:.3}, Pearson {:.3} -> {:.3}\n",
                before.0, after.0, before.1, after.1
            );
            let (change, (low, high)) = self.spearman_change;
            let (change, low, high) = (number(change), number(low), number(high));
            text += &format!("  change of Spearman {change} [{low}, {high}] (bootstrap, 95 %)\n");
        }
        text
    }
}
