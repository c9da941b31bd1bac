//! Who may ask, and what every answer says to the browser.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::uri::Authority;
use axum::http::{Method, Uri};

use super::refused::Refused;

/// The names that requests may call this server by.
pub struct Guard {
    address: SocketAddr,
    /// In lower case.
    names: Vec<String>,
}

impl Guard {
    pub fn new(address: SocketAddr, names: &[String]) -> Self {
        let plain = |name: &String| name.trim_matches(['[', ']']).to_ascii_lowercase();
        Self { address, names: names.iter().map(plain).collect() }
    }

    /// # Errors
    /// Refuses a request under a foreign name, which a website could have pointed at this machine (DNS
    /// rebinding), and a run that another website's page asks for.
    pub fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Refused> {
        let host = host(uri, headers)?;
        if !self.knows(host.host()) {
            return Err(Refused::host(host.as_str()));
        }
        if matches!(*method, Method::GET | Method::HEAD) {
            return Ok(());
        }
        let from_elsewhere = match headers.get(header::ORIGIN) {
            Some(origin) => !same_origin(origin, &host),
            // programs that are no browsers send neither
            None => headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin"),
        };
        if from_elsewhere { Err(Refused::origin()) } else { Ok(()) }
    }

    /// Whether a name without its port is this server's. Under an IP address no foreign website can be
    /// reached; which ones this machine has is for the machine to say where all are listened on.
    fn knows(&self, host: &str) -> bool {
        let host = host.trim_matches(['[', ']']).to_ascii_lowercase();
        let bound = self.address.ip();
        let address = host.parse::<IpAddr>().is_ok_and(|ip| ip == bound || bound.is_unspecified());
        let near = bound.is_loopback() || bound.is_unspecified();
        address || (near && host == "localhost") || self.names.contains(&host)
    }
}

/// What the request calls this server: one name, in the URL or the header.
fn host(uri: &Uri, headers: &HeaderMap) -> Result<Authority, Refused> {
    let mut given = headers.get_all(header::HOST).iter();
    let named = match (uri.authority(), given.next(), given.next()) {
        (_, _, Some(_)) => None,
        (Some(authority), _, _) => Some(authority.clone()),
        (None, named, _) => named.and_then(|name| Authority::try_from(name.as_bytes()).ok()),
    };
    named.filter(|name| !name.as_str().contains('@')).ok_or_else(|| Refused::host("none"))
}

fn same_origin(origin: &HeaderValue, host: &Authority) -> bool {
    let origin = origin.to_str().unwrap_or_default();
    // a proxy in front of this server may speak https
    let name = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    name.is_some_and(|name| name.eq_ignore_ascii_case(host.as_str()))
}

/// For every answer: nobody frames it, guesses its type, keeps it or reads it from another origin.
pub const HEADERS: [(HeaderName, HeaderValue); 6] = [
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("frame-ancestors 'none'")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(guard: &Guard, method: Method, host: &str, more: &[(&'static str, &str)]) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().expect("a header"));
        for (name, value) in more {
            headers.append(*name, value.parse().expect("a header"));
        }
        guard.check(&method, &Uri::from_static("/run"), &headers).is_ok()
    }

    fn guard(address: &str, names: &[&str]) -> Guard {
        let names: Vec<String> = names.iter().map(|name| (*name).into()).collect();
        Guard::new(address.parse().expect("an address"), &names)
    }

    #[test]
    fn only_names_of_this_server_are_answered() {
        let near = guard("127.0.0.1:8484", &["Attn.example"]);
        for host in ["127.0.0.1:8484", "localhost:8484", "LOCALHOST", "attn.example:80"] {
            assert!(asks(&near, Method::GET, host, &[]), "{host}");
        }
        for host in
            ["evil.example:8484", "127.0.0.2:8484", "a@127.0.0.1", "localhost.evil", "", "x y"]
        {
            assert!(!asks(&near, Method::GET, host, &[]), "{host}");
        }
        let six = guard("[::1]:8484", &[]);
        assert!(asks(&six, Method::GET, "[::1]:8484", &[]));
        let all = guard("0.0.0.0:8484", &[]);
        assert!(asks(&all, Method::GET, "192.168.1.7:8484", &[]));
        assert!(!asks(&all, Method::GET, "evil.example", &[]));
        assert!(!asks(&guard("192.168.1.7:1", &[]), Method::GET, "localhost:1", &[]));
    }

    #[test]
    fn a_second_name_or_a_foreign_url_is_refused() {
        let near = guard("127.0.0.1:8484", &[]);
        assert!(!asks(&near, Method::GET, "127.0.0.1:8484", &[("host", "localhost")]));
        let uri = Uri::from_static("http://evil.example/run");
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static("127.0.0.1:8484"));
        assert!(near.check(&Method::GET, &uri, &headers).is_err());
    }

    #[test]
    fn runs_are_for_the_own_page_and_for_programs() {
        let near = guard("127.0.0.1:8484", &[]);
        let run = |more: &[(&'static str, &str)]| asks(&near, Method::POST, "127.0.0.1:8484", more);
        assert!(run(&[]));
        assert!(run(&[("origin", "http://127.0.0.1:8484")]));
        assert!(run(&[("sec-fetch-site", "same-origin")]));
        for origin in ["null", "http://127.0.0.1:1", "http://localhost:8484", "http://evil.example"]
        {
            assert!(!run(&[("origin", origin)]), "{origin}");
        }
        assert!(!run(&[("sec-fetch-site", "cross-site")]));
    }
}
