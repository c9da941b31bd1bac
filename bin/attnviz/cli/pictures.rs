//! The attention of one input → a folder of pictures.

mod plan;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use attnviz::analysis::{merge_words, without_special};
use attnviz::output::{Manifest, OutputFolder, slug};
use attnviz::picture::{Format, Ranges, Style, TextEngine, View, grid, heatmap};
use attnviz::{Attention, Head, Result, Stack};
use rayon::prelude::*;
use serde_json::{Map, Value, json};

use super::args::{ChoiceArgs, InputArgs, PictureArgs, RunArgs};
use super::named::{Named, Source};
use super::parts::Part;
pub use plan::Picture;
use plan::{Job, Planned, nothing, plan};

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
    pub grids: usize,
}

/// As it will be drawn: by words, without special tokens, or as it came.
pub struct Shown<'a> {
    part: &'a Part,
    attention: Cow<'a, Attention>,
    lost: Option<Vec<Vec<f32>>>,
    /// What was done to the weights, for under the pictures.
    notes: Vec<String>,
}

impl<'a> Shown<'a> {
    /// `words` is the attention by words.
    pub fn new(args: &ChoiceArgs, part: &'a Part, words: &'a Attention) -> Self {
        let mut notes = Vec::new();
        if args.words {
            notes.push("By words: sum over pieces attended to, mean over pieces attending.".into());
        }
        if args.no_special {
            notes.push("Special tokens left out, rows scaled to sum to 1 again.".into());
        }
        let attention = if args.words { words } else { &part.attention };
        if !args.no_special {
            return Self { part, attention: Cow::Borrowed(attention), lost: None, notes };
        }
        let typed = without_special(attention);
        Self { part, attention: Cow::Owned(typed.attention), lost: Some(typed.lost), notes }
    }
}

/// Merges pieces to words under the names that were typed.
pub fn by_words(attention: &Attention, names: &[Vec<&str>]) -> Attention {
    merge_words(attention, |sequence, word| {
        names.get(sequence)?.get(word).map(|&name| name.to_owned())
    })
}

/// Draws everything into the input's folder under `target.out`.
pub fn draw(
    target: Target<'_>,
    source: &Source,
    named: &Named,
    shown: &[Shown<'_>],
    engine: &TextEngine,
) -> Result<Written> {
    let picture = target.picture;
    let mut formats = picture.format.clone();
    formats.sort_by_key(|format| format.extension());
    formats.dedup();
    let style = style(picture);
    let only = &picture.only;
    let plans = shown.iter().enumerate().flat_map(|(i, one)| plan(i, one, &formats, only));
    let plans: Vec<Planned> = plans.collect();
    if plans.is_empty() {
        return Err(nothing(only));
    }
    let notes: Vec<String> =
        shown.iter().take(1).flat_map(|one| &one.notes).chain(&named.notes).cloned().collect();
    let files: Vec<String> = plans.iter().map(|one| one.name.clone()).collect();
    let manifest = manifest(target.arguments, source, named, shown, (&notes, &files));
    let folder = OutputFolder::claim(target.out, &slug(&named.text), manifest, target.force)?;
    let drawing = |shown| Drawing::new(&source.model, shown, &notes, &style, engine);
    let drawings: Vec<Drawing<'_>> = shown.iter().map(drawing).collect();
    plans.par_iter().try_for_each(|one| {
        folder.write(&one.name, &drawings[one.part].render(&one.job, one.format)?)
    })?;
    let count = |kind: Picture| {
        plans.iter().filter(|one| one.format == formats[0] && one.job.kind() == kind).count()
    };
    Ok(Written {
        folder: folder.finish()?,
        heads: count(Picture::Heads),
        means: count(Picture::Means),
        grids: count(Picture::Grid),
        files,
    })
}

/// What made the pictures, with the notes and file names that go with them.
fn manifest(
    arguments: Map<String, Value>,
    source: &Source,
    named: &Named,
    shown: &[Shown<'_>],
    (notes, files): (&[String], &[String]),
) -> Manifest {
    let groups = shown.iter().flat_map(|one| {
        let head = |head: Head| one.part.key_value_head(head).map(|kv| (head, kv));
        let heads = one.attention.heads.iter().filter_map(move |one| head(one.head));
        heads.map(|(head, kv)| (format!("{}{head}", one.part.prefix()), kv.into()))
    });
    Manifest {
        dtype: source.dtype.clone(),
        arguments,
        tokens: tokens(shown),
        lost: shown.iter().flat_map(lost).collect(),
        key_value_heads: groups.collect(),
        notes: notes.to_vec(),
        files: files.to_vec(),
        ..Manifest::new(&source.model, source.revision.clone(), named.input.clone())
    }
}

/// What all pictures of one attention share.
struct Drawing<'a> {
    /// The model, and which of its attentions it is.
    title: String,
    shown: &'a Shown<'a>,
    notes: &'a [String],
    style: &'a Style,
    ranges: Ranges,
    engine: &'a TextEngine,
}

impl<'a> Drawing<'a> {
    fn new(
        model: &str,
        shown: &'a Shown<'a>,
        notes: &'a [String],
        style: &'a Style,
        engine: &'a TextEngine,
    ) -> Self {
        let title = match shown.part.stack {
            None => model.to_owned(),
            Some(_) => format!("{model}, {}", shown.part.name()),
        };
        let ranges = style.scale.resolve(&shown.attention);
        Self { title, shown, notes, style, ranges, engine }
    }

    fn render(&self, job: &Job, format: Format) -> Result<Vec<u8>> {
        let (part, attention) = (self.shown.part, &self.shown.attention);
        let (mut view, lost) = match *job {
            Job::Grid => {
                let notes = [part.notes().as_slice(), self.notes].concat();
                return grid(attention, &self.title, &notes, self.style, format, self.engine);
            }
            Job::Head(at) => {
                let head = attention.heads[at].head;
                let lost = self.shown.lost.as_ref().map(|lost| lost[at].clone());
                let mut view = View::head(attention, head, &self.title, &self.ranges)?;
                if let Some(shared) = part.key_value_head(head) {
                    view.title += &format!(" (kv {shared})");
                }
                (view, lost)
            }
            Job::Mean(layer) => (
                View::mean(attention, layer, &self.title, &self.ranges)?,
                mean_lost(self.shown, layer),
            ),
        };
        if let Some((rows, columns)) = part.axes() {
            (view.row_caption, view.column_caption) = (rows.into(), columns.into());
        }
        if let Some(lost) = lost {
            view = view.with_lost(lost)?;
        }
        view.notes.extend_from_slice(self.notes);
        heatmap(&view, self.style, format, self.engine)
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

/// The options that decide what is in the pictures of a text.
pub fn arguments(
    input: &InputArgs,
    choice: &ChoiceArgs,
    picture: &PictureArgs,
    run: &RunArgs,
) -> Map<String, Value> {
    let mut map = shown_arguments(choice, picture);
    let mut put = |key: &str, value: Value| map.insert(key.into(), value);
    put("spans", input.spans.as_ref().map(|spans| spans.to_string()).into());
    put("global", input.global.as_ref().map(|given| given.text.clone()).into());
    put("truncate", run.truncate.into());
    put("max_length", run.max_length.into());
    map
}

/// The options that decide how heads are shown.
pub fn shown_arguments(choice: &ChoiceArgs, picture: &PictureArgs) -> Map<String, Value> {
    let mut map = Map::new();
    let mut put = |key: &str, value: Value| map.insert(key.into(), value);
    put("layers", choice.layers.as_ref().map(|given| given.text.clone()).into());
    put("heads", choice.heads.as_ref().map(|given| given.text.clone()).into());
    put("words", choice.words.into());
    put("no_special", choice.no_special.into());
    put("cmap", picture.cmap.name().into());
    put("scale", picture.scale.text.clone().into());
    put("annotate", picture.annotate.into());
    put("dark", picture.dark.into());
    put("dpi", picture.dpi.into());
    let kinds: Vec<&str> = picture.only.iter().map(|kind| kind.name()).collect();
    put("only", if kinds.is_empty() { Value::Null } else { kinds.join(",").into() });
    map
}

/// The tokens of both axes, or of the encoder and the decoder.
fn tokens(shown: &[Shown<'_>]) -> Value {
    let mut map = Map::new();
    for one in shown {
        let (queries, keys) = (&one.attention.queries, &one.attention.keys);
        match one.part.stack {
            None if queries == keys => return json!(keys),
            None => return json!({ "queries": queries, "keys": keys }),
            Some(Stack::Cross) => {} // those of the decoder over those of the encoder
            Some(_) => drop(map.insert(one.part.key().into(), json!(keys))),
        }
    }
    map.into()
}

fn lost(shown: &Shown<'_>) -> Vec<(String, Value)> {
    let name = |head: Head| format!("{}{head}", shown.part.prefix());
    let heads = shown.attention.heads.iter();
    let lost = shown.lost.iter().flatten();
    heads.zip(lost).map(|(one, lost)| (name(one.head), json!(lost))).collect()
}
