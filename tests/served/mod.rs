//! `attnviz serve` as a process beside a test.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// A server that lives as long as this value.
pub struct Server {
    pub child: Child,
    /// With its port.
    pub address: String,
}

impl Server {
    pub fn start(models: &[&Path], args: &[&str]) -> Self {
        let mut command = command();
        for model in models {
            command.arg("--model").arg(model);
        }
        let mut child = command
            .args(["--port", "0", "--json"])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("its output"));
        out.read_line(&mut line).expect("a line");
        let said: Value = serde_json::from_str(&line).expect("JSON");
        let url = said["url"].as_str().expect("a URL");
        let address = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        Self { child, address }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attnviz"));
    command.env("HF_HUB_OFFLINE", "1").arg("serve");
    command
}
