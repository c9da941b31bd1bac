//! `attnviz prune` killed at any moment leaves the old folder or the new one, whole.
#![cfg(unix)] // SIGKILL

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::fixture;
use tempfile::TempDir;

/// Moments at which a run is killed.
const KILLS: u32 = 40;

fn command(out: &Path, list: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attnviz"));
    let model = fixture("fill/bert");
    command.env("HF_HUB_OFFLINE", "1").stdout(Stdio::null()).stderr(Stdio::null());
    command.args(["prune", "--force", "--remove", list, "--model"]).arg(model).arg(out);
    command
}

/// Runs to the end; how long that takes.
fn whole(out: &Path, list: &str) -> Duration {
    let start = Instant::now();
    assert!(command(out, list).status().expect("runs").success());
    start.elapsed()
}

fn killed(out: &Path, list: &str, after: Duration) {
    let mut child = command(out, list).spawn().expect("starts");
    sleep(after);
    child.kill().expect("killed");
    child.wait().expect("ends");
}

/// Every file with its bytes, in folders too; `None` without a folder.
fn contents(folder: &Path) -> Option<BTreeMap<String, Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).ok()? {
        let (name, path) = entry.map(|e| (e.file_name(), e.path())).expect("entry");
        let name = name.into_string().expect("UTF-8");
        match path.is_dir() {
            true => {
                let inner = contents(&path).expect("folder");
                found.extend(inner.into_iter().map(|(n, bytes)| (format!("{name}/{n}"), bytes)));
            }
            false => {
                found.insert(name, fs::read(path).expect("read"));
            }
        }
    }
    Some(found)
}

#[test]
fn a_new_folder_is_whole_or_not_there() {
    let place = TempDir::new().expect("folder");
    let path = |name: &str| place.path().join(name);
    let time = whole(&path("want"), "L0H0");
    let want = contents(&path("want")).expect("written");
    for i in 0..KILLS {
        let out = path(&format!("out{i}"));
        killed(&out, "L0H0", time * i / (KILLS - 5));
        let found = contents(&out);
        assert!(found.as_ref().is_none_or(|found| *found == want), "kill {i}");
    }
    whole(&path("after"), "L0H0");
    assert_eq!(hidden(place.path()), [""; 0]);
}

/// What is there under hidden names.
fn hidden(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("folder");
    let names =
        entries.map(|entry| entry.expect("entry").file_name().into_string().expect("UTF-8"));
    names.filter(|name| name.starts_with('.')).collect()
}

#[test]
fn a_folder_that_is_replaced_is_the_old_or_the_new_one() {
    let place = TempDir::new().expect("folder");
    let path = |name: &str| place.path().join(name);
    let lists = ["L0H0", "L1H1,L2H0"];
    let time = whole(&path("first"), lists[0]);
    whole(&path("second"), lists[1]);
    let out = path("out");
    whole(&out, lists[0]);
    fs::create_dir(out.join("notes")).expect("folder");
    for (folder, name) in [("first", "a.txt"), ("second", "a.txt"), ("out", "a.txt")] {
        fs::create_dir_all(path(folder).join("notes")).expect("folder");
        fs::write(path(folder).join("notes").join(name), "mine").expect("written");
        fs::write(path(folder).join("README.md"), "mine too").expect("written");
    }
    let want = [contents(&path("first")), contents(&path("second"))];
    let mut seen = [0, 0];
    for i in 0..KILLS {
        killed(&out, lists[(i as usize + 1) % 2], time * i / (KILLS - 5));
        let found = contents(&out);
        let which = want.iter().position(|want| *want == found);
        seen[which.unwrap_or_else(|| panic!("kill {i}: neither the old nor the new"))] += 1;
    }
    // a run after all of them goes through, and what others put there is still there
    whole(&out, lists[1]);
    assert_eq!(contents(&out), want[1], "{seen:?}");
    assert_eq!(hidden(place.path()), [""; 0]);
}
