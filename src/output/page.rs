//! One page per text: a file of its own, or a name in a folder that follows the folder's rules.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use super::{foreign, not_a_folder, prove_writable, write_aside};
use crate::error::{Error, Result};

/// A page that is going to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageFile(PathBuf);

impl PageFile {
    /// A file that the user named.
    ///
    /// # Errors
    /// [`Error::Output`] when it exists and `force` is off, or is a folder; [`Error::Io`] when its
    /// folder cannot be written.
    pub fn new(path: &Path, force: bool) -> Result<Self> {
        if path.is_dir() {
            return Err(Error::Output { path: path.into(), why: "is a folder".into() });
        }
        if path.exists() && !force {
            let why = "exists already; --force overwrites it".into();
            return Err(Error::Output { path: path.into(), why });
        }
        prove_writable(path.parent().unwrap_or(Path::new("")))?;
        Ok(Self(path.into()))
    }

    /// `folder/slug.html` or, where a page of another text or model has that name,
    /// `folder/slug-<hash>.html`. A page with the same `generator` is replaced; what attnviz did not
    /// write is left alone unless forced.
    ///
    /// # Errors
    /// [`Error::Output`] when both names are taken, [`Error::Io`] when the folder cannot be written.
    pub fn claim(folder: &Path, slug: &str, generator: &str, force: bool) -> Result<Self> {
        if folder.exists() && !folder.is_dir() {
            return Err(not_a_folder(folder));
        }
        prove_writable(folder)?;
        let second = format!("{slug}-{}.html", super::hash8(generator));
        let names = [format!("{slug}.html"), second];
        let paths = names.map(|name| folder.join(name));
        for path in &paths {
            let free = !path.exists();
            if free || (path.is_file() && is_made_by(path, generator)) {
                return Ok(Self(path.clone()));
            }
        }
        let [first, _] = paths;
        match force && !first.is_dir() {
            true => Ok(Self(first)),
            false => Err(foreign(first, "is taken, and so is its second name")),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes it aside and renames it into place.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be written.
    pub fn write(&self, html: &[u8]) -> Result<()> {
        let path = &self.0;
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(Error::io(folder, "create it"))?;
        }
        write_aside(path, |file| file.write_all(html).map_err(Error::io(path, "write it")))
    }
}

/// Whether the page names this generator in its head.
fn is_made_by(path: &Path, generator: &str) -> bool {
    let mut start = Vec::new();
    let Ok(file) = std::fs::File::open(path) else { return false };
    if file.take(2048).read_to_end(&mut start).is_err() {
        return false;
    }
    let mark = format!("name=\"generator\" content=\"{generator}\"");
    String::from_utf8_lossy(&start).contains(&mark)
}
