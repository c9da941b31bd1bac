//! What is served, and to whom.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use attnviz::Task;
use clap::Args;
use clap::builder::PossibleValuesParser;

use super::{FilesArgs, ModelArgs, RunArgs, TalkArgs};

pub const NOTES: &str = "\
The page is the one that `attnviz html` writes, with a box to type into: choose among the models,
mask a token or switch off a head by clicking, and see the result at once. Stop with Ctrl-C.

Only this machine is answered unless --host says otherwise; then anyone who reaches the address can
run the models, and nothing is encrypted. No file is readable in either case. A request must name the
server by the address it listens on, as localhost, or by a name of --allow-host, so that no foreign
website can reach it under a name of its own.";

#[derive(Debug, Args)]
pub struct ServeArgs {
    /// The text that the page opens with
    #[arg(
        value_name = "TEXT",
        default_value = "The animal didn't cross the street because it was too tired"
    )]
    pub text: String,
    /// Port to listen on; 0 for any that is free
    #[arg(short, long, default_value = "8484")]
    pub port: u16,
    /// Address to listen on; 0.0.0.0 for all of this machine's
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", value_parser = address)]
    pub host: IpAddr,
    /// A further name that requests may call this server by
    #[arg(long, value_name = "NAME")]
    pub allow_host: Vec<String>,
    /// Longest that a run may take; it is then given up
    #[arg(long, value_name = "SECONDS", default_value = "120", help_heading = "Limits")]
    #[arg(value_parser = seconds)]
    pub timeout: Duration,
    /// Longest that the head of a request may take to come, and its body
    #[arg(long, value_name = "SECONDS", default_value = "20", help_heading = "Limits")]
    #[arg(value_parser = seconds)]
    pub read_timeout: Duration,
    /// Folder, .safetensors, .bin or .gguf file, Hub id, or `built-in` (the default); may be given
    /// again for more models to choose from
    #[arg(short, long, help_heading = "Model")]
    pub model: Vec<String>,
    /// Another tokenizer, of a single model
    #[arg(long, value_name = "PATH", help_heading = "Model")]
    pub tokenizer: Option<PathBuf>,
    /// Another config.json, of a single model
    #[arg(long, value_name = "PATH", help_heading = "Model")]
    pub config: Option<PathBuf>,
    /// Where in a single model's folder its files are
    #[arg(long, value_name = "NAME", help_heading = "Model")]
    pub subfolder: Option<String>,
    /// Branch, tag or commit of a single Hub model
    #[arg(long, value_name = "NAME", help_heading = "Model")]
    pub revision: Option<String>,
    /// Hub access token, before HF_TOKEN
    #[arg(long, help_heading = "Model")]
    pub token: Option<String>,
    /// Head on top, where a single checkpoint does not say
    #[arg(long, value_name = "TASK", help_heading = "Model")]
    #[arg(value_parser = PossibleValuesParser::new(Task::NAMES.map(|(name, _)| name)))]
    pub task: Option<String>,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub talk: TalkArgs,
}

fn address(text: &str) -> Result<IpAddr, String> {
    match text {
        "localhost" => Ok(Ipv4Addr::LOCALHOST.into()),
        _ => text.trim_matches(['[', ']']).parse().map_err(|_| "not an IP address".into()),
    }
}

/// More than no time, and no more than a day.
fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a number of seconds above 0 and up to 86400".to_owned();
    let seconds = text.parse::<f64>().map_err(|_| wrong())?;
    let known = seconds > 0.0 && seconds <= 86400.0;
    known.then(|| Duration::from_secs_f64(seconds)).ok_or_else(wrong)
}

impl ServeArgs {
    /// Each model with its own flags; the built-in one if none is named.
    pub fn models(&self) -> attnviz::Result<Vec<ModelArgs>> {
        let alone = [
            ("--tokenizer", self.tokenizer.is_some()),
            ("--config", self.config.is_some()),
            ("--subfolder", self.subfolder.is_some()),
            ("--revision", self.revision.is_some()),
            ("--task", self.task.is_some()),
        ];
        if let Some((flag, _)) = alone.iter().find(|(_, given)| *given && self.model.len() > 1) {
            return Err(attnviz::Error::Usage {
                flag: (*flag).into(),
                want: "a single --model, which it is about".into(),
                found: format!("{} models", self.model.len()),
            });
        }
        let files = FilesArgs {
            tokenizer: self.tokenizer.clone(),
            config: self.config.clone(),
            subfolder: self.subfolder.clone(),
            revision: self.revision.clone(),
            token: self.token.clone(),
        };
        let task = self.task.clone();
        let of = |model| ModelArgs { model, files: files.clone(), task: task.clone() };
        match self.model.is_empty() {
            true => Ok(vec![of(None)]),
            false => Ok(self.model.iter().map(|model| of(Some(model.clone()))).collect()),
        }
    }
}
