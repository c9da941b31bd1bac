//! The output folder: whose it is, what is replaced, what is never touched.

mod common;

use std::fs;
use std::path::Path;

use attnviz::output::{Manifest, OutputFolder, prove_writable, slug, write_file};
use common::files_in;
use serde_json::json;
use tempfile::TempDir;

fn manifest(text: &str, files: &[&str]) -> Manifest {
    let files = files.iter().map(|&name| name.into()).collect();
    Manifest { files, ..Manifest::new("model", None, json!({ "text": text })) }
}

fn run(parent: &Path, text: &str, files: &[&str]) -> attnviz::Result<std::path::PathBuf> {
    let folder = OutputFolder::claim(parent, &slug(text), manifest(text, files), false)?;
    for name in files {
        folder.write(name, name.as_bytes())?;
    }
    folder.finish()
}

#[test]
fn again_replaces_and_removes_what_is_stale() {
    let dir = TempDir::new().unwrap();
    let first = run(dir.path(), "a text", &["L00H00.png", "L00H01.png", "grid.png"]).unwrap();
    fs::write(first.join("mine.txt"), "kept").unwrap();
    let second = run(dir.path(), "a text", &["L00H01.png", "grid.svg"]).unwrap();
    assert_eq!(first, second);
    assert_eq!(files_in(&first), ["L00H01.png", "grid.svg", "manifest.json", "mine.txt"]);
}

#[test]
fn another_text_or_model_of_the_same_name_gets_a_suffix() {
    let dir = TempDir::new().unwrap();
    let first = run(dir.path(), "a text", &["grid.png"]).unwrap();
    let second = run(dir.path(), "A text!", &["grid.png"]).unwrap();
    assert_ne!(first, second);
    let name = second.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("a-text-") && name.len() == "a-text-".len() + 8, "{name}");
    assert_eq!(run(dir.path(), "A text!", &["grid.png"]).unwrap(), second);

    let mut other = manifest("a text", &[]);
    other.model = "other".into();
    let third = OutputFolder::claim(dir.path(), "a-text", other, false).unwrap();
    assert!(third.path() != first && third.path() != second);
}

#[test]
fn a_folder_that_is_not_ours_is_left_alone() {
    let dir = TempDir::new().unwrap();
    let folder = dir.path().join("a-text");
    for (name, content) in [
        ("thesis.tex", ""),
        ("manifest.json", "{}"),
        ("manifest.json", r#"{"tool":"other","version":"1","model":"model","files":[]}"#),
        ("manifest.json", "not json"),
    ] {
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(name), content).unwrap();
        let error = run(dir.path(), "a text", &["grid.png"]).unwrap_err();
        assert!(error.to_string().contains("--force"), "{error}");
        assert_eq!(files_in(&folder), [name]);
        assert_eq!(fs::read_to_string(folder.join(name)).unwrap(), content);
        fs::remove_dir_all(&folder).unwrap();
    }
    // an empty one is nobody's
    fs::create_dir(&folder).unwrap();
    run(dir.path(), "a text", &["grid.png"]).unwrap();
}

#[test]
fn force_writes_into_it_and_removes_nothing() {
    let dir = TempDir::new().unwrap();
    let folder = dir.path().join("a-text");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("thesis.tex"), "kept").unwrap();
    OutputFolder::claim(dir.path(), "a-text", manifest("a text", &[]), true)
        .unwrap()
        .finish()
        .unwrap();
    assert_eq!(files_in(&folder), ["manifest.json", "thesis.tex"]);
}

#[test]
fn a_picture_that_the_manifest_does_not_list_is_not_overwritten() {
    let dir = TempDir::new().unwrap();
    let folder = run(dir.path(), "a text", &["grid.png"]).unwrap();
    fs::write(folder.join("L00H00.png"), "mine").unwrap();
    let error = run(dir.path(), "a text", &["L00H00.png"]).unwrap_err();
    assert!(error.to_string().contains("L00H00.png"), "{error}");
    assert_eq!(fs::read_to_string(folder.join("L00H00.png")).unwrap(), "mine");
}

#[test]
fn a_manifest_that_lists_paths_outside_is_not_obeyed() {
    let dir = TempDir::new().unwrap();
    let victim = dir.path().join("grid.png");
    fs::write(&victim, "kept").unwrap();
    let folder = run(dir.path(), "a text", &["grid.png"]).unwrap();
    fs::write(folder.join("thesis.tex"), "kept").unwrap();
    let absolute = victim.to_str().unwrap();
    let hostile =
        ["../grid.png", absolute, "thesis.tex", "./../a-text/thesis.tex", "manifest.json"];
    let planted = manifest("a text", &hostile);
    fs::write(folder.join("manifest.json"), serde_json::to_vec(&planted).unwrap()).unwrap();
    fs::remove_file(folder.join("grid.png")).unwrap();
    run(dir.path(), "a text", &["L00H00.png"]).unwrap();
    assert!(victim.exists());
    assert_eq!(files_in(&folder), ["L00H00.png", "manifest.json", "thesis.tex"]);
}

#[test]
fn an_interrupted_run_is_known_as_ours() {
    let dir = TempDir::new().unwrap();
    let files = ["L00H00.png", "grid.png"];
    let folder =
        OutputFolder::claim(dir.path(), "a-text", manifest("a text", &files), false).unwrap();
    folder.write("L00H00.png", b"half of the work").unwrap();
    drop(folder);
    let folder = run(dir.path(), "a text", &["grid.png"]).unwrap();
    assert_eq!(files_in(&folder), ["grid.png", "manifest.json"]);
}

#[test]
fn only_names_of_the_manifest_can_be_written() {
    let dir = TempDir::new().unwrap();
    let listed = manifest("a text", &["../grid.png"]);
    let folder = OutputFolder::claim(dir.path(), "a-text", listed, false).unwrap();
    assert!(folder.write("../grid.png", b"").is_err());
    assert!(folder.write("grid.png", b"").is_err());
    assert_eq!(files_in(dir.path()), ["a-text"]);
}

#[test]
fn a_file_in_the_way_is_an_error_before_any_work() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(prove_writable(&file.join("sub")).is_err());
    assert!(prove_writable(&dir.path().join("new/deep")).is_ok());
    assert_eq!(files_in(dir.path()), ["file"]);
    fs::write(dir.path().join("a-text"), "").unwrap();
    assert!(run(dir.path(), "a text", &[]).is_err());
}

#[cfg(unix)]
#[test]
fn files_are_as_readable_as_any_other() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TempDir::new().unwrap();
    let folder = run(dir.path(), "a text", &["grid.png"]).unwrap();
    fs::write(dir.path().join("plain"), "").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&folder.join("grid.png")), mode(&dir.path().join("plain")));
}

/// What a killed process leaves has a lock that nobody holds; what another is at has one that it
/// holds.
#[test]
fn what_a_killed_run_left_goes_with_the_next_write() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name);
    let held = |file: &Path| {
        let file = fs::File::create(file).unwrap();
        file.lock().unwrap();
        file
    };
    for folder in
        [".attnviz-dead", ".attnviz-alive", ".attnviz-born", ".attnviz-other", "elsewhere"]
    {
        fs::create_dir(path(folder)).unwrap();
    }
    for file in [
        ".attnviz-dead.tmp",
        ".attnviz-dead/lock",
        ".attnviz-dead/model",
        ".attnviz-other/mine",
        "elsewhere/lock",
        ".attnvizrc",
    ] {
        fs::write(path(file), "").unwrap();
    }
    #[cfg(unix)]
    std::os::unix::fs::symlink(path("elsewhere"), path(".attnviz-link")).unwrap();
    let _held = [held(&path(".attnviz-alive.tmp")), held(&path(".attnviz-alive/lock"))];
    write_file(&path("a.txt"), b"new").unwrap();
    let mut left = files_in(dir.path());
    left.retain(|name| name != ".attnviz-link");
    let want = [
        ".attnviz-alive",
        ".attnviz-alive.tmp",
        ".attnviz-other",
        ".attnvizrc",
        "a.txt",
        "elsewhere",
    ];
    assert_eq!(left, want);
    assert_eq!(files_in(&path("elsewhere")), ["lock"]);
    assert_eq!(fs::read(path("a.txt")).unwrap(), b"new");
}
