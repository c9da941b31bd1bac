//! From the text of a plan to the plan, or to what is wrong with it: file, line and key.

use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use super::{Data, LOSSES, Metric, Plan, SCORES};
use crate::config::Task;
use crate::error::{Error, Result};
use crate::study::cell::Way;

/// Most of what is counted in a plan: what the flags of the other commands take.
const MOST: usize = 65_535;
/// Most random masks of a kind.
const DRAWS: usize = 10_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Raw {
    model: Option<String>,
    revision: Option<String>,
    tokenizer: Option<String>,
    task: Option<Spanned<String>>,
    data: Option<Spanned<String>>,
    file: Option<Spanned<String>>,
    loss: Option<Spanned<String>>,
    mask_share: Option<Spanned<f64>>,
    metric: Option<Spanned<String>>,
    probe: Option<Spanned<String>>,
    strategies: Option<Spanned<Vec<String>>>,
    scores: Option<Spanned<Vec<String>>>,
    fractions: Option<Spanned<Vec<f64>>>,
    seeds: Option<Spanned<Vec<u64>>>,
    items: Option<Spanned<usize>>,
    random: Option<Spanned<usize>>,
    layer_matched: Option<Spanned<usize>>,
    rounds: Option<Spanned<usize>>,
    by_layer: Option<bool>,
    steps: Option<Spanned<usize>>,
    probes: Option<Spanned<usize>>,
    allow_empty_layers: Option<bool>,
    batch_size: Option<Spanned<usize>>,
    max_length: Option<Spanned<usize>>,
    resamplings: Option<Spanned<usize>>,
    out: Option<String>,
}

const KEYS: [&str; 26] = [
    "model",
    "revision",
    "tokenizer",
    "task",
    "data",
    "file",
    "loss",
    "mask-share",
    "metric",
    "probe",
    "strategies",
    "scores",
    "fractions",
    "seeds",
    "items",
    "random",
    "layer-matched",
    "rounds",
    "by-layer",
    "steps",
    "probes",
    "allow-empty-layers",
    "batch-size",
    "max-length",
    "resamplings",
    "out",
];

/// The text of a plan, for messages that name a place in it.
pub(super) struct Page<'a> {
    pub text: &'a str,
    pub path: &'a Path,
}

impl Page<'_> {
    pub fn plan(&self) -> Result<Plan> {
        let raw: Raw = toml::from_str(self.text).map_err(|error| self.not_toml(&error))?;
        self.checked(raw)
    }

    fn at(&self, offset: usize) -> String {
        let line = self.text.get(..offset).unwrap_or(self.text).matches('\n').count() + 1;
        format!("{}, line {line}", self.path.display())
    }

    fn wrong(&self, span: Range<usize>, key: &str, want: &str, found: impl ToString) -> Error {
        let why = format!("`{key}`: expected {want}, found {}", found.to_string());
        Error::input(self.at(span.start), why)
    }

    fn not_toml(&self, error: &toml::de::Error) -> Error {
        let Some(span) = error.span() else {
            return Error::input(self.path.display().to_string(), error.message());
        };
        let quoted = error.message().strip_prefix("unknown field `");
        if let Some(key) = quoted.and_then(|rest| rest.split('`').next()) {
            let near = KEYS.iter().max_by(|a, b| {
                strsim::jaro_winkler(a, key).total_cmp(&strsim::jaro_winkler(b, key))
            });
            let hint = near.filter(|near| strsim::jaro_winkler(near, key) > 0.8);
            let hint = match hint {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("keys are {}", KEYS.join(", ")),
            };
            return Error::input(self.at(span.start), format!("`{key}`: no such key; {hint}"));
        }
        // where a value is wrong, the key stands before it, on its line or on one above
        let before = self.text.get(..span.start).unwrap_or_default();
        let keys = before.lines().rev().filter_map(|line| line.split_once('='));
        let key = keys.map(|(key, _)| key.trim()).find(|key| KEYS.contains(key));
        let why = error.message().replace('\n', " ");
        let why = match (key, why.starts_with("invalid")) {
            (Some(key), true) => format!("`{key}`: {why}"),
            _ => why,
        };
        Error::input(self.at(span.start), why)
    }

    fn checked(&self, raw: Raw) -> Result<Plan> {
        let folder = self.path.parent().unwrap_or(Path::new(""));
        // what is there beside the plan is meant; any other name is a Hub id or a set's
        let beside = |name: String| match folder.join(&name) {
            path if path.exists() => path.display().to_string(),
            _ => name,
        };
        let strategies = self.strategies(raw.strategies)?;
        let fractions = self.fractions(raw.fractions)?;
        let items = self.count("items", raw.items, 1..=MOST)?;
        let stem = self.path.file_stem().map(PathBuf::from).unwrap_or_else(|| "study".into());
        let scored = strategies.iter().any(|way| way.scores());
        Ok(Plan {
            path: self.path.into(),
            model: raw.model.map(beside),
            revision: raw.revision,
            tokenizer: raw.tokenizer.map(|name| folder.join(name)),
            task: self.task(raw.task)?,
            metric: self.metric(raw.metric, raw.file.is_some())?,
            refit: self.refit(raw.probe, raw.file.is_some())?,
            data: self.data((raw.data, raw.file), raw.loss, raw.mask_share, beside)?,
            scores: self.scores(raw.scores, scored)?,
            seeds: self.seeds(raw.seeds, items)?,
            strategies,
            fractions,
            items,
            random: self.count("random", raw.random, 0..=DRAWS)?.unwrap_or(20),
            layer_matched: self.count("layer-matched", raw.layer_matched, 0..=DRAWS)?.unwrap_or(0),
            rounds: self.count("rounds", raw.rounds, 1..=MOST)?,
            by_layer: raw.by_layer.unwrap_or(false),
            steps: self.count("steps", raw.steps, 1..=MOST)?.unwrap_or(10),
            probes: self.count("probes", raw.probes, 1..=MOST)?.unwrap_or(8),
            allow_empty_layers: raw.allow_empty_layers.unwrap_or(false),
            batch_size: self.count("batch-size", raw.batch_size, 1..=MOST)?.unwrap_or(16),
            max_length: self.count("max-length", raw.max_length, 2..=1 << 24)?,
            resamplings: self.count("resamplings", raw.resamplings, 1..=100_000)?.unwrap_or(1000),
            out: folder.join(raw.out.map_or(stem, PathBuf::from)),
        })
    }

    fn missing(&self, key: &str, want: &str) -> Error {
        Error::input(self.path.display().to_string(), format!("`{key}` is missing: {want}"))
    }

    /// A number of things, within what makes sense of them.
    fn count(
        &self,
        key: &str,
        found: Option<Spanned<usize>>,
        within: RangeInclusive<usize>,
    ) -> Result<Option<usize>> {
        match found {
            Some(found) if !within.contains(found.get_ref()) => {
                let want = format!("a number from {} to {}", within.start(), within.end());
                Err(self.wrong(found.span(), key, &want, found.get_ref()))
            }
            found => Ok(found.map(Spanned::into_inner)),
        }
    }

    /// One of some names.
    fn one_of(&self, key: &str, found: &Spanned<String>, names: &[&str]) -> Result<()> {
        match names.contains(&found.get_ref().as_str()) {
            true => Ok(()),
            false => {
                let want = format!("one of {}", names.join(", "));
                Err(self.wrong(found.span(), key, &want, format!("`{}`", found.get_ref())))
            }
        }
    }

    /// Names without one twice.
    fn several(
        &self,
        key: &str,
        found: Spanned<Vec<String>>,
        names: &[&str],
    ) -> Result<Vec<String>> {
        let span = found.span();
        let found = found.into_inner();
        if found.is_empty() {
            return Err(self.wrong(span, key, "at least one", "none"));
        }
        for (i, name) in found.iter().enumerate() {
            self.one_of(key, &Spanned::new(span.clone(), name.clone()), names)?;
            if found[..i].contains(name) {
                return Err(self.wrong(span, key, "each once", format!("`{name}` twice")));
            }
        }
        Ok(found)
    }

    fn task(&self, found: Option<Spanned<String>>) -> Result<Option<Task>> {
        let Some(found) = found else { return Ok(None) };
        self.one_of("task", &found, &Task::NAMES.map(|(name, _)| name))?;
        Ok(Task::NAMES.iter().find(|(name, _)| name == found.get_ref()).map(|&(_, task)| task))
    }

    fn metric(&self, found: Option<Spanned<String>>, texts: bool) -> Result<Option<Metric>> {
        let Some(found) = found else { return Ok(None) };
        if texts {
            let want = "none beside `file`, whose metric is its loss";
            return Err(self.wrong(found.span(), "metric", want, found.get_ref()));
        }
        self.one_of("metric", &found, &["spearman", "pearson"])?;
        Ok(Some(match found.get_ref().as_str() {
            "pearson" => Metric::Pearson,
            _ => Metric::Spearman,
        }))
    }

    fn refit(&self, found: Option<Spanned<String>>, texts: bool) -> Result<bool> {
        let Some(found) = found else { return Ok(true) };
        if texts {
            let want = "none beside `file`, whose texts have no labels";
            return Err(self.wrong(found.span(), "probe", want, found.get_ref()));
        }
        self.one_of("probe", &found, &["refit", "kept"])?;
        Ok(found.get_ref() == "refit")
    }

    fn data(
        &self,
        places: (Option<Spanned<String>>, Option<Spanned<String>>),
        loss: Option<Spanned<String>>,
        mask_share: Option<Spanned<f64>>,
        beside: impl Fn(String) -> String,
    ) -> Result<Data> {
        match places {
            (Some(_), Some(file)) => {
                Err(self.wrong(file.span(), "file", "either `data` or `file`", "both"))
            }
            (None, None) => {
                Err(self.missing("data", "a labelled set (sentiment, pairs or a file), or `file`"))
            }
            (Some(name), None) => match loss
                .map(|l| ("loss", l.span()))
                .or(mask_share.map(|m| ("mask-share", m.span())))
            {
                Some((key, span)) => {
                    Err(self.wrong(span, key, "none beside `data`, which has labels", "one"))
                }
                None => Ok(Data::Labelled(match name.into_inner() {
                    name if name == "sentiment" || name == "pairs" => name,
                    name => beside(name),
                })),
            },
            (None, Some(file)) => {
                if let Some(loss) = &loss {
                    self.one_of("loss", loss, &LOSSES)?;
                }
                let share = mask_share.as_ref().map_or(0.15, |share| *share.get_ref());
                if let Some(given) = mask_share.filter(|_| !(share > 0.0 && share <= 1.0)) {
                    let want = "a share above 0 and up to 1";
                    return Err(self.wrong(given.span(), "mask-share", want, share));
                }
                let file = PathBuf::from(beside(file.into_inner()));
                let loss = loss.map(Spanned::into_inner);
                Ok(Data::Texts { file, loss, mask_share: share })
            }
        }
    }

    fn strategies(&self, found: Option<Spanned<Vec<String>>>) -> Result<Vec<Way>> {
        let Some(found) = found else { return Ok(vec![Way::OneShot]) };
        if let Some(at) = found.get_ref().iter().position(|name| name == "random") {
            let want = format!("one-shot, iterative or greedy (`random = {}` draws masks)", 20);
            return Err(self.wrong(found.span(), "strategies", &want, &found.get_ref()[at]));
        }
        let names = Way::ALL.map(Way::name);
        let named = self.several("strategies", found, &names)?;
        let way = |name: &String| Way::ALL.into_iter().find(|way| way.name() == name);
        Ok(named.iter().filter_map(way).collect())
    }

    fn scores(&self, found: Option<Spanned<Vec<String>>>, asked: bool) -> Result<Vec<String>> {
        match found {
            Some(found) => self.several("scores", found, &SCORES),
            None if asked => Err(self.missing("scores", &format!("some of {}", SCORES.join(", ")))),
            None => Ok(Vec::new()),
        }
    }

    fn fractions(&self, found: Option<Spanned<Vec<f64>>>) -> Result<Vec<f64>> {
        let Some(found) = found else {
            return Ok((1..10).map(|tenth| f64::from(tenth) / 10.0).collect());
        };
        let inside = found.get_ref().iter().all(|share| *share > 0.0 && *share <= 1.0);
        let rising = found.get_ref().windows(2).all(|pair| pair[0] < pair[1]);
        if found.get_ref().is_empty() || !inside || !rising {
            let want = "rising shares of the heads to remove, above 0 and up to 1";
            let numbers: Vec<String> = found.get_ref().iter().map(f64::to_string).collect();
            let numbers = format!("[{}]", numbers.join(", "));
            return Err(self.wrong(found.span(), "fractions", want, numbers));
        }
        Ok(found.into_inner())
    }

    fn seeds(&self, found: Option<Spanned<Vec<u64>>>, items: Option<usize>) -> Result<Vec<u64>> {
        let Some(found) = found else { return Ok(vec![0]) };
        let (span, seeds) = (found.span(), found.into_inner());
        if seeds.is_empty() || seeds.iter().enumerate().any(|(i, seed)| seeds[..i].contains(seed)) {
            return Err(self.wrong(span, "seeds", "numbers, each once", format!("{seeds:?}")));
        }
        if seeds.len() > 1 && items.is_none() {
            let want = "one seed, or `items` as well: how many items of the part for training each \
                        seed draws to score on";
            return Err(self.wrong(span, "seeds", want, format!("{seeds:?}")));
        }
        Ok(seeds)
    }
}
