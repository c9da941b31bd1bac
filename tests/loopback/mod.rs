//! A small HTTP server on loopback that speaks as the Hub does, and breaks off where told to.
#![allow(dead_code)] // each test file uses a part

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use sha2::{Digest, Sha256};

/// One request as it came.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub path: String,
    /// By name in lower case.
    pub headers: BTreeMap<String, String>,
}

impl Request {
    /// The first byte that `Range: bytes=N-` asks for.
    pub fn from(&self) -> Option<usize> {
        self.headers.get("range")?.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()
    }
}

/// What to answer.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Close the connection after so many bytes of the body.
    pub break_after: Option<usize>,
}

impl Reply {
    pub fn status(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }
}

/// A server that lives as long as the test process.
pub struct Server {
    pub address: String,
    log: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    pub fn start(handler: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let log = Arc::new(Mutex::new(Vec::new()));
        let (seen, handler) = (log.clone(), Arc::new(handler));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, handler) = (seen.clone(), handler.clone());
                std::thread::spawn(move || {
                    let Some(request) = read(&stream) else { return };
                    seen.lock().unwrap().push(request.clone());
                    let _ = answer(&stream, &handler(&request)); // the client may hang up
                });
            }
        });
        Self { address, log }
    }

    pub fn requests(&self) -> Vec<Request> {
        self.log.lock().unwrap().clone()
    }

    /// The paths asked for, in order.
    pub fn paths(&self) -> Vec<String> {
        self.requests().into_iter().map(|request| request.path).collect()
    }
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next()?.ok()?;
    let mut words = first.split(' ').map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let headers = lines
        .map_while(|line| line.ok().filter(|line| !line.is_empty()))
        .filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        })
        .collect();
    Some(Request { method, path, headers })
}

fn answer(mut stream: &TcpStream, reply: &Reply) -> std::io::Result<()> {
    write!(stream, "HTTP/1.1 {} Said\r\nConnection: close\r\n", reply.status)?;
    write!(stream, "Content-Length: {}\r\n", reply.body.len())?;
    for (name, value) in &reply.headers {
        write!(stream, "{name}: {value}\r\n")?;
    }
    stream.write_all(b"\r\n")?;
    stream.write_all(&reply.body[..reply.break_after.unwrap_or(reply.body.len())])?;
    stream.flush()
}

/// Files of one repository at one commit, answered for as the Hub does.
#[derive(Debug, Clone)]
pub struct Repository {
    pub id: String,
    pub commit: String,
    /// Names that stand for the commit: branches and tags.
    pub revisions: Vec<String>,
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Repository {
    pub fn answer(&self, request: &Request) -> Reply {
        let Some(rest) = request.path.strip_prefix(&format!("/{}/resolve/", self.id)) else {
            return Reply::status(404).with("X-Error-Code", "RepoNotFound");
        };
        let Some((revision, file)) = rest.split_once('/') else { return Reply::status(400) };
        if revision != self.commit && !self.revisions.iter().any(|name| name == revision) {
            return Reply::status(404).with("X-Error-Code", "RevisionNotFound");
        }
        match self.files.get(file) {
            Some(content) => part(content, request)
                .with("X-Repo-Commit", self.commit.as_str())
                .with("ETag", format!("\"{}\"", sha256(content))),
            None => Reply::status(404)
                .with("X-Error-Code", "EntryNotFound")
                .with("X-Repo-Commit", self.commit.as_str()),
        }
    }
}

/// The content, or what the request's range leaves of it.
pub fn part(content: &[u8], request: &Request) -> Reply {
    let size = content.len();
    match request.from() {
        None => Reply { status: 200, body: content.to_vec(), ..Reply::default() },
        Some(from) if from >= size => Reply::status(416),
        Some(from) => Reply { status: 206, body: content[from..].to_vec(), ..Reply::default() }
            .with("Content-Range", format!("bytes {from}-{}/{size}", size - 1)),
    }
}

pub fn sha256(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}
