//! `attnviz`: draw, question and prune the attention heads of a pretrained transformer.

use std::process::ExitCode;

mod cli;

fn main() -> ExitCode {
    cli::main("attnviz")
}
