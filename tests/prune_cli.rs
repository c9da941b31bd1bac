//! `attnviz importance`, `ablate` and `prune` as a person runs them, on tiny checkpoints.

mod common;

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use common::ran::Ran;
use common::{fixture, open};
use serde_json::Value;
use tempfile::TempDir;

const TEXTS: &str = "the cat sat on the mat\nthe dog sat on the cat\na cat and a dog\n";

/// A folder with `texts.txt`, in which commands run on the tiny masked language model.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let folder = TempDir::new().expect("folder");
        fs::write(folder.path().join("texts.txt"), TEXTS).expect("written");
        Self(folder)
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, command: &str, args: &[&str]) -> Ran {
        self.on(&fixture("fill/bert"), command, args)
    }

    fn on(&self, model: &Path, command: &str, args: &[&str]) -> Ran {
        let output = Command::new(env!("CARGO_BIN_EXE_attnviz"))
            .current_dir(self.0.path())
            .env("HF_HUB_OFFLINE", "1")
            .env("HF_HOME", self.path("hub"))
            .args([command, "--model"])
            .arg(model)
            .args(args)
            .output();
        Ran::of(output.expect("runs"))
    }

    fn refused(&self, command: &str, args: &[&str], code: i32, want: &str) {
        let ran = self.run(command, args);
        assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{args:?}: {}", ran.err);
        assert!(ran.err.contains(want), "{args:?}: {}", ran.err);
    }
}

const ALL: &str = "gradient,fisher,integrated,jacobian,confidence,output-norm";

#[test]
fn importance_tells_every_score_and_how_they_agree() {
    let place = Place::new();
    let args = ["--file", "texts.txt", "--score", ALL, "--steps", "3", "--mask-share", "0.3"];
    let ran = place.run("importance", &[&args[..], &["--json"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let found = ran.json();
    assert_eq!(found["texts"], 3);
    assert_eq!(found["loss"], "masked-LM loss");
    let heads = open(&fixture("fill/bert"), None).expect("loads").config().heads.concat().len();
    let scores = found["scores"].as_array().expect("scores");
    for (score, name) in scores.iter().zip(ALL.split(',')) {
        assert_eq!(score["score"], name);
        let listed = score["heads"].as_array().expect("heads");
        assert_eq!(listed.len(), heads);
        assert!(listed.iter().all(|head| head["score"].as_f64().is_some_and(|x| x > 0.0)));
    }
    let pairs = found["rank_correlations"].as_array().expect("pairs");
    assert_eq!(pairs.len(), 15);
    assert!(pairs.iter().all(|pair| pair["spearman"].as_f64().is_some_and(|r| r.abs() <= 1.0)));
    // the batch size changes nothing
    let alone = place.run("importance", &[&args[..], &["--json", "--batch-size", "1"]].concat());
    for (a, b) in scores.iter().zip(alone.json()["scores"].as_array().expect("scores")) {
        let pairs =
            a["heads"].as_array().into_iter().flatten().zip(b["heads"].as_array().expect("h"));
        for (a, b) in pairs {
            let (a, b) = (a["score"].as_f64().expect("n"), b["score"].as_f64().expect("n"));
            assert!((a - b).abs() <= 1e-5 * a.abs().max(1.0) + 1e-6, "{a} and {b}");
        }
    }
    let text = place.run("importance", &args);
    for part in ["3 texts", "L0", "H0", "least: L", "most:  L", "rank correlation (Spearman)"] {
        assert!(text.out.contains(part), "{part}: {}", text.out);
    }
    let quiet = place.run("importance", &["--quiet", "the cat sat on the mat"]);
    assert_eq!(quiet.out.lines().count(), heads);
    let numbers: Vec<f64> = quiet
        .out
        .lines()
        .map(|line| line.split('\t').nth(1).expect("score").parse().expect("number"))
        .collect();
    assert!(numbers.is_sorted(), "{}", quiet.out);
}

#[test]
fn gates_that_are_learnt_are_scores() {
    let place = Place::new();
    let args = ["--file", "texts.txt", "--score", "l0,l1", "--gate-steps", "20", "--json"];
    let ran = place.run("importance", &args);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let found = ran.json();
    for (score, name) in found["scores"].as_array().expect("scores").iter().zip(["l0", "l1"]) {
        assert_eq!(score["score"], name);
        let heads = score["heads"].as_array().expect("heads").iter();
        let gates: Vec<f64> = heads.map(|head| head["score"].as_f64().expect("gate")).collect();
        assert!(gates.iter().all(|gate| *gate > 0.0), "{name}: {gates:?}");
        assert!(gates.iter().any(|gate| *gate != gates[0]), "{name}: {gates:?}");
    }
    let again = place.run("importance", &args);
    assert_eq!(again.out, ran.out);
    let other = place.run("importance", &[&args[..], &["--seed", "1"]].concat());
    assert_ne!(other.out, ran.out);
    let pruned = ["out", "--fraction", "0.5", "--score", "l0", "--gate-steps", "20", "--json"];
    let ran = place.run("prune", &[&pruned[..], &["--file", "texts.txt"]].concat());
    assert_eq!((ran.code, &ran.json()["chosen_by"]), (0, &"l0".into()), "{}", ran.err);
}

#[test]
fn layers_lose_their_last_head_only_when_that_is_allowed() {
    let place = Place::new();
    let all = ["all", "--fraction", "1", "--score", "random", "--json"];
    let ran = place.run("prune", &all);
    assert_eq!((ran.code, &ran.json()["left"]), (0, &3.into()), "{}", ran.err);
    let none = ["none", "--fraction", "1", "--score", "random", "--json", "--allow-empty-layers"];
    let ran = place.run("prune", &[&none[..], &["--file", "texts.txt"]].concat());
    assert_eq!((ran.code, &ran.json()["left"]), (0, &0.into()), "{}", ran.err);
    let loss = &ran.json()["likeness"]["loss"];
    assert!(loss[1].as_f64().is_some_and(f64::is_finite), "{loss}");
    let left = open(&place.path("none"), None).expect("loads");
    assert!(left.config().heads.iter().all(Vec::is_empty));
    // nothing is left to score, to switch off or to remove
    for (command, args) in [
        ("importance", &["--json", "the cat sat"][..]),
        ("ablate", &["--json", "the cat sat"]),
        ("prune", &["again", "--fraction", "0.5", "--json", "--file", "texts.txt"]),
    ] {
        let ran = place.on(&place.path("none"), command, args);
        assert_eq!(ran.code, 0, "{command}: {}", ran.err);
    }
    let args = ["layer", "--remove", "1:0,1"];
    place.refused("prune", &args, 2, "a head left in each layer, or --allow-empty-layers");
    assert!(!place.path("layer").exists());
    let ran = place.run("prune", &[&args[..], &["--allow-empty-layers", "--quiet"]].concat());
    assert_eq!((ran.code, ran.out.as_str()), (0, "layer\n"), "{}", ran.err);
}

/// Blocks that layers share, groups that share keys, the bias that all layers of T5 share, and
/// attention across.
#[test]
fn heads_go_as_their_family_has_them() {
    let place = Place::new();
    let prune = |model: &str, list: &str, out: &str| {
        place.on(&fixture("goldens").join(model), "prune", &[out, "--remove", list, "--json"])
    };
    let ran = prune("albert_mlm", "L2H3", "albert");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("L2H3 goes from every layer that shares its block"), "{}", ran.err);
    let layers = open(&fixture("goldens/albert_mlm"), None).expect("loads").config().layers();
    assert_eq!(ran.json()["removed"].as_array().map(Vec::len), Some(layers));

    let ran = prune("llama_lm", "L1H2", "group");
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
    assert!(ran.err.contains("the whole group 1 of layer 1"), "{}", ran.err);
    assert_eq!(prune("llama_lm", "L1H2,L1H3", "group").json()["left"], 6);

    for (list, key) in [
        ("encoder:L0H1", "pruned_heads"),
        ("decoder:L0H1", "decoder_pruned_heads"),
        ("cross:L0H1", "cross_pruned_heads"),
    ] {
        let out = format!("t5-{key}");
        let ran = prune("t5_lm", list, &out);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let config = fs::read(place.path(&out).join("config.json")).expect("config");
        let config: Value = serde_json::from_slice(&config).expect("JSON");
        assert_eq!(config[key], serde_json::json!({ "0": [1] }));
        // the bias by distance stays whole, for layers that still have the head
        let shape = |folder: &Path| {
            let file = fs::read(folder.join("model.safetensors")).expect("file");
            let file = safetensors::SafeTensors::deserialize(&file).expect("tensors");
            let names = file.names().into_iter().filter(|name| name.contains("relative_attention"));
            let mut all: Vec<(String, Vec<usize>)> = names
                .map(|name| (name.to_string(), file.tensor(name).expect("one").shape().to_vec()))
                .collect();
            all.sort();
            all
        };
        let (whole, cut) = (shape(&fixture("goldens/t5_lm")), shape(&place.path(&out)));
        assert!(whole == cut && !cut.is_empty(), "{whole:?} and {cut:?}");
    }
}

#[test]
fn scores_without_a_meaning_are_refused() {
    let place = Place::new();
    let args = ["--loss", "logits", "--score", "gradient", "the cat"];
    place.refused("importance", &args, 2, "score gradient: expected a loss with labels");
    place.refused("importance", &[], 2, "");
    place.refused("importance", &["--quiet"], 2, "--file: expected texts to score");
    place.refused("importance", &["the", "cat"], 2, "the text is one argument");
    place.refused("importance", &["--mask-share", "0", "the cat"], 2, "--mask-share");
    let model = fixture("goldens/bert_model");
    let ran = place.on(&model, "importance", &["--score", "gradient", "--file", "texts.txt"]);
    assert_ne!(ran.code, 0);
}

#[test]
fn prune_writes_a_folder_that_can_be_pruned_again() {
    let place = Place::new();
    let args = ["out", "--fraction", "0.5", "--file", "texts.txt", "--json"];
    let ran = place.run("prune", &args);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let found = ran.json();
    let whole = open(&fixture("fill/bert"), None).expect("loads").config().heads.concat().len();
    let removed = found["removed"].as_array().expect("removed").len();
    assert_eq!(removed, whole / 2);
    assert_eq!(found["left"], whole - removed);
    assert_eq!(found["chosen_by"], "gradient");
    let likeness = &found["likeness"];
    assert!(likeness["cosine"].as_f64().is_some_and(|c| c < 1.0 && c > -1.0), "{likeness}");
    assert!(likeness["loss"][1].as_f64().is_some_and(|loss| loss > 0.0), "{likeness}");
    assert!(found["parameters"]["after"].as_u64() < found["parameters"]["before"].as_u64());
    let bytes = |path: &Path| fs::metadata(path.join("model.safetensors")).expect("file").len();
    assert_eq!(found["bytes"]["after"], bytes(&place.path("out")));
    let before = found["bytes"]["before"].as_u64().expect("bytes");
    assert!(
        before <= bytes(&fixture("fill/bert")) && before > bytes(&place.path("out")),
        "{before}"
    );
    let model = open(&place.path("out"), None).expect("loads");
    assert!(model.config().heads.iter().all(|heads| !heads.is_empty()));
    assert!(model.tokenizer().is_ok());

    // again from there: nothing is left to remove at the same fraction
    let ran = place.on(
        &place.path("out"),
        "prune",
        &["again", "--fraction", "0.5", "--json", "--score", "random"],
    );
    assert_eq!(ran.json()["removed"].as_array().map(Vec::len), Some(0), "{}", ran.err);
    let same = |file: &str| {
        let read = |folder: &str| fs::read(place.path(folder).join(file)).expect("read");
        assert!(read("out") == read("again"), "{file}");
    };
    ["model.safetensors", "config.json", "vocab.txt"].into_iter().for_each(same);
    place.refused("prune", &["out", "--remove", "L0H0"], 1, "is not empty");
}

#[test]
fn prune_takes_lists_and_names_what_is_wrong_with_them() {
    let place = Place::new();
    let ran = place.run("prune", &["out", "--remove", "L0H1", "--remove", "encoder:{\"1\":[0]}"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("2 heads removed") && ran.out.contains("L0H1 L1H0"), "{}", ran.out);
    let config = fs::read(place.path("out/config.json")).expect("config");
    let config: Value = serde_json::from_slice(&config).expect("JSON");
    assert_eq!(config["pruned_heads"], serde_json::json!({"0": [1], "1": [0]}));
    place.refused("prune", &["new", "--remove", "L9H0"], 2, "expected layers 0 to");
    place.refused("prune", &["new", "--remove", "cross:L0H0"], 2, "expected heads of encoder");
    place.refused("prune", &["new", "--fraction", "1.5", "--score", "random"], 2, "--fraction");
    place.refused("prune", &["new", "--fraction", "0.5"], 2, "--file");
    place.refused("prune", &["new"], 2, "--remove");
    // the same head of each layer
    let ran = place.run("prune", &["new", "--remove", "0", "--quiet"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "new\n"), "{}", ran.err);
}

#[test]
fn random_and_rounds_remove_as_many() {
    let place = Place::new();
    for (out, more) in [
        ("random", &["--score", "random", "--seed", "3"][..]),
        ("rounds", &["--rounds", "3", "--file", "texts.txt"]),
        ("layers", &["--by-layer", "--score", "confidence", "--file", "texts.txt"]),
        ("empty", &["--score", "random", "--allow-empty-layers"]),
    ] {
        let ran = place.run("prune", &[&[out, "--fraction", "0.5", "--json"], more].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        let found = ran.json();
        let removed = found["removed"].as_array().map(Vec::len);
        assert_eq!(removed, found["left"].as_u64().map(|left| left as usize), "{out}");
    }
}

#[test]
fn ablate_tells_and_draws_what_each_head_does() {
    let place = Place::new();
    for off in ["zero", "mean", "resampled", "uniform"] {
        let ran = place.run("ablate", &["--file", "texts.txt", "--off", off, "--json"]);
        assert_eq!(ran.code, 0, "{off}: {}", ran.err);
        let found = ran.json();
        assert_eq!(found["measure"], "rise of the masked-LM loss");
        for head in found["heads"].as_array().expect("heads") {
            let of = |key: &str| head[key].as_f64().expect("number");
            let interval = head["interval"].as_array().expect("interval");
            assert!(interval[0].as_f64() <= Some(of("mean") + 1e-9), "{head}");
            assert!(of("p") > 0.0 && of("p") <= of("p_holm") && of("p_holm") <= 1.0, "{head}");
        }
    }
    let args = ["--file", "texts.txt", "--loss", "embedding", "--sets", "layer-others"];
    let ran = place.run("ablate", &[&args[..], &["--out", "heads.png"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("all other heads of its layer off (zero)"), "{}", ran.out);
    assert!(fs::read(place.path("heads.png")).expect("picture").starts_with(b"\x89PNG"));
    assert!(ran.out.contains("each layer with only its best head\n  L0H"), "{}", ran.out);
    place.refused("ablate", &[&args[..], &["--out", "heads.png"]].concat(), 1, "--force");
    let again = place.run("ablate", &[&args[..], &["--out", "heads.png", "--force"]].concat());
    assert_eq!(again.out, ran.out);
    let ran = place.run("ablate", &["--file", "texts.txt", "--loss", "logits", "--quiet"]);
    assert!(ran.out.starts_with("L0H0\t"), "{}", ran.out);
    place.refused("ablate", &["--off", "resampled", "the cat sat"], 5, "another text");
    place.refused("ablate", &["--out", "heads.gif", "the cat sat"], 2, "--out");
}

#[test]
fn heads_are_marked_where_chance_is_no_explanation() {
    let place = Place::new();
    fs::write(place.path("more.txt"), more_texts()).expect("written");
    let args = ["--file", "more.txt", "--sets", "all-others", "--mask-share", "0.5"];
    let found = place.run("ablate", &[&args[..], &["--json"]].concat()).json();
    let heads = found["heads"].as_array().expect("heads");
    let marked: Vec<&str> = heads
        .iter()
        .filter(|head| head["p_holm"].as_f64() < Some(0.05))
        .map(|head| head["head"].as_str().expect("name"))
        .collect();
    assert!(!marked.is_empty(), "{found}");
    let ran = place.run("ablate", &[&args[..], &["--out", "heads.svg"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let rows = ran.out.lines().filter(|line| line.starts_with(" L"));
    let stars: usize = rows.map(|line| line.matches('*').count()).sum();
    assert_eq!(stars, marked.len(), "{}", ran.out);
    assert!(ran.out.contains("* p below 0.05 after Holm"), "{}", ran.out);
    let picture = fs::read_to_string(place.path("heads.svg")).expect("picture");
    let picture = roxmltree::Document::parse(&picture).expect("XML");
    let texts = picture.descendants().filter_map(|node| node.text());
    let note = texts.filter(|text| text.contains("after Holm")).collect::<String>();
    assert!(marked.iter().all(|head| note.contains(head)), "{note}: {marked:?}");
}

#[test]
fn labelled_sets_give_losses_and_reports() {
    let place = Place::new();
    let (subjects, good, bad) = (["cat", "dog", "bird", "man", "boy"], "happy", "tired");
    let mut lines = String::from("split\tlabel\ttext\n");
    for (i, split) in ["train", "train", "validation", "test", "test"].into_iter().enumerate() {
        for subject in subjects {
            let start = if i % 2 == 0 { "the" } else { "a" };
            lines += &format!("{split}\tgood\t{start} {subject} is {good}\n");
            lines += &format!("{split}\tbad\t{start} {subject} is {bad}\n");
        }
    }
    fs::write(place.path("set.tsv"), lines).expect("written");
    let ran = place.run("importance", &["--data", "set.tsv", "--score", "gradient", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let found = ran.json();
    assert_eq!(
        (&found["texts"], &found["loss"]),
        (&20.into(), &"cross entropy of the classes".into())
    );
    let heads = found["scores"][0]["heads"].as_array().expect("heads");
    assert!(heads.iter().any(|head| head["score"].as_f64() > Some(0.0)), "{heads:?}");
    let ran = place.run("ablate", &["--data", "set.tsv", "--json"]);
    assert_eq!(ran.json()["measure"], "rise of the cross entropy of the classes", "{}", ran.err);

    let ran = place.run("prune", &["out", "--fraction", "0.3", "--data", "set.tsv", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let report = ran.json()["labelled"].clone();
    assert_eq!(report["items"], 20);
    // a word alone decides, so a probe on any model's embeddings tells it
    assert!(report["before"]["accuracy"].as_f64() > Some(0.9), "{report}");
    let change = report["accuracy_change"]["mean"].as_f64().expect("change");
    let of = |when: &str| report[when]["accuracy"].as_f64().expect("accuracy");
    assert!((of("after") - of("before") - change).abs() < 1e-9, "{report}");

    let pairs = "text_a\ttext_b\tscore\tsplit\nthe cat sat\ta cat sat\t5\ttest\n\
                 the cat sat\tthe man ran\t1\ttest\nthe dog slept\ta dog slept\t4\ttest\n\
                 the boy ran\ta girl ran\t3\ttrain\n";
    fs::write(place.path("pairs.tsv"), pairs).expect("written");
    let args = ["two", "--fraction", "0.3", "--score", "random", "--data", "pairs.tsv", "--json"];
    let ran = place.run("prune", &args);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let spearman = &ran.json()["labelled"]["spearman"];
    assert!(spearman.as_array().is_some_and(|both| both.len() == 2), "{spearman}");
    place.refused("prune", &["new", "--fraction", "0.3", "--data", "none.tsv"], 1, "none.tsv");
    place.refused("importance", &["--data", "set.tsv", "the cat"], 2, "--data");
}

#[test]
fn operations_fall_with_the_heads() {
    let place = Place::new();
    place.run("prune", &["out", "--remove", "0"]);
    let count = |model: &Path| {
        let output = Command::new(env!("CARGO_BIN_EXE_attnviz"))
            .args(["inspect", "--flops", "10", "--json"])
            .arg(model)
            .output()
            .expect("runs");
        let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        found["operations"]["count"].as_f64().expect("count")
    };
    // D 24, K 12, I 32, V 52, three layers, two heads each, ten tokens
    let head = (4 * 24 * 12 + 2 * 10 * 12) as f64;
    let whole = 2.0 * 10.0 * (3.0 * (2.0 * head + (2 * 24 * 32) as f64) + (52 * 24) as f64);
    assert_eq!(count(&fixture("fill/bert")), whole);
    assert_eq!(count(&place.path("out")), whole - 2.0 * 10.0 * 3.0 * head);
}

/// Texts enough for a part of each kind.
fn more_texts() -> String {
    let (subjects, ends) = (["cat", "dog", "bird", "man", "boy"], ["sat", "ran", "slept"]);
    let line = |(i, end): (usize, &str)| format!("the {} {end} on the mat\n", subjects[i % 5]);
    (0..15).map(|i| (i, ends[i / 5])).map(line).collect()
}

fn narrow(out: &str) {
    // the first line names the model by its path
    let wide = out.lines().skip(1).find(|line| line.chars().count() > 80);
    assert_eq!(wide, None, "{out}");
}

#[test]
fn strategies_tell_the_way_they_went() {
    let place = Place::new();
    fs::write(place.path("more.txt"), more_texts()).expect("written");
    for (out, strategy, score) in [
        ("one", "one-shot", "gradient"),
        ("rounds", "iterative", "gradient"),
        ("greedy", "greedy", "greedy"),
        ("random", "random", "random"),
    ] {
        let args = [out, "--fraction", "0.5", "--strategy", strategy, "--file", "more.txt"];
        let ran = place.run("prune", &[&args[..], &["--json"]].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        let found = ran.json();
        let (by, named) = (&found["chosen_by"], &found["strategy"]);
        assert_eq!((by, named), (&score.into(), &strategy.into()), "{strategy}");
        // three of fifteen texts are for reports
        assert_eq!(found["texts"], 3, "{strategy}");
        assert_eq!(found["curve"]["metric"], "masked-LM loss");
        let points = found["curve"]["points"].as_array().expect("points");
        // six heads: all of them, without 10 (and 20), 30 (and 40) and 50 percent
        let left: Vec<u64> = points.iter().filter_map(|one| one["heads_left"].as_u64()).collect();
        assert_eq!(left, [6, 5, 4, 3], "{strategy}");
        let of = |key: &str| points.last().and_then(|one| one[key].as_f64()).expect("number");
        let loss = found["likeness"]["loss"][1].as_f64().expect("loss");
        assert!((of("metric") - loss).abs() < 1e-5, "{strategy}: by gates and by what was written");
        let interval = points[0]["interval"].as_array().expect("interval");
        assert!(interval[0].as_f64() <= points[0]["metric"].as_f64(), "{strategy}");
        assert!(found["operations"]["after"].as_f64() < found["operations"]["before"].as_f64());
    }
    let args = ["text", "--fraction", "0.5", "--rounds", "2", "--file", "more.txt", "--latency"];
    let ran = place.run("prune", &args);
    for part in [
        "by gradient in 2 rounds",
        "heads left   masked-LM loss",
        "arithmetic of",
        "  1 × 32 tokens: ",
        "\n  4 × 32 tokens: ",
        "\n 16 × 32 tokens: ",
        "\n 64 × 32 tokens: ",
    ] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    narrow(&ran.out);
    for (args, want) in [
        (["--strategy", "greedy", "--rounds", "3"], "--rounds: expected --strategy iterative"),
        (["--strategy", "greedy", "--score", "random"], "--score: expected a score"),
        (["--score", "random", "--rounds", "3"], "--rounds: expected a score"),
        (["--strategy", "best", "--rounds", "3"], "--strategy"),
    ] {
        let start = ["new", "--fraction", "0.5", "--file", "more.txt"];
        place.refused("prune", &[&start[..], &args].concat(), 2, want);
    }
    let few = place.run("prune", &["few", "--fraction", "0.5", "--file", "texts.txt"]);
    assert!(few.err.contains("fewer than five texts"), "{}", few.err);
}

#[test]
fn budgets_and_means_on_the_command_line() {
    let place = Place::new();
    fs::write(place.path("more.txt"), more_texts()).expect("written");
    let args = ["out", "--budget", "params=95%", "--file", "more.txt", "--json"];
    let found = place.run("prune", &args).json();
    let of = |key: &str| found["parameters"][key].as_f64().expect("count");
    assert!(of("after") <= 0.95 * of("before"), "{found}");
    let args = ["heads", "--budget", "heads=4", "--strategy", "random", "--json"];
    assert_eq!(place.run("prune", &args).json()["left"], 4);
    place.refused("prune", &["no", "--budget", "heads"], 2, "expected the most that may stay");
    let args = ["no", "--budget", "flops=1%", "--strategy", "random"];
    place.refused("prune", &args, 2, "or more, with a head left in each layer");
    place.refused("prune", &["no", "--budget", "heads=4", "--fraction", "0.1"], 2, "--fraction");

    let args = ["folded", "--fraction", "0.5", "--file", "more.txt", "--fold-bias", "--json"];
    let ran = place.run("prune", &args);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("now holds the mean output of"), "{}", ran.err);
    let found = ran.json();
    let points = found["curve"]["points"].as_array().expect("points");
    let metric = points.last().and_then(|one| one["metric"].as_f64()).expect("metric");
    let loss = found["likeness"]["loss"][1].as_f64().expect("loss");
    assert!((metric - loss).abs() < 1e-5, "{metric} and {loss}");
    let config = fs::read_to_string(place.path("folded/config.json")).expect("config");
    assert!(config.contains("folded_heads"), "{config}");
    place.refused("prune", &["no", "--remove", "L0H0", "--fold-bias"], 2, "--file");
}

/// A vocabulary of ids below 120, of which the goldens have more.
const WORDS: &str = "[PAD] [UNK] [CLS] [SEP] [MASK] the cat dog sat ran on mat le chat";

#[test]
fn encoder_decoders_are_scored_switched_off_and_pruned_in_all_stacks() {
    let place = Place::new();
    fs::write(place.path("vocab.txt"), WORDS.replace(' ', "\n")).expect("written");
    let pairs = "{\"text\": \"the cat sat\", \"text_b\": \"le chat\"}\n\
                 {\"text\": \"the dog ran on the mat\", \"text_b\": \"le chat ran\"}\n\
                 {\"text\": \"the cat ran\"}\n";
    fs::write(place.path("pairs.jsonl"), pairs).expect("written");
    for model in ["bart_lm", "marian_mt", "t5_lm"] {
        let folder = fixture("goldens").join(model);
        let args = ["--tokenizer", "vocab.txt", "--file", "pairs.jsonl"];
        let on = |command: &str, more: &[&str]| {
            let ran = place.on(&folder, command, &[&args[..], more].concat());
            assert_eq!(ran.code, 0, "{model}: {}", ran.err);
            ran
        };
        let found = on("importance", &["--json", "--score", "gradient,confidence"]).json();
        assert_eq!(found["loss"], "loss of the text to write");
        for score in found["scores"].as_array().expect("scores") {
            let heads = score["heads"].as_array().expect("heads");
            let of = |stack: &str| {
                let own = heads.iter().filter(|head| head["stack"] == stack);
                own.filter(|head| head["score"].as_f64() > Some(0.0)).count()
            };
            assert_eq!((of("encoder"), of("decoder"), of("cross")), (8, 8, 8), "{model}");
            assert_eq!(heads[23]["head"], "cross:L1H3", "{model}");
        }
        let text = on("importance", &[]);
        for part in ["encoder\n", "decoder\n", "cross-attention\n"] {
            assert!(text.out.contains(part), "{model}, {part}: {}", text.out);
        }
        narrow(&text.out);

        for off in ["zero", "mean", "resampled", "uniform"] {
            let found = on("ablate", &["--json", "--off", off]).json();
            assert_eq!(found["measure"], "rise of the loss of the text to write");
            let heads = found["heads"].as_array().expect("heads");
            let moved = |stack: &str| {
                let own = heads.iter().filter(|head| head["stack"] == stack);
                own.filter(|head| head["mean"].as_f64() != Some(0.0)).count()
            };
            let all = (moved("encoder"), moved("decoder"), moved("cross"));
            assert_eq!(all, (8, 8, 8), "{model} {off}");
        }
        let text = on("ablate", &["--out", &format!("heads-{model}.png")]);
        narrow(&text.out);
        let out = format!("pruned-{model}");
        let found = on("prune", &[&out, "--fraction", "0.5", "--json"]).json();
        let removed = found["removed"].as_array().expect("removed");
        assert_eq!(removed.len(), 12, "{model}");
        let named =
            |start: &str| removed.iter().any(|h| h.as_str().is_some_and(|h| h.starts_with(start)));
        assert!(named("decoder:") || named("cross:"), "{model}: {removed:?}");
        let points = found["curve"]["points"].as_array().expect("points");
        let metric = points.last().and_then(|one| one["metric"].as_f64()).expect("metric");
        let loss = found["likeness"]["loss"][1].as_f64().expect("loss");
        assert!((metric - loss).abs() < 1e-5, "{model}: {metric} by gates, {loss} as written");
    }
    let refused = place.run("importance", &["--loss", "seq2seq-lm", "the cat"]);
    assert!(refused.code == 2 && refused.err.contains("without a decoder"), "{}", refused.err);
}

#[test]
fn tables_fit_80_columns() {
    let place = Place::new();
    let start = ["importance", "--file", "texts.txt", "--score", "jacobian,output-norm"];
    let run = |more: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_attnviz"))
            .current_dir(place.0.path())
            .env("HF_HUB_OFFLINE", "1")
            .args(start)
            .args(more)
            .output()
            .expect("runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    // twelve heads, side by side
    let text = run(&[]);
    narrow(&text);
    assert!(text.lines().any(|line| line.contains("H0") && line.contains("H11")), "{text}");
    assert!(text.contains("in units of 1e"), "{text}");
}
