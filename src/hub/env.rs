//! The environment variables that say where Hub models are kept and fetched from.

use std::path::{Path, PathBuf};

/// Where the Hub is unless `HF_ENDPOINT` says otherwise.
const ENDPOINT: &str = "https://huggingface.co";

/// What the process environment says about the Hub, as `huggingface_hub` documents it.
///
/// A value of its own, so that it can be given without touching the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubEnv {
    /// Folder of the `models--org--name` folders: `HF_HUB_CACHE`, else the older
    /// `HUGGINGFACE_HUB_CACHE`, else `hub` in `HF_HOME`, else in `huggingface` in
    /// `XDG_CACHE_HOME`, else in `~/.cache/huggingface`.
    pub cache: PathBuf,
    /// `HF_TOKEN`, else the content of the file `HF_TOKEN_PATH`, else of `token` in `HF_HOME`.
    pub token: Option<String>,
    /// `HF_ENDPOINT`, without a slash at its end.
    pub endpoint: String,
    /// `HF_HUB_OFFLINE`, else `TRANSFORMERS_OFFLINE`: never open a socket.
    pub offline: bool,
    /// `HF_HUB_DISABLE_PROGRESS_BARS`: do not report progress.
    pub quiet: bool,
    /// Proxies by the scheme of the address they are for.
    pub proxies: Proxies,
}

/// `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, in capitals or not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// For `https://` addresses.
    pub https: Option<String>,
    /// For `http://` addresses.
    pub http: Option<String>,
    /// Hosts to reach without a proxy, separated by commas.
    pub no_proxy: Option<String>,
}

impl HubEnv {
    /// Reads the process environment.
    pub fn from_env() -> Self {
        Self::from_lookup(std::env::home_dir(), |name| std::env::var(name).ok())
    }

    /// Reads from any set of variables; `home` is what `~` stands for.
    pub fn from_lookup(home: Option<PathBuf>, lookup: impl Fn(&str) -> Option<String>) -> Self {
        let home = home.unwrap_or_default();
        let text = |name: &str| lookup(name).filter(|value| !value.trim().is_empty());
        let folder = |name: &str| text(name).map(|value| expand(&value, &home));
        let on = |name: &str| text(name).is_some_and(|value| is_true(&value));
        let either = |name: &str| text(name).or_else(|| text(&name.to_ascii_lowercase()));

        let hf_home = folder("HF_HOME").unwrap_or_else(|| {
            folder("XDG_CACHE_HOME").unwrap_or_else(|| home.join(".cache")).join("huggingface")
        });
        let cache = folder("HF_HUB_CACHE")
            .or_else(|| folder("HUGGINGFACE_HUB_CACHE"))
            .unwrap_or_else(|| hf_home.join("hub"));
        let token_file = folder("HF_TOKEN_PATH").unwrap_or_else(|| hf_home.join("token"));
        let token = text("HF_TOKEN")
            .or_else(|| text("HUGGING_FACE_HUB_TOKEN"))
            .or_else(|| std::fs::read_to_string(token_file).ok());
        let all = either("ALL_PROXY");
        Self {
            cache,
            token: token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty()),
            endpoint: text("HF_ENDPOINT")
                .map_or(ENDPOINT.to_owned(), |url| url.trim().trim_end_matches('/').to_owned()),
            offline: text("HF_HUB_OFFLINE")
                .or_else(|| text("TRANSFORMERS_OFFLINE"))
                .is_some_and(|value| is_true(&value)),
            quiet: on("HF_HUB_DISABLE_PROGRESS_BARS"),
            proxies: Proxies {
                https: either("HTTPS_PROXY").or_else(|| all.clone()),
                http: either("HTTP_PROXY").or(all),
                no_proxy: either("NO_PROXY"),
            },
        }
    }
}

/// The spellings that `huggingface_hub` takes for true.
fn is_true(value: &str) -> bool {
    matches!(value.trim().to_ascii_uppercase().as_str(), "1" | "ON" | "YES" | "TRUE")
}

fn expand(value: &str, home: &Path) -> PathBuf {
    match value.strip_prefix('~') {
        Some("") => home.to_path_buf(),
        Some(rest) if rest.starts_with(['/', '\\']) => home.join(&rest[1..]),
        _ => PathBuf::from(value),
    }
}
