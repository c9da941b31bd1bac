//! The keys of a plan, and what each may be.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use super::page::Page;
use super::{Data, LOSSES, Metric, Plan};
use crate::config::Task;
use crate::error::Result;
use crate::prune::Score;
use crate::study::cell::Way;

/// Most of what is counted in a plan: what the flags of the other commands take.
const MOST: usize = 65_535;
/// Most random masks of a kind.
const DRAWS: usize = 10_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Keys {
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
    greedy_items: Option<Spanned<usize>>,
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

impl Keys {
    /// The plan, or what is wrong with it.
    pub fn plan(self, page: &Page<'_>) -> Result<Plan> {
        let folder = page.path.parent().unwrap_or(Path::new(""));
        // what is there beside the plan is meant; any other name is a Hub id or a set's
        let beside = |name: String| match folder.join(&name) {
            path if path.exists() => path.display().to_string(),
            _ => name,
        };
        let strategies = strategies(page, self.strategies)?;
        let fractions = fractions(page, self.fractions)?;
        let items = page.count("items", self.items, 1..=MOST)?;
        let greedy_items = page.count("greedy-items", self.greedy_items, 1..=MOST)?;
        let stem = page.path.file_stem().map(PathBuf::from).unwrap_or_else(|| "study".into());
        let scored = strategies.iter().any(|way| way.scores());
        let greedy = strategies.contains(&Way::Greedy);
        Ok(Plan {
            path: page.path.into(),
            model: self.model.map(beside),
            revision: self.revision,
            tokenizer: self.tokenizer.map(|name| folder.join(name)),
            task: task(page, self.task)?,
            metric: metric(page, self.metric, self.file.is_some())?,
            refit: refit(page, self.probe, self.file.is_some())?,
            data: data(page, (self.data, self.file), self.loss, self.mask_share, beside)?,
            scores: scores(page, self.scores, scored)?,
            seeds: seeds(page, self.seeds, (scored, items), (greedy, greedy_items))?,
            strategies,
            fractions,
            items,
            greedy_items,
            random: page.count("random", self.random, 0..=DRAWS)?.unwrap_or(20),
            layer_matched: page.count("layer-matched", self.layer_matched, 0..=DRAWS)?.unwrap_or(0),
            rounds: page.count("rounds", self.rounds, 1..=MOST)?,
            by_layer: self.by_layer.unwrap_or(false),
            steps: page.count("steps", self.steps, 1..=MOST)?.unwrap_or(10),
            probes: page.count("probes", self.probes, 1..=MOST)?.unwrap_or(8),
            allow_empty_layers: self.allow_empty_layers.unwrap_or(false),
            batch_size: page.count("batch-size", self.batch_size, 1..=MOST)?.unwrap_or(16),
            max_length: page.count("max-length", self.max_length, 2..=1 << 24)?,
            resamplings: page.count("resamplings", self.resamplings, 1..=100_000)?.unwrap_or(1000),
            out: folder.join(self.out.map_or(stem, PathBuf::from)),
        })
    }
}

fn task(page: &Page<'_>, found: Option<Spanned<String>>) -> Result<Option<Task>> {
    let Some(found) = found else { return Ok(None) };
    page.one_of("task", &found, &Task::NAMES.map(|(name, _)| name))?;
    Ok(Task::NAMES.iter().find(|(name, _)| name == found.get_ref()).map(|&(_, task)| task))
}

fn metric(page: &Page<'_>, found: Option<Spanned<String>>, texts: bool) -> Result<Option<Metric>> {
    let Some(found) = found else { return Ok(None) };
    if texts {
        let want = "none beside `file`, whose metric is its loss";
        return Err(page.wrong(found.span(), "metric", want, found.get_ref()));
    }
    page.one_of("metric", &found, &["spearman", "pearson"])?;
    Ok(Some(match found.get_ref().as_str() {
        "pearson" => Metric::Pearson,
        _ => Metric::Spearman,
    }))
}

fn refit(page: &Page<'_>, found: Option<Spanned<String>>, texts: bool) -> Result<bool> {
    let Some(found) = found else { return Ok(true) };
    if texts {
        let want = "none beside `file`, whose texts have no labels";
        return Err(page.wrong(found.span(), "probe", want, found.get_ref()));
    }
    page.one_of("probe", &found, &["refit", "kept"])?;
    Ok(found.get_ref() == "refit")
}

fn data(
    page: &Page<'_>,
    places: (Option<Spanned<String>>, Option<Spanned<String>>),
    loss: Option<Spanned<String>>,
    mask_share: Option<Spanned<f64>>,
    beside: impl Fn(String) -> String,
) -> Result<Data> {
    match places {
        (Some(_), Some(file)) => {
            Err(page.wrong(file.span(), "file", "either `data` or `file`", "both"))
        }
        (None, None) => {
            Err(page.missing("data", "a labelled set (sentiment, pairs or a file), or `file`"))
        }
        (Some(name), None) => {
            let share = mask_share.map(|share| ("mask-share", share.span()));
            if let Some((key, span)) = loss.map(|loss| ("loss", loss.span())).or(share) {
                let want = "none beside `data`, which has labels";
                return Err(page.wrong(span, key, want, "one"));
            }
            Ok(Data::Labelled(match name.into_inner() {
                name if name == "sentiment" || name == "pairs" => name,
                name => beside(name),
            }))
        }
        (None, Some(file)) => {
            if let Some(loss) = &loss {
                page.one_of("loss", loss, &LOSSES)?;
            }
            let share = mask_share.as_ref().map_or(0.15, |share| *share.get_ref());
            if let Some(given) = mask_share.filter(|_| !(share > 0.0 && share <= 1.0)) {
                let want = "a share above 0 and up to 1";
                return Err(page.wrong(given.span(), "mask-share", want, share));
            }
            let file = PathBuf::from(beside(file.into_inner()));
            let loss = loss.map(Spanned::into_inner);
            Ok(Data::Texts { file, loss, mask_share: share })
        }
    }
}

fn strategies(page: &Page<'_>, found: Option<Spanned<Vec<String>>>) -> Result<Vec<Way>> {
    let Some(found) = found else { return Ok(vec![Way::OneShot]) };
    if let Some(at) = found.get_ref().iter().position(|name| name == "random") {
        let want = "one-shot, iterative or greedy (`random = 20` draws masks)";
        return Err(page.wrong(found.span(), "strategies", want, &found.get_ref()[at]));
    }
    let names = Way::ALL.map(Way::name);
    let named = page.several("strategies", found, &names)?;
    let way = |name: &String| Way::ALL.into_iter().find(|way| way.name() == name);
    Ok(named.iter().filter_map(way).collect())
}

fn scores(
    page: &Page<'_>,
    found: Option<Spanned<Vec<String>>>,
    asked: bool,
) -> Result<Vec<String>> {
    match found {
        Some(found) => page.several("scores", found, &Score::NAMES),
        None if asked => {
            Err(page.missing("scores", &format!("some of {}", Score::NAMES.join(", "))))
        }
        None => Ok(Vec::new()),
    }
}

fn fractions(page: &Page<'_>, found: Option<Spanned<Vec<f64>>>) -> Result<Vec<f64>> {
    let Some(found) = found else {
        return Ok((1..10).map(|tenth| f64::from(tenth) / 10.0).collect());
    };
    let inside = found.get_ref().iter().all(|share| *share > 0.0 && *share <= 1.0);
    let rising = found.get_ref().windows(2).all(|pair| pair[0] < pair[1]);
    if found.get_ref().is_empty() || !inside || !rising {
        let want = "rising shares of the heads to remove, above 0 and up to 1";
        let numbers: Vec<String> = found.get_ref().iter().map(f64::to_string).collect();
        let numbers = format!("[{}]", numbers.join(", "));
        return Err(page.wrong(found.span(), "fractions", want, numbers));
    }
    Ok(found.into_inner())
}

/// What each of several seeds draws has to be said, or all would give the same.
fn seeds(
    page: &Page<'_>,
    found: Option<Spanned<Vec<u64>>>,
    items: (bool, Option<usize>),
    greedy_items: (bool, Option<usize>),
) -> Result<Vec<u64>> {
    let Some(found) = found else { return Ok(vec![0]) };
    let (span, seeds) = (found.span(), found.into_inner());
    let wrong = |want: &str| Err(page.wrong(span.clone(), "seeds", want, format!("{seeds:?}")));
    if seeds.is_empty() || seeds.iter().enumerate().any(|(i, seed)| seeds[..i].contains(seed)) {
        return wrong("numbers, each once");
    }
    match (seeds.len(), items, greedy_items) {
        (2.., (true, None), _) => wrong(
            "one seed, or `items` as well: how many items of the part for training each seed draws \
             to score on",
        ),
        (2.., _, (true, None)) => wrong(
            "one seed, or `greedy-items` as well: how many items of the part for validation each \
             seed draws for greedy choices",
        ),
        _ => Ok(seeds),
    }
}
