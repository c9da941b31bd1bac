//! `viz`: the heatmaps alone, the same as `attnviz view`.

use std::process::ExitCode;

#[path = "attnviz/cli/mod.rs"]
mod cli;

fn main() -> ExitCode {
    cli::main("viz")
}
