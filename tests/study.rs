//! Studies on a made-up model: plans and what is wrong with them, cells and their files, areas and
//! intervals by hand, tables and pictures.

use std::cell::Cell as Count;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use attnviz::picture::{Chart, Format, Line, Panel, Style, TextEngine, chart};
use attnviz::prune::StackHead;
use attnviz::study::{
    About, Against, Bench, Cell, Done, EXAMPLE, Masks, Plan, Share, Source, Store, Table, Way,
    area, merge, run,
};
use attnviz::{Error, Head, Result, Stack};
use serde_json::{Value, json};
use tempfile::TempDir;

fn plan(text: &str) -> Result<Plan> {
    Plan::parse(text, Path::new("place/study.toml"))
}

#[test]
fn plans_say_what_they_leave_out() {
    let all = plan("data = \"sentiment\"\nscores = [\"gradient\"]\n").expect("plan");
    assert_eq!(all.strategies, [Way::OneShot]);
    assert_eq!(all.fractions.len(), 9);
    assert_eq!((all.seeds.as_slice(), all.random, all.layer_matched), ([0].as_slice(), 20, 0));
    assert_eq!((all.rounds(), all.batch_size, all.resamplings), (9, 16, 1000));
    assert_eq!(all.out, Path::new("place/study"));
    let example = plan(EXAMPLE).expect("the example is a plan");
    assert_eq!(example.cells().len(), 2 * 21 + 20);
    assert_eq!(example.out, Path::new("place/study-results"));
    let greedy = plan("file = \"x\"\nstrategies = [\"greedy\"]\nrandom = 0").expect("plan");
    assert_eq!(greedy.cells().iter().map(Cell::to_string).collect::<Vec<_>>(), ["greedy.0"]);
}

#[test]
fn what_is_wrong_with_a_plan_is_told_by_file_line_and_key() {
    let start = "data = \"pairs\"\nscores = [\"jacobian\"]\n";
    for (text, want) in [
        ("", "place/study.toml: `data` is missing: a labelled set"),
        ("data = \"pairs\"", "place/study.toml: `scores` is missing: some of gradient, fisher"),
        ("score = 3", "place/study.toml, line 3: `score`: no such key; did you mean `scores`?"),
        ("batch_size = 3", "line 3: `batch_size`: no such key; did you mean `batch-size`?"),
        ("zzz = 3", "line 3: `zzz`: no such key; keys are model, revision"),
        ("seeds = 3", "line 3: `seeds`: invalid type: integer `3`, expected a sequence"),
        ("seeds = [\n1,\n\"a\"]", "line 5: `seeds`: invalid type: string \"a\", expected u64"),
        ("\n[deep]\nx = 1", "line 4: `deep`: no such key"),
        ("seeds = [", "line 3: "),
        ("data = \"x\"", "line 3: duplicate key"),
        ("\nfractions = [0.5, 0.2]", "line 4: `fractions`: expected rising shares"),
        ("fractions = [0.5, 1.2]", "up to 1, found [0.5, 1.2]"),
        ("fractions = []", "`fractions`: expected rising shares"),
        ("fractions = [0.0, 0.5]", "above 0 and up to 1, found [0, 0.5]"),
        ("fractions = [0, 1]", "above 0 and up to 1, found [0, 1]"),
        ("fractions = [-0.5]", "above 0 and up to 1, found [-0.5]"),
        ("fractions = [nan]", "line 3: `fractions`: expected rising shares"),
        ("fractions = [0.5, nan]", "up to 1, found [0.5, NaN]"),
        ("fractions = [0.5, inf]", "up to 1, found [0.5, inf]"),
        ("fractions = [0.5, 0.5]", "line 3: `fractions`: expected rising shares"),
        ("fractions = 0.5", "`fractions`: invalid type: floating point `0.5`, expected a sequence"),
        ("seeds = []", "`seeds`: expected numbers, each once, found []"),
        ("seeds = [-1]", "`seeds`: invalid value: integer `-1`, expected u64"),
        ("seeds = [0.5]", "`seeds`: invalid type: floating point `0.5`, expected u64"),
        ("seeds = [99999999999999999999]", "line 3: "),
        ("random = 20\nrandom = 20", "line 4: duplicate key"),
        ("steps = 0", "`steps`: expected a number from 1 to 65535, found 0"),
        ("probes = 0", "`probes`: expected a number from 1 to 65535, found 0"),
        ("rounds = 0", "`rounds`: expected a number from 1 to 65535, found 0"),
        ("items = 0", "`items`: expected a number from 1 to 65535, found 0"),
        ("greedy-items = 0", "`greedy-items`: expected a number from 1 to 65535, found 0"),
        ("max-length = 1", "`max-length`: expected a number from 2 to 16777216, found 1"),
        ("resamplings = 0", "`resamplings`: expected a number from 1 to 100000, found 0"),
        ("by-layer = 1", "`by-layer`: invalid type: integer `1`, expected a boolean"),
        ("out = 3", "`out`: invalid type: integer `3`, expected a string"),
        ("strategies = [\"greedy\", \"greedy\"]", "each once, found `greedy` twice"),
        (
            "strategies = [\"greedy\"]\nseeds = [1, 2]\nitems = 3",
            "line 4: `seeds`: expected one seed, or `greedy-items` as well",
        ),
        ("seeds = [1, 2]", "`seeds`: expected one seed, or `items` as well"),
        ("seeds = [1, 1]\nitems = 3", "`seeds`: expected numbers, each once, found [1, 1]"),
        ("strategies = [\"random\"]", "`strategies`: expected one-shot, iterative or greedy"),
        ("strategies = [\"best\"]", "expected one of one-shot, iterative, greedy, found `best`"),
        ("strategies = []", "`strategies`: expected at least one, found none"),
        ("loss = \"masked-lm\"", "`loss`: expected none beside `data`"),
        ("file = \"x\"", "line 3: `file`: expected either `data` or `file`, found both"),
        ("metric = \"f1\"", "`metric`: expected one of spearman, pearson, found `f1`"),
        ("probe = \"new\"", "`probe`: expected one of refit, kept, found `new`"),
        ("random = -1", "`random`: invalid value: integer `-1`"),
        ("layer-matched = 10001", "expected a number from 0 to 10000, found 10001"),
        ("batch-size = 0", "`batch-size`: expected a number from 1 to 65535, found 0"),
        ("task = \"x\"", "`task`: expected one of"),
    ] {
        let text = match want.contains("missing") {
            true => text.to_owned(),
            false => format!("{start}{text}\n"),
        };
        let error = plan(&text).expect_err(&text);
        assert_eq!(error.exit_code(), 5, "{error}");
        let error = error.to_string();
        assert!(error.contains(want) && !error.contains('\n'), "{text}\n{error}\n{want}");
    }
    for (text, want) in [
        ("file = \"x\"\nloss = \"best\"", "line 2: `loss`: expected one of masked-lm, causal-lm"),
        ("file = \"x\"\nmask-share = 0.0", "`mask-share`: expected a share above 0"),
        ("file = \"x\"\nmask-share = 1.5", "`mask-share`: expected a share above 0 and up to 1"),
        ("file = \"x\"\nmask-share = nan", "above 0 and up to 1, found NaN"),
        ("file = \"x\"\nprobe = \"kept\"", "`probe`: expected none beside `file`"),
        ("data = \"pairs\"\nscores = []", "`scores`: expected at least one, found none"),
        ("file = \"x\"\nmetric = \"pearson\"", "`metric`: expected none beside `file`"),
        ("data = \"pairs\"\nscores = [\"worst\"]", "`scores`: expected one of gradient"),
        ("data = \"pairs\"\nscores = [\"fisher\", \"fisher\"]", "each once, found `fisher` twice"),
    ] {
        let error = plan(&format!("{text}\n")).expect_err(text).to_string();
        assert!(error.contains(want), "{text}\n{error}\n{want}");
    }
}

#[test]
fn studies_that_come_along_are_plans() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/studies");
    let mut outs = BTreeSet::new();
    for entry in fs::read_dir(folder).expect("folder") {
        let path = entry.expect("file").path();
        let plan = Plan::read(&path).expect("plan");
        assert!(plan.random >= 20 && plan.layer_matched > 0, "{}", path.display());
        assert!(outs.insert(plan.out), "{}: a folder of its own", path.display());
    }
    assert!(outs.len() > 2);
}

#[test]
fn what_is_at_the_edge_of_a_plan_is_one() {
    let all = plan("data = \"pairs\"\nscores = [\"jacobian\"]\nfractions = [1]\nseeds = [0]\n");
    assert_eq!(all.expect("plan").fractions, [1.0]);
    let text = "data = \"pairs\"\nstrategies = [\"greedy\"]\nseeds = [7, 0]\ngreedy-items = 1\n\
                random = 0\n";
    let greedy = plan(text).expect("plan");
    assert_eq!((greedy.greedy_items, greedy.cells().len()), (Some(1), 2));
    assert_eq!(greedy.settings()["greedy-items"], 1);
}

/// Two layers of four heads; head h of layer l is worth something to some items.
struct Made {
    about: About,
    runs: Count<usize>,
}

impl Made {
    fn new(plan: &Plan) -> Self {
        let source = |name: &str| Source { name: name.into(), sha256: name.repeat(8) };
        let about = About {
            settings: plan.settings(),
            model: source("made-up"),
            data: source("numbers"),
            measure: "accuracy".into(),
            means: "by hand".into(),
            heads: 8,
            against: Against::Counts(vec![1.0; 12]),
        };
        Self { about, runs: Count::new(0) }
    }
}

fn head(layer: usize, head: usize) -> StackHead {
    StackHead { stack: Stack::Encoder, head: Head { layer, head } }
}

impl Bench for Made {
    fn about(&self) -> &About {
        &self.about
    }

    fn masks(
        &self,
        cell: &Cell,
        like: &[BTreeSet<StackHead>],
        told: &dyn Fn(usize, usize),
    ) -> Result<Vec<BTreeSet<StackHead>>> {
        (1..=7).for_each(|step| told(step, 7));
        let order: Vec<StackHead> = match cell {
            Cell::Chosen(choice) => {
                let turn = choice.seed as usize + usize::from(choice.way == Way::Iterative);
                (0..8).map(|i| head((i / 4) ^ 1, (i + turn) % 4)).collect()
            }
            Cell::Matched(_, draw) => {
                let in_layer = |layer: usize, mask: &BTreeSet<StackHead>| {
                    let count = mask.iter().filter(|one| one.head.layer == layer).count();
                    (0..count).map(move |i| head(layer, (i + draw) % 4)).collect::<Vec<_>>()
                };
                let mask = |mask| [0, 1].into_iter().flat_map(|l| in_layer(l, mask)).collect();
                return Ok(like.iter().map(mask).collect());
            }
            Cell::Random(draw) => {
                (0..8).map(|i| head((i + draw) % 2, (i / 2 + draw) % 4)).collect()
            }
        };
        let fractions = self.about.settings["fractions"].as_array().expect("fractions");
        let count = |share: &serde_json::Value| (share.as_f64().expect("share") * 8.0) as usize;
        Ok(fractions.iter().map(|share| order[..count(share)].iter().copied().collect()).collect())
    }

    fn found(&self, off: &BTreeSet<StackHead>) -> Result<Vec<f64>> {
        self.runs.set(self.runs.get() + 1);
        // an item is right while fewer than so many heads of layer 0 are off, or of both
        let low = off.iter().filter(|one| one.head.layer == 0).count();
        let item = |i: usize| f64::from(u8::from(low * 3 + off.len() < 2 + i * 2));
        Ok((0..12).map(item).collect())
    }

    fn heads(&self, names: &[String]) -> Result<BTreeSet<StackHead>> {
        let one = |name: &String| {
            let place = name.strip_prefix('L').and_then(|rest| rest.split_once('H'));
            let number = |text: &str| text.parse().ok();
            let found = place.and_then(|(layer, one)| Some(head(number(layer)?, number(one)?)));
            found.ok_or_else(|| Error::Usage {
                flag: "heads".into(),
                want: "names of heads".into(),
                found: name.clone(),
            })
        };
        names.iter().map(one).collect()
    }
}

const SMALL: &str = "data = \"sentiment\"\nstrategies = [\"one-shot\", \"iterative\"]\n\
                     scores = [\"gradient\", \"confidence\"]\nfractions = [0.25, 0.5, 0.75]\n\
                     seeds = [0, 5]\nitems = 9\nrandom = 6\nlayer-matched = 4\nresamplings = 200\n";

fn study(folder: &Path, cells: &[Cell], plan: &Plan) -> (usize, usize) {
    let (made, mut new) = (Made::new(plan), 0);
    let store = Store::claim(folder, false).expect("folder");
    run(&plan.fractions, cells, &made, &store, |_, done| new += usize::from(done == Done::Now))
        .expect("runs");
    (new, made.runs.get())
}

#[test]
fn shares_of_a_study_are_one_study() {
    let (plan, place) = (plan(SMALL).expect("plan"), TempDir::new().expect("folder"));
    let (whole, parts) = (place.path().join("whole"), place.path().join("parts"));
    let cells = plan.cells();
    assert_eq!(cells.len(), 2 * 2 * 2 * 5 + 6);
    let names: BTreeSet<String> = cells.iter().map(Cell::to_string).collect();
    assert_eq!(names.len(), cells.len());
    for name in ["one-shot.gradient.0", "iterative.confidence.5.layers.3", "random.5"] {
        assert!(names.contains(name), "{name}");
    }
    // the unpruned model runs once, and a study that is done runs nothing
    assert_eq!(study(&whole, &cells, &plan), (46, 46 * 3 + 1));
    assert_eq!(study(&whole, &cells, &plan), (0, 0));
    for part in [5, 1, 4, 2, 7, 6, 3] {
        let share: Share = format!("{part}/7").parse().expect("share");
        study(&parts, &cells[share.of(cells.len())], &plan);
    }
    let read = |folder: &Path| {
        let table = merge(&plan, &Store::existing(folder).expect("store")).expect("table");
        (table.csv(), table.json())
    };
    assert_eq!(read(&whole), read(&parts));
    for cell in &cells {
        let file =
            |folder: &Path| fs::read(folder.join(format!("cells/{cell}.json"))).expect("file");
        assert_eq!(file(&whole), file(&parts), "{cell}");
    }
}

#[test]
fn a_study_grows_and_tells_what_is_missing() {
    let place = TempDir::new().expect("folder");
    let one = plan(&SMALL.replace("\"gradient\", ", "")).expect("plan");
    let (new, _) = study(place.path(), &one.cells(), &one);
    assert_eq!(new, 26);
    let both = plan(SMALL).expect("plan");
    let store = Store::existing(place.path()).expect("store");
    let table = merge(&both, &store).expect("table");
    assert_eq!(table.missing.len(), 20);
    assert!(table.missing.contains(&"one-shot.gradient.0.layers.2".to_owned()));
    assert!(table.rows.iter().all(|row| row.score.as_deref() != Some("gradient")));
    // what was there stays
    assert_eq!(study(place.path(), &both.cells(), &both).0, 20);
    assert!(merge(&both, &store).expect("table").missing.is_empty());

    let empty = TempDir::new().expect("folder");
    let error = Store::existing(empty.path()).expect_err("nothing").to_string();
    assert!(error.contains("holds no results of a study yet"), "{error}");
    let store = Store::claim(empty.path(), false).expect("store");
    let error = merge(&both, &store).expect_err("nothing").to_string();
    assert!(error.contains("none of the 46 cells of the study is finished"), "{error}");
}

#[test]
fn results_of_another_study_are_refused_by_name() {
    let (first, place) = (plan(SMALL).expect("plan"), TempDir::new().expect("folder"));
    let cells = first.cells();
    study(place.path(), &cells[..3], &first);
    let store = Store::claim(place.path(), false).expect("store");
    let told = |plan: &Plan, change: &dyn Fn(&mut About)| {
        let mut made = Made::new(plan);
        change(&mut made.about);
        let error = run(&plan.fractions, &cells, &made, &store, |_, _| ()).expect_err("stale");
        assert_eq!((error.exit_code(), made.runs.get()), (1, 0), "nothing is run before: {error}");
        error.to_string()
    };
    let other = plan(&SMALL.replace("0.75", "0.875")).expect("plan");
    let error = told(&other, &|_| ());
    let want = "cells/one-shot.gradient.0.json: was made with `fractions` [0.25,0.5,0.75], and the \
                plan says [0.25,0.5,0.875]; another `out`, or --force to replace it";
    assert!(error.ends_with(want), "{error}");
    let error = told(&first, &|about| about.model.sha256 = "0".repeat(64));
    assert!(error.contains("another model: made-up (made-upm), and this is made-up"), "{error}");
    let error = told(&first, &|about| about.data.sha256 = "0".repeat(64));
    assert!(error.contains("another set of texts: numbers (numbersn)"), "{error}");
    let error = told(&first, &|about| about.against = Against::Counts(vec![2.0; 12]));
    assert!(error.contains("other items or heads"), "{error}");
    let error = merge(&other, &store).expect_err("stale").to_string();
    assert!(error.contains("`fractions`"), "{error}");

    // by force they are as good as none
    let forced = Store::claim(place.path(), true).expect("store");
    let mut new = 0;
    run(&other.fractions, &cells[..3], &Made::new(&other), &forced, |_, done| {
        new += usize::from(done == Done::Now);
    })
    .expect("runs");
    assert_eq!(new, 3);

    // what is no result, and what is one of another cell
    let path = store.path(&cells[4]);
    for bytes in [b"{\"cell\": ".to_vec(), fs::read(store.path(&cells[0])).expect("file")] {
        fs::write(&path, bytes).expect("written");
        let error = merge(&other, &store).expect_err("broken").to_string();
        assert!(error.contains("one-shot.gradient.0.layers.3.json: is not the result"), "{error}");
    }
    let foreign = TempDir::new().expect("folder");
    fs::write(foreign.path().join("letter.txt"), "dear").expect("written");
    let error = Store::claim(foreign.path(), false).expect_err("foreign").to_string();
    assert!(
        error.contains("expected a new folder or one of a study, found `letter.txt`"),
        "{error}"
    );
}

/// What a machine that was switched off, another version or a person with an editor may leave.
#[test]
fn damaged_results_are_refused_by_name() {
    let (plan, place) = (plan(SMALL).expect("plan"), TempDir::new().expect("folder"));
    let cells = plan.cells();
    study(place.path(), &cells[..6], &plan);
    let store = Store::existing(place.path()).expect("store");
    let path = store.path(&cells[0]);
    let whole = fs::read(&path).expect("file");
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut value: Value = serde_json::from_slice(&whole).expect("JSON");
        change(&mut value);
        serde_json::to_vec(&value).expect("JSON")
    };
    let of = "is not the result of one-shot.gradient.0: ";
    let points = format!("{of}its `points` are of 12 items at ");
    let nothing = Vec::new();
    let cases: [(Vec<u8>, &str); 15] = [
        (nothing, "is not the result of a cell: EOF"),
        (whole[..whole.len() / 2].to_vec(), "is not the result of a cell: EOF"),
        (vec![0; 4096], "is not the result of a cell: expected value"),
        (b"\xff\xfe{}".to_vec(), "is not the result of a cell: expected value"),
        (b"[]".to_vec(), "is not the result of a cell: "),
        (changed(&|all| all["cell"] = "random.0".into()), "its `cell` is `random.0`"),
        (changed(&|all| all["points"] = json!([])), points.as_str()),
        (
            changed(&|all| all["points"].as_array_mut().expect("points").truncate(3)),
            points.as_str(),
        ),
        (changed(&|all| all["points"][1]["fraction"] = 0.3.into()), points.as_str()),
        (changed(&|all| all["points"][1]["found"][2] = Value::Null), "invalid type: null"),
        (
            changed(&|all| all["points"][1]["found"] = json!([1.0])),
            "at 0.25 it has 1 of 12 items and 6 heads kept, 2 off of 8",
        ),
        (changed(&|all| all["points"][2]["kept"] = 5.into()), "and 5 heads kept, 4 off of 8"),
        (
            changed(&|all| all["points"][2]["off"][1] = all["points"][2]["off"][0].clone()),
            "and 4 heads kept, 4 off of 8",
        ),
        (changed(&|all| all["heads"] = 9.into()), "and 8 heads kept, 0 off of 9"),
        (changed(&|all| all["against"] = json!({ "counts": [] })), "are of 0 items"),
    ];
    for (bytes, want) in cases {
        fs::write(&path, bytes).expect("written");
        let error = merge(&plan, &store).expect_err(want);
        let line = error.to_string();
        assert_eq!(error.exit_code(), 1, "{line}");
        let named = line.contains("cells/one-shot.gradient.0.json: is not the result of ");
        assert!(named && line.contains(want) && !line.contains('\n'), "{line}\n{want}");
        let made = Made::new(&plan);
        let error = run(&plan.fractions, &cells, &made, &store, |_, _| ()).expect_err(want);
        assert_eq!((error.to_string(), made.runs.get()), (line, 0), "nothing is run before");
    }
    // heads that the model does not have stand in the way of the masks that match them
    let other = changed(&|all| all["points"][2]["off"][1] = "anything".into());
    fs::write(&path, other).expect("written");
    let made = Made::new(&plan);
    let error = run(&plan.fractions, &cells[6..8], &made, &store, |_, _| ());
    assert!(error.is_ok(), "they match another choice");
    fs::remove_file(store.path(&cells[1])).expect("removed");
    let error = run(&plan.fractions, &cells[..2], &made, &store, |_, _| ()).expect_err("heads");
    let line = error.to_string();
    assert!(
        line.contains("cells/one-shot.gradient.0.json: ") && line.contains("anything"),
        "{line}"
    );

    fs::remove_file(&path).expect("removed");
    fs::create_dir(&path).expect("a folder in its place");
    let line = merge(&plan, &store).expect_err("a folder").to_string();
    assert!(line.contains("cells/one-shot.gradient.0.json: could not read it"), "{line}");
    // what is not of the plan is nobody's business
    fs::remove_dir(&path).expect("removed");
    fs::write(&path, &whole).expect("written");
    study(place.path(), &cells[..2], &plan);
    let before = merge(&plan, &store).expect("table");
    fs::write(place.path().join("cells/one-shot.gradient.99.json"), "{").expect("written");
    fs::write(place.path().join("cells/notes.txt"), "dear").expect("written");
    assert_eq!(merge(&plan, &store).expect("table"), before);
}

#[test]
fn a_cell_tells_how_far_it_is() {
    let (plan, place) = (plan(SMALL).expect("plan"), TempDir::new().expect("folder"));
    let (cells, made) = (plan.cells(), Made::new(&plan));
    let store = Store::claim(place.path(), false).expect("folder");
    let mut told: Vec<(String, Done)> = Vec::new();
    run(&plan.fractions, &cells[..2], &made, &store, |cell, done| {
        told.push((cell.to_string(), done));
    })
    .expect("runs");
    // seven steps of the choice, and four points; then the masks that match it, which is known
    let part = |name: &str, steps: std::ops::RangeInclusive<usize>, of: usize| {
        steps.map(|step| (name.to_owned(), Done::Partly(step, of))).collect::<Vec<_>>()
    };
    let (first, second) = ("one-shot.gradient.0", "one-shot.gradient.0.layers.0");
    let mut want = part(first, 1..=11, 11);
    want.push((first.into(), Done::Now));
    want.extend(part(second, 1..=4, 4));
    want.push((second.into(), Done::Now));
    assert_eq!(told, want);
}

#[test]
fn masks_that_match_another_choice_are_refused() {
    let (plan, place) = (plan(SMALL).expect("plan"), TempDir::new().expect("folder"));
    let cells = plan.cells();
    study(place.path(), &cells[..3], &plan);
    let store = Store::existing(place.path()).expect("store");
    merge(&plan, &store).expect("fits");
    let path = store.path(&cells[2]);
    let text = fs::read_to_string(&path).expect("file");
    assert!(text.contains("\"L1H1\""), "{text}");
    fs::write(&path, text.replacen("\"L1H1\"", "\"L0H1\"", 1)).expect("written");
    let error = merge(&plan, &store).expect_err("another").to_string();
    let want = "layers.1.json: has not as many heads in each layer as one-shot.gradient.0";
    assert!(error.contains(want), "{error}");
}

#[test]
fn areas_by_hand() {
    // (1 + 0.8)/2 · 0.5 + (0.8 + 0.2)/2 · 0.25 over a width of 0.75
    let points = [(1.0, 1.0), (0.5, 0.8), (0.25, 0.2)];
    assert!((area(&points) - (0.45 + 0.125) / 0.75).abs() < 1e-12);
    assert_eq!(area(&[(0.2, 0.5), (1.0, 0.5), (0.7, 0.5)]), 0.5);
    assert_eq!(area(&[(0.5, 0.2), (0.5, 0.4)]).to_string(), "0.30000000000000004");
    assert_eq!((area(&[(0.3, 0.7)]), area(&[])), (0.7, 0.0));
}

/// Two items, one fraction; what the curves are can be counted on fingers.
fn two_items(
    place: &Path,
    text: &str,
    made: impl Fn(&Cell) -> [[f64; 2]; 2],
    against: Against,
) -> Table {
    let plan = plan(text).expect("plan");
    let store = Store::claim(place, false).expect("folder");
    for cell in plan.cells() {
        let mut about = Made::new(&plan).about;
        about.against = against.clone();
        let point = |(i, found): (usize, [f64; 2])| attnviz::study::Point {
            fraction: i as f64 * 0.5,
            kept: 8 - i * 4,
            off: (0..i * 4).map(|head| format!("L0H{head}")).collect(),
            found: found.to_vec(),
        };
        let points = made(&cell).into_iter().enumerate().map(point).collect();
        let (name, attnviz) = (cell.to_string(), "0".into());
        let curve = attnviz::study::Curve { cell: name, attnviz, about, points };
        store.write(&cell, &curve).expect("written");
    }
    merge(&plan, &store).expect("table")
}

#[test]
fn intervals_by_hand() {
    let place = TempDir::new().expect("folder");
    let text = "data = \"x\"\nscores = [\"gradient\"]\nfractions = [0.5]\nrandom = 2\n\
                layer-matched = 1\nresamplings = 4000\n";
    // without heads, the choice keeps item 0 right and one of the random masks item 1
    let made = |cell: &Cell| match cell {
        Cell::Chosen(_) => [[1.0, 1.0], [1.0, 0.0]],
        Cell::Matched(..) => [[1.0, 1.0], [1.0, 0.0]],
        Cell::Random(0) => [[1.0, 1.0], [0.0, 0.0]],
        Cell::Random(_) => [[1.0, 1.0], [0.0, 1.0]],
    };
    let table = two_items(place.path(), text, made, Against::Counts(vec![1.0; 2]));
    let [chosen, matched, random] = table.rows.as_slice() else { panic!("{:?}", table.rows) };
    assert_eq!(
        (chosen.masks, matched.masks, random.masks),
        (Masks::Chosen, Masks::LayerMatched, Masks::Random)
    );
    assert_eq!((table.unpruned.value, table.unpruned.low, table.unpruned.high), (1.0, 1.0, 1.0));
    assert_eq!(table.span, (0.5, 1.0));
    // areas: (1 + 1/2)/2; (1 + (0 + 1/2)/2)/2
    assert_eq!((chosen.area.estimate.value, random.area.estimate.value), (0.75, 0.625));
    assert_eq!(random.area.spread, (0.5, 0.75));
    assert_eq!(chosen.above_random, Some((1, 2)));
    // of items: twice item 0 (1/4), twice item 1 (1/4), or both; of masks likewise. The difference of
    // the area is half that of the accuracy: at most (1 − 0)/2, at least (0 − 1)/2, each of them
    // far more often than in 2.5 % of the rounds
    let difference = chosen.area.minus_random.expect("compared");
    assert_eq!((difference.value, difference.low, difference.high), (0.125, -0.5, 0.5));
    let same = chosen.area.minus_matched.expect("compared");
    assert_eq!((same.value, same.low, same.high), (0.0, 0.0, 0.0));
    let at = &chosen.points[1];
    assert_eq!((at.fraction, at.kept, at.reached.estimate.value), (0.5, 4.0, 0.5));
    assert_eq!((at.reached.estimate.low, at.reached.estimate.high), (0.0, 1.0));
    assert_eq!(at.reached.minus_random.map(|one| one.value), Some(0.25));
    let csv = table.csv();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 1 + 3 * 3);
    assert_eq!(
        lines[3],
        "one-shot,gradient,chosen,1,area,,0.75,0.5,1,0.75,0.75,0.125,-0.5,0.5,0,0,0,1,2"
    );
    assert_eq!(lines[9], ",,random,2,area,,0.625,0.5,1,0.5,0.75,,,,,,,,");
    assert!(lines.iter().all(|line| line.split(',').count() == 19), "{csv}");
}

#[test]
fn pairs_are_correlated_as_the_plan_says() {
    let text =
        "data = \"x\"\nscores = [\"jacobian\"]\nfractions = [0.5]\nrandom = 1\nresamplings = 9\n";
    let scores = Against::Scores(vec![1.0, 2.0]);
    let made = |cell: &Cell| match cell {
        Cell::Random(_) => [[0.1, 0.2], [0.3, 0.1]],
        _ => [[0.1, 0.2], [0.3, 0.4]],
    };
    for (text, measure) in
        [(text.to_owned(), "accuracy"), (format!("{text}metric = \"pearson\"\n"), "Pearson")]
    {
        let place = TempDir::new().expect("folder");
        let table = two_items(place.path(), &text, made, scores.clone());
        assert_eq!(table.measure, measure);
        let values: Vec<f64> = table.rows.iter().map(|row| row.area.estimate.value).collect();
        assert!((values[0] - 1.0).abs() < 1e-12 && values[1].abs() < 1e-12, "{values:?}");
    }
}

#[test]
fn pictures_of_few_and_of_many_curves() {
    let engine = TextEngine::with_fonts([]);
    for (text, panels) in [
        (SMALL.to_owned(), 2),
        (SMALL.replace("\"gradient\", ", ""), 1),
        (
            SMALL
                .replace("\"gradient\"", "\"gradient\", \"fisher\", \"jacobian\", \"output-norm\""),
            5,
        ),
    ] {
        let (plan, place) = (plan(&text).expect("plan"), TempDir::new().expect("folder"));
        study(place.path(), &plan.cells(), &plan);
        let table = merge(&plan, &Store::existing(place.path()).expect("store")).expect("table");
        let drawn = table.chart();
        assert_eq!(drawn.panels.len(), panels);
        for dark in [false, true] {
            let style = Style { dark, ..Style::default() };
            let png = chart(&drawn, &style, Format::Png, &engine).expect("drawn");
            assert!(png.starts_with(b"\x89PNG"));
            assert_eq!(png, chart(&drawn, &style, Format::Png, &engine).expect("drawn"));
        }
        let svg = chart(&drawn, &Style::default(), Format::Svg, &engine).expect("drawn");
        let svg = String::from_utf8(svg).expect("text");
        let document = roxmltree::Document::parse(&svg).expect("XML");
        let lines = document.descendants().filter(|node| node.has_tag_name("polyline")).count();
        // two strategies with what matches them and what is random, and the legend's five
        assert_eq!(lines, panels * 5 + 5);
    }
    let nothing = Chart { title: "empty".into(), ..Default::default() };
    let error = chart(&nothing, &Style::default(), Format::Png, &engine);
    assert!(matches!(error, Err(Error::Array { .. })));
}

#[test]
fn a_panel_without_a_score_is_called_by_its_strategy() {
    let text = SMALL.replace("\"iterative\"", "\"greedy\"").replace("[0, 5]", "[0]");
    let (plan, place) = (plan(&text).expect("plan"), TempDir::new().expect("folder"));
    study(place.path(), &plan.cells(), &plan);
    let table = merge(&plan, &Store::existing(place.path()).expect("store")).expect("table");
    let titles: Vec<String> = table.chart().panels.into_iter().map(|panel| panel.title).collect();
    assert_eq!(titles, ["gradient", "confidence", "greedy"]);
}

/// Pixels of a file, with their width.
fn decoded(file: &[u8]) -> (Vec<[u8; 3]>, usize) {
    let mut decoder = png::Decoder::new(std::io::Cursor::new(file));
    decoder.set_transformations(png::Transformations::EXPAND);
    let mut reader = decoder.read_info().expect("header");
    let mut data = vec![0; reader.output_buffer_size().expect("size")];
    let info = reader.next_frame(&mut data).expect("pixels");
    (data.as_chunks::<3>().0.to_vec(), info.width as usize)
}

#[test]
fn curves_are_where_their_numbers_are() {
    let curve = Line {
        name: "one".into(),
        colour: 1,
        points: vec![(0.0, 0.0), (50.0, 0.25), (75.0, f64::NAN), (100.0, 1.0)],
        band: vec![(0.0, 0.0), (0.125, 0.75), (0.5, 0.5), (1.0, 1.0)],
        ..Line::default()
    };
    let panel = Panel { title: "a panel".into(), curves: vec![curve] };
    let drawn = Chart { x: "x".into(), y: "y".into(), panels: vec![panel], ..Chart::default() };
    let engine = TextEngine::with_fonts([]);
    let svg = chart(&drawn, &Style::default(), Format::Svg, &engine).expect("drawn");
    let svg = String::from_utf8(svg).expect("text");
    let document = roxmltree::Document::parse(&svg).expect("XML");
    let points = |tag: &str| -> Vec<Vec<(f64, f64)>> {
        let nodes = document.descendants().filter(|node| node.has_tag_name(tag));
        let point = |text: &str| {
            let (x, y) = text.split_once(',').expect("x,y");
            (x.parse().expect("x"), y.parse().expect("y"))
        };
        let all = |node: roxmltree::Node<'_, '_>| {
            node.attribute("points").expect("points").split(' ').map(point).collect()
        };
        nodes.map(all).collect()
    };
    // the last line is the curve, the one before it the legend's
    let line = points("polyline").pop().expect("a curve");
    let band = points("polygon").pop().expect("a band");
    assert_eq!((line.len(), band.len()), (3, 6), "what is no number is left out");
    let (first, last) = (line[0], line[2]);
    let share = |(x, y): (f64, f64)| {
        ((x - first.0) / (last.0 - first.0), (y - first.1) / (last.1 - first.1))
    };
    let near =
        |(a, b): (f64, f64), (c, d): (f64, f64)| (a - c).abs() < 1e-3 && (b - d).abs() < 1e-3;
    assert!(near(share(line[1]), (0.5, 0.25)), "{line:?}");
    assert!(near(share(band[1]), (0.5, 0.125)) && near(share(band[4]), (0.5, 0.75)), "{band:?}");
    assert!(last.0 > first.0 && last.1 < first.1, "up is up");

    let png = chart(&drawn, &Style::default(), Format::Png, &engine).expect("drawn");
    let (pixels, width) = decoded(&png);
    let at = |x: f64, y: f64| pixels[y as usize * width + x as usize];
    let quarter = |share: f64| first.0 + (last.0 - first.0) * share;
    let height = |share: f64| first.1 + (last.1 - first.1) * share;
    let on = at(quarter(0.25), height(0.125));
    // a pixel that the line runs through is covered by seven eighths or more
    let near = |(a, b): (u8, u8)| a.abs_diff(b) <= 32;
    assert!(on.into_iter().zip([0x00, 0x72, 0xb2]).all(near), "on the line: {on:?}");
    let [r, g, b] = at(quarter(0.5), height(0.5));
    assert!(r < g && g < b && r > 150, "in the band: {:?}", [r, g, b]);
    assert_eq!(at(quarter(0.52), height(0.97)), [255; 3], "beside both");
}
