//! What is written aside, to be renamed into place: hidden, and locked for as long as its process
//! lives, so that what a killed one has left can be told from what another is at.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile, TempDir};

const PREFIX: &str = ".attnviz-";
/// The file of a folder that is locked for all of it.
const LOCK: &str = "lock";

/// A file in `folder`, as readable as any new one, and removed unless it is renamed.
pub(super) fn file(folder: &Path) -> io::Result<NamedTempFile> {
    let mut builder = Builder::new();
    builder.prefix(PREFIX).suffix(".tmp");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // the umask decides, where tempfile would keep it to its owner
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    loop {
        let file = builder.tempfile_in(folder)?;
        if locked(file.as_file(), file.path()) {
            return Ok(file);
        }
    }
}

/// A folder for its owner alone, removed with all that is in it.
#[derive(Debug)]
pub(crate) struct Aside {
    folder: TempDir,
    lock: File,
}

impl Aside {
    /// Makes one in `parent`, where it removes what killed processes have left.
    pub fn new(parent: &Path) -> io::Result<Self> {
        sweep(parent);
        loop {
            let folder = Builder::new().prefix(PREFIX).tempdir_in(parent)?;
            let path = folder.path().join(LOCK);
            match File::create(&path) {
                Ok(lock) if locked(&lock, &path) => return Ok(Self { folder, lock }),
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {} // swept away before it was locked
            }
        }
    }

    /// A path in it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Keeps others from removing it after a kill: what is in it is about to be all there is.
    pub fn outlive_a_kill(&self) -> io::Result<()> {
        fs::remove_file(self.join(LOCK))
    }

    /// Makes a file as readable as any new one, which a writer may have kept to its owner.
    pub fn open_up(&self, file: &Path) -> io::Result<()> {
        fs::set_permissions(file, self.lock.metadata()?.permissions())
    }
}

/// Locks a file that was just made; whether it is still there.
fn locked(file: &File, path: &Path) -> bool {
    let _ = file.lock(); // where a file system has no locks, nothing is swept either
    path.exists()
}

/// Removes what killed processes have left in a folder. Failing to is no failure.
pub(super) fn sweep(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let ours = |name: &OsStr| name.as_encoded_bytes().starts_with(PREFIX.as_bytes());
    for entry in entries.filter(|entry| ours(&entry.file_name())) {
        let (path, is_folder) = (entry.path(), entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let lock = if is_folder { path.join(LOCK) } else { path.clone() };
        let _ = match unlocked(&lock) {
            // held until all is gone: one that waits for it finds nothing and makes another
            Ok(Some(_held)) if is_folder => fs::remove_dir_all(&path),
            Ok(Some(_held)) => fs::remove_file(&path),
            // killed before it had a lock, and so empty
            Err(error) if error.kind() == ErrorKind::NotFound => fs::remove_dir(&path),
            _ => continue,
        };
    }
}

/// A file whose lock nobody else has, with the lock.
fn unlocked(path: &Path) -> io::Result<Option<File>> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Ok(None); // opening a pipe would wait for its other end
    }
    let file = File::open(path)?;
    Ok(file.try_lock().is_ok().then_some(file))
}
