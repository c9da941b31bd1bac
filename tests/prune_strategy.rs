//! In which order heads go, by each strategy.

mod common;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use attnviz::hub::{self, HubEnv, ModelFiles, ModelRequest};
use attnviz::prune::{
    Budget, Chooser, HeadScore, PruneOptions, Score, StackHead, Strategy, heads_left, importance,
    lowest, off, operations, prune, random_scores,
};
use attnviz::task::{Sample, Target, Written, outputs};
use attnviz::tokens::Batch;
use attnviz::{Head, Intervention, Model, Result, Stack};
use common::{Golden, fixture, open};
use ndarray::Array2;
use tempfile::TempDir;

/// A golden's model with its own texts, of which each next token is asked for.
fn case(name: &str) -> (Model, Sample) {
    let golden = Golden::at(fixture("goldens").join(name));
    let model = open(&golden.folder, None).expect("loads");
    let batch = golden.batch();
    let special = Array2::from_elem(batch.ids.dim(), false);
    let written = model.config().decoder.is_some().then(|| {
        let (ids, mask) = ("decoder_input_ids", "decoder_attention_mask");
        let batch = Batch::from_ids(golden.ids(ids), golden.ids(mask));
        Written { special: Array2::from_elem(batch.ids.dim(), false), batch }
    });
    let mut sample = Sample { batch, special, written, target: None };
    sample.target = Some(Target::next_tokens(sample.last()));
    (model, sample)
}

fn loss(model: &Model, sample: &Sample, changes: &[Intervention]) -> Result<f64> {
    let found = outputs(model, std::slice::from_ref(sample), changes, &[])?;
    Ok(found.losses.iter().sum::<f64>() / found.losses.len() as f64)
}

fn masks(
    (model, sample): (&Model, &Sample),
    strategy: &Strategy,
    fractions: &[f64],
    allow_empty: bool,
) -> Vec<BTreeSet<StackHead>> {
    let worth = |changes: &[Intervention]| loss(model, sample, changes).map(|loss| -loss);
    let chooser = Chooser {
        model,
        score: Score::Gradient,
        by_layer: false,
        samples: std::slice::from_ref(sample),
        worth: &worth,
        allow_empty,
        progress: &|_, _| {},
    };
    chooser.masks(strategy, fractions).expect("masks")
}

fn per_layer(heads: &BTreeSet<StackHead>) -> BTreeMap<(Stack, usize), usize> {
    let mut counts = BTreeMap::new();
    heads.iter().for_each(|one| *counts.entry((one.stack, one.head.layer)).or_default() += 1);
    counts
}

const ALL: [Strategy; 4] = [
    Strategy::OneShot,
    Strategy::Iterative { rounds: 3 },
    Strategy::Greedy,
    Strategy::Random { seed: 5 },
];

#[test]
fn masks_grow_by_whole_units_and_leave_each_layer_a_head() {
    let fractions = [0.0, 0.25, 0.5, 0.9];
    for name in ["bert_mlm", "albert_mlm", "gpt2_lm", "llama_lm", "bart_lm", "t5_lm", "marian_mt"] {
        let (model, sample) = case(name);
        let (config, all) = (model.config(), heads_left(model.config()));
        for strategy in ALL {
            let found = masks((&model, &sample), &strategy, &fractions, false);
            assert!(found[0].is_empty() && !found[2].is_empty(), "{name} {strategy:?}");
            for (mask, fraction) in found.iter().zip(fractions) {
                let most = (all.len() as f64 * fraction).round() as usize;
                assert!(mask.len() <= most && mask.is_subset(&all), "{name} {strategy:?}");
                for one in mask {
                    let of = config.of(one.stack);
                    let together = all.iter().filter(|other| {
                        let group = |x: &StackHead| of.key_value_head(x.head.head);
                        let block = |x: &StackHead| of.shared[x.head.layer];
                        other.stack == one.stack
                            && (group(other), block(other)) == (group(one), block(one))
                    });
                    assert!(together.into_iter().all(|other| mask.contains(other)), "{name} {one}");
                }
                let whole = per_layer(&all);
                let counts = per_layer(mask);
                assert!(counts.iter().all(|(at, count)| *count < whole[at]), "{name} {counts:?}");
            }
            assert!(found.windows(2).all(|two| two[0].is_subset(&two[1])), "{name} {strategy:?}");
            // every stack takes part
            let stacks: BTreeSet<Stack> = found[3].iter().map(|one| one.stack).collect();
            assert_eq!(stacks.len(), if config.decoder.is_some() { 3 } else { 1 }, "{name}");
        }
        let found = masks((&model, &sample), &Strategy::Random { seed: 5 }, &[1.0], true);
        assert_eq!(found[0], all, "{name}: layers may be empty");
    }
}

#[test]
fn one_shot_takes_the_lowest_and_rounds_score_what_is_left() {
    let (model, sample) = case("bert_mlm");
    let samples = std::slice::from_ref(&sample);
    let config = model.config();
    let scores = importance(&model, Score::Gradient, samples, &[]).expect("scores");
    let both = (&model, &sample);
    let found = masks(both, &Strategy::OneShot, &[0.25, 0.5], false);
    assert_eq!(found[1], lowest(&scores, config, 0.5, false, &BTreeSet::new()));
    assert_eq!((found[0].len(), found[1].len()), (3, 6));

    let first = lowest(&scores, config, 0.25, false, &BTreeSet::new());
    let again = importance(&model, Score::Gradient, samples, &off(&first)).expect("scores");
    let want = lowest(&again, config, 0.5, false, &first);
    let rounds = Strategy::Iterative { rounds: 2 };
    assert_eq!(masks(both, &rounds, &[0.5], false), std::slice::from_ref(&want));
    // what is asked for on the way changes nothing
    assert_eq!(masks(both, &rounds, &[0.1, 0.25, 0.4, 0.5], false)[3], want);
    assert_eq!(masks(both, &Strategy::Iterative { rounds: 1 }, &[0.25, 0.5], false), found);
}

#[test]
fn greedy_takes_the_head_that_costs_least_and_says_what_it_costs() {
    let (model, sample) = case("bert_mlm");
    let all = heads_left(model.config());
    let mut gone: BTreeSet<StackHead> = BTreeSet::new();
    for _ in 0..3 {
        let without = |one: &StackHead| {
            let heads = gone.iter().copied().chain([*one]).collect();
            loss(&model, &sample, &off(&heads)).expect("runs")
        };
        let open = all.iter().filter(|one| !gone.contains(one));
        let best = open.min_by(|a, b| without(a).total_cmp(&without(b))).copied();
        gone.extend(best);
    }
    let (runs, told) = (RefCell::new(0), RefCell::new(Vec::new()));
    let worth = |changes: &[Intervention]| {
        *runs.borrow_mut() += 1;
        loss(&model, &sample, changes).map(|loss| -loss)
    };
    let chooser = Chooser {
        model: &model,
        score: Score::Gradient,
        by_layer: false,
        samples: std::slice::from_ref(&sample),
        worth: &worth,
        allow_empty: false,
        progress: &|done, of| told.borrow_mut().push((done, of)),
    };
    assert_eq!(chooser.masks(&Strategy::Greedy, &[0.25]).expect("masks"), [gone]);
    assert_eq!(*runs.borrow(), 12 + 11 + 10);
    assert!(told.borrow().iter().copied().eq((1..=33).map(|run| (run, 33))), "{told:?}");

    let error = chooser.masks(&Strategy::Greedy, &[0.5, 0.25]).expect_err("refused");
    assert!(error.to_string().starts_with("fractions: expected shares from 0 to 1"), "{error}");
    assert!(chooser.masks(&Strategy::OneShot, &[1.5]).is_err());
}

#[test]
fn random_masks_match_others_layer_by_layer() {
    for name in ["bert_mlm", "albert_mlm", "llama_lm", "bart_lm"] {
        let (model, sample) = case(name);
        let fractions = [0.2, 0.4, 0.6];
        let scored = masks((&model, &sample), &Strategy::OneShot, &fractions, false);
        let like = |seed| {
            let strategy = Strategy::RandomLike { seed, masks: scored.clone() };
            masks((&model, &sample), &strategy, &fractions, false)
        };
        let found: Vec<Vec<BTreeSet<StackHead>>> = (0..6).map(like).collect();
        for masks in &found {
            for (mask, scored) in masks.iter().zip(&scored) {
                assert_eq!(per_layer(mask), per_layer(scored), "{name}");
            }
            assert!(masks.windows(2).all(|two| two[0].is_subset(&two[1])), "{name}");
        }
        assert_eq!(found[0], like(0), "{name}: one seed, one mask");
        let kinds: BTreeSet<_> = found.iter().map(|masks| masks[1].clone()).collect();
        assert!(kinds.len() > 1, "{name}: {kinds:?}");
    }
}

#[test]
fn fractions_are_of_the_stacks_that_have_scores() {
    let (model, mut sample) = case("bart_lm");
    let config = model.config();
    assert_eq!(random_scores(config, 1).len(), 24);
    sample.written = None;
    let samples = std::slice::from_ref(&sample);
    let scores = importance(&model, Score::OutputNorm, samples, &[]).expect("scores");
    let encoder = |one: &HeadScore| one.head.stack == Stack::Encoder;
    assert!(scores.len() == 8 && scores.iter().all(encoder), "{scores:?}");
    assert_eq!(lowest(&scores, config, 0.5, false, &BTreeSet::new()).len(), 4);
    // what was removed before counts
    let heads = |head| StackHead { stack: Stack::Encoder, head: Head { layer: 0, head } };
    let before = BTreeSet::from([heads(0), heads(1)]);
    let found = lowest(&scores, config, 0.5, false, &before);
    assert!(found.len() == 4 && before.is_subset(&found), "{found:?}");
}

fn files(folder: &Path) -> ModelFiles {
    let model = Some(folder.display().to_string());
    let request = ModelRequest { model, ..ModelRequest::default() };
    hub::resolve(&request, &HubEnv::from_env(), &()).expect("files")
}

#[test]
fn budgets_are_met_with_the_fewest_heads() {
    for name in ["bert_mlm", "albert_mlm", "llama_lm", "bart_lm", "t5_lm", "../options/bart_heads"]
    {
        let (model, sample) = case(name);
        let folder = fixture("goldens").join(name);
        let worth = |_: &[Intervention]| Ok(0.0);
        let chooser = Chooser {
            model: &model,
            score: Score::OutputNorm,
            by_layer: false,
            samples: std::slice::from_ref(&sample),
            worth: &worth,
            allow_empty: false,
            progress: &|_, _| {},
        };
        let strategy = Strategy::OneShot;
        let find = |budget: &str| {
            let budget: Budget = budget.parse().expect(budget);
            let allowance = chooser.allowance(&budget, &files(&folder))?;
            let masks = chooser.masks(&strategy, &allowance.fractions)?;
            allowance.first(&masks).map(|place| masks[place].clone())
        };
        let cut = |mask: &BTreeSet<StackHead>| {
            let out = TempDir::new().expect("folder");
            let path = out.path().join("out");
            let options = PruneOptions::default();
            let done = prune(&files(&folder), &path, mask, &options).expect("prunes");
            let left = open(&path, None).expect("loads");
            (done.parameters, operations(left.config(), 128))
        };
        let all = heads_left(model.config()).len();
        let whole = (cut(&BTreeSet::new()).0.0 as f64, operations(model.config(), 128));
        for fraction in [0.25, 0.5] {
            let masks = chooser.masks(&strategy, &[fraction]).expect("masks");
            let ((_, parameters), operations) = cut(&masks[0]);
            assert!((parameters as f64) < whole.0 && operations < whole.1, "{name}");
            for budget in [format!("params={parameters}"), format!("flops={operations}")] {
                assert_eq!(find(&budget).expect(name), masks[0], "{name} {budget}");
            }
            if fraction == 0.5 {
                continue; // of some models every layer is down to its last unit
            }
            // a little less takes another unit
            let share = 100.0 * (operations - 1.0) / whole.1;
            let more = find(&format!("flops={share}%")).expect(name);
            assert!(masks[0].is_subset(&more) && masks[0].len() < more.len(), "{name} {share}");
        }
        assert!(find("params=100%").expect(name).is_empty());
        let mask = find(&format!("heads={}", all * 3 / 4)).expect(name);
        assert!(all - mask.len() <= all * 3 / 4 && mask.len() <= all / 2, "{name}: {mask:?}");
        let line = find("flops=1%").expect_err(name).to_string();
        let want = "or more, with a head left in each layer, found `flops=1%`";
        assert!(line.starts_with("--budget: expected ") && line.ends_with(want), "{line}");
    }
}
