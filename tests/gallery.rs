//! The committed gallery is what its script draws: the same files, pictures of the same size. Not
//! the same bytes: other processors round differently.
#![cfg(all(unix, feature = "embedded"))]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every file under `folder` by its path there, with the size of what is in the picture.
fn pictures(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(here) = open.pop() {
        for entry in std::fs::read_dir(&here).expect("folder can be read") {
            let path = entry.expect("entry can be read").path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let name = path.strip_prefix(folder).expect("lies within").to_path_buf();
            found.insert(name, size(&path));
        }
    }
    found
}

fn size(path: &Path) -> String {
    match path.extension().and_then(|end| end.to_str()) {
        Some("png") => {
            let file = std::io::BufReader::new(std::fs::File::open(path).expect("opens"));
            let reader = png::Decoder::new(file).read_info().expect("is a PNG");
            format!("{} x {}", reader.info().width, reader.info().height)
        }
        Some("svg") => {
            let text = std::fs::read_to_string(path).expect("is text");
            let page = roxmltree::Document::parse(&text).expect("is XML");
            let of = |name| page.root_element().attribute(name).expect("has a size").to_owned();
            format!("{} x {}", of("width"), of("height"))
        }
        _ => String::new(),
    }
}

/// The names of the files that a manifest lists.
fn listed(manifest: &Path) -> Vec<String> {
    let bytes = std::fs::read(manifest).expect("is there");
    let manifest: serde_json::Value = serde_json::from_slice(&bytes).expect("is JSON");
    let files = manifest["files"].as_array().expect("is a list");
    files.iter().map(|file| file.as_str().expect("is a name").to_owned()).collect()
}

#[test]
fn the_script_draws_the_committed_gallery() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let again = tempfile::tempdir().expect("a folder for the test");
    let ran = Command::new(root.join("assets/gallery.sh"))
        .arg(again.path())
        .env("ATTNVIZ", env!("CARGO_BIN_EXE_attnviz"))
        .output()
        .expect("the script runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let committed = root.join("notebooks-out/gallery");
    let want = pictures(&committed);
    assert_eq!(pictures(again.path()), want);
    assert!(want.len() >= 10, "the gallery is there");
    for (name, _) in want.iter().filter(|(name, _)| name.ends_with("manifest.json")) {
        let folder = name.parent().expect("is in a folder");
        let files = listed(&again.path().join(name));
        assert_eq!(files, listed(&committed.join(name)), "{}", folder.display());
        assert!(files.iter().all(|file| want.contains_key(&folder.join(file))));
    }
}

#[test]
fn the_gallery_stays_small() {
    let gallery = Path::new(env!("CARGO_MANIFEST_DIR")).join("notebooks-out/gallery");
    let bytes = pictures(&gallery)
        .into_keys()
        .map(|name| std::fs::metadata(gallery.join(name)).expect("is there").len());
    let total: u64 = bytes.sum();
    assert!(total < 1_000_000, "{total} bytes");
}
