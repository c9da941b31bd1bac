//! `attnviz study` as a person or a cluster runs it, on a tiny checkpoint: in shares, killed at any
//! moment, resumed.

mod common;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use common::fixture;
use common::ran::Ran;
use serde_json::Value;
use tempfile::TempDir;

/// A folder with a labelled set, pairs, texts and plans of them.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(TempDir::new().expect("folder"));
        let (subjects, good, bad) = (["cat", "dog", "bird", "man", "boy"], "happy", "tired");
        let mut lines = String::from("split\tlabel\ttext\n");
        for (i, split) in ["train", "train", "validation", "test", "test"].into_iter().enumerate() {
            for subject in subjects {
                let start = ["the", "a"][i % 2];
                lines += &format!("{split}\tgood\t{start} {subject} is {good}\n");
                lines += &format!("{split}\tbad\t{start} {subject} is {bad}\n");
            }
        }
        place.write("set.tsv", &lines);
        let pairs = "text_a\ttext_b\tscore\tsplit\nthe cat sat\ta cat sat\t5\ttest\n\
                     the cat sat\tthe man ran\t1\ttest\nthe dog slept\ta dog slept\t4\ttest\n\
                     the boy ran\ta girl ran\t3\ttrain\nthe man ran\ta man ran\t5\tvalidation\n";
        place.write("pairs.tsv", pairs);
        let texts = "the cat sat on the mat\nthe dog sat on the cat\na cat and a dog\nthe man ran\n\
                     a boy ran\nthe bird sat\nthe boy and the man\na dog ran\na man sat\nthe cat ran\n";
        place.write("texts.txt", texts);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("written");
    }

    fn plan(&self, name: &str, text: &str) {
        let model = fixture("fill/bert");
        self.write(name, &format!("model = '{}'\n{text}", model.display()));
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_attnviz"));
        command
            .current_dir(self.0.path())
            .env("HF_HUB_OFFLINE", "1")
            .env("HF_HOME", self.path("hub"))
            .args(["study", "--threads", "1"])
            .args(args);
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).output().expect("runs"))
    }

    fn fine(&self, args: &[&str]) -> Ran {
        let ran = self.run(args);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.err);
        ran
    }

    fn refused(&self, args: &[&str], code: i32, want: &str) {
        self.run(args).refused(code, want);
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

const PLAN: &str = "data = \"set.tsv\"\nstrategies = [\"one-shot\", \"iterative\"]\n\
                    scores = [\"gradient\", \"jacobian\", \"output-norm\"]\n\
                    fractions = [0.2, 0.4, 0.5]\nseeds = [0, 1]\nitems = 12\nrandom = 5\n\
                    layer-matched = 2\nresamplings = 100\n";
const CELLS: usize = 2 * 3 * 2 * 3 + 5;
const TABLES: [&str; 3] = ["table.csv", "table.json", "curves.png"];

#[test]
fn a_study_in_shares_is_the_study_in_one() {
    let place = Place::new();
    place.plan("study.toml", PLAN);
    let ran = place.fine(&["study.toml"]);
    for part in ["one-shot  gradient", "iterative gradient", "- 5 random", "- 4 layer-matched"] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    assert!(ran.out.lines().all(|line| line.chars().count() <= 80), "{}", ran.out);
    assert!(ran.out.ends_with("study/table.csv\nstudy/table.json\nstudy/curves.png\n"));
    assert_eq!(fs::read_dir(place.path("study/cells")).expect("cells").count(), CELLS);

    for share in ["2/3", "3/3"] {
        let ran = place.fine(&["study.toml", "--out", "parts", "--cell", share]);
        assert!(ran.out.starts_with(&format!("share {share} of parts: 1")), "{}", ran.out);
    }
    let ran = place.fine(&["study.toml", "--out", "parts", "--merge", "--json"]);
    let missing = serde_json::from_str::<Value>(&ran.out).expect("JSON")["missing"].clone();
    assert_eq!(missing.as_array().map(Vec::len), Some(13), "{missing}");
    assert!(ran.err.contains("13 cells are not finished: one-shot.gradient.0, "), "{}", ran.err);
    place.fine(&["study.toml", "--out", "parts", "--cell", "1/3"]);
    let ran = place.fine(&["study.toml", "--out", "parts", "--merge", "--quiet"]);
    assert_eq!(ran.out, "parts/table.csv\nparts/table.json\nparts/curves.png\n");
    for name in TABLES {
        assert!(
            place.bytes(&format!("study/{name}")) == place.bytes(&format!("parts/{name}")),
            "{name}"
        );
    }
    // finished cells stay as they are
    let ran = place.fine(&["study.toml", "--out", "parts", "--cell", "1/1", "--json"]);
    let counts: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!((&counts["run"], &counts["before"]), (&0.into(), &CELLS.into()));
    place.fine(&["study.toml", "--merge", "--format", "svg", "--dark"]);
    assert!(place.bytes("study/curves.svg").starts_with(b"<svg"));
}

#[test]
fn a_study_that_is_killed_at_any_moment_ends_as_one_that_is_not() {
    let place = Place::new();
    place.plan("study.toml", PLAN);
    let start = Instant::now();
    place.fine(&["study.toml", "--out", "whole"]);
    let whole = start.elapsed();
    let mut random = 12345u32;
    let mut killed = 0;
    for round in 0..12 {
        let mut child = place
            .command(&["study.toml", "--out", "killed", "--quiet"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // at once the first time, then at any moment
        let share = f64::from(round) / 12.0 * f64::from(random) / f64::from(u32::MAX);
        std::thread::sleep(whole.mul_f64(share));
        child.kill().expect("killed");
        killed += usize::from(!child.wait().expect("ends").success());
        let cells = place.path("killed/cells");
        let files = fs::read_dir(cells).into_iter().flatten();
        for path in files.map(|entry| entry.expect("entry").path()) {
            if path.extension().is_some_and(|ending| ending == "json") {
                let name = path.file_name().expect("name").display().to_string();
                assert!(
                    fs::read(&path).expect("read") == place.bytes(&format!("whole/cells/{name}")),
                    "round {round}: {name}"
                );
            }
        }
        for name in TABLES {
            if let Ok(bytes) = fs::read(place.path(&format!("killed/{name}"))) {
                assert!(bytes == place.bytes(&format!("whole/{name}")), "round {round}: {name}");
            }
        }
    }
    assert!(killed > 0, "nothing was killed");
    place.fine(&["study.toml", "--out", "killed"]);
    for name in TABLES {
        assert!(
            place.bytes(&format!("whole/{name}")) == place.bytes(&format!("killed/{name}")),
            "{name}"
        );
    }
}

#[test]
fn greedy_pairs_and_plain_texts_have_curves_too() {
    let place = Place::new();
    let rest = "fractions = [0.2, 0.5]\nrandom = 3\nlayer-matched = 1\nresamplings = 50\n";
    for (name, text, measure) in [
        ("greedy", "data = \"set.tsv\"\nstrategies = [\"greedy\"]\n", "accuracy"),
        ("spearman", "data = \"pairs.tsv\"\nscores = [\"jacobian\"]\n", "Spearman"),
        (
            "pearson",
            "data = \"pairs.tsv\"\nmetric = \"pearson\"\nscores = [\"confidence\"]\n",
            "Pearson",
        ),
        ("masked", "file = \"texts.txt\"\nscores = [\"gradient\", \"fisher\"]\n", "minus the loss"),
        (
            "drawn",
            "file = \"texts.txt\"\nloss = \"masked-lm\"\nseeds = [3, 4]\nitems = 4\ngreedy-items = 1\n\
             scores = [\"gradient\"]\nstrategies = [\"greedy\", \"iterative\"]\nrounds = 2\n",
            "minus the loss",
        ),
        (
            "embedding",
            "file = \"texts.txt\"\nloss = \"embedding\"\nscores = [\"integrated\"]\nitems = 3\n",
            "cosine to the unpruned embeddings",
        ),
        (
            "logits",
            "file = \"texts.txt\"\nloss = \"logits\"\nscores = [\"integrated\", \"output-norm\"]\n\
             items = 3\nby-layer = true\nmax-length = 6\n",
            "minus the divergence from the unpruned logits",
        ),
    ] {
        place.plan(&format!("{name}.toml"), &format!("{text}{rest}"));
        let ran = place.fine(&[&format!("{name}.toml"), "--json"]);
        let table: Value = serde_json::from_str(&ran.out).expect("JSON");
        assert_eq!(table["measure"], measure, "{name}");
        assert_eq!(table["missing"], Value::Array(Vec::new()), "{name}");
        let rows = table["rows"].as_array().expect("rows");
        for row in rows {
            let area = row["area"]["value"].as_f64().expect("area");
            assert!(row["area"]["low"].as_f64() <= Some(area + 1e-9), "{name}: {row}");
            assert_eq!(row["points"].as_array().map(Vec::len), Some(3), "{name}");
            assert_eq!(row["points"][2]["kept"], 3.0, "{name}: {row}");
        }
        assert!(rows[0]["area"]["minus_random"]["value"].is_f64(), "{name}: {}", rows[0]);
        assert!(rows[0]["area"]["minus_matched"]["value"].is_f64(), "{name}: {}", rows[0]);
        let first = &rows[0]["points"][0];
        assert_eq!(first["value"], table["unpruned"]["value"], "{name}");
        assert_eq!(first["minus_random"]["high"], 0.0, "{name}");
    }
    // what compares with the unpruned model is best where nothing is off
    let likeness = |name: &str| {
        let table: Value = serde_json::from_slice(&place.bytes(name)).expect("JSON");
        let points = table["rows"][0]["points"].as_array().expect("points").clone();
        points.iter().map(|point| point["value"].as_f64().expect("number")).collect::<Vec<_>>()
    };
    let (cosine, divergence) = (likeness("embedding/table.json"), likeness("logits/table.json"));
    assert!((cosine[0] - 1.0).abs() < 1e-9 && cosine[2] < 1.0, "{cosine:?}");
    assert!(divergence[0].abs() < 1e-6 && divergence[2] < -1e-6, "{divergence:?}");
}

#[test]
fn plans_start_from_an_example_and_are_refused_by_name() {
    let place = Place::new();
    place.fine(&["--init", "mine.toml"]);
    assert!(String::from_utf8_lossy(&place.bytes("mine.toml")).contains("layer-matched = 20"));
    place.refused(&["--init", "mine.toml"], 1, "mine.toml: exists already; --force overwrites it");
    place.refused(&[], 2, "");
    place.refused(&["none.toml"], 1, "none.toml: could not read it");
    place.refused(&["mine.toml", "--cell", "9/8"], 2, "--cell");
    place.refused(&["mine.toml", "--cell", "1/8", "--merge"], 2, "--merge");
    place.refused(&["mine.toml", "--merge"], 1, "study-results: holds no results of a study yet");
    place.plan("wrong.toml", "data = \"set.tsv\"\nscore = [\"gradient\"]\n");
    place.refused(&["wrong.toml"], 5, "wrong.toml, line 3: `score`: no such key; did you mean");
    place.plan("loss.toml", "data = \"pairs.tsv\"\nscores = [\"gradient\"]\n");
    place.refused(&["loss.toml"], 5, "loss.toml: `scores`: gradient needs a loss");
    place.plan("zero.toml", "file = \"texts.txt\"\nloss = \"logits\"\nscores = [\"fisher\"]\n");
    place.refused(&["zero.toml"], 5, "fisher is 0 of a loss that compares with the unpruned model");
    place.plan("f1.toml", "data = \"set.tsv\"\nscores = [\"jacobian\"]\nmetric = \"pearson\"\n");
    let want =
        "f1.toml: `metric`: expected none for set.tsv, whose metric is accuracy, found pearson";
    place.refused(&["f1.toml"], 5, want);
    place.plan("lost.toml", "data = \"lost.tsv\"\nscores = [\"gradient\"]\n");
    place.refused(&["lost.toml"], 1, "lost.tsv");

    place.plan("study.toml", PLAN);
    place.fine(&["study.toml", "--cell", "1/20"]);
    place.plan("study.toml", &PLAN.replace("items = 12", "items = 13"));
    let want = "was made with `items` 12, and the plan says 13; another `out`, or --force";
    place.refused(&["study.toml"], 1, want);
    place.refused(&["study.toml", "--merge"], 1, want);
    place.plan("study.toml", PLAN);
    let set = String::from_utf8(place.bytes("set.tsv")).expect("text");
    place.write("set.tsv", &set.replacen("the cat is happy", "the cat is tired", 1));
    place.refused(&["study.toml", "--cell", "1/20"], 1, "was made with another set of texts");
    place.fine(&["study.toml", "--cell", "1/20", "--force"]);
}

/// Each machine has the model, the texts and the results somewhere else; a folder is sent to another.
#[test]
fn shares_of_several_machines_are_one_study() {
    let (here, there) = (Place::new(), Place::new());
    here.plan("study.toml", PLAN);
    here.fine(&["study.toml", "--out", "whole"]);
    let model = there.path("model");
    fs::create_dir(&model).expect("folder");
    for entry in fs::read_dir(fixture("fill/bert")).expect("model") {
        let entry = entry.expect("file");
        fs::copy(entry.path(), model.join(entry.file_name())).expect("copied");
    }
    fs::rename(there.path("set.tsv"), there.path("other.tsv")).expect("renamed");
    let plan = PLAN.replace("set.tsv", "other.tsv");
    there.write("mine.toml", &format!("model = 'model'\n{plan}"));

    here.fine(&["study.toml", "--out", "parts", "--cell", "1/2"]);
    there.fine(&["mine.toml", "--out", "parts", "--cell", "2/2"]);
    for entry in fs::read_dir(there.path("parts/cells")).expect("cells") {
        let entry = entry.expect("file");
        let to = here.path("parts/cells").join(entry.file_name());
        assert!(!to.exists(), "each cell is in one share");
        fs::copy(entry.path(), to).expect("copied");
    }
    here.fine(&["study.toml", "--out", "parts", "--merge"]);
    assert!(here.bytes("whole/table.csv") == here.bytes("parts/table.csv"));

    // another model under the same plan is another study
    let config = fs::read_to_string(model.join("config.json")).expect("config");
    fs::write(model.join("config.json"), config + " ").expect("written");
    fs::remove_dir_all(there.path("parts")).expect("removed");
    there.fine(&["mine.toml", "--out", "parts", "--cell", "2/2"]);
    let name = "random.4.json";
    fs::copy(there.path("parts/cells").join(name), here.path("parts/cells").join(name))
        .expect("copied");
    let want = "parts/cells/random.4.json: was made with another model: ";
    here.refused(&["study.toml", "--out", "parts", "--merge"], 1, want);
    here.refused(&["study.toml", "--out", "parts"], 1, want);
    here.write("parts/cells/random.4.json", "{}");
    let want = "parts/cells/random.4.json: is not the result of a cell: missing field";
    here.refused(&["study.toml", "--out", "parts", "--merge"], 1, want);
    here.fine(&["study.toml", "--out", "parts", "--force"]);
    assert!(here.bytes("whole/table.csv") == here.bytes("parts/table.csv"));
}

#[test]
fn greedy_choices_are_made_by_the_items_that_a_seed_draws() {
    let place = Place::new();
    let text = |more: &str| {
        format!(
            "data = \"set.tsv\"\nstrategies = [\"greedy\"]\nfractions = [0.2, 0.4, 0.6]\n\
             random = 0\nresamplings = 10\n{more}"
        )
    };
    let off = |out: &str, seed: u64| {
        let file: Value =
            serde_json::from_slice(&place.bytes(&format!("{out}/cells/greedy.{seed}.json")))
                .expect("JSON");
        let points = file["points"].as_array().expect("points").clone();
        points.into_iter().map(|point| point["off"].clone()).collect::<Vec<_>>()
    };
    place.plan("all.toml", &text(""));
    place.fine(&["all.toml"]);
    // ten items for validation are all that there are
    place.plan("ten.toml", &text("greedy-items = 10\nseeds = [0, 1]\n"));
    place.fine(&["ten.toml"]);
    assert_eq!((off("ten", 0), off("ten", 1)), (off("all", 0), off("all", 0)));
    let seeds = "greedy-items = 1\nseeds = [0, 1, 2, 3, 4, 5, 6, 7]\n";
    place.plan("one.toml", &text(seeds));
    place.fine(&["one.toml"]);
    let first = off("one", 0);
    assert!((1..8).any(|seed| off("one", seed) != first), "{first:?}");
    place.plan("one.toml", &text(&seeds.replace("greedy-items = 1", "greedy-items = 2")));
    let want = "was made with `greedy-items` 1, and the plan says 2; another `out`, or --force";
    place.refused(&["one.toml"], 1, want);
}
