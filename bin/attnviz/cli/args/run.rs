//! How to run, and how much to say.

use clap::Args;

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Running")]
pub struct RunArgs {
    /// Cut a text that is too long instead of refusing it; the final [SEP] stays
    #[arg(long)]
    pub truncate: bool,
    /// Most tokens of a text, if fewer than the model takes
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(2..))]
    pub max_length: Option<u32>,
    /// Threads, at most one per core; all cores if not given
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
    /// Where to compute: cpu, cuda, cuda:N or metal, as far as built in
    #[arg(long, default_value = "cpu")]
    pub device: String,
}

#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "Talking")]
pub struct TalkArgs {
    /// Say only where the results are
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say more
    #[arg(short, long)]
    pub verbose: bool,
    /// Results as JSON
    #[arg(long)]
    pub json: bool,
}
