//! The Hub cache that `huggingface_hub`, transformers and hf-hub share:
//! `models--org--name/{blobs,refs,snapshots/<commit>}`.

use std::path::{Path, PathBuf};

use hf_hub::{Cache, CacheRepo, Repo, RepoType};

use super::local;
use crate::error::{Error, Result};

/// One model at one revision in the cache.
pub(super) struct Cached {
    repo: Repo,
    cache: CacheRepo,
    folder: PathBuf,
}

impl Cached {
    /// `id` and `revision` have been checked: neither leaves the cache.
    pub fn new(cache: &Path, id: &str, revision: &str) -> Self {
        let repo = Repo::with_revision(id.to_owned(), RepoType::Model, revision.to_owned());
        let folder = cache.join(repo.folder_name());
        Self { cache: Cache::new(cache.to_path_buf()).repo(repo.clone()), repo, folder }
    }

    /// The address of a file, `{endpoint}/{id}/resolve/{revision}/{file}`.
    pub fn url(&self, endpoint: &str, file: &str) -> String {
        let (id, revision) = (self.repo.url(), escape(&self.repo.url_revision(), "%"));
        format!("{endpoint}/{id}/resolve/{revision}/{}", escape(file, "/"))
    }

    /// The commit that the revision stands for, as far as the cache knows.
    pub fn commit(&self) -> Option<String> {
        let revision = self.repo.revision();
        if is_commit(revision) {
            return Some(revision.to_owned());
        }
        let commit = std::fs::read_to_string(self.folder.join("refs").join(revision)).ok()?;
        Some(commit.trim().to_owned()).filter(|commit| is_name(commit))
    }

    /// The folder of a commit's files.
    pub fn snapshot(&self, commit: &str) -> PathBuf {
        self.cache.pointer_path(commit)
    }

    /// The model's folder in the cache.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn blob(&self, etag: &str) -> PathBuf {
        self.cache.blob_path(etag)
    }

    /// The lock that `huggingface_hub` takes while it writes that blob.
    pub fn lock(&self, etag: &str) -> PathBuf {
        let locks = self.folder.parent().unwrap_or(Path::new("")).join(".locks");
        locks.join(self.repo.folder_name()).join(format!("{etag}.lock"))
    }

    /// Whether the Hub is known to have no such file at that commit.
    pub fn is_absent(&self, commit: &str, file: &str) -> bool {
        self.absent(commit, file).is_file()
    }

    fn absent(&self, commit: &str, file: &str) -> PathBuf {
        self.folder.join(".no_exist").join(commit).join(file)
    }

    /// Remembers that there is no such file, as `huggingface_hub` does.
    pub fn mark_absent(&self, commit: &str, file: &str) -> Result<()> {
        let marker = self.absent(commit, file);
        create_parent(&marker)?;
        std::fs::write(&marker, b"").map_err(Error::io(&marker, "write it"))
    }

    /// Remembers which commit the revision stands for.
    pub fn mark_commit(&self, commit: &str) -> Result<()> {
        if self.repo.revision() == commit {
            return Ok(());
        }
        self.cache.create_ref(commit).map_err(Error::io(self.folder.join("refs"), "write in it"))
    }

    /// Makes a blob a file of the commit; returns its path.
    pub fn link(&self, etag: &str, commit: &str, file: &str) -> Result<PathBuf> {
        let pointer = self.snapshot(commit).join(file);
        create_parent(&pointer)?;
        if pointer.symlink_metadata().is_ok() {
            std::fs::remove_file(&pointer).map_err(Error::io(&pointer, "replace it"))?;
        }
        let up = Path::new(file).components().count() + 1; // out of the snapshot and `snapshots`
        let mut target: PathBuf = std::iter::repeat_n("..", up).collect();
        target.push("blobs");
        target.push(etag);
        symlink(&target, &self.blob(etag), &pointer).map_err(Error::io(&pointer, "write it"))?;
        Ok(pointer)
    }
}

#[cfg(unix)]
fn symlink(relative: &Path, _blob: &Path, pointer: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(relative, pointer)
}

/// Where links need rights that users rarely have, a copy does.
#[cfg(not(unix))]
fn symlink(_relative: &Path, blob: &Path, pointer: &Path) -> std::io::Result<()> {
    std::fs::hard_link(blob, pointer).or_else(|_| std::fs::copy(blob, pointer).map(|_| ()))
}

pub(super) fn create_parent(path: &Path) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).map_err(Error::io(folder, "create it"))
}

/// A name that is safe as a file's: commits and checksums.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 128
        && !name.starts_with('.')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

pub(super) fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && revision.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// What is wrong with a Hub id, by the rules of `huggingface_hub`.
pub(super) fn id_trouble(id: &str) -> Option<&'static str> {
    let parts: Vec<&str> = id.split('/').collect();
    let is_part = |part: &&str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
            && !part.starts_with(['.', '-'])
            && !part.ends_with(['.', '-'])
    };
    if parts.len() > 2 || !parts.iter().all(is_part) {
        Some("no such file or folder, and a Hub id is `name` or `org/name`")
    } else if id.len() > 96 || id.contains("--") || id.contains("..") {
        Some("no such file or folder, and a Hub id has at most 96 characters and no `--` or `..`")
    } else {
        None
    }
}

/// Whether a revision may become part of a path.
pub(super) fn is_revision(revision: &str) -> bool {
    local::stays_inside(revision) && !revision.chars().any(char::is_control)
}

/// Percent-encodes all but what addresses hold as it is and what is in `keep`.
fn escape(text: &str, keep: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        let c = char::from(byte);
        if c.is_ascii_alphanumeric() || "-._~".contains(c) || keep.contains(c) {
            escaped.push(c);
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}
