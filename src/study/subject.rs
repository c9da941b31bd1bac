//! A model with the texts that a plan names.

use std::collections::BTreeSet;

use super::cell::{Cell, Choice, Way};
use super::draw::draw;
use super::hash::{model_hash, texts_hash};
use super::metric::Against;
use super::plan::Plan;
use super::run::Bench;
use super::store::{About, Source};
use super::texts::{Held, Texts};
use crate::error::{Error, Result};
use crate::hub::ModelFiles;
use crate::model::Model;
use crate::prune::{Chooser, Removal, Score, Scoring, StackHead, Strategy, heads_left, off};
use crate::task::{Answers, Outputs, Reached, Sample, Set, Split, outputs};
use crate::trace::Intervention;

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
    /// [`Error::Input`] for a score that needs a loss that the texts do not have, for a metric of pairs
    /// where there are none, and for texts without a part for tests; [`Error::Io`] where the model's files cannot be read again; those of
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
        if let (Some(metric), Against::Counts(_)) = (plan.metric, &subject.about.against) {
            let why = format!(
                "`metric`: expected none for {}, whose metric is {}, found {}",
                subject.about.data.name,
                subject.about.measure,
                metric.name()
            );
            return Err(Error::input(plan.path.display().to_string(), why));
        }
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
}

impl Bench for Subject {
    fn about(&self) -> &About {
        &self.about
    }

    fn masks(
        &self,
        cell: &Cell,
        like: &[BTreeSet<StackHead>],
        told: &dyn Fn(usize, usize),
    ) -> Result<Vec<BTreeSet<StackHead>>> {
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
        let strategy = self.strategy(cell, like);
        let held = match strategy {
            Strategy::Greedy => {
                Some(Held::of(&self.texts, &self.model, self.plan.greedy_items, seed)?)
            }
            _ => None,
        };
        let chooser = Chooser {
            model: &self.model,
            score: score(&self.plan, name.unwrap_or("jacobian"), seed),
            by_layer: self.plan.by_layer,
            samples: &drawn,
            worth: &|changes| {
                held.as_ref().map_or(Ok(0.0), |held| held.worth(&self.model, changes))
            },
            allow_empty: self.plan.allow_empty_layers,
            progress: told,
        };
        chooser.masks(&strategy, &self.plan.fractions)
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
            Texts::Plain(plain) => match &self.unpruned {
                Some(unpruned) => plain.measure.found(&self.model, &plain.test, unpruned, &changes),
                None => Ok(Vec::new()),
            },
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

/// The plan has names of scores alone.
fn score(plan: &Plan, name: &str, seed: u64) -> Score {
    let with = Scoring { points: plan.steps, probes: plan.probes, seed, ..Scoring::default() };
    Score::named(name, with).unwrap_or(Score::Confidence)
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
        let score = score(plan, name, 0);
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
