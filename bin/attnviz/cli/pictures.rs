//! The attention of one input → a folder of pictures.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use attnviz::analysis::{merge_words, without_special};
use attnviz::output::{Manifest, OutputFolder, slug};
use attnviz::picture::{Format, Ranges, Style, TextEngine, View, grid, heatmap};
use attnviz::{Attention, Error, Head, Result, Token};
use clap::ValueEnum;
use rayon::prelude::*;
use serde_json::{Map, Value, json};

use super::args::{ChoiceArgs, InputArgs, PictureArgs, RunArgs};

/// Where the weights come from, for titles and the manifest.
pub struct Source {
    pub model: String,
    pub revision: Option<String>,
    pub dtype: Option<String>,
}

/// What one input is called in files and reports.
pub struct Named {
    /// As in the manifest: `{"text": …}` and so on.
    pub input: Value,
    /// What the folder is named after.
    pub text: String,
    /// What to say in the manifest and under the pictures.
    pub notes: Vec<String>,
}

/// Where the folder goes and what is in it.
pub struct Target<'a> {
    pub out: &'a Path,
    pub force: bool,
    pub picture: &'a PictureArgs,
    /// What decides what is in the pictures, for the manifest.
    pub arguments: Map<String, Value>,
}

/// What was written.
pub struct Written {
    pub folder: PathBuf,
    pub files: Vec<String>,
    pub heads: usize,
    pub means: usize,
    pub grid: bool,
}

/// As it will be drawn: by words, without special tokens, or as it came.
pub struct Shown<'a> {
    attention: Cow<'a, Attention>,
    lost: Option<Vec<Vec<f32>>>,
    /// What was done to the weights, for under the pictures.
    notes: Vec<String>,
}

impl<'a> Shown<'a> {
    /// `words` is the attention by words.
    pub fn new(args: &ChoiceArgs, pieces: &'a Attention, words: &'a Attention) -> Self {
        let mut notes = Vec::new();
        if args.words {
            notes.push("By words: sum over pieces attended to, mean over pieces attending.".into());
        }
        if args.no_special {
            notes.push("Special tokens left out, rows scaled to sum to 1 again.".into());
        }
        let attention = if args.words { words } else { pieces };
        if !args.no_special {
            return Self { attention: Cow::Borrowed(attention), lost: None, notes };
        }
        let typed = without_special(attention);
        Self { attention: Cow::Owned(typed.attention), lost: Some(typed.lost), notes }
    }
}

/// Merges pieces to words under the names that were typed.
pub fn by_words(attention: &Attention, names: &[Vec<&str>]) -> Attention {
    merge_words(attention, |sequence, word| {
        names.get(sequence)?.get(word).map(|&name| name.to_owned())
    })
}

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
enum Job {
    Head(usize),
    Mean(usize),
    Grid,
}

impl Job {
    fn kind(&self) -> Picture {
        match self {
            Self::Head(_) => Picture::Heads,
            Self::Mean(_) => Picture::Means,
            Self::Grid => Picture::Grid,
        }
    }
}

/// The names of all files with what is in them.
fn jobs(attention: &Attention, formats: &[Format], only: &[Picture]) -> Vec<(String, Job, Format)> {
    let mut jobs = Vec::new();
    for &format in formats {
        let end = format.extension();
        for (at, one) in attention.heads.iter().enumerate() {
            jobs.push((format!("{}.{end}", one.head.file_stem()), Job::Head(at), format));
        }
        // a mean or a grid of one head would be that head again
        for layer in 0..attention.head_counts.len() {
            if attention.layer(layer).count() > 1 {
                jobs.push((format!("L{layer:02}-mean.{end}"), Job::Mean(layer), format));
            }
        }
        if attention.heads.len() > 1 {
            jobs.push((format!("grid.{end}"), Job::Grid, format));
        }
    }
    jobs.retain(|(_, job, _)| only.is_empty() || only.contains(&job.kind()));
    jobs
}

/// One head is its own mean and its own grid.
fn nothing(only: &[Picture]) -> Error {
    let found: Vec<&str> = only.iter().map(|kind| kind.name()).collect();
    let want = "heads, since no layer shows more than one head".into();
    Error::Usage { flag: "--only".into(), want, found: found.join(",") }
}

/// Draws everything into the input's folder under `target.out`.
pub fn draw(
    target: Target<'_>,
    source: &Source,
    named: &Named,
    shown: &Shown<'_>,
    engine: &TextEngine,
) -> Result<Written> {
    let picture = target.picture;
    let mut formats = picture.format.clone();
    formats.sort_by_key(|format| format.extension());
    formats.dedup();
    let style = style(picture);
    let ranges = style.scale.resolve(&shown.attention);
    let notes: Vec<String> = shown.notes.iter().chain(&named.notes).cloned().collect();
    let jobs = jobs(&shown.attention, &formats, &picture.only);
    if jobs.is_empty() {
        return Err(nothing(&picture.only));
    }
    let files: Vec<String> = jobs.iter().map(|(name, ..)| name.clone()).collect();
    let manifest = manifest(target.arguments, source, named, shown, (&notes, &files));
    let folder = OutputFolder::claim(target.out, &slug(&named.text), manifest, target.force)?;
    let drawing = Drawing { model: &source.model, shown, notes, style, ranges, engine };
    jobs.par_iter()
        .try_for_each(|(name, job, format)| folder.write(name, &drawing.render(job, *format)?))?;
    let count = |want: fn(&Job) -> bool| {
        jobs.iter().filter(|(_, job, format)| *format == formats[0] && want(job)).count()
    };
    Ok(Written {
        folder: folder.finish()?,
        heads: count(|job| matches!(job, Job::Head(_))),
        means: count(|job| matches!(job, Job::Mean(_))),
        grid: count(|job| matches!(job, Job::Grid)) > 0,
        files,
    })
}

/// What made the pictures, with the notes and file names that go with them.
fn manifest(
    arguments: Map<String, Value>,
    source: &Source,
    named: &Named,
    shown: &Shown<'_>,
    (notes, files): (&[String], &[String]),
) -> Manifest {
    Manifest {
        dtype: source.dtype.clone(),
        arguments,
        tokens: tokens(&shown.attention.queries, &shown.attention.keys),
        lost: lost(shown),
        notes: notes.to_vec(),
        files: files.to_vec(),
        ..Manifest::new(&source.model, source.revision.clone(), named.input.clone())
    }
}

/// What all pictures of one input share.
struct Drawing<'a> {
    model: &'a str,
    shown: &'a Shown<'a>,
    notes: Vec<String>,
    style: Style,
    ranges: Ranges,
    engine: &'a TextEngine,
}

impl Drawing<'_> {
    fn render(&self, job: &Job, format: Format) -> Result<Vec<u8>> {
        let attention = &self.shown.attention;
        let (view, lost) = match *job {
            Job::Grid => {
                return grid(attention, self.model, &self.notes, &self.style, format, self.engine);
            }
            Job::Head(at) => {
                let head = attention.heads[at].head;
                let lost = self.shown.lost.as_ref().map(|lost| lost[at].clone());
                (View::head(attention, head, self.model, &self.ranges)?, lost)
            }
            Job::Mean(layer) => (
                View::mean(attention, layer, self.model, &self.ranges)?,
                mean_lost(self.shown, layer),
            ),
        };
        let mut view = match lost {
            Some(lost) => view.with_lost(lost)?,
            None => view,
        };
        view.notes.extend_from_slice(&self.notes);
        heatmap(&view, &self.style, format, self.engine)
    }
}

/// What the rows of a layer's mean lost: the mean of what its heads lost.
fn mean_lost(shown: &Shown<'_>, layer: usize) -> Option<Vec<f32>> {
    let lost = shown.lost.as_ref()?;
    let of_layer =
        shown.attention.heads.iter().zip(lost).filter(|(one, _)| one.head.layer == layer);
    let of_layer: Vec<&Vec<f32>> = of_layer.map(|(_, lost)| lost).collect();
    let rows = shown.attention.queries.len();
    let mean = |row| of_layer.iter().map(|lost| lost[row]).sum::<f32>() / of_layer.len() as f32;
    Some((0..rows).map(mean).collect())
}

pub fn style(args: &PictureArgs) -> Style {
    Style {
        cmap: args.cmap,
        scale: args.scale.value,
        annotate: args.annotate,
        dark: args.dark,
        dpi: args.dpi,
    }
}

/// The options that decide what is in the pictures.
pub fn arguments(
    input: &InputArgs,
    choice: &ChoiceArgs,
    picture: &PictureArgs,
    run: &RunArgs,
) -> Map<String, Value> {
    let mut map = Map::new();
    let mut put = |key: &str, value: Value| map.insert(key.into(), value);
    put("layers", choice.layers.as_ref().map(|given| given.text.clone()).into());
    put("heads", choice.heads.as_ref().map(|given| given.text.clone()).into());
    put("words", choice.words.into());
    put("spans", input.spans.as_ref().map(|spans| spans.to_string()).into());
    put("global", input.global.as_ref().map(|given| given.text.clone()).into());
    put("no_special", choice.no_special.into());
    put("cmap", picture.cmap.name().into());
    put("scale", picture.scale.text.clone().into());
    put("annotate", picture.annotate.into());
    put("dark", picture.dark.into());
    put("dpi", picture.dpi.into());
    let kinds: Vec<&str> = picture.only.iter().map(|kind| kind.name()).collect();
    put("only", if kinds.is_empty() { Value::Null } else { kinds.join(",").into() });
    put("truncate", run.truncate.into());
    put("max_length", run.max_length.into());
    map
}

fn tokens(queries: &[Token], keys: &[Token]) -> Value {
    if queries == keys { json!(keys) } else { json!({"queries": queries, "keys": keys}) }
}

fn lost(shown: &Shown<'_>) -> Map<String, Value> {
    let name = |head: Head| head.to_string();
    let heads = shown.attention.heads.iter();
    let lost = shown.lost.iter().flatten();
    heads.zip(lost).map(|(one, lost)| (name(one.head), json!(lost))).collect()
}
