//! A Hub id → files in the cache, fetching what is not there.

use std::path::Path;

use super::cache::{self, Cached};
use super::client::Client;
use super::local::{
    self, ADDED, CONFIG, GENERATION, MERGES, PIECES, SIDES, SPECIAL, TOKENIZER, TOKENIZER_CONFIG,
    VOCAB, VOCAB_JSON,
};
use super::transfer::{Transfer, Trouble};
use super::weights::{LAYOUTS, WEIGHTS, shard_names};
use super::{HubEnv, ModelFiles, ModelRequest, Progress};
use crate::error::{Error, Result};

/// Finds a Hub model's files in the cache, or brings them there.
///
/// The cache is enough when it holds the configuration, the weights and a vocabulary: optional
/// tokenizer files that are not there send nobody to the network.
pub(super) fn resolve(
    id: &str,
    request: &ModelRequest,
    env: &HubEnv,
    progress: &dyn Progress,
) -> Result<ModelFiles> {
    let search = Search::new(id, request, env)?;
    let commit = search.cached.commit();
    match search.missing(commit.as_deref()) {
        None => search.files(&commit.unwrap_or_default()),
        Some(file) if env.offline => Err(search.offline(&file, commit.as_deref())),
        Some(_) => {
            let token = request.token.as_deref().or(env.token.as_deref());
            let client = Client::new(env, token).map_err(|why| not_found(id, &why))?;
            let progress = if env.quiet { &() } else { progress };
            let download = Download { search: &search, client, progress, token: token.is_some() };
            search.files(&download.run(commit)?)
        }
    }
}

/// One line, whatever was typed.
fn not_found(id: &str, why: &str) -> Error {
    let line = |text: &str| text.replace(char::is_control, " ");
    Error::ModelNotFound { model: line(id), why: line(why) }
}

struct Search<'a> {
    id: &'a str,
    cached: Cached,
    /// `--subfolder` with a slash after it, or nothing.
    folder: String,
    /// Whether the model's own configuration and tokenizer are wanted.
    config: bool,
    tokenizer: bool,
    env: &'a HubEnv,
}

impl<'a> Search<'a> {
    /// Checks everything typed that becomes part of a path or an address.
    fn new(id: &'a str, request: &ModelRequest, env: &'a HubEnv) -> Result<Self> {
        if let Some(why) = cache::id_trouble(id) {
            return Err(not_found(id, why));
        }
        let revision = request.revision.as_deref().unwrap_or("main");
        if !cache::is_revision(revision) {
            let why = format!("--revision `{revision}` is no branch, tag or commit");
            return Err(not_found(id, &why));
        }
        let folder = match request.subfolder.as_deref() {
            None => String::new(),
            Some(folder) if local::stays_inside(folder) => {
                format!("{}/", folder.trim_end_matches('/'))
            }
            Some(_) => return Err(not_found(id, "--subfolder leads out of the repository")),
        };
        Ok(Self {
            id,
            cached: Cached::new(&env.cache, id, revision),
            folder,
            config: request.config.is_none(),
            tokenizer: request.tokenizer.is_none(),
            env,
        })
    }

    fn has(&self, commit: &str, file: &str) -> bool {
        self.cached.snapshot(commit).join(&self.folder).join(file).is_file()
    }

    /// The first necessary file that the cache does not hold.
    fn missing(&self, commit: Option<&str>) -> Option<String> {
        let Some(commit) = commit else { return Some(CONFIG.to_owned()) };
        let absent = |file: &str| self.cached.is_absent(commit, &format!("{}{file}", self.folder));
        if self.config && !self.has(commit, CONFIG) {
            return Some(CONFIG.to_owned());
        }
        if let Some(file) = self.missing_weights(commit) {
            return Some(file);
        }
        // Pairs of files last: one of a pair is no vocabulary.
        let has = |file: &&str| self.has(commit, file);
        let mut single = [TOKENIZER, VOCAB].iter().chain(&PIECES);
        let mut all = [TOKENIZER, VOCAB, VOCAB_JSON].iter().chain(&PIECES);
        let settled = !self.tokenizer
            || single.any(has)
            || (has(&VOCAB_JSON) && (has(&MERGES) || has(&SIDES[0])))
            || all.all(|file| absent(file));
        (!settled).then(|| TOKENIZER.to_owned())
    }

    fn missing_weights(&self, commit: &str) -> Option<String> {
        for (single, index) in LAYOUTS {
            if self.has(commit, single) {
                return None;
            }
            if self.has(commit, index) {
                let index = self.cached.snapshot(commit).join(&self.folder).join(index);
                // An index that cannot be read is reported when the files are gathered.
                let shards = shard_names(&index).unwrap_or_default();
                return shards.into_iter().find(|shard| !self.has(commit, shard));
            }
        }
        Some(WEIGHTS.to_owned())
    }

    fn offline(&self, file: &str, commit: Option<&str>) -> Error {
        let folder = match commit {
            Some(commit) => self.cached.snapshot(commit).join(&self.folder),
            None => self.cached.folder().to_path_buf(),
        };
        let why = format!("offline (HF_HUB_OFFLINE), and {file} is not in {}", folder.display());
        not_found(self.id, &why)
    }

    fn files(&self, commit: &str) -> Result<ModelFiles> {
        let folder = self.cached.snapshot(commit).join(&self.folder);
        let mut files = local::resolve(Path::new(&folder), self.id)?;
        files.revision = Some(commit.to_owned());
        Ok(files)
    }
}

struct Download<'a> {
    search: &'a Search<'a>,
    client: Client,
    progress: &'a dyn Progress,
    token: bool,
}

/// The files asked for belong to another commit than those before.
struct Moved;

impl Download<'_> {
    /// Fetches what is missing at the commit that the cache knows, or, where the Hub has moved on,
    /// everything at the new one. Returns the commit.
    fn run(&self, cached: Option<String>) -> Result<String> {
        for start in [cached, None] {
            let mut commit = start;
            match self.all(&mut commit)? {
                Ok(()) => {
                    let commit = commit.unwrap_or_default();
                    self.search.cached.mark_commit(&commit)?;
                    return Ok(commit);
                }
                Err(Moved) => continue,
            }
        }
        Err(self.error("the model was changed during the download; try again".into()))
    }

    fn all(&self, commit: &mut Option<String>) -> Result<Result<(), Moved>> {
        /// Leaves with `Moved`, else gives whether the file is there.
        macro_rules! want {
            ($file:expr) => {
                match self.want($file, commit)? {
                    Ok(there) => there,
                    Err(moved) => return Ok(Err(moved)),
                }
            };
        }
        if self.search.config && !want!(CONFIG) {
            let endpoint = &self.search.env.endpoint;
            return Err(self.error(format!("{endpoint} has no such model, or no {CONFIG} in it")));
        }
        let mut found = false;
        for (single, index) in LAYOUTS {
            if want!(single) {
                found = true;
            } else if want!(index) {
                let snapshot = self.search.cached.snapshot(commit.as_deref().unwrap_or_default());
                for shard in shard_names(&snapshot.join(&self.search.folder).join(index))? {
                    if !want!(&shard) {
                        return Err(self.error(format!("{index} names {shard}, which it has not")));
                    }
                }
                found = true;
            }
            if found {
                break;
            }
        }
        if !found {
            let [(safe, _), (pickle, _)] = LAYOUTS;
            return Err(self.error(format!("it has neither {safe} nor {pickle}, whole or sharded")));
        }
        if self.search.config {
            want!(GENERATION);
        }
        if self.search.tokenizer {
            let found = want!(TOKENIZER) || want!(VOCAB) || (want!(VOCAB_JSON) && want!(MERGES));
            let [source, target, target_vocab] = SIDES;
            if !found && want!(VOCAB_JSON) && want!(source) {
                let _ = want!(target) && want!(target_vocab);
            } else if !found {
                for pieces in PIECES {
                    if want!(pieces) {
                        break;
                    }
                }
            }
            for optional in [TOKENIZER_CONFIG, SPECIAL, ADDED] {
                want!(optional);
            }
        }
        Ok(Ok(()))
    }

    /// Brings one file unless it is there; whether the model has it.
    fn want(&self, file: &str, commit: &mut Option<String>) -> Result<Result<bool, Moved>> {
        let cached = &self.search.cached;
        let path = format!("{}{file}", self.search.folder);
        if let Some(commit) = commit.as_deref() {
            if self.search.has(commit, file) {
                return Ok(Ok(true));
            }
            // A necessary file may have come since, at a later commit.
            if ![CONFIG, LAYOUTS[0].0, LAYOUTS[0].1].contains(&file)
                && cached.is_absent(commit, &path)
            {
                return Ok(Ok(false));
            }
        }
        let endpoint = &self.search.env.endpoint;
        let transfer = Transfer { client: &self.client, cached, endpoint, progress: self.progress };
        match transfer.fetch(&path, commit.as_deref()) {
            Ok(fetched) => match commit {
                Some(commit) if *commit != fetched.commit => Ok(Err(Moved)),
                _ => {
                    *commit = Some(fetched.commit);
                    Ok(Ok(fetched.path.is_file()))
                }
            },
            Err(Trouble::Status { status: 404, code, commit: at }) if is_entry(code.as_deref()) => {
                if let Some(at) = at.filter(|at| cache::is_name(at)) {
                    if commit.as_ref().is_some_and(|commit| *commit != at) {
                        return Ok(Err(Moved));
                    }
                    cached.mark_absent(&at, &path)?;
                }
                Ok(Ok(false))
            }
            Err(Trouble::Status { status, code, .. }) => {
                Err(self.error(format!("{path}: {}", self.refusal(status, code.as_deref()))))
            }
            Err(Trouble::Refused(why)) => Err(self.error(format!("{path}: {why}"))),
            Err(Trouble::Local(error)) => Err(error),
        }
    }

    fn refusal(&self, status: u16, code: Option<&str>) -> String {
        let Search { id, env, .. } = self.search;
        let endpoint = &env.endpoint;
        match (status, code) {
            (404, Some("RevisionNotFound")) => "it has no such revision (404)".into(),
            (404, _) => format!("{endpoint} has no such model (404)"),
            (401 | 403, _) if self.token => {
                format!(
                    "{endpoint} refuses the token given ({status}): accept the model's \
                     conditions at {endpoint}/{id} and give a token that may read it"
                )
            }
            (401 | 403, _) => {
                format!(
                    "{endpoint} refuses it ({status}): there is no such model, or it is private \
                     or gated; then give a token that may read it with --token or HF_TOKEN"
                )
            }
            _ => format!("{endpoint} answered with status {status}"),
        }
    }

    fn error(&self, why: String) -> Error {
        not_found(self.search.id, &why)
    }
}

/// Whether a 404 means the file alone; servers that do not say are taken to mean that.
fn is_entry(code: Option<&str>) -> bool {
    !matches!(code, Some("RepoNotFound" | "RevisionNotFound"))
}
