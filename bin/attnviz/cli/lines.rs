//! Many inputs from a file or standard input.

use std::io::Read;
use std::path::Path;

use attnviz::tokens::{Input, Spans};
use attnviz::{Error, Result};
use serde::Deserialize;
use serde_json::Value;

/// One line: its number from 1, and the input on it or what is wrong with it.
pub struct Line {
    pub number: usize,
    pub given: Result<Given>,
}

/// An input, and its words where the line says which they are.
pub struct Given {
    pub input: Input,
    pub spans: Option<Spans>,
}

/// How a place in the file is named in messages.
pub fn place(path: &Path, number: usize) -> String {
    format!("{}, line {number}", file(path))
}

fn file(path: &Path) -> String {
    if path == Path::new("-") { "standard input".into() } else { path.display().to_string() }
}

fn bytes(path: &Path) -> Result<Vec<u8>> {
    let io = |source| Error::Io { path: path.into(), action: "read it", source };
    if path != Path::new("-") {
        return std::fs::read(path).map_err(io);
    }
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes).map_err(io)?;
    Ok(bytes)
}

/// The whole file as one text.
pub fn whole(path: &Path) -> Result<String> {
    let text = String::from_utf8(bytes(path)?).map_err(|why| {
        let at = why.utf8_error().valid_up_to();
        let line = why.as_bytes()[..at].split(|&byte| byte == b'\n').count();
        Error::Input { place: place(path, line), why: "expected UTF-8, found other bytes".into() }
    })?;
    match text.strip_prefix('\u{feff}') {
        Some(rest) => Ok(rest.to_owned()),
        None => Ok(text),
    }
}

/// Reads all lines: JSON objects when the file is called `.jsonl`, or when standard input begins
/// with `{`; one text per line otherwise.
pub fn read(path: &Path) -> Result<Vec<Line>> {
    let (bytes, stdin) = (bytes(path)?, path == Path::new("-"));
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let json = match path.extension().and_then(|e| e.to_str()) {
        Some("jsonl" | "ndjson") => true,
        _ => stdin && bytes.trim_ascii_start().starts_with(b"{"),
    };
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if bytes.is_empty() {
        return Err(Error::Input { place: file(path), why: "holds no lines".into() });
    }
    let lines = bytes.split(|&byte| byte == b'\n').zip(1..);
    Ok(lines
        .map(|(line, number)| {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            Line { number, given: one(line, json) }
        })
        .collect())
}

fn wrong(why: impl Into<String>) -> Error {
    Error::Input { place: "line".into(), why: why.into() }
}

fn one(line: &[u8], json: bool) -> Result<Given> {
    let text = std::str::from_utf8(line).map_err(|_| wrong("is not UTF-8"))?;
    if text.trim().is_empty() {
        return Err(wrong("is empty"));
    }
    if !json {
        return Ok(Given { input: Input::Text(text.to_owned()), spans: None });
    }
    if !text.trim_start().starts_with('{') {
        return Err(wrong(format!("expected a JSON object with {WANT}")));
    }
    // the line that the parser counts is always the first
    let mut entry: Entry = serde_json::from_str(text)
        .map_err(|e| wrong(e.to_string().replace("at line 1 column", "at column")))?;
    let spans = entry.spans.take().map(spans).transpose()?;
    let input = entry.input().ok_or_else(|| wrong(format!("expected {WANT}")))?;
    if spans.is_some() && !matches!(input, Input::Text(_) | Input::Pair(..)) {
        return Err(wrong("spans give the words of a text, found words or tokens"));
    }
    Ok(Given { input, spans })
}

fn spans(value: Value) -> Result<Spans> {
    let want = "spans: expected words as spans of characters, such as [[0,2],[2,5]], found";
    serde_json::from_value(value.clone()).map_err(|_| wrong(format!("{want} {value}")))
}

const WANT: &str = "one of text (with or without text_b and spans), words, tokens";

#[derive(Deserialize)]
struct Entry {
    text: Option<String>,
    text_b: Option<String>,
    words: Option<Vec<String>>,
    tokens: Option<Vec<String>>,
    spans: Option<Value>,
}

impl Entry {
    fn input(self) -> Option<Input> {
        match (self.text, self.text_b, self.words, self.tokens) {
            (Some(a), None, None, None) => Some(Input::Text(a)),
            (Some(a), Some(b), None, None) => Some(Input::Pair(a, b)),
            (None, None, Some(words), None) => Some(Input::Words(words)),
            (None, None, None, Some(tokens)) => Some(Input::Tokens(tokens)),
            _ => None,
        }
    }
}
