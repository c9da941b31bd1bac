//! A checkpoint's folder, written whole.

use std::borrow::Cow;
use std::fs;
use std::io;
use std::path::Path;

use crate::error::{Error, Result};
use crate::hub::{Asset, ModelFiles};
use crate::output::{Aside, prove_writable};
use crate::tokens::gguf;

const WEIGHTS: &str = "model.safetensors";
pub(super) const CONFIG: &str = "config.json";

/// Files of tokenizers and of generation, which go along as they are.
const COMPANIONS: [&str; 17] = [
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "spiece.model",
    "spm.model",
    "sentencepiece.model",
    "sentencepiece.bpe.model",
    "tokenizer.model",
    "source.spm",
    "target.spm",
    "target_vocab.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "generation_config.json",
];

/// Writes a checkpoint's folder aside and renames it into place: `config`, what `weights` writes to
/// the first path that it is given, to be called by the second, and the files of the tokenizer.
/// Gives the names, the size of the weights and what `weights` gave. Killed at any moment, it leaves
/// what was there or what was to be there, and at worst a hidden folder beside it, which the next one
/// removes.
pub(crate) fn write_folder<T>(
    files: &ModelFiles,
    out: &Path,
    config: &[u8],
    force: bool,
    weights: impl FnOnce(&Path, &Path) -> Result<T>,
) -> Result<(Vec<String>, u64, T)> {
    let occupied = claim(out, force)?;
    // a link to a folder stays one
    let place = fs::canonicalize(out).unwrap_or_else(|_| out.to_path_buf());
    let parent = place.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(Error::io(parent, "create it"))?;
    let aside = Aside::new(parent).map_err(Error::io(out, "create it"))?;
    // a folder inside, since the outer one is its owner's alone
    let staged = aside.join("model");
    fs::create_dir(&staged).map_err(Error::io(out, "create it"))?;

    let done = weights(&staged.join(WEIGHTS), &out.join(WEIGHTS))?;
    aside.open_up(&staged.join(WEIGHTS)).map_err(Error::io(out, "set who may read it"))?;
    let mut names = vec![WEIGHTS.to_owned(), CONFIG.to_owned()];
    let write = |name: &str, bytes: &[u8]| {
        fs::write(staged.join(name), bytes).map_err(Error::io(out.join(name), "write it"))
    };
    write(CONFIG, config)?;
    for (name, bytes) in companions(files)? {
        write(name, &bytes)?;
        names.push(name.to_owned());
    }
    let written = fs::metadata(staged.join(WEIGHTS)).map_err(Error::io(out, "read its size"))?;
    match occupied {
        true => replace(&aside, &staged, &place, &names),
        // an empty folder may be in the way, and only some systems rename over it
        false => fs::rename(&staged, &place).or_else(|_| {
            fs::remove_dir(&place)?;
            fs::rename(&staged, &place)
        }),
    }
    .map_err(Error::io(out, "move it into place"))?;
    Ok((names, written.len(), done))
}

/// Shows that a checkpoint can be written into the folder `out`, and leaves nothing behind. For calling
/// before any heavy work.
///
/// # Errors
/// [`Error::Output`] where `out` holds files already and `force` is off, [`Error::Io`] where it
/// cannot be written.
pub fn prove_folder(out: &Path, force: bool) -> Result<()> {
    claim(out, force).map(|_| ())
}

/// Whether there is something in the folder, which `force` allows.
fn claim(out: &Path, force: bool) -> Result<bool> {
    prove_writable(out)?;
    if !out.exists() {
        return Ok(false);
    }
    let mut entries = fs::read_dir(out).map_err(Error::io(out, "list it"))?;
    let occupied = entries.next().is_some();
    if occupied && !force {
        let why = "is not empty; choose another folder, or --force to replace what has the same \
                   names";
        return Err(Error::Output { path: out.into(), why: why.into() });
    }
    Ok(occupied)
}

/// Puts the staged folder in place of one that holds files. What else that folder holds goes along,
/// but for companions of another tokenizer. All happens at once where the system exchanges two
/// folders; elsewhere there is a moment without the folder, and a mount point is filled file by
/// file, as is the working folder, which would be gone from under its shell.
fn replace(aside: &Aside, staged: &Path, place: &Path, names: &[String]) -> io::Result<()> {
    let working = std::env::current_dir().and_then(fs::canonicalize);
    if working.is_ok_and(|working| working == place) {
        return one_by_one(staged, place, names);
    }
    let goes = |name: &str| {
        let stale = COMPANIONS.contains(&name) && place.join(name).is_file();
        stale || names.iter().any(|one| one == name)
    };
    for entry in fs::read_dir(place)? {
        let entry = entry?;
        if !entry.file_name().to_str().is_some_and(goes) {
            link(&entry.path(), &staged.join(entry.file_name()))?;
        }
    }
    fs::set_permissions(staged, fs::metadata(place)?.permissions())?;
    if exchange(staged, place).is_ok() {
        return Ok(());
    }
    aside.outlive_a_kill()?;
    let old = aside.join("old");
    match fs::rename(place, &old) {
        Ok(()) => fs::rename(staged, place).inspect_err(|_| {
            let _ = fs::rename(&old, place);
        }),
        Err(_) => one_by_one(staged, place, names),
    }
}

/// The same file, or all files of a folder, under another name.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    if fs::symlink_metadata(from)?.is_dir() {
        fs::create_dir(to)?;
        fs::set_permissions(to, fs::metadata(from)?.permissions())?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            link(&entry.path(), &to.join(entry.file_name()))?;
        }
        return Ok(());
    }
    fs::hard_link(from, to).or_else(|_| fs::copy(from, to).map(|_| ()))
}

#[cfg(target_os = "linux")]
fn exchange(a: &Path, b: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE)?)
}

#[cfg(not(target_os = "linux"))]
fn exchange(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Moves the files into a folder that holds others, and removes companions of another tokenizer.
fn one_by_one(staged: &Path, out: &Path, names: &[String]) -> io::Result<()> {
    for name in names {
        fs::rename(staged.join(name), out.join(name))?;
    }
    for stale in COMPANIONS.iter().filter(|name| !names.iter().any(|one| one == *name)) {
        if out.join(stale).is_file() {
            fs::remove_file(out.join(stale))?;
        }
    }
    Ok(())
}

/// A file beside the weights, by name.
type Companion = (&'static str, Cow<'static, [u8]>);

/// The files that go along, under the names by which they are known.
fn companions(files: &ModelFiles) -> Result<Vec<Companion>> {
    let tokenizer = &files.tokenizer;
    if let Some(asset) = &tokenizer.gguf {
        let made = gguf::files(asset)?.into_iter();
        return Ok(made.map(|(name, bytes)| (name, Cow::Owned(bytes))).collect());
    }
    let known = [
        ("tokenizer.json", &tokenizer.json),
        ("vocab.txt", &tokenizer.vocab),
        ("vocab.json", &tokenizer.vocab_json),
        ("merges.txt", &tokenizer.merges),
        ("tokenizer_config.json", &tokenizer.config),
        ("special_tokens_map.json", &tokenizer.special),
        ("added_tokens.json", &tokenizer.added),
    ];
    // companions that are read by no name here lie beside those that are
    let assets = known.iter().filter_map(|(_, asset)| asset.as_ref());
    let assets = assets.chain(&tokenizer.pieces).chain(&files.weights);
    let mut folders = assets.filter_map(|asset| match asset {
        Asset::Disk(path) => path.parent(),
        Asset::BuiltIn { .. } => None,
    });
    let folder = folders.next();
    let named = |name: &str| known.iter().find(|(known, _)| *known == name);
    let found = |name: &'static str| -> Option<(&'static str, Asset)> {
        let asset = match named(name) {
            Some((_, asset)) => asset.as_ref().cloned(),
            None => folder.map(|folder| Asset::Disk(folder.join(name))),
        };
        let there =
            |asset: &Asset| matches!(asset, Asset::BuiltIn { .. }) || asset.path().is_file();
        Some((name, asset.filter(there)?))
    };
    let found = COMPANIONS.into_iter().filter_map(found);
    found.map(|(name, asset)| Ok((name, asset.bytes()?))).collect()
}
