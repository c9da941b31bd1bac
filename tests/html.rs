//! `attnviz html`: where its pages go, what they are called, and what it refuses.

mod common;

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use common::files_in;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;

fn html(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("attnviz").unwrap();
    command.current_dir(folder).arg("html").args(args);
    command
}

fn data(path: &Path) -> Value {
    let html = fs::read_to_string(path).unwrap();
    let (_, rest) = html.split_once("id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn a_page_is_named_after_its_text_and_replaced_by_the_same_command_alone() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("notebooks-out");
    html(folder.path(), &["The cat sat."])
        .assert()
        .success()
        .stdout(contains("the-cat-sat.html: 72 heads"));
    html(folder.path(), &["The cat sat.", "--words"]).assert().success();
    assert_eq!(files_in(&out), ["the-cat-sat.html"]);
    assert_eq!(data(&out.join("the-cat-sat.html"))["start"]["words"], true);
    // another text of that name moves aside, and a file of somebody else stays
    html(folder.path(), &["the cat sat"]).assert().success();
    assert_eq!(files_in(&out).len(), 2);
    fs::write(out.join("my-notes.html"), "mine").unwrap();
    html(folder.path(), &["My notes"]).assert().success();
    assert_eq!(fs::read_to_string(out.join("my-notes.html")).unwrap(), "mine");
    assert_eq!(files_in(&out).len(), 4);
}

#[test]
fn a_named_file_is_never_overwritten_unless_forced() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.html");
    fs::write(&file, "mine").unwrap();
    html(folder.path(), &["a", "--out", "a.html"]).assert().code(1).stderr(contains("--force"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    html(folder.path(), &["a", "--out", "a.html", "--force"]).assert().success();
    assert_eq!(data(&file)["title"], "a");
}

#[test]
fn machines_read_what_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let run = html(folder.path(), &["a b", "--out", "a.html", "--json", "--heads", "L1H2"]);
    let output = { run }.output().unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((told["file"].as_str(), told["heads"].as_u64()), (Some("a.html"), Some(1)));
    assert!(told["largest_error"]["weight"].as_f64().unwrap() < 4e-3);
    assert_eq!(
        told["bytes"].as_u64(),
        Some(fs::metadata(folder.path().join("a.html")).unwrap().len())
    );
}

#[test]
fn a_file_gives_a_page_per_line_and_goes_on_past_bad_ones() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("texts.txt"), "one cat\n\ntwo dogs\n").unwrap();
    html(folder.path(), &["--file", "texts.txt", "--out", "pages"])
        .assert()
        .code(5)
        .stdout(contains("line 1: pages/one-cat.html").and(contains("2 pages written, 1 bad")))
        .stderr(contains("texts.txt, line 2"));
    assert_eq!(files_in(&folder.path().join("pages")), ["one-cat.html", "two-dogs.html"]);
    html(folder.path(), &["--file", "texts.txt", "--out", "all.html"])
        .assert()
        .code(2)
        .stderr(contains("a folder"));
}

#[test]
fn texts_layers_and_models_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    html(folder.path(), &["a cat", "--compare", "a dog", "--out", "a.html"]).assert().success();
    let page = data(&folder.path().join("a.html"));
    let names: Vec<&str> =
        page["sides"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a cat", "a dog"]);
    html(folder.path(), &["a cat", "--compare-layers", "1,4", "--out", "b.html"])
        .assert()
        .success();
    assert_eq!(data(&folder.path().join("b.html"))["compare"], serde_json::json!([1, 4]));
    html(folder.path(), &["a cat", "--compare-model", "built-in", "--out", "c.html"])
        .assert()
        .success();
    // the number of threads is set once for both models
    let other = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/all-MiniLM-L6-v2-f16");
    let two = ["a cat", "--compare-model", other, "--threads", "1", "--out", "d.html"];
    html(folder.path(), &two).assert().success();
    assert_eq!(data(&folder.path().join("c.html"))["sides"].as_array().unwrap().len(), 2);
}

#[test]
fn a_text_beside_another_needs_no_second_model() {
    let folder = tempfile::tempdir().unwrap();
    let noted = |args: &[&str]| {
        let output = tiny(folder.path(), "html", "bert_mlm_legacy_names", args).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{told}");
        told.matches("assumed").count()
    };
    // what is said of a model while it is loaded
    assert_eq!(noted(&["the cat", "--out", "a.html"]), 1);
    assert_eq!(noted(&["the cat", "--compare", "the mat", "--out", "b.html"]), 1);
    let page = data(&folder.path().join("b.html"));
    assert_eq!(page["sides"][1]["name"], "the mat");
}

#[test]
fn arrays_from_elsewhere_have_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let arrays = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/arrays");
    let given = |name: &str| arrays.join(name).display().to_string();
    let (file, tokens) = (given("stacked.npz"), given("tokens.json"));
    let flags = ["--attention", &file, "--tokens", &tokens, "--out"];
    let run = |args: &[&str]| html(folder.path(), &[&flags[..], args].concat());
    run(&["a.html", "--compare-layers", "0,1"]).assert().success();
    let page = data(&folder.path().join("a.html"));
    let sheet = &page["sides"][0]["sheets"][0];
    let labels: Value = serde_json::from_slice(&fs::read(&tokens).unwrap()).unwrap();
    assert_eq!(sheet["rows"]["tokens"].as_array().unwrap().len(), labels.as_array().unwrap().len());
    assert_eq!(page["sides"][0]["model"], "stacked.npz");
    assert_eq!(page["compare"], serde_json::json!([0, 1]));
    run(&["b.html", "--heads", "L1H0"]).assert().success();
    let page = data(&folder.path().join("b.html"));
    assert_eq!(page["sides"][0]["sheets"][0]["heads"], serde_json::json!([[1, 0]]));
    // as the picture's companion
    let mut view = Command::cargo_bin("attnviz").unwrap();
    view.current_dir(folder.path()).args(["view", "--html", "--only", "grid"]).args(flags);
    view.arg("pictures").assert().success().stdout(contains(".html"));
    for (more, why) in [
        (["c.html", "--neuron", "0"], "cannot be used with"),
        (["c.html", "--compare", "a"], "cannot be used with"),
        (["c.html", "--compare-layers", "0,9"], "--compare-layers"),
    ] {
        run(&more).assert().code(2).stderr(contains(why));
    }
    run(&["c.html", "--layers", "0", "--compare-layers", "0,1"])
        .assert()
        .code(2)
        .stderr(contains("layers with heads"));
    assert!(!folder.path().join("c.html").exists());
}

#[test]
fn queries_and_keys_come_with_the_layers_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    html(folder.path(), &["a cat", "--neuron", "0,-1", "--out", "a.html"]).assert().success();
    let page = data(&folder.path().join("a.html"));
    let neurons = page["sides"][0]["sheets"][0]["neurons"].as_array().unwrap();
    assert_eq!(neurons.len(), 24);
    let layers: Vec<u64> = neurons.iter().map(|one| one["layer"].as_u64().unwrap()).collect();
    assert!(layers.iter().all(|layer| [0, 5].contains(layer)));
    assert_eq!(neurons[0]["terms_at"], Value::Null, "nothing but products in BERT's scores");
}

#[test]
fn what_cannot_be_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let cases: [(&[&str], &str); 7] = [
        (&["a", "--residual", "1"], "--residual"),
        (&["a", "--neuron", "6"], "--neuron"),
        (&["a", "--neuron", "3", "--layers", "0-1"], "--neuron"),
        (&["a", "--compare-layers", "3"], "two layers"),
        (&["a", "--compare", "b", "--compare-layers", "0,1"], "cannot be used with"),
        (&["a", "b"], "one argument"),
        (&["a", "--view", "heat"], "invalid value"),
    ];
    for (args, why) in cases {
        html(folder.path(), args).assert().code(2).stderr(contains(why));
    }
    assert_eq!(files_in(folder.path()), Vec::<String>::new());
}

/// A tiny model of the goldens with a vocabulary of words.
fn tiny(folder: &Path, command: &str, model: &str, args: &[&str]) -> Command {
    let words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\nsat\non\nmat\nle\nchat\n";
    fs::write(folder.join("vocab.txt"), words).unwrap();
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/goldens").join(model);
    let mut run = Command::cargo_bin("attnviz").unwrap();
    run.current_dir(folder).args([command, "--model"]).arg(model);
    run.args(["--tokenizer", "vocab.txt"]).args(args);
    run
}

#[test]
fn an_encoder_decoder_has_three_attentions_and_their_neurons() {
    let folder = tempfile::tempdir().unwrap();
    for model in ["bart_lm", "t5_lm"] {
        let args =
            ["the cat sat", "--target", "le chat", "--neuron", "0", "--out", "a.html", "--force"];
        tiny(folder.path(), "html", model, &args).assert().success();
        let page = data(&folder.path().join("a.html"));
        let sheets = page["sides"][0]["sheets"].as_array().unwrap();
        let names: Vec<&str> = sheets.iter().map(|s| s["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["encoder", "decoder", "cross"], "{model}");
        assert_eq!(sheets[1]["causal"], true);
        assert_eq!(sheets[2]["rows"]["tokens"], sheets[1]["rows"]["tokens"]);
        assert_eq!(sheets[2]["columns"]["tokens"], sheets[0]["rows"]["tokens"]);
        for sheet in sheets {
            let neurons = sheet["neurons"].as_array().unwrap();
            assert!(!neurons.is_empty(), "{model} {}", sheet["name"]);
            // T5 divides by nothing
            assert_eq!(neurons[0]["factor"] == 1.0, model == "t5_lm", "{model}");
        }
    }
    tiny(folder.path(), "html", "bart_lm", &["the cat", "--out", "b.html"])
        .assert()
        .success()
        .stderr(contains("without --target"));
}

#[test]
fn a_written_text_has_its_steps_on_the_page() {
    let folder = tempfile::tempdir().unwrap();
    for (model, stack) in [("gpt2_lm", "self"), ("llama_lm", "self"), ("bart_lm", "decoder")] {
        let args = [
            "the cat sat",
            "--max-new-tokens",
            "4",
            "--ignore-end",
            "--html",
            "--out",
            model,
            "--json",
        ];
        let output = tiny(folder.path(), "generate", model, &args).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let [name] = &files_in(&folder.path().join(model))[..] else { panic!("one page") };
        let page = data(&folder.path().join(model).join(name));
        let sheets = page["sides"][0]["sheets"].as_array().unwrap();
        let sheet = sheets.iter().find(|sheet| sheet["name"] == stack).unwrap();
        let (tokens, prompt) =
            (sheet["rows"]["tokens"].as_array().unwrap().len(), &sheet["prompt"]);
        let prompt = prompt.as_u64().unwrap() as usize;
        assert_eq!(tokens, prompt + 3, "{model}: the last token was read by none");
        assert_eq!(sheet["causal"], true);
    }
}

#[test]
fn exported_stages_have_a_page_beside_them() {
    let folder = tempfile::tempdir().unwrap();
    let export = |args: &[&str]| {
        let mut command = Command::cargo_bin("attnviz").unwrap();
        command.current_dir(folder.path()).arg("export").args(args).assert()
    };
    export(&["The cat sat.", "--out", "x.npz", "--html"]).success().stderr(contains("x.html"));
    html(folder.path(), &["The cat sat.", "--out", "y.html"]).assert().success();
    let sheets = |name: &str| data(&folder.path().join(name))["sides"].clone();
    assert_eq!(sheets("x.html"), sheets("y.html"));
    export(&["The cat sat.", "--out", "x.safetensors", "--html"])
        .failure()
        .stderr(contains("x.html").and(contains("--force")));
    assert!(!folder.path().join("x.safetensors").exists());
    export(&["--inputs", "ids.npz", "--out", "z.npz", "--html"]).code(2);
}
