//! HTTP for the Hub: proxies, the access token, redirects.
//!
//! hf-hub's own transfer is not used: it sends the access token on to the host that the Hub
//! redirects to, appends a whole file to half a one when a server ignores ranges, and checks
//! neither sizes nor checksums.

use std::time::Duration;

use ureq::http::{Response, Uri, header};
use ureq::{Agent, Body, Proxy};

use super::HubEnv;

const CONNECT: Duration = Duration::from_secs(10);
const READ: Duration = Duration::from_secs(30);
const HOPS: usize = 10;

/// Why there is no answer, in words.
pub(super) type Refused = String;

pub(super) struct Client {
    endpoint: Uri,
    token: Option<String>,
    no_proxy: Vec<String>,
    direct: Agent,
    https: Option<Agent>,
    http: Option<Agent>,
}

/// The last answer of a chain of redirects, and what the Hub itself said on the way.
pub(super) struct Answer {
    pub response: Response<Body>,
    pub commit: Option<String>,
    pub etag: Option<String>,
    /// Length of the whole file, whichever part of it this answer holds.
    pub size: Option<u64>,
    /// The Hub's word for what is wrong: `EntryNotFound`, `RepoNotFound`, `GatedRepo`, …
    pub code: Option<String>,
}

impl Client {
    pub fn new(env: &HubEnv, token: Option<&str>) -> Result<Self, Refused> {
        let endpoint: Uri = env.endpoint.parse().map_err(|_| bad_endpoint(&env.endpoint))?;
        if !matches!(endpoint.scheme_str(), Some("http" | "https")) || endpoint.host().is_none() {
            return Err(bad_endpoint(&env.endpoint));
        }
        let through = |name: &str, proxy: &Option<String>| match proxy.as_deref().map(Proxy::new) {
            None => Ok(None),
            Some(Ok(proxy)) => Ok(Some(agent(Some(proxy)))),
            Some(Err(_)) => Err(format!("{name} is not the address of a proxy")),
        };
        let no_proxy = env.proxies.no_proxy.as_deref().unwrap_or_default();
        Ok(Self {
            token: token.map(|token| format!("Bearer {token}")),
            no_proxy: no_proxy.split(',').map(|host| host.trim().to_ascii_lowercase()).collect(),
            direct: agent(None),
            https: through("HTTPS_PROXY", &env.proxies.https)?,
            http: through("HTTP_PROXY", &env.proxies.http)?,
            endpoint,
        })
    }

    /// Asks for a file, from byte `from` on where that is given, and follows redirects. The token
    /// goes to the endpoint alone.
    pub fn get(&self, url: &str, from: Option<u64>) -> Result<Answer, Refused> {
        let mut url: Uri = url.parse().map_err(|_| format!("`{url}` is not an address"))?;
        let (mut commit, mut etag, mut size) = (None, None, None);
        for _ in 0..HOPS {
            let response = self.ask(&url, from)?;
            let said = |name: &str| text(&response, name);
            if self.is_endpoint(&url) {
                commit = commit.or_else(|| said("x-repo-commit"));
                etag = etag.or_else(|| said("x-linked-etag"));
                size = size.or_else(|| said("x-linked-size")?.parse().ok());
            }
            if response.status().is_redirection() {
                let to = said("location").ok_or("a redirect without an address")?;
                let to = next(&url, &to).ok_or_else(|| format!("a redirect to `{to}`"))?;
                if self.is_endpoint(&url) && !self.is_endpoint(&to) {
                    etag = etag.or_else(|| said("etag")); // the other host may have its own
                }
                url = to;
                continue;
            }
            return Ok(Answer {
                commit,
                etag: etag.or_else(|| said("etag")),
                size: size.or_else(|| whole_size(&response)),
                code: said("x-error-code"),
                response,
            });
        }
        Err(format!("more than {HOPS} redirects"))
    }

    fn ask(&self, url: &Uri, from: Option<u64>) -> Result<Response<Body>, Refused> {
        let mut request = self.agent(url).get(url.clone());
        if let Some(from) = from {
            request = request.header(header::RANGE, format!("bytes={from}-"));
        }
        match &self.token {
            Some(token) if self.is_endpoint(url) => {
                request = request.header(header::AUTHORIZATION, token);
            }
            _ => {}
        }
        request.call().map_err(|why| {
            let why = why.to_string().replace(['\n', '\r'], " ");
            format!("could not reach {}: {why}", origin(url))
        })
    }

    fn agent(&self, url: &Uri) -> &Agent {
        let host = url.host().unwrap_or_default().to_ascii_lowercase();
        if self.no_proxy.iter().any(|entry| exempts(entry, &host)) {
            return &self.direct;
        }
        let proxied = if url.scheme_str() == Some("https") { &self.https } else { &self.http };
        proxied.as_ref().unwrap_or(&self.direct)
    }

    fn is_endpoint(&self, url: &Uri) -> bool {
        url.scheme() == self.endpoint.scheme() && url.authority() == self.endpoint.authority()
    }
}

fn bad_endpoint(endpoint: &str) -> Refused {
    format!("HF_ENDPOINT is `{endpoint}`, expected an address such as https://huggingface.co")
}

fn agent(proxy: Option<Proxy>) -> Agent {
    Agent::config_builder()
        .proxy(proxy)
        .max_redirects(0)
        .http_status_as_error(false)
        .timeout_connect(Some(CONNECT))
        .timeout_per_read(Some(READ))
        // Ranges and sizes are those of the file itself.
        .accept_encoding("identity")
        .user_agent(concat!("attnviz/", env!("CARGO_PKG_VERSION")))
        .build()
        .into()
}

fn text(response: &Response<Body>, name: &str) -> Option<String> {
    response.headers().get(name)?.to_str().ok().map(str::to_owned)
}

/// `Content-Range` of a part, else `Content-Length`.
fn whole_size(response: &Response<Body>) -> Option<u64> {
    match text(response, "content-range") {
        Some(range) => range.rsplit('/').next()?.parse().ok(),
        None => response.body().content_length(),
    }
}

/// Where a redirect leads; never from an encrypted connection to an open one.
fn next(from: &Uri, to: &str) -> Option<Uri> {
    let absolute = if to.contains("://") {
        to.to_owned()
    } else if to.starts_with("//") {
        format!("{}:{to}", from.scheme_str()?)
    } else if to.starts_with('/') {
        format!("{}{to}", origin(from))
    } else {
        let folder = from.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{}{folder}/{to}", origin(from))
    };
    let to: Uri = absolute.parse().ok()?;
    match (from.scheme_str(), to.scheme_str()) {
        (_, Some("https")) | (Some("http"), Some("http")) => Some(to),
        _ => None,
    }
}

fn origin(url: &Uri) -> String {
    let authority = url.authority().map_or("", |authority| authority.as_str());
    format!("{}://{authority}", url.scheme_str().unwrap_or_default())
}

/// Whether an entry of NO_PROXY is the host, a domain around it, or `*`.
fn exempts(entry: &str, host: &str) -> bool {
    let entry = entry.split(':').next().unwrap_or_default();
    let domain = entry.trim_start_matches('*').trim_start_matches('.');
    match domain {
        "" => entry == "*",
        _ => host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')),
    }
}
