//! `attnviz export`: the stages of a run as arrays.

use std::path::Path;

use attnviz::export::{Stages, Target, read_batch, read_decoder_batch};
use attnviz::output::PageFile;
use attnviz::picture::page::{Options, render};
use attnviz::tokens::{Batch, Encoding, Input};
use attnviz::{Error, Model, Result};
use serde_json::{Map, Value, json};

use super::args::{ChoiceArgs, ExportArgs};
use super::console::{Console, one_line};
use super::named::{Named, as_json};
use super::parts::{Chosen, attend};
use super::report::many;
use super::stages::stages;
use super::{pages, session};

pub fn run(args: &ExportArgs, console: &Console) -> Result<u8> {
    let target = Target::new(&args.out, args.force)?;
    let page = args.html.then(|| PageFile::new(&args.out.with_extension("html"), args.force));
    let page = page.transpose()?;
    let given = args.inputs.as_deref().map(Read::ids).transpose()?;
    let input = if given.is_none() { Some(session::input(&args.input)?) } else { None };
    let (model, _) = session::open(&args.model, &args.run, console)?;
    let read = match (given, input) {
        (Some(read), _) => read,
        (None, Some(input)) => Read::text(args, &model, &input, console)?,
        (None, None) => {
            return Err(Error::Output { path: args.out.clone(), why: "no input".into() });
        }
    };
    read.tell(&model, console);
    let mut stages = stages(&model, &read.source, read.target.as_ref(), &args.include)?;
    stages.about = about_model(&model);
    stages.about.extend(read.about.clone());
    target.write(&stages)?;
    if let Some(file) = page {
        file.write(&read.page(&model)?)?;
        console.note(&format!("the page is {}", one_line(&file.path().display().to_string())));
    }
    let path = one_line(&args.out.display().to_string());
    console.result(&match (console.talk.json, console.talk.quiet) {
        (true, _) => format!("{:#}\n", summary(&path, &stages)),
        (_, true) => format!("{path}\n"),
        _ => format!("{path}: {}\n", many(stages.tensors.len(), "array")),
    });
    Ok(0)
}

/// What the model reads.
struct Read {
    source: Batch,
    /// Of the decoder of an encoder-decoder.
    target: Option<Batch>,
    about: Map<String, Value>,
    /// What gives the decoder something to read.
    by: &'static str,
    /// The text, and that of the decoder; nothing where ids were given.
    texts: Vec<Encoding>,
}

impl Read {
    fn ids(path: &Path) -> Result<Self> {
        let (source, target) = (read_batch(path)?, read_decoder_batch(path)?);
        let by = "decoder_input_ids";
        Ok(Self { source, target, about: Map::new(), by, texts: Vec::new() })
    }

    fn text(args: &ExportArgs, model: &Model, input: &Input, console: &Console) -> Result<Self> {
        let encoding = session::encode_given(model, input, &args.input, &args.run)?;
        let target = session::encode_target(model, args.target.as_deref(), &args.run)?;
        for note in session::token_notes(&encoding) {
            console.note(&note);
        }
        let mut about = about_text(input, &encoding);
        let pad = model.tokenizer()?.pad_id();
        let texts: Vec<Encoding> = std::iter::once(encoding).chain(target).collect();
        let batch = |text: &Encoding| Batch::new(std::slice::from_ref(text), pad);
        let target = texts.get(1).map(|target| {
            about.insert("target".into(), json!(args.target));
            about.insert("target_tokens".into(), json!(target.tokens));
            batch(target)
        });
        Ok(Self { source: batch(&texts[0]), target, about, by: "--target", texts })
    }

    /// The attention of the texts as a page.
    fn page(&self, model: &Model) -> Result<Vec<u8>> {
        let (first, behind) = self.texts.split_at(self.texts.len().min(1));
        let choice = ChoiceArgs::default();
        let chosen = Chosen::new(&choice, model.config(), !behind.is_empty())?;
        let parts = attend(model, first, behind, &chosen)?.pop().unwrap_or_default();
        let text = self.texts.first().map(|one| one.texts.join(" / ")).unwrap_or_default();
        let input = self.about.get("input").cloned().unwrap_or_default();
        let named = Named { input, text, notes: Vec::new() };
        let encodings: Vec<&Encoding> = self.texts.iter().collect();
        let (page, _) = pages::of_parts(model, &choice, &named, &parts, &encodings)?;
        let generator = format!("attnviz {}", env!("CARGO_PKG_VERSION"));
        Ok(render(&page, &Options { generator, ..Options::default() })?.html)
    }

    /// Says what is not run and what is not read.
    fn tell(&self, model: &Model, console: &Console) {
        match (&model.config().decoder, &self.target) {
            (Some(_), None) => {
                console.note(&format!("without {} the encoder alone is run", self.by));
            }
            (None, Some(_)) => console.note("decoder_input_ids are not read: there is no decoder"),
            _ => {}
        }
    }
}

fn summary(path: &str, stages: &Stages) -> Value {
    let shapes = stages.tensors.iter().map(|(name, one)| (name.clone(), json!(one.dims())));
    json!({ "file": path, "arrays": shapes.collect::<Map<_, _>>() })
}

fn about_model(model: &Model) -> Map<String, Value> {
    let (report, config) = (model.report(), model.config());
    let about = json!({
        "attnviz": env!("CARGO_PKG_VERSION"),
        "model": report.name,
        "revision": report.revision,
        "dtype": report.dtypes.join(", "),
        "heads": config.heads,
    });
    let mut about = about.as_object().cloned().unwrap_or_default();
    if config.group_size > 1 {
        about.insert("group_size".into(), config.group_size.into());
    }
    if let Some(decoder) = &config.decoder {
        about.insert("decoder_heads".into(), json!(decoder.heads));
        about.insert("cross_heads".into(), json!(decoder.cross_heads));
    }
    about
}

fn about_text(input: &Input, encoding: &Encoding) -> Map<String, Value> {
    let words: Vec<Vec<&str>> = (0..encoding.texts.len()).map(|s| encoding.words(s)).collect();
    let about = json!({
        "input": as_json(input),
        "tokens": encoding.tokens,
        "words": words,
    });
    about.as_object().cloned().unwrap_or_default()
}
