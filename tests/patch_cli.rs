//! `attnviz patch` on the command line: what it says, draws and refuses.

mod common;

use std::path::Path;
use std::process::{Command, Output};

use common::fixture;
use common::kinds::checkpoint;
use serde_json::{Value, json};
use tempfile::TempDir;
use unicode_width::UnicodeWidthStr;

fn patch(folder: &Path, model: Option<&Path>, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attnviz"));
    command.current_dir(folder).arg("patch").args(args);
    if let Some(model) = model {
        command.arg("--model").arg(model);
    }
    command.output().expect("runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn json_of(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn refused(output: &Output, code: i32, wants: &[&str]) {
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{told}");
    assert!(wants.iter().all(|want| told.contains(want)), "{told}");
    // behind what is noted of the model
    let errors = told.lines().filter(|line| !line.starts_with("note: ")).count();
    assert!(errors == 1 && output.stdout.is_empty(), "{told}");
}

#[cfg(feature = "embedded")]
#[test]
fn two_texts_are_enough() {
    let folder = TempDir::new().expect("folder");
    let texts = ["The man is eating food", "The man is eating glass"];
    let told = text(&patch(folder.path(), None, &texts).stdout);
    assert!(told.lines().all(|line| line.width() <= 80), "{told}");
    for want in [
        "cosine to the clean run's embedding: 1.00 clean, 0.",
        "denoising: the corrupted run with one place of the clean one",
        "head_output, by head\n",
        "  5 food/glass",
        "\nL5 ",
        "\nmost\n",
    ] {
        assert!(told.contains(want), "{want}: {told}");
    }
    assert!(!told.contains("-0.00"), "{told}");
    let all = json_of(&patch(folder.path(), None, &[&texts[..], &["--json"]].concat()));
    assert_eq!(all["metric"]["name"], "cosine");
    let (clean, corrupted) = (&all["clean"]["value"], &all["corrupted"]["value"]);
    let (clean, corrupted) = (clean.as_f64().expect("one"), corrupted.as_f64().expect("one"));
    let results = all["results"].as_array().expect("results");
    assert_eq!(results.len(), 2);
    assert_eq!(results[0]["cells"].as_array().expect("cells").len(), 72);
    assert_eq!(results[1]["cells"].as_array().expect("cells").len(), 6 * 7);
    for cell in results.iter().flat_map(|one| one["cells"].as_array().expect("cells")) {
        let value = cell["value"].as_f64().expect("a number");
        let share = (value - corrupted) / (clean - corrupted);
        assert!((share - cell["restored"].as_f64().expect("a number")).abs() < 1e-9);
    }
    let quiet =
        text(&patch(folder.path(), None, &[&texts[..], &["-q", "--by", "head"]].concat()).stdout);
    assert_eq!(quiet.lines().count(), 72);
    assert!(quiet.starts_with("head_output\tL0H0\t-\t"), "{quiet}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("folder").count(), 0, "nothing is written");
}

#[test]
fn a_mask_is_filled_by_the_answer_or_the_wrong_one() {
    let (folder, bert) = (TempDir::new().expect("folder"), fixture("fill").join("bert"));
    let texts = ["The [MASK] sat on the mat.", "The [MASK] ran on the mat."];
    let run = |more: &[&str]| patch(folder.path(), Some(&bert), &[&texts[..], more].concat());
    let all = json_of(&run(&["--answer", "Cat", "--wrong", "dog", "--json", "--by", "head"]));
    let metric = json!({ "name": "logit-difference", "at": 2, "answer": "cat", "wrong": "dog" });
    assert_eq!(all["metric"], metric);
    assert_eq!(all["results"][0]["cells"][3]["heads"], json!([1]));
    assert_eq!(json_of(&run(&["--answer", "cat", "--json"]))["metric"]["name"], "probability");
    let plain = json_of(&run(&["--json", "--direction", "noising"]));
    assert_eq!(
        (&plain["metric"]["name"], &plain["direction"]),
        (&json!("divergence"), &json!("noising"))
    );
    assert_eq!(plain["clean"]["value"], 0.0);
    let told =
        text(&run(&["--answer", "cat", "--site", "residual,key", "--by", "head,position"]).stdout);
    assert!(told.contains("probability of `cat`, at 2 ([MASK])"), "{told}");
    assert!(
        told.contains("\nresidual, by position\n") && told.contains("\nkey, by head\n"),
        "{told}"
    );
    // the whole of the last residual at the mask is all that the answer is read off
    let whole =
        json_of(&run(&["--answer", "cat", "--site", "residual", "--layers", "-1", "--json"]));
    let cells = whole["results"][0]["cells"].as_array().expect("cells");
    let of = |run: &str| whole[run]["value"].as_f64().expect("a number");
    for (i, cell) in cells.iter().enumerate() {
        let (want, value) = (of(if i == 2 { "clean" } else { "corrupted" }), &cell["value"]);
        // of a run beside others, so to rounding
        let near = value.as_f64().is_some_and(|value| (value - want).abs() < 1e-5 * want);
        assert!(near, "{i}: {value}, not {want}");
    }
}

#[test]
fn pictures_go_into_a_folder_of_their_own_and_are_the_same_again() {
    let (folder, bert) = (TempDir::new().expect("folder"), fixture("fill").join("bert"));
    let flags = ["The cat sat.", "The dog sat.", "--metric", "cosine", "--png", "--out", "out"];
    let run = |more: &[&str]| patch(folder.path(), Some(&bert), &[&flags[..], more].concat());
    let told =
        text(&run(&["-q", "--by", "head,position,head-position", "--site", "query,value"]).stdout);
    assert_eq!(told, "out/patch-the-cat-sat\n");
    let place = folder.path().join("out/patch-the-cat-sat");
    let read = |name: &str| std::fs::read(place.join(name)).expect(name);
    for site in ["query", "value"] {
        for by in ["head", "position", "head-position"] {
            assert!(read(&format!("patch-{site}-by-{by}.png")).starts_with(b"\x89PNG"));
        }
    }
    let before = read("patch-query-by-head.png");
    let all = json_of(&run(&["--site", "query", "--json", "--by", "head", "--format", "png,svg"]));
    assert_eq!(all["files"], json!(["patch-query-by-head.png", "patch-query-by-head.svg"]));
    assert_eq!(read("patch-query-by-head.png"), before);
    assert!(!place.join("patch-value-by-head.png").exists(), "what an earlier run left is gone");
    assert!(text(&read("patch-query-by-head.svg")).contains("Corrupted: The dog sat."));
    // a folder of somebody else
    let other = folder.path().join("out/patch-a-cat-ran");
    std::fs::create_dir(&other).expect("folder");
    std::fs::write(other.join("notes.txt"), "mine").expect("file");
    let mine = ["A cat ran.", "A dog ran.", "--metric", "cosine", "--png", "--out", "out"];
    refused(&patch(folder.path(), Some(&bert), &mine), 1, &["--force"]);
}

#[test]
fn an_encoder_decoder_says_which_stack() {
    let (folder, t5) = (TempDir::new().expect("folder"), checkpoint("t5_lm", "t5"));
    let texts = ["The cat sat.", "The sat cat."];
    let run = |more: &[&str]| {
        patch(folder.path(), Some(t5.path()), &[&texts[..], &["--target", "a mat"], more].concat())
    };
    let tokens = |all: &Value, name: &str| all[name].as_array().expect("tokens").len();
    let plain =
        json_of(&patch(folder.path(), Some(t5.path()), &[&texts[..], &["--json"]].concat()));
    assert_eq!((&plain["stack"], tokens(&plain, "decoder_tokens")), (&json!("encoder"), 1));
    for (stack, site) in
        [("encoder", "pattern"), ("decoder", "residual"), ("cross", "key"), ("cross", "query")]
    {
        let flags = ["--stack", stack, "--site", site, "--by", "position", "--json"];
        let all = json_of(&run(&flags));
        let (read, written) = (tokens(&all["clean"], "tokens"), tokens(&all, "decoder_tokens"));
        let cells = all["results"][0]["cells"].as_array().expect("cells").len();
        let over = if stack == "encoder" || site == "key" { read } else { written };
        let layers = cells / over;
        assert!(layers >= 2 && cells == layers * over, "{stack} {site}: {cells}");
        let told = text(&run(&flags[..flags.len() - 1]).stdout);
        assert!(
            told.contains(&format!("\n{stack}, {site}, by position")) || site == "residual",
            "{told}"
        );
        assert!(told.lines().skip(1).all(|line| line.width() <= 80), "{told}");
    }
    refused(&run(&["--stack", "cross", "--site", "residual"]), 2, &["--stack", "decoder"]);
}

#[test]
fn heads_that_share_keys_stand_together() {
    let (folder, llama) = (TempDir::new().expect("folder"), checkpoint("llama_lm", "llama"));
    let flags = ["The cat sat", "The sat cat", "--site", "value,query", "--by", "head"];
    let output = patch(folder.path(), Some(llama.path()), &flags);
    let told = text(&output.stdout);
    assert!(told.contains("H0-1  H2-3"), "{told}{}", text(&output.stderr));
    assert!(told.contains("   H0    H1    H2    H3"), "{told}");
}

#[test]
fn what_cannot_be_patched_is_said_in_a_line() {
    let (folder, bert) = (TempDir::new().expect("folder"), fixture("fill").join("bert"));
    let run = |args: &[&str]| patch(folder.path(), Some(&bert), args);
    let (clean, other) = ("The [MASK] sat.", "The [MASK] ran.");
    refused(
        &run(&[clean, "The [MASK] ran on."]),
        5,
        &["6 in the clean text", "[CLS] the [MASK] sat . [SEP]", "7 in the corrupted"],
    );
    refused(&run(&[clean, clean]), 5, &["nothing to restore"]);
    refused(&run(&[clean]), 2, &["two texts"]);
    refused(&run(&[clean, other, "more"]), 2, &["one argument"]);
    refused(&run(&[clean, other, "--answer", "cat sat"]), 2, &["--answer", "one token"]);
    refused(&run(&[clean, "[MASK] dog ran."]), 2, &["--at", "one mask", "[2] and [1]"]);
    refused(&run(&["The cat sat.", "The dog sat."]), 2, &["--at", "[] and []"]);
    refused(&run(&[clean, other, "--at", "9"]), 2, &["--at", "from 0 to 5"]);
    refused(&run(&[clean, other, "--metric", "probability"]), 2, &["--answer"]);
    refused(&run(&[clean, other, "--metric", "cosine", "--answer", "cat"]), 2, &["--answer"]);
    refused(&run(&[clean, other, "--site", "residual", "--by", "head"]), 2, &["--by", "no heads"]);
    refused(&run(&[clean, other, "--stack", "decoder"]), 2, &["--stack"]);
    refused(&run(&[clean, other, "--layers", "7"]), 2, &["--layers"]);
    for flags in [["--site", "mlp"], ["--by", "layer"], ["--wrong", "cat"], ["--top", "0"]] {
        let output = run(&[&[clean, other][..], &flags].concat());
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
    }
}
