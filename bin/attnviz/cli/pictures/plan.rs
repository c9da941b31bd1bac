//! Which files show an attention.

use attnviz::Error;
use attnviz::picture::Format;
use clap::ValueEnum;

use super::Shown;

/// The kinds of pictures in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Picture {
    /// One per head
    Heads,
    /// The mean over the heads of each layer
    Means,
    /// All heads in one picture
    Grid,
}

impl Picture {
    /// As in --only.
    pub fn name(self) -> &'static str {
        match self {
            Self::Heads => "heads",
            Self::Means => "means",
            Self::Grid => "grid",
        }
    }
}

/// One file to draw.
pub enum Job {
    Head(usize),
    Mean(usize),
    Grid,
}

impl Job {
    pub fn kind(&self) -> Picture {
        match self {
            Self::Head(_) => Picture::Heads,
            Self::Mean(_) => Picture::Means,
            Self::Grid => Picture::Grid,
        }
    }
}

/// A file that will be written.
pub struct Planned {
    pub name: String,
    /// Which of the attentions it shows.
    pub part: usize,
    pub job: Job,
    pub format: Format,
}

/// All files that show an attention.
pub fn plan(part: usize, shown: &Shown<'_>, formats: &[Format], only: &[Picture]) -> Vec<Planned> {
    let mut all = Vec::new();
    for &format in formats {
        let mut add = |stem: String, job: Job| {
            let name = format!("{}{stem}.{}", shown.part.prefix(), format.extension());
            all.push(Planned { name, part, job, format });
        };
        for (at, one) in shown.attention.heads.iter().enumerate() {
            add(one.head.file_stem(), Job::Head(at));
        }
        // a mean or a grid of one head would be that head again
        for layer in 0..shown.attention.head_counts.len() {
            if shown.attention.layer(layer).count() > 1 {
                add(format!("L{layer:02}-mean"), Job::Mean(layer));
            }
        }
        if shown.attention.heads.len() > 1 {
            add("grid".into(), Job::Grid);
        }
    }
    all.retain(|one| only.is_empty() || only.contains(&one.job.kind()));
    all
}

/// One head is its own mean and its own grid.
pub fn nothing(only: &[Picture]) -> Error {
    let found: Vec<&str> = only.iter().map(|kind| kind.name()).collect();
    let want = "heads, since no layer shows more than one head".into();
    Error::Usage { flag: "--only".into(), want, found: found.join(",") }
}
