//! A model with the texts that a plan names.

use std::collections::BTreeSet;

use super::cell::{Cell, Choice, Way};
use super::draw::draw;
use super::hash::{model_hash, texts_hash};
use super::metric::Against;
use super::plan::Plan;
use super::run::Bench;
use super::store::{About, Source};
use crate::error::{Error, Result};
use crate::hub::ModelFiles;
use crate::model::Model;
use crate::prune::{Chooser, Removal, Score, StackHead, Strategy, heads_left, off};
use crate::task::{Answers, Outputs, Reached, Sample, Set, Split, cosines, outputs};
use crate::trace::Intervention;
use crate::train::Penalty;

/// What must not get worse.
pub enum Texts {
    /// A labelled set, encoded for the model.
    Labelled(Box<Set>),
    /// Texts without labels.
    Plain(Plain),
}

/// Texts without labels, in batches with their targets.
pub struct Plain {
    /// What they are called.
    pub name: String,
    /// What heads are scored on.
    pub train: Vec<Sample>,
    /// What greedy choices are made by.
    pub validation: Vec<Sample>,
    /// What curves are of.
    pub test: Vec<Sample>,
    /// What is measured of each text.
    pub measure: Measure,
}

/// What is measured of a text without labels, the larger the better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Minus its loss.
    Loss,
    /// The centred cosine of its embedding to the unpruned model's.
    Likeness,
    /// Minus the divergence from the unpruned model's distributions, in nats.
    Divergence,
}

impl Measure {
    fn name(self) -> &'static str {
        match self {
            Self::Loss => "minus the loss",
            Self::Likeness => "cosine to the unpruned embeddings",
            Self::Divergence => "minus the divergence from the unpruned logits",
        }
    }
}

/// A model with texts: the [`Bench`] of a plan.
pub struct Subject {
    plan: Plan,
    model: Model,
    texts: Texts,
    /// What heads are scored on.
    train: Vec<Sample>,
    about: About,
    /// Of the unpruned model, for what compares with it.
    unpruned: Option<Outputs>,
}

impl Subject {
    /// Gets a model ready with what the plan measures on. `files` are those that it was loaded from.
    ///
    /// # Errors
    /// [`Error::Input`] for a score that needs a loss that the texts do not have, and for texts
    /// without a part for tests; [`Error::Io`] where the model's files cannot be read again; those of
    /// [`Model::forward`].
    pub fn new(plan: &Plan, model: Model, files: &ModelFiles, texts: Texts) -> Result<Self> {
        let train = match &texts {
            Texts::Labelled(set) => set.samples(&model, Split::Train)?,
            Texts::Plain(plain) => plain.train.clone(),
        };
        has_losses(plan, &train)?;
        let (name, means) = match &texts {
            Texts::Labelled(set) => {
                let kept = if plan.refit || !set.has_loss() { "" } else { ", never refitted" };
                (set.name().to_owned(), set.by() + kept)
            }
            Texts::Plain(plain) => (plain.name.clone(), plain.measure.name().to_owned()),
        };
        let about = About {
            settings: plan.settings(),
            model: Source { name: model.report().name.clone(), sha256: model_hash(files)? },
            data: Source { name, sha256: texts_hash(&texts, &train, &model)? },
            measure: String::new(),
            means,
            heads: running(&model, &train).len(),
            against: Against::Counts(Vec::new()),
        };
        let mut subject = Self { plan: plan.clone(), model, texts, train, about, unpruned: None };
        (subject.about.against, subject.about.measure) = subject.against()?;
        match subject.about.against.items() {
            0 => Err(Error::input(&subject.about.data.name, "holds no items for tests")),
            _ => Ok(subject),
        }
    }

    /// What items are held against, and what that measures.
    fn against(&mut self) -> Result<(Against, String)> {
        match &self.texts {
            Texts::Labelled(set) => {
                let reached = self.reached(set, &[])?;
                let against = match &reached.answers {
                    Answers::Classes { items, .. } => {
                        Against::Counts(items.iter().map(|item| item.len() as f64).collect())
                    }
                    Answers::Pairs(pairs) => {
                        Against::Scores(pairs.iter().map(|pair| pair.1).collect())
                    }
                };
                Ok((against, reached.metric_name().to_owned()))
            }
            Texts::Plain(plain) => {
                let unpruned = outputs(&self.model, &plain.test, &[], &[])?;
                let count = unpruned.embeddings.nrows();
                self.unpruned = Some(unpruned);
                Ok((Against::Counts(vec![1.0; count]), plain.measure.name().to_owned()))
            }
        }
    }

    fn reached(&self, set: &Set, changes: &[Intervention]) -> Result<Reached> {
        match self.plan.refit {
            true => set.reached(&self.model, changes, Split::Test),
            false => set.reached_untrained(&self.model, changes, Split::Test),
        }
    }

    fn strategy(&self, cell: &Cell, like: &[BTreeSet<StackHead>]) -> Strategy {
        match cell {
            Cell::Chosen(Choice { way: Way::OneShot, .. }) => Strategy::OneShot,
            Cell::Chosen(Choice { way: Way::Iterative, .. }) => {
                Strategy::Iterative { rounds: self.plan.rounds() }
            }
            Cell::Chosen(Choice { way: Way::Greedy, .. }) => Strategy::Greedy,
            // other draws for another seed
            Cell::Matched(choice, draw) => Strategy::RandomLike {
                seed: choice.seed.wrapping_mul(1 << 20).wrapping_add(*draw as u64),
                masks: like.to_vec(),
            },
            Cell::Random(draw) => Strategy::Random { seed: *draw as u64 },
        }
    }

    fn worth(&self, changes: &[Intervention]) -> Result<f64> {
        match &self.texts {
            Texts::Labelled(set) => set.worth(&self.model, changes, Split::Validation),
            Texts::Plain(plain) => {
                let found = self.measured(plain, &plain.validation, None, changes)?;
                Ok(found.iter().sum::<f64>() / found.len().max(1) as f64)
            }
        }
    }

    /// Text by text, what a measure says.
    fn measured(
        &self,
        plain: &Plain,
        samples: &[Sample],
        unpruned: Option<&Outputs>,
        changes: &[Intervention],
    ) -> Result<Vec<f64>> {
        let targets: Vec<_> = match plain.measure {
            Measure::Divergence => samples.iter().filter_map(|s| s.target.clone()).collect(),
            _ => Vec::new(),
        };
        let changed = outputs(&self.model, samples, changes, &targets)?;
        match plain.measure {
            Measure::Loss => Ok(changed.losses.iter().map(|loss| -loss).collect()),
            Measure::Divergence => Ok(changed.divergences.iter().map(|nats| -nats).collect()),
            Measure::Likeness => match unpruned {
                Some(unpruned) => cosines(unpruned, &changed),
                None => cosines(&outputs(&self.model, samples, &[], &[])?, &changed),
            },
        }
    }
}

impl Bench for Subject {
    fn about(&self) -> &About {
        &self.about
    }

    fn masks(&self, cell: &Cell, like: &[BTreeSet<StackHead>]) -> Result<Vec<BTreeSet<StackHead>>> {
        let (name, seed) = match cell {
            Cell::Chosen(choice) | Cell::Matched(choice, _) => {
                (choice.score.as_deref(), choice.seed)
            }
            Cell::Random(_) => (None, 0),
        };
        let drawn = match (self.plan.items, cell) {
            (Some(items), Cell::Chosen(_)) => draw(&self.train, items, seed)?,
            _ => self.train.clone(),
        };
        let chooser = Chooser {
            model: &self.model,
            score: score(&self.plan, name, seed),
            by_layer: self.plan.by_layer,
            samples: &drawn,
            worth: &|changes| self.worth(changes),
            allow_empty: self.plan.allow_empty_layers,
            progress: &|_, _| (),
        };
        chooser.masks(&self.strategy(cell, like), &self.plan.fractions)
    }

    fn found(&self, gone: &BTreeSet<StackHead>) -> Result<Vec<f64>> {
        let changes = off(gone);
        match &self.texts {
            Texts::Labelled(set) => Ok(match self.reached(set, &changes)?.answers {
                Answers::Classes { items, .. } => {
                    let right = |item: &Vec<(u32, u32)>| {
                        item.iter().filter(|(told, is)| told == is).count() as f64
                    };
                    items.iter().map(right).collect()
                }
                Answers::Pairs(pairs) => pairs.iter().map(|pair| pair.0).collect(),
            }),
            Texts::Plain(plain) => {
                self.measured(plain, &plain.test, self.unpruned.as_ref(), &changes)
            }
        }
    }

    fn heads(&self, names: &[String]) -> Result<BTreeSet<StackHead>> {
        let mut heads = BTreeSet::new();
        for name in names {
            heads.extend(name.parse::<Removal>()?.resolve(self.model.config())?);
        }
        Ok(heads)
    }
}

/// Steps in which gates are trained.
const GATE_STEPS: usize = 200;

fn score(plan: &Plan, name: Option<&str>, seed: u64) -> Score {
    match name {
        Some("gradient") => Score::Gradient,
        Some("fisher") => Score::Fisher,
        Some("integrated") => Score::Integrated { steps: plan.steps },
        Some("confidence") => Score::Confidence,
        Some("output-norm") => Score::OutputNorm,
        Some("l0") => Score::Learned { penalty: Penalty::L0, steps: GATE_STEPS, seed },
        Some("l1") => Score::Learned { penalty: Penalty::L1, steps: GATE_STEPS, seed },
        _ => Score::Jacobian { probes: plan.probes, seed },
    }
}

/// Refuses scores of losses that are not there before anything is computed.
fn has_losses(plan: &Plan, train: &[Sample]) -> Result<()> {
    let wrong = |name: &str, why: &str| {
        let why = format!(
            "`scores`: {name} {why}; without labels there are jacobian, confidence \
                           and output-norm"
        );
        Err(Error::input(plan.path.display().to_string(), why))
    };
    for name in &plan.scores {
        let score = score(plan, Some(name), 0);
        let target = train.iter().find_map(|sample| sample.target.as_ref());
        match target {
            None if score.needs_loss() => {
                return wrong(name, "needs a loss, and the texts have none");
            }
            Some(target) if target.is_unpruned_model() && score.is_slope() => {
                return wrong(name, "is 0 of a loss that compares with the unpruned model");
            }
            _ => {}
        }
    }
    Ok(())
}

/// The heads of the stacks that run: of an encoder-decoder without texts to write the encoder's.
fn running(model: &Model, samples: &[Sample]) -> BTreeSet<StackHead> {
    let whole = samples.iter().any(|sample| sample.written.is_some());
    let first = model.config().stack();
    let all = heads_left(model.config()).into_iter();
    all.filter(|one| whole || one.stack == first).collect()
}
