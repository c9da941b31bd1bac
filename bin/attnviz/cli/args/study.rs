//! Studies of head pruning.

use std::path::PathBuf;

use attnviz::picture::{Format, Style};
use attnviz::study::Share;
use clap::Args;

use super::TalkArgs;

pub const NOTES: &str = "\
A plan is a TOML file; --init writes one that says what its keys mean. Without data of
your own: data = \"sentiment\" (accuracy) or \"pairs\" (Spearman), on the built-in model.

A study runs cell by cell; a cell is one strategy, score and seed, or one draw of random
masks, over all fractions, and leaves a file when it is finished. A study that was
stopped goes on from there, and cells may run on several machines:
  attnviz study plan.toml --cell 1/8      (and 2/8 to 8/8, in one folder)
  attnviz study plan.toml --merge
A result of another model, of other texts or settings is refused by name.

Areas are under the metric over the share of heads kept, by its width; differences are
of the same items, with 95 % intervals by the bootstrap over items, seeds and masks.";

#[derive(Debug, Args)]
pub struct StudyArgs {
    /// The plan, a TOML file
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,
    /// Write a plan to start from, to PLAN
    #[arg(long, conflicts_with_all = ["cell", "merge", "out"])]
    pub init: bool,
    /// Run one of N equal shares of the cells, such as 2/8, and leave the table
    #[arg(long, value_name = "I/N", conflicts_with = "merge")]
    pub cell: Option<Share>,
    /// Run nothing: make the table and the picture of what is there
    #[arg(long)]
    pub merge: bool,
    /// Folder of the results, in place of the plan's
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write into a folder that no study made, and over results of another plan
    #[arg(long)]
    pub force: bool,
    /// Formats of the picture: png, svg, or both as png,svg
    #[arg(long, value_name = "LIST", default_value = "png", value_delimiter = ',')]
    pub format: Vec<Format>,
    /// Draw it light on dark
    #[arg(long)]
    pub dark: bool,
    /// Its resolution
    #[arg(long, value_name = "N", default_value_t = Style::default().dpi)]
    #[arg(value_parser = clap::value_parser!(u32)
        .range(i64::from(Style::DPI.0)..=i64::from(Style::DPI.1)))]
    pub dpi: u32,
    /// Threads, at most one per core; all cores if not given
    #[arg(long, value_name = "N", help_heading = "Running")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
    /// Where to compute: cpu, cuda, cuda:N or metal, as far as built in
    #[arg(long, default_value = "cpu", help_heading = "Running")]
    pub device: String,
    #[command(flatten)]
    pub talk: TalkArgs,
}
