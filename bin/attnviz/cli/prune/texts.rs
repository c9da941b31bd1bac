//! Texts that heads are scored and measured on, with the loss of each.

use std::path::Path;

use attnviz::task::{Sample, Set, Split, Target, encode_written, mask_some};
use attnviz::tokens::{Encoding, Input, group_by_length};
use attnviz::{Error, Model, Result};
use ndarray::Array2;

use super::super::args::{RunArgs, TextsArgs};
use super::super::console::Console;
use super::super::{lines, session};
use super::loss::Loss;

/// Samples of all texts that can be read.
pub struct Texts {
    /// What heads are scored on.
    pub samples: Vec<Sample>,
    /// What they are chosen by, and what reports are on; where no other texts are there, the same.
    pub held: Option<[Vec<Sample>; 2]>,
    pub count: usize,
    pub tokens: usize,
    pub loss: Option<Loss>,
    /// Lines that could not be read.
    pub bad: usize,
    /// The labelled set that they are from.
    pub set: Option<Set>,
}

impl Texts {
    /// What heads are chosen by.
    pub fn validation(&self) -> &[Sample] {
        self.held.as_ref().map_or(&self.samples, |[validation, _]| validation)
    }

    /// What reports are on.
    pub fn test(&self) -> &[Sample] {
        self.held.as_ref().map_or(&self.samples, |[_, test]| test)
    }
}

/// A text as the model reads it and, where it has a decoder beside its encoder, as it writes it.
struct Encoded {
    read: Encoding,
    written: Option<(Encoding, Vec<Option<u32>>)>,
}

/// Reads and encodes the texts and puts them into batches: all together, or in parts for scores,
/// for choices and for reports.
pub fn texts(
    args: &TextsArgs,
    text: Option<&str>,
    parts: bool,
    (model, run, console): (&Model, &RunArgs, &Console),
) -> Result<Texts> {
    if !(args.mask_share > 0.0 && args.mask_share <= 1.0) {
        return Err(Error::Usage {
            flag: "--mask-share".into(),
            want: "a share above 0 and up to 1".into(),
            found: args.mask_share.to_string(),
        });
    }
    if let (None, Some(name)) = (text, &args.data) {
        return labelled(name, args, model, run, console);
    }
    let loss = Loss::of(args, model)?;
    if model.config().decoder.as_ref().is_some_and(|decoder| decoder.generation.start.is_none()) {
        console.note("no token is named that the decoder starts from: the encoder alone is run");
    }
    let (all, bad) = match (text, &args.file) {
        (Some(text), _) => {
            let given = lines::Given { input: Input::Text(text.into()), spans: None };
            (vec![encoded(&given, model, run)?], 0)
        }
        (None, Some(path)) => from_file(path, model, run, console)?,
        (None, None) => {
            return Err(Error::Usage {
                flag: "--file".into(),
                want: "texts to score or measure on".into(),
                found: "none".into(),
            });
        }
    };
    let samples = |split: Option<Split>| {
        let of = |i: &usize| split.is_none_or(|split| Split::of(*i) == split);
        let some: Vec<&Encoded> = (0..all.len()).filter(of).map(|i| &all[i]).collect();
        batches(&some, loss, args, model)
    };
    // of each five texts three, one and one
    let held = match parts && all.len() >= 5 {
        true => Some([samples(Some(Split::Validation))?, samples(Some(Split::Test))?]),
        false => None,
    };
    if parts && held.is_none() {
        let few = "fewer than five texts: heads are scored, chosen and reported on the same ones";
        console.note(few);
    }
    Ok(Texts {
        samples: samples(held.is_some().then_some(Split::Train))?,
        held,
        count: all.len(),
        tokens: all.iter().map(|one| one.read.len()).sum(),
        loss,
        bad,
        set: None,
    })
}

/// The part of a labelled set that heads are scored on.
fn labelled(
    name: &str,
    args: &TextsArgs,
    model: &Model,
    run: &RunArgs,
    console: &Console,
) -> Result<Texts> {
    if model.config().decoder.is_some() {
        console.note("a labelled set is read by the encoder alone; the decoder keeps its heads");
    }
    let set = Set::open(name, model, &session::limit(run), args.batch_size.into())?;
    let samples = set.samples(model, Split::Train)?;
    let lengths = || samples.iter().flat_map(|sample| &sample.batch.lengths);
    Ok(Texts {
        count: lengths().count(),
        tokens: lengths().sum(),
        loss: set.has_loss().then_some(Loss::Classes),
        bad: 0,
        held: Some([set.samples(model, Split::Validation)?, set.samples(model, Split::Test)?]),
        samples,
        set: Some(set),
    })
}

/// Of a pair an encoder-decoder reads the first text and is to write the second; a text alone it is
/// to write as it is.
fn encoded(given: &lines::Given, model: &Model, run: &RunArgs) -> Result<Encoded> {
    let decoder = model.config().decoder.as_ref();
    if decoder.is_none_or(|decoder| decoder.generation.start.is_none()) {
        return Ok(Encoded { read: session::encode_line(model, given, run)?, written: None });
    }
    let (read, text) = match &given.input {
        Input::Pair(a, b) => (session::encode(model, &Input::Text(a.clone()), run)?, b.clone()),
        _ => {
            let read = session::encode_line(model, given, run)?;
            let text = read.texts.first().cloned().unwrap_or_default();
            (read, text)
        }
    };
    let written = encode_written(model, &text, &session::limit(run))?;
    Ok(Encoded { read, written: Some(written) })
}

fn from_file(
    path: &Path,
    model: &Model,
    run: &RunArgs,
    console: &Console,
) -> Result<(Vec<Encoded>, usize)> {
    let (mut all, mut bad) = (Vec::new(), 0);
    for line in lines::read(path)? {
        match line.given.and_then(|given| encoded(&given, model, run)) {
            Ok(one) => all.push(one),
            Err(error) => {
                let why = match error {
                    Error::Input { place, why } if place == "line" => why,
                    other => other.to_string(),
                };
                let place = lines::place(path, line.number);
                console.error(&Error::Input { place, why });
                bad += 1;
            }
        }
    }
    match all.is_empty() {
        false => Ok((all, bad)),
        true => Err(Error::Input {
            place: path.display().to_string(),
            why: "holds no text that can be read".into(),
        }),
    }
}

/// Texts of like lengths together.
fn batches(
    all: &[&Encoded],
    loss: Option<Loss>,
    args: &TextsArgs,
    model: &Model,
) -> Result<Vec<Sample>> {
    let lengths: Vec<usize> = all.iter().map(|one| one.read.len()).collect();
    let mut groups = group_by_length(&lengths, args.batch_size.into());
    // a text alone at the end has no other to be compared with
    if groups.len() > 1 && groups.last().is_some_and(|last| last.len() == 1) {
        let alone = groups.pop().unwrap_or_default();
        groups.last_mut().into_iter().for_each(|last| last.extend(&alone));
    }
    let sample = |group: &Vec<usize>| {
        let some: Vec<&Encoded> = group.iter().map(|&i| all[i]).collect();
        sample(&some, loss, args, model)
    };
    groups.iter().map(sample).collect()
}

fn sample(
    some: &[&Encoded],
    loss: Option<Loss>,
    args: &TextsArgs,
    model: &Model,
) -> Result<Sample> {
    let tokenizer = model.tokenizer()?;
    let pad = tokenizer.pad_id();
    let mut read: Vec<Encoding> = some.iter().map(|one| one.read.clone()).collect();
    let target = match loss {
        Some(Loss::MaskedLm) => {
            let mask = tokenizer.mask_id().ok_or_else(|| Error::Usage {
                flag: "--loss".into(),
                want: "a loss without masks: the tokenizer has no mask token".into(),
                found: "masked-lm".into(),
            })?;
            Some(mask_some(&mut read, mask, args.mask_share, args.seed))
        }
        _ => None,
    };
    let mut sample = Sample::new(&read, pad, target);
    let written: Vec<&(Encoding, Vec<Option<u32>>)> =
        some.iter().filter_map(|one| one.written.as_ref()).collect();
    if !written.is_empty() {
        let texts: Vec<Encoding> = written.iter().map(|(text, _)| text.clone()).collect();
        sample = sample.with_written(&texts, pad);
    }
    match loss {
        Some(Loss::CausalLm) => sample.target = Some(Target::next_tokens(&sample.batch)),
        Some(Loss::Seq2SeqLm) => {
            let next = |(b, t): (usize, usize)| {
                written.get(b).and_then(|(_, next)| next.get(t).copied().flatten())
            };
            let shape = sample.last().ids.dim();
            sample.target = Some(Target::Tokens(Array2::from_shape_fn(shape, next)));
        }
        Some(Loss::Embedding) => sample.target = Some(Target::unpruned_embedding(model, &sample)?),
        Some(Loss::Logits) => sample.target = Some(Target::unpruned_logits(model, &sample)?),
        _ => {}
    }
    Ok(sample)
}
