//! `attnviz serve` over real sockets: the page, runs and what they change, and everything that is
//! refused.
#![cfg(feature = "serve")]

mod common;
mod served;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use attnviz::tokens::{Batch, Input, Limit};
use attnviz::{Attention, Head, Intervention, Keep, Recorder, Site, Stack};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use common::kinds::checkpoint;
use common::{fixture, open};
use ndarray::{Array2, s};
use serde_json::{Value, json};
use served::{Server, command};

const TEXT: &str = "The cat sat on the mat.";

/// What the tests ask a server.
impl Server {
    /// With the tiny masked language model.
    fn bert() -> Self {
        Self::start(&[&fixture("fill").join("bert")], &[TEXT])
    }

    fn send(&self, request: &str) -> Reply {
        let mut stream = TcpStream::connect(&self.address).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
        // a server that refuses a body may hang up before it has all of it
        let _ = stream.write_all(request.as_bytes());
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        Reply::read(&bytes)
    }

    fn get(&self, path: &str) -> Reply {
        let host = &self.address;
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
    }

    /// POST to /run with further header lines.
    fn post(&self, body: &str, more: &str) -> Reply {
        let (host, length) = (&self.address, body.len());
        let json =
            if more.contains("Content-Type") { "" } else { "Content-Type: application/json\r\n" };
        self.send(&format!(
            "POST /run HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{json}{more}\
             Content-Length: {length}\r\n\r\n{body}"
        ))
    }

    fn run(&self, ask: Value) -> Value {
        let reply = self.post(&ask.to_string(), "");
        assert_eq!(reply.status, 200, "{}", reply.body);
        assert_eq!(reply.header("content-type"), Some("application/json"));
        serde_json::from_str(&reply.body).expect("JSON")
    }

    /// What is said about a request that is refused.
    fn refused(&self, ask: &str, status: u16) -> String {
        error(&self.post(ask, ""), status)
    }
}

struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Reply {
    fn read(bytes: &[u8]) -> Self {
        let text = String::from_utf8(bytes.to_vec()).expect("UTF-8");
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text}"));
        let status =
            head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        Self { status, head: head.to_owned(), body: body.to_owned() }
    }

    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(one, _)| one.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

fn error(reply: &Reply, status: u16) -> String {
    assert_eq!(reply.status, status, "{}", reply.body);
    let said: Value = serde_json::from_str(&reply.body).expect("JSON");
    let error = said["error"].as_str().expect("an error").to_owned();
    assert!(!error.contains('\n') && !error.is_empty());
    error
}

/// The data of a page that is whole.
fn data(page: &str) -> Value {
    let open = "<script type=\"application/json\" id=\"data\">";
    let (_, rest) = page.split_once(open).expect("data");
    serde_json::from_str(rest.split_once("</script>").expect("its end").0).expect("JSON")
}

/// The weights of one head as the page's script decodes them.
fn weights(data: &Value, side: usize, layer: usize, head: usize) -> Array2<f64> {
    let sheet = &data["sides"][side]["sheets"][0];
    let block = STANDARD.decode(data["block"].as_str().expect("a block")).expect("base64");
    let at = |name: &str| sheet[name].as_u64().expect("a place") as usize;
    let n = sheet["rows"]["tokens"].as_array().expect("tokens").len();
    let heads = sheet["heads"].as_array().expect("heads");
    let place = heads.iter().position(|one| *one == json!([layer, head])).expect("the head");
    let code = |i: usize, j: usize| block[at("codes_at") + place * n * n + i * n + j];
    let scale = |i: usize| {
        let from = at("scales_at") + 4 * (place * n + i);
        f64::from(f32::from_le_bytes(block[from..from + 4].try_into().expect("four bytes")))
    };
    Array2::from_shape_fn((n, n), |(i, j)| scale(i) * (f64::from(code(i, j)) / 255.0).powi(2))
}

fn pieces(data: &Value, side: usize) -> Vec<String> {
    let tokens = data["sides"][side]["sheets"][0]["rows"]["tokens"].as_array().expect("tokens");
    tokens.iter().map(|token| token["t"].as_str().expect("text").to_owned()).collect()
}

/// The library's own attention of the tiny model, with heads switched off.
fn attention(text: &str, off: &[Head]) -> Attention {
    let model = open(&fixture("fill").join("bert"), None).expect("loads");
    let tokenizer = model.tokenizer().expect("a tokenizer");
    let encoding = tokenizer.encode(&Input::Text(text.into()), &Limit::default()).expect("tokens");
    let batch = Batch::new(std::slice::from_ref(&encoding), tokenizer.pad_id());
    let gates: Vec<_> =
        off.iter().map(|&head| Intervention::gate(Stack::Encoder, head, 0.0)).collect();
    let mut recorder = Recorder::new().keep(Site::Probs, Keep::All);
    model.forward(&batch, &mut recorder, &gates).expect("runs");
    let trace = recorder.into_trace().expect("a trace");
    trace.attention(Stack::Encoder, 0, &encoding.tokens, model.config()).expect("attention")
}

/// Holds every head of a side against the library's.
fn assert_weights(data: &Value, side: usize, want: &Attention) {
    let most = data["errors"]["weight"].as_f64().expect("an error") + 1e-6;
    assert!(most < 4e-3);
    for one in &want.heads {
        let got = weights(data, side, one.head.layer, one.head.head);
        for (at, &weight) in one.weights.indexed_iter() {
            let off = (got[at] - f64::from(weight)).abs();
            assert!(off <= most, "{} {at:?}: off by {off:.1e}", one.head);
        }
    }
}

#[test]
fn the_page_is_served_with_a_run_in_it() {
    let server = Server::bert();
    for path in ["/", "/?text=other&off=L0H1"] {
        let page = server.get(path);
        assert_eq!(page.status, 200);
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
        assert!(page.body.contains("; connect-src 'self'\">"));
        let data = data(&page.body);
        assert_eq!(data["live"]["text"], TEXT);
        assert_eq!(data["live"]["heads"], json!([[0, 1], [0, 1], [0, 1]]));
        assert_eq!(data["live"]["models"][0]["mask"], "[MASK]");
        assert_weights(&data, 0, &attention(TEXT, &[]));
    }
}

#[test]
fn every_answer_says_what_browsers_must_not_do() {
    let server = Server::bert();
    let foreign = "GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    let replies =
        [server.get("/"), server.get("/none"), server.post("{}", ""), server.send(foreign)];
    assert_eq!(replies.each_ref().map(|reply| reply.status), [200, 404, 400, 421]);
    for reply in replies {
        let want = [
            ("content-security-policy", "frame-ancestors 'none'"),
            ("x-content-type-options", "nosniff"),
            ("cache-control", "no-store"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-resource-policy", "same-origin"),
            ("cross-origin-opener-policy", "same-origin"),
        ];
        for (name, value) in want {
            assert_eq!(reply.header(name), Some(value), "{name}: {}", reply.head);
        }
        assert!(!reply.head.to_lowercase().contains("access-control"), "{}", reply.head);
    }
}

#[test]
fn a_head_that_is_switched_off_changes_what_comes_after_it() {
    let server = Server::bert();
    let text = "The [MASK] sat on the mat.";
    let plain = server.run(json!({ "text": text }));
    let off = [Head { layer: 0, head: 1 }, Head { layer: 1, head: 0 }];
    let changed = server.run(json!({ "text": text, "off": [[1, 0], [0, 1], [0, 1]] }));
    assert_weights(&plain, 0, &attention(text, &[]));
    assert_weights(&changed, 0, &attention(text, &off));
    for head in 0..2 {
        assert_eq!(weights(&plain, 0, 0, head), weights(&changed, 0, 0, head));
        assert_ne!(weights(&plain, 0, 1, head), weights(&changed, 0, 1, head));
    }
    assert_eq!(changed["live"]["off"], json!([[0, 1], [1, 0]]));
    assert_ne!(plain["live"]["answers"], changed["live"]["answers"]);
    assert_eq!(changed["notes"][0], "Switched off: L0H1, L1H0.");
    // and back
    assert_eq!(server.run(json!({ "text": text, "off": [] })), plain);
}

#[test]
fn a_masked_token_is_replaced_and_the_model_says_what_it_expects_there() {
    let server = Server::bert();
    let masked = server.run(json!({ "text": TEXT, "masked": [2] }));
    let typed = server.run(json!({ "text": "The [MASK] sat on the mat." }));
    assert_eq!(pieces(&masked, 0)[..4], ["[CLS]", "the", "[MASK]", "sat"]);
    assert_eq!(masked["live"]["tokens"][2], json!({ "text": "cat", "free": true }));
    assert_eq!(masked["live"]["tokens"][0], json!({ "text": "[CLS]", "free": false }));
    assert_eq!(masked["live"]["masked"], json!([2]));
    assert_eq!(masked["notes"][0], "Replaced by [MASK]: cat.");
    // in order and once, however they are asked for
    let twice = server.run(json!({ "text": TEXT, "masked": [3, 2, 3] }));
    assert_eq!(twice["live"]["masked"], json!([2, 3]));
    assert_eq!(twice["notes"][0], "Replaced by [MASK]: cat, sat.");
    // words of the page do not tell what was masked
    assert!(!masked["sides"][0]["sheets"][0]["rows"]["words"].to_string().contains("cat"));
    // the same as typing the mask
    for (layer, head) in [(0, 0), (1, 1), (2, 0)] {
        assert_eq!(weights(&masked, 0, layer, head), weights(&typed, 0, layer, head));
    }
    let answer = &masked["live"]["answers"][0];
    assert_eq!(answer, &typed["live"]["answers"][0]);
    assert_eq!(answer["of"], "[MASK] at 2");
    let list = answer["list"].as_array().expect("a list");
    let shares: Vec<f64> = list.iter().map(|one| one[1].as_f64().expect("a share")).collect();
    assert_eq!(list.len(), 5);
    assert!(shares.is_sorted_by(|a, b| a >= b) && shares[0] < 1.0 && shares[4] > 0.0);
}

#[test]
fn the_unchanged_run_stands_beside_the_changed_one() {
    let server = Server::bert();
    let both = server.run(json!({ "text": TEXT, "off": [[0, 0]], "compare": true }));
    assert_weights(&both, 0, &attention(TEXT, &[Head { layer: 0, head: 0 }]));
    assert_weights(&both, 1, &attention(TEXT, &[]));
    assert_eq!(both["sides"][0]["name"], "changed");
    assert_eq!(both["sides"][1]["name"], "unchanged");
}

#[test]
fn pairs_and_models_are_chosen() {
    let gpt2 = checkpoint("gpt2_lm", "gpt2");
    let classifier = checkpoint("bert_seqcls", "bert");
    let server =
        Server::start(&[&fixture("fill").join("bert"), gpt2.path(), classifier.path()], &[TEXT]);
    let pair = server.run(json!({ "text": "The cat sat.", "pair": "A dog ran." }));
    assert_eq!(pieces(&pair, 0).iter().filter(|piece| *piece == "[SEP]").count(), 2);
    assert_eq!(pair["live"]["pair"], "A dog ran.");
    let classes = server.run(json!({ "text": TEXT, "model": 2 }));
    assert_eq!(classes["live"]["answers"][0]["of"], "this text");
    // no mask to put in its place: the token is hidden, and its column is empty
    let causal = server.run(json!({ "text": TEXT, "model": 1, "masked": [1] }));
    assert_eq!(causal["live"]["models"][1]["mask"], Value::Null);
    assert_eq!(causal["live"]["answers"][0]["of"], "next token");
    let rows = weights(&causal, 0, 1, 1);
    assert!(rows.nrows() > 3);
    assert!(rows.column(1).iter().all(|&weight| weight == 0.0), "{rows}");
    for row in rows.rows() {
        assert!((row.sum() - 1.0).abs() < 2e-2, "{rows}");
    }
    assert!(causal["notes"][0].as_str().expect("a note").starts_with("Hidden from attention: "));
    // a causal model counts positions over what it sees, and the page says so
    assert_eq!(causal["notes"][1], "Tokens behind the hidden one are read one position earlier.");
    let alone = server.run(json!({ "text": " cat sat.", "model": 1 }));
    let behind = server.run(json!({ "text": "A cat sat.", "model": 1, "masked": [0] }));
    assert_eq!(pieces(&alone, 0), pieces(&behind, 0)[1..]);
    for head in 0..2 {
        let (alone, behind) = (weights(&alone, 0, 1, head), weights(&behind, 0, 1, head));
        let far = &alone - &behind.slice(s![1.., 1..]);
        assert!(far.iter().all(|off| off.abs() < 1e-2), "{alone}\n{behind}");
    }
}

#[test]
fn what_stands_second_is_for_a_decoder_where_there_is_one() {
    let t5 = checkpoint("t5_lm", "t5");
    let server = Server::start(&[t5.path()], &[TEXT]);
    let sheets = |data: &Value| -> Vec<String> {
        let sheets = data["sides"][0]["sheets"].as_array().expect("sheets").clone();
        sheets.iter().map(|sheet| sheet["name"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(sheets(&server.run(json!({ "text": TEXT }))), ["encoder"]);
    let ask = json!({ "text": TEXT, "pair": "A dog." });
    let both = server.run(ask.clone());
    assert_eq!(sheets(&both), ["encoder", "decoder", "cross"]);
    assert_eq!(both["live"]["stack"], "encoder");
    assert_eq!(both["live"]["answers"][0]["of"], "next token");
    // what the encoder lacks, the decoder notices
    let mut off = ask;
    off["off"] = json!([[0, 0], [1, 0]]);
    assert_ne!(server.run(off)["live"]["answers"], both["live"]["answers"]);
}

#[test]
fn foreign_names_and_foreign_pages_are_refused() {
    let server = Server::start(&[&fixture("fill").join("bert")], &["--allow-host", "attn.test"]);
    let (_, port) = server.address.rsplit_once(':').expect("a port");
    let get = |host: &str| {
        server.send(&format!("GET / HTTP/1.1\r\n{host}Connection: close\r\n\r\n")).status
    };
    assert_eq!(get(&format!("Host: localhost:{port}\r\n")), 200);
    assert_eq!(get("Host: attn.test\r\n"), 200);
    for host in ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "169.254.169.254"] {
        assert_eq!(get(&format!("Host: {host}\r\n")), 421, "{host}");
    }
    assert_eq!(get(""), 421);
    assert_eq!(get(&format!("Host: localhost:{port}\r\nHost: evil.example\r\n")), 421);
    let ask = json!({ "text": TEXT }).to_string();
    let own = format!("Origin: http://{}\r\n", server.address);
    assert_eq!(server.post(&ask, &own).status, 200);
    for origin in ["http://evil.example", "null", "http://localhost:1", "file://"] {
        let reply = server.post(&ask, &format!("Origin: {origin}\r\n"));
        assert!(error(&reply, 403).contains("Origin"), "{origin}");
    }
    assert_eq!(server.post(&ask, "Sec-Fetch-Site: cross-site\r\n").status, 403);
    // what a form can send without asking first
    let form = server.post(&ask, "Content-Type: text/plain\r\n");
    assert!(error(&form, 415).contains("application/json"));
}

#[test]
fn there_is_nothing_but_the_page_and_runs() {
    let server = Server::bert();
    let paths = [
        "/../Cargo.toml",
        "/../../../../etc/passwd",
        "/..%2f..%2fetc%2fpasswd",
        "/%2e%2e/Cargo.toml",
        "//etc/passwd",
        "/run/../../Cargo.toml",
        "/model.safetensors",
        "/config.json",
        "/assets/page/live.js",
        "/favicon.ico",
    ];
    for path in paths {
        assert!(error(&server.get(path), 404).contains("GET of /"), "{path}");
    }
    let host = &server.address;
    for (method, path) in [("GET", "/run"), ("PUT", "/run"), ("DELETE", "/"), ("OPTIONS", "/run")] {
        let ask = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let reply = server.send(&ask);
        assert!(error(&reply, 405).contains("expected GET"), "{method} {path}");
    }
}

#[test]
fn what_no_run_can_be_made_of_is_said_in_a_line() {
    let server = Server::bert();
    let large = json!({ "text": "a ".repeat(40_000) }).to_string();
    assert!(server.refused(&large, 413).contains("at most 65536 bytes"));
    // more tokens than the model takes, within the bytes that a request may have
    let long = json!({ "text": "cat ".repeat(5_000) }).to_string();
    assert!(server.refused(&long, 422).contains("5002 tokens, but the model takes at most 48"));
    for (ask, status, want) in [
        ("", 400, "EOF"),
        ("nonsense", 400, "not as expected"),
        ("{}", 400, "`text`"),
        (r#"{"text": "a", "path": "/etc/passwd"}"#, 400, "unknown field `path`"),
        (r#"{"text": 7}"#, 400, "string"),
        (r#"{"text": "a", "model": -1}"#, 400, "invalid value"),
        (r#"{"text": "a", "model": 1}"#, 422, "model: expected one of 1 from 0, found 1"),
        (r#"{"text": ""}"#, 422, "text"),
        (r#"{"text": " \n"}"#, 422, "text"),
        (r#"{"text": "a", "off": [[3, 0]]}"#, 422, "L3H0 is no head of this model, which has 3"),
        (r#"{"text": "a", "off": [[0, 2]]}"#, 422, "L0H2"),
        (r#"{"text": "a", "masked": [0]}"#, 422, "masked: expected tokens of the text"),
        (r#"{"text": "a", "masked": [3]}"#, 422, "among 0 to 2, found 3"),
        (r#"{"text": "a", "off": [[18446744073709551615, 0]]}"#, 422, "no head"),
    ] {
        let said = server.refused(ask, status);
        assert!(said.contains(want), "{ask}: {said}");
    }
    server.run(json!({ "text": "a", "pair": " " })); // still there
}

#[test]
fn runs_at_once_are_each_answered_for_themselves() {
    let server = Server::bert();
    let texts = ["The cat sat.", "A dog ran on the mat.", "She is happy.", "He slept."];
    let alone: Vec<Value> = texts.iter().map(|text| server.run(json!({ "text": text }))).collect();
    let server = &server;
    std::thread::scope(|scope| {
        let runs: Vec<_> = texts
            .iter()
            .map(|text| scope.spawn(move || server.run(json!({ "text": text }))))
            .collect();
        for (run, alone) in runs.into_iter().zip(alone) {
            assert_eq!(run.join().expect("answers"), alone);
        }
    });
}

#[test]
fn more_runs_than_may_wait_are_turned_away() {
    let server = Server::bert();
    let ask = json!({ "text": "cat ".repeat(46), "compare": true }).to_string();
    let all = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..40).map(|_| scope.spawn(|| server.post(&ask, ""))).collect();
        runs.into_iter().map(|run| run.join().expect("answers")).collect::<Vec<_>>()
    });
    assert!(all.iter().any(|reply| reply.status == 200));
    for reply in all.iter().filter(|reply| reply.status != 200) {
        assert!(error(reply, 503).contains("try again"));
    }
}

#[test]
fn a_head_that_is_too_large_is_refused() {
    let server = Server::bert();
    let host = &server.address;
    let head = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    let long = format!("{head}Cookie: {}\r\n\r\n", "a".repeat(300_000));
    let many: String = (0..70).map(|i| format!("X-{i}: a\r\n")).collect();
    for request in [long, format!("{head}{many}\r\n")] {
        assert_eq!(server.send(&request).status, 431);
        assert_eq!(server.get("/").status, 200);
    }
    let within = format!("{head}Cookie: {}\r\n\r\n", "a".repeat(30_000));
    assert_eq!(server.send(&within).status, 200);
}

/// A body that does not say how long it is, too.
#[test]
fn a_body_that_does_not_end_is_refused() {
    let server = Server::bert();
    let chunk = format!("1000\r\n{}\r\n", "a".repeat(0x1000));
    let reply = server.send(&format!(
        "POST /run HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\n\r\n{}",
        server.address,
        chunk.repeat(20)
    ));
    assert!(error(&reply, 413).contains("at most 65536 bytes"));
    server.run(json!({ "text": TEXT }));
}

#[test]
fn a_request_that_comes_too_slowly_is_given_up() {
    let bert = fixture("fill").join("bert");
    let server = Server::start(&[&bert], &["--read-timeout", "0.5", TEXT]);
    let host = &server.address;
    // a head that does not end: nothing can be answered to it
    let mut slow = TcpStream::connect(host).expect("connects");
    slow.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
    slow.write_all(b"GET / HTTP/1.1\r\nHost: ").expect("sends");
    let start = Instant::now();
    let mut rest = Vec::new();
    assert_eq!(slow.read_to_end(&mut rest).expect("hangs up"), 0);
    assert!((0.4..30.0).contains(&start.elapsed().as_secs_f64()), "{:?}", start.elapsed());
    // a body that does not
    let reply = server.send(&format!(
        "POST /run HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
         Content-Length: 99\r\n\r\n{{"
    ));
    assert!(error(&reply, 408).contains("takes too long to come"));
    server.run(json!({ "text": TEXT }));
}

#[cfg(feature = "embedded")]
#[test]
fn a_run_that_takes_too_long_is_given_up() {
    let server = Server::start(&[], &["--timeout", "0.1", TEXT]);
    let long = json!({ "text": "cat ".repeat(500), "compare": true });
    assert!(server.refused(&long.to_string(), 504).contains("the run takes too long"));
    assert_eq!(server.get("/").status, 200);
    // its turn ends with it, and then others have theirs
    let short = json!({ "text": "cat" }).to_string();
    let start = Instant::now();
    while server.post(&short, "").status != 200 {
        assert!(start.elapsed() < Duration::from_secs(60), "no run is answered any more");
    }
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_it_well_whoever_is_connected() {
    let mut server = Server::bert();
    let mut idle = TcpStream::connect(&server.address).expect("connects");
    idle.write_all(b"GET / HT").expect("sends");
    let pid = server.child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill").success());
    let start = Instant::now();
    let status = loop {
        if let Some(status) = server.child.try_wait().expect("a status") {
            break status;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "still there");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status.code(), Some(0));
    assert!(TcpStream::connect(&server.address).is_err());
}

#[test]
fn what_cannot_be_served_is_said_before_anything_is() {
    let server = Server::bert();
    let bert = fixture("fill").join("bert");
    let bert = bert.to_str().expect("a path");
    let (_, taken) = server.address.rsplit_once(':').expect("a port");
    let two = ["--model", bert, "--model", bert, "--revision", "main"];
    let long = "cat ".repeat(60);
    for (args, code, want) in [
        (&["--model", bert, "--port", taken][..], 1, "could not listen"),
        (&["--host", "example.com"], 2, "not an IP address"),
        (&["--port", "70000"], 2, "70000"),
        (&["--timeout", "0"], 2, "above 0"),
        (&["--read-timeout", "NaN"], 2, "above 0"),
        (&two, 2, "expected a single --model"),
        (&["--model", "no/such/model", "--port", "0"], 3, "no/such/model"),
        (&["--model", bert, "--port", "0", &long], 5, "62 tokens"),
    ] {
        let output = command().args(args).output().expect("runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(output.stdout.is_empty() && said.contains(want), "{args:?}: {said}");
    }
}
