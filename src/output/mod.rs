//! The output folder: `<parent>/<slug of the text>/` with its pictures and a manifest.
//!
//! A folder belongs to one text and one model. The same pair again replaces what its manifest
//! lists; another pair that would get the same name moves to `<slug>-<hash>`; a folder without a
//! manifest of ours is left alone unless forced. Every file is written aside and renamed.

mod aside;
mod manifest;
mod page;
mod slug;

use std::collections::BTreeSet;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

pub(crate) use aside::Aside;
pub use manifest::{Manifest, is_own_name};
pub use page::PageFile;
pub use slug::{hash8, slug};

use crate::error::{Error, Result};

const MANIFEST: &str = "manifest.json";

/// Shows that files can be created in `folder`, or in what exists of the way to it, and leaves
/// nothing behind. For calling before any heavy work.
///
/// # Errors
/// [`Error::Io`] when nothing can be written there, [`Error::Output`] when a file is in the way.
pub fn prove_writable(folder: &Path) -> Result<()> {
    let here = if folder.is_relative() { Path::new(".") } else { Path::new("") };
    let there = here.join(folder);
    let base = there.ancestors().find(|p| p.exists()).unwrap_or(here);
    if !base.is_dir() {
        return Err(not_a_folder(base));
    }
    // without a name where the system has such files: a kill then leaves nothing in the folder
    let probe = tempfile::tempfile_in(base);
    probe.map(drop).map_err(Error::io(folder, "write there"))
}

fn not_a_folder(path: &Path) -> Error {
    Error::Output { path: path.into(), why: "expected a folder, found a file".into() }
}

/// Writes a file whole: aside in its folder, then renamed into place.
///
/// # Errors
/// [`Error::Io`] when the folder cannot be written.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    write_aside(path, |file| file.write_all(bytes).map_err(Error::io(path, "write it")))
}

/// Writes `path` aside in its folder, then renames it into place.
///
/// # Errors
/// [`Error::Io`] when the folder cannot be written.
pub(crate) fn write_aside(
    path: &Path,
    write: impl FnOnce(&mut tempfile::NamedTempFile) -> Result<()>,
) -> Result<()> {
    aside::sweep(folder_of(path));
    replace(path, write)
}

fn replace(
    path: &Path,
    write: impl FnOnce(&mut tempfile::NamedTempFile) -> Result<()>,
) -> Result<()> {
    let mut aside = aside::file(folder_of(path)).map_err(Error::io(path, "create it"))?;
    write(&mut aside)?;
    aside.persist(path).map_err(|e| Error::io(path, "move it into place")(e.error))?;
    Ok(())
}

/// The same for a writer that goes by a file's path, and may make it anew.
///
/// # Errors
/// [`Error::Io`] when the folder cannot be written.
pub(crate) fn write_by_path(path: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let aside = Aside::new(folder_of(path)).map_err(Error::io(path, "create it"))?;
    let file = aside.join("file");
    write(&file)?;
    aside.open_up(&file).map_err(Error::io(path, "set who may read it"))?;
    std::fs::rename(file, path).map_err(Error::io(path, "move it into place"))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A folder that was claimed for one text and model.
#[derive(Debug)]
pub struct OutputFolder {
    path: PathBuf,
    manifest: Manifest,
    /// What the folder's earlier manifest lists.
    earlier: BTreeSet<String>,
}

impl OutputFolder {
    /// Claims `parent/slug`, or `parent/slug-<hash>` where another text or model has that name, and
    /// leaves `manifest` there, so that an interrupted run is known as ours. `manifest.files` names
    /// what will be written.
    ///
    /// # Errors
    /// [`Error::Output`] when the folder, or a file in it, is not ours and `force` is off;
    /// [`Error::Io`] when it cannot be created or written.
    pub fn claim(parent: &Path, slug: &str, manifest: Manifest, force: bool) -> Result<Self> {
        let names = [slug.to_owned(), format!("{slug}-{}", manifest.hash8())];
        for name in names {
            let path = parent.join(name);
            let earlier = match state(&path)? {
                State::Free => BTreeSet::new(),
                State::Ours(old) if old.same_source(&manifest) => old.own_files(),
                State::Ours(_) => continue,
                State::Foreign if force => BTreeSet::new(),
                State::Foreign => return Err(foreign(path, "holds files that are not attnviz's")),
            };
            let mine = |name: &&String| !earlier.contains(*name) && path.join(name).exists();
            if let Some(name) = manifest.files.iter().find(mine).filter(|_| !force) {
                return Err(foreign(path, &format!("holds a {name} that is not attnviz's")));
            }
            std::fs::create_dir_all(&path).map_err(Error::io(&path, "create it"))?;
            let folder = Self { path, manifest, earlier };
            let all = folder.manifest.files.iter().cloned();
            let all = folder.earlier.iter().cloned().chain(all).collect::<BTreeSet<_>>();
            folder.write_manifest(all.into_iter().collect())?;
            return Ok(folder);
        }
        Err(foreign(parent.join(slug), "is taken, and so is its second name"))
    }

    /// Where the files go.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes one of the files that the manifest names; several threads may write at once.
    ///
    /// # Errors
    /// [`Error::Output`] for a name that is not in the manifest, [`Error::Io`] when it cannot be
    /// written.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.path.join(name);
        if !is_own_name(name) || !self.manifest.files.iter().any(|file| file == name) {
            return Err(Error::Output { path, why: "is not a name of the manifest".into() });
        }
        // the folder was swept when it was claimed
        replace(&path, |file| file.write_all(bytes).map_err(Error::io(&path, "write it")))
    }

    /// Removes what an earlier run left and this one did not write, and completes the manifest.
    ///
    /// # Errors
    /// [`Error::Io`] when a stale file cannot be removed or the manifest not be written.
    pub fn finish(self) -> Result<PathBuf> {
        for stale in self.earlier.iter().filter(|name| !self.manifest.files.contains(*name)) {
            let path = self.path.join(stale);
            match std::fs::remove_file(&path) {
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    return Err(Error::io(&path, "remove it")(e));
                }
                _ => {}
            }
        }
        self.write_manifest(self.manifest.files.clone())?;
        Ok(self.path)
    }

    fn write_manifest(&self, files: Vec<String>) -> Result<()> {
        let path = self.path.join(MANIFEST);
        let manifest = Manifest { files, ..self.manifest.clone() };
        let mut bytes = serde_json::to_vec_pretty(&manifest)
            .map_err(|e| Error::Output { path: path.clone(), why: e.to_string() })?;
        bytes.push(b'\n');
        write_aside(&path, |file| file.write_all(&bytes).map_err(Error::io(&path, "write it")))
    }
}

fn foreign(path: PathBuf, what: &str) -> Error {
    let why = format!("{what}; choose another --out, or --force to write there all the same");
    Error::Output { path, why }
}

/// What is at a path that we would like to have.
enum State {
    Free,
    Ours(Box<Manifest>),
    Foreign,
}

fn state(path: &Path) -> Result<State> {
    if !path.exists() {
        return Ok(State::Free);
    }
    if !path.is_dir() {
        return Err(not_a_folder(path));
    }
    if let Some(manifest) = Manifest::read(&path.join(MANIFEST)) {
        return Ok(State::Ours(Box::new(manifest)));
    }
    let mut entries = std::fs::read_dir(path).map_err(Error::io(path, "list it"))?;
    Ok(if entries.next().is_none() { State::Free } else { State::Foreign })
}
