//! The command line: parse, call the library, report. Results on stdout, the rest on stderr.

mod ablate;
mod args;
mod arrays;
mod choice;
mod console;
mod convert;
mod export;
mod fill;
mod finetune;
mod generate;
mod gradcheck;
mod html;
mod importance;
mod inspect;
mod lines;
mod named;
mod pages;
mod parts;
mod patch;
mod pictures;
mod prune;
mod report;
#[cfg(feature = "serve")]
mod serve;
mod session;
mod stages;
mod study;
mod threads;
mod train;
mod usage;
mod view;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use args::{Attnviz, Command, Viz};
use console::Console;

/// Runs the program under one of its two names.
pub fn main(program: &str) -> ExitCode {
    threads::calm();
    #[cfg(feature = "parquet")]
    quiet_thread(attnviz::task::PARQUET_THREAD);
    let given: Vec<OsString> = std::env::args_os().collect();
    match run(program, given) {
        Ok(code) => code,
        Err(error) => {
            // help and version are "errors" too, and a closed pipe is none
            let _ = error.print();
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
        }
    }
}

/// Keeps to itself what a panic of this thread says: the library makes an error of it.
#[cfg(feature = "parquet")]
fn quiet_thread(name: &'static str) {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |about| {
        if std::thread::current().name() != Some(name) {
            usual(about);
        }
    }));
}

fn run(program: &str, given: Vec<OsString>) -> Result<ExitCode, clap::Error> {
    let command = if program == "viz" {
        let parsed = Viz::command().version(args::version()).try_get_matches_from(given)?;
        Command::View(Box::new(Viz::from_arg_matches(&parsed)?.view))
    } else {
        let (given, implied) = usage::with_command(given);
        let parsed = Attnviz::command().version(args::version()).try_get_matches_from(&given)?;
        let command = Attnviz::from_arg_matches(&parsed)?.command;
        if let (true, Command::View(view)) = (implied, &command) {
            usage::refuse_near_miss(view.input.text.as_deref(), &given)?;
        }
        command
    };
    let given = match &command {
        Command::View(args) => Some((program, args.input.text.as_ref(), &args.input.loose)),
        Command::Fill(args) => Some(("attnviz fill", args.input.text.as_ref(), &args.input.loose)),
        Command::Generate(args) => Some(("attnviz generate", args.prompt.as_ref(), &args.loose)),
        Command::Export(args) => {
            Some(("attnviz export", args.input.text.as_ref(), &args.input.loose))
        }
        Command::Html(args) => Some(("attnviz html", args.input.text.as_ref(), &args.input.loose)),
        Command::Importance(args) => Some(("attnviz importance", args.text.as_ref(), &args.loose)),
        Command::Ablate(args) => Some(("attnviz ablate", args.text.as_ref(), &args.loose)),
        Command::Gradcheck(args) => Some(("attnviz gradcheck", args.text.as_ref(), &args.loose)),
        Command::Patch(args) => Some(("attnviz patch", args.corrupted.as_ref(), &args.loose)),
        _ => None,
    };
    if let Some((program, text, loose)) = given {
        usage::refuse_loose_words(program, text, loose)?;
    }
    let console = Console::new(command.talk());
    let done = match command {
        Command::View(args) => view::run(&args, &console),
        Command::Fill(args) => fill::run(&args, &console),
        Command::Generate(args) => generate::run(&args, &console),
        Command::Html(args) => html::run(&args, &console),
        Command::Importance(args) => importance::run(&args, &console),
        Command::Ablate(args) => ablate::run(&args, &console),
        Command::Patch(args) => patch::run(&args, &console),
        Command::Prune(args) => prune::run(&args, &console),
        Command::Finetune(args) => finetune::run(&args, &console),
        Command::Gradcheck(args) => gradcheck::run(&args, &console),
        Command::Train(args) => train::run(&args, &console),
        Command::Study(args) => study::run(&args, &console),
        Command::Export(args) => export::run(&args, &console),
        #[cfg(feature = "serve")]
        Command::Serve(args) => serve::run(&args, &console),
        Command::Inspect(args) => inspect::run(&args, &console),
        Command::Convert(args) => convert::run(args, &console),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Attnviz::command(), "attnviz", &mut script);
            console.result(&String::from_utf8_lossy(&script));
            Ok(0)
        }
    };
    let code = done.unwrap_or_else(|error| {
        console.error(&error);
        error.exit_code()
    });
    Ok(ExitCode::from(if code == 0 && console.lost() { 1 } else { code }))
}
