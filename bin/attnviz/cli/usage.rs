//! What a first argument is: a command, the text, or a slip of the keyboard.

use std::ffi::OsString;

use clap::CommandFactory;
use clap::error::ErrorKind;

use super::args::Attnviz;

/// Puts `view` before arguments that name no command; the flag says whether it did.
pub fn with_command(mut given: Vec<OsString>) -> (Vec<OsString>, bool) {
    let Some(first) = given.get(1) else { return (given, false) };
    let own = ["-h", "--help", "-V", "--version", "help"].iter().any(|flag| first == flag);
    let implied = !own && !commands().iter().any(|name| first == &**name);
    if implied {
        given.insert(1, "view".into());
    }
    (given, implied)
}

fn commands() -> Vec<String> {
    Attnviz::command().get_subcommands().map(|command| command.get_name().to_owned()).collect()
}

/// A text that is one letter away from a command is more likely meant as the command. After `--`
/// it is the text.
pub fn refuse_near_miss(text: Option<&str>, given: &[OsString]) -> Result<(), clap::Error> {
    let Some(first) = text.filter(|_| !given.iter().any(|arg| arg == "--")) else {
        return Ok(());
    };
    let near = |name: &String| {
        let slips = strsim::damerau_levenshtein(&first.to_lowercase(), name);
        slips <= if name.len() > 5 { 2 } else { 1 }
    };
    match commands().iter().find(|name| near(name)) {
        Some(name) if name == first => Err(usage(format!(
            "`{first}` is a command: put it first, or for a text of that word: \
             attnviz view -- {first}"
        ))),
        Some(name) => Err(usage(format!(
            "`{first}` is not a command; did you mean `attnviz {name}`?\n\
             For a text of that word: attnviz view -- {first}"
        ))),
        None => Ok(()),
    }
}

/// The text is one argument.
pub fn refuse_loose_words(
    program: &str,
    text: Option<&String>,
    loose: &[String],
) -> Result<(), clap::Error> {
    let words: Vec<&str> = text.into_iter().chain(loose).map(String::as_str).collect();
    if words.len() < 2 {
        return Ok(());
    }
    Err(usage(format!(
        "the text is one argument, found {}; put it in quotes: {program} \"{}\"",
        words.len(),
        words.join(" ").escape_debug()
    )))
}

pub fn usage(message: String) -> clap::Error {
    clap::Error::raw(ErrorKind::TooManyValues, message + "\n")
}
