//! Fetching one file into the cache: whole, resumed, checked.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::Progress;
use super::cache::{Cached, create_parent, is_name};
use super::client::{Answer, Client};
use crate::error::{Error, Result};

/// A broken transfer is taken up again so often before it is given up.
const TRIES: u32 = 3;

/// Why a file did not come.
pub(super) enum Trouble {
    /// The Hub answered with this status and, perhaps, its own word for it.
    Status { status: u16, code: Option<String>, commit: Option<String> },
    /// No usable answer.
    Refused(String),
    /// The local side failed.
    Local(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Local(error)
    }
}

/// A file that is in the cache now.
pub(super) struct Fetched {
    pub commit: String,
    pub path: PathBuf,
}

pub(super) struct Transfer<'a> {
    pub client: &'a Client,
    pub cached: &'a Cached,
    pub endpoint: &'a str,
    pub progress: &'a dyn Progress,
}

/// What the Hub says a file is.
struct Blob {
    etag: String,
    size: Option<u64>,
    path: PathBuf,
    part: PathBuf,
}

impl Transfer<'_> {
    /// Fetches a file unless its blob is there already. With `commit`, any other commit's file is
    /// refused: see [`Fetched::commit`].
    pub fn fetch(&self, file: &str, commit: Option<&str>) -> Result<Fetched, Trouble> {
        let url = self.cached.url(self.endpoint, file);
        let answer = self.ask(&url, None)?;
        let said =
            |what: &str| Trouble::Refused(format!("{} gave no usable {what}", self.endpoint));
        let found =
            answer.commit.clone().filter(|name| is_name(name)).ok_or_else(|| said("commit"))?;
        if commit.is_some_and(|commit| commit != found) {
            return Ok(Fetched { commit: found, path: PathBuf::new() });
        }
        let etag = answer.etag.as_deref().map(clean_etag).filter(|etag| is_name(etag));
        let blob = self.blob(etag.ok_or_else(|| said("ETag"))?, answer.size);
        if !is_complete(&blob) {
            create_parent(&blob.path)?;
            let _lock = lock(&self.cached.lock(&blob.etag))?;
            if !is_complete(&blob) {
                self.progress.start(file, blob.size, length(&blob.part));
                let outcome = self.fill(&url, &blob, answer);
                self.progress.finish();
                outcome?;
            }
        }
        let path = self.cached.link(&blob.etag, &found, file)?;
        Ok(Fetched { commit: found, path })
    }

    fn blob(&self, etag: String, size: Option<u64>) -> Blob {
        let path = self.cached.blob(&etag);
        let part = self.cached.blob(&format!("{etag}.incomplete"));
        Blob { etag, size, path, part }
    }

    fn ask(&self, url: &str, from: Option<u64>) -> Result<Answer, Trouble> {
        let answer = self.client.get(url, from).map_err(Trouble::Refused)?;
        let status = answer.response.status();
        if status.is_success() {
            return Ok(answer);
        }
        Err(Trouble::Status { status: status.as_u16(), code: answer.code, commit: answer.commit })
    }

    /// Brings the blob in place, going on where an earlier transfer broke off.
    fn fill(&self, url: &str, blob: &Blob, first: Answer) -> Result<(), Trouble> {
        let mut answer = Some(first).filter(|_| length(&blob.part) == 0);
        for attempt in 1.. {
            match self.write_part(url, blob, answer.take()) {
                Ok(()) => break,
                Err(Trouble::Refused(why)) if attempt == TRIES => {
                    let (done, of) =
                        (length(&blob.part), blob.size.map(|size| format!(" of {size}")));
                    return Err(Trouble::Refused(format!(
                        "{why}; {done}{} bytes are kept, the same command goes on from there",
                        of.unwrap_or_default()
                    )));
                }
                Err(Trouble::Refused(_)) => {
                    std::thread::sleep(Duration::from_millis(100 * 4u64.pow(attempt)));
                }
                Err(other) => return Err(other),
            }
        }
        check_sum(blob)?;
        std::fs::rename(&blob.part, &blob.path).map_err(Error::io(&blob.path, "write it"))?;
        Ok(())
    }

    /// Appends what is missing to the part file, or writes it anew where the server has no ranges.
    fn write_part(&self, url: &str, blob: &Blob, answer: Option<Answer>) -> Result<(), Trouble> {
        let done = length(&blob.part);
        if done > 0 && blob.size == Some(done) {
            return Ok(());
        }
        let answer = match answer {
            Some(answer) => answer,
            None => match self.ask(url, (done > 0).then_some(done)) {
                // What is there is no beginning of this file.
                Err(Trouble::Status { status: 416, .. }) => {
                    remove(&blob.part)?;
                    self.ask(url, None)?
                }
                other => other?,
            },
        };
        let resumed = done > 0 && starts_at(&answer, done);
        let mut file = OpenOptions::new()
            .create(true)
            .write(true)
            .append(resumed)
            .truncate(!resumed)
            .open(&blob.part)
            .map_err(Error::io(&blob.part, "write it"))?;
        self.copy(answer, &mut file, &blob.part)?;
        match blob.size {
            Some(size) if length(&blob.part) < size => {
                Err(Trouble::Refused("the transfer broke off".into()))
            }
            Some(size) if length(&blob.part) > size => {
                let got = length(&blob.part);
                remove(&blob.part)?;
                Err(Trouble::Refused(format!("{got} bytes came, expected {size}")))
            }
            _ => Ok(()),
        }
    }

    fn copy(&self, answer: Answer, file: &mut File, part: &Path) -> Result<(), Trouble> {
        let mut body = answer.response.into_body().into_reader();
        let mut buffer = vec![0; 1 << 16];
        loop {
            let got = body
                .read(&mut buffer)
                .map_err(|why| Trouble::Refused(format!("the transfer broke off ({why})")))?;
            if got == 0 {
                return Ok(());
            }
            let bytes = buffer.get(..got).unwrap_or_default();
            file.write_all(bytes).map_err(Error::io(part, "write it"))?;
            self.progress.update(got as u64);
        }
    }
}

fn clean_etag(etag: &str) -> String {
    etag.trim().trim_start_matches("W/").trim_matches('"').to_owned()
}

/// A blob of the announced size, or of any where none is announced.
fn is_complete(blob: &Blob) -> bool {
    blob.path.is_file() && blob.size.is_none_or(|size| length(&blob.path) == size)
}

fn length(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}

/// Whether the answer is the part of the file from that byte on.
fn starts_at(answer: &Answer, from: u64) -> bool {
    let range = answer.response.headers().get("content-range");
    answer.response.status() == 206
        && range
            .and_then(|range| range.to_str().ok())
            .is_some_and(|range| range.starts_with(&format!("bytes {from}-")))
}

/// The ETag of a large file is its SHA-256; small files have another kind, which is not checked.
fn check_sum(blob: &Blob) -> Result<(), Trouble> {
    if blob.etag.len() != 64 || !blob.etag.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(());
    }
    let mut file = File::open(&blob.part).map_err(Error::io(&blob.part, "read it"))?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let got = file.read(&mut buffer).map_err(Error::io(&blob.part, "read it"))?;
        if got == 0 {
            break;
        }
        hasher.update(buffer.get(..got).unwrap_or_default());
    }
    let found: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if found.eq_ignore_ascii_case(&blob.etag) {
        return Ok(());
    }
    remove(&blob.part)?;
    let why = format!("what came has SHA-256 {found}, expected {}; it was removed", blob.etag);
    Err(Trouble::Refused(why))
}

fn remove(path: &Path) -> Result<()> {
    std::fs::remove_file(path).map_err(Error::io(path, "remove it"))
}

/// Keeps other processes from writing the same blob, until it is dropped.
fn lock(path: &Path) -> Result<File> {
    create_parent(path)?;
    let file = File::create(path).map_err(Error::io(path, "create it"))?;
    match file.lock() {
        // Some network file systems have no locks; they did without before.
        Ok(()) => Ok(file),
        Err(why) if why.kind() == std::io::ErrorKind::Unsupported => Ok(file),
        Err(why) => Err(Error::io(path, "lock it")(why)),
    }
}
