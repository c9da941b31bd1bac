//! `attnviz generate`: a continuation, token by token.

mod export;
mod page;
mod pictures;
mod report;
mod start;

use std::ops::ControlFlow;
use std::path::PathBuf;

use attnviz::decode::{Choice, End, Sampler, Stop, Until, Writer, Writing, Written};
use attnviz::output::prove_writable;
use attnviz::picture::TextEngine;
use attnviz::tokens::{DecodeStream, Tokenizer};
use attnviz::{Change, Error, Intervention, Keep, Model, Recorder, Result, Site, Stack};

use super::args::GenerateArgs;
use super::console::{Console, one_line, plain};
use super::parts::Chosen;
use super::pictures::Written as Drawn;
use super::report::files;
use super::session;
use report::Report;
use start::Begin;

/// New tokens where nobody says how many.
const TOKENS: usize = 50;

/// One sample of all prompts.
pub struct Sample {
    pub seed: u64,
    pub writing: Writing,
    /// Text of each continuation, up to where it was stopped.
    pub texts: Vec<String>,
    /// The pictures of it.
    pub written: Option<Drawn>,
    /// The page of it.
    pub page: Option<PathBuf>,
}

pub fn run(args: &GenerateArgs, console: &Console) -> Result<u8> {
    let target =
        args.export.as_deref().map(|path| attnviz::export::Target::new(path, args.drawn.force));
    let target = target.transpose()?;
    args.sampling(&[]).check()?;
    let heat = heat(args.attn_temperature)?;
    let read = start::Read::new(args)?;
    pictures::check(args)?;
    if args.drawn.any() {
        prove_writable(&args.drawn.out)?;
    }
    let (model, engine) = session::open(&args.model, &args.run, console)?;
    let begin = read.begin(&model, args, console)?;
    let chosen = Chosen::new(&args.drawn.choice, model.config(), true)?;
    let recorder = match (target.is_some(), args.drawn.any()) {
        (true, _) => Recorder::new().keep(Site::Probs, Keep::All),
        (_, true) => Recorder::new().keep(Site::Probs, chosen.keep()),
        _ => Recorder::new(),
    };
    let mut writer = Writer::new(&model, begin.start.clone(), !args.no_cache, recorder, &heat)?;
    let until = until(args, &model, &writer, target.is_some())?;
    let mut samples = Vec::new();
    for number in 0..args.sampling.samples {
        let seed = args.sampling.seed.wrapping_add(number.into());
        samples.push(sample(args, &model, &mut writer, (&begin, seed, &until), console)?);
    }
    if args.drawn.png {
        draw(args, &model, (&begin, &mut samples), (&chosen, &engine), console)?;
    }
    if args.drawn.html {
        page::write(args, &model, (&begin, &mut samples), &chosen, console)?;
    }
    if let Some(target) = target {
        target.write(&export::stages(&model, &begin, &samples)?)?;
    }
    if console.talk.json {
        let report = Report { args, model: &model, begin: &begin, samples: &samples };
        console.result(&format!("{:#}\n", report.json()));
    }
    Ok(0)
}

/// Draws every sample.
fn draw(
    args: &GenerateArgs,
    model: &Model,
    (begin, samples): (&Begin, &mut [Sample]),
    (chosen, engine): (&Chosen, &TextEngine),
    console: &Console,
) -> Result<()> {
    for sample in samples {
        let Some(attended) = pictures::attended(model, begin, sample, chosen)? else { continue };
        let written = pictures::pictures(args, model, (begin, sample), &attended, engine)?;
        if !console.talk.json {
            let folder = one_line(&written.folder.display().to_string());
            console.result(&format!("{folder}/\n  {}\n", files(&written)));
        }
        sample.written = Some(written);
    }
    for warning in engine.warnings() {
        console.note(&warning);
    }
    Ok(())
}

/// The change that an attention temperature is, at every attention of the model.
fn heat(temperature: f64) -> Result<Vec<Intervention>> {
    // what is nearly 0 has no finite reciprocal
    if !temperature.is_finite() || temperature <= 0.0 || !temperature.recip().is_finite() {
        return Err(Error::Usage {
            flag: "--attn-temperature".into(),
            want: "a number above 0".into(),
            found: temperature.to_string(),
        });
    }
    let change = |stack| Intervention {
        stack,
        site: Site::Scores,
        layers: None,
        heads: None,
        positions: None,
        change: Change::Scale(temperature.recip()),
    };
    let stacks = [Stack::Encoder, Stack::Decoder, Stack::Cross];
    Ok(if temperature == 1.0 { Vec::new() } else { stacks.map(change).to_vec() })
}

/// How far to write: as far as was asked for, else as far as the model can.
fn until(args: &GenerateArgs, model: &Model, writer: &Writer<'_>, logits: bool) -> Result<Until> {
    let room = writer.room();
    let tokens = match args.max_new_tokens {
        None => TOKENS.min(room),
        Some(asked) if asked as usize <= room => asked as usize,
        Some(asked) => {
            return Err(Error::Usage {
                flag: "--max-new-tokens".into(),
                want: format!("at most {room}, since positions end there"),
                found: asked.to_string(),
            });
        }
    };
    let own = Until { tokens, keep_logits: logits, ..Until::of(model) };
    Ok(if args.ignore_end { Until { ends: Vec::new(), last: Vec::new(), ..own } } else { own })
}

/// A text that is shown as it comes.
struct Telling<'a> {
    stream: Option<DecodeStream<'a>>,
    stop: Stop,
    text: String,
}

impl<'a> Telling<'a> {
    /// `before` is what it goes on from.
    fn new(tokenizer: Option<&'a Tokenizer>, before: &[u32], stops: &[String]) -> Self {
        let mut stream = tokenizer.map(Tokenizer::decode_stream);
        if let Some(stream) = &mut stream {
            before.iter().for_each(|&id| drop(stream.push(id)));
        }
        Self { stream, stop: Stop::new(stops.to_vec()), text: String::new() }
    }

    /// Takes a token and gives the text that is certain now.
    fn push(&mut self, id: u32) -> String {
        let new = match &mut self.stream {
            Some(stream) => stream.push(id),
            None => format!(" {id}"), // ids without a tokenizer are shown as they are
        };
        let new = self.stop.push(&new);
        self.text += &new;
        new
    }

    /// What was held back, and the whole text.
    fn finish(self) -> (String, String) {
        let mut stop = self.stop;
        let mut rest = self.stream.map_or_else(String::new, |stream| stop.push(&stream.finish()));
        if !stop.reached() {
            rest += &stop.finish();
        }
        let text = self.text + &rest;
        (rest, text)
    }
}

fn sample(
    args: &GenerateArgs,
    model: &Model,
    writer: &mut Writer<'_>,
    (begin, seed, until): (&Begin, u64, &Until),
    console: &Console,
) -> Result<Sample> {
    let rows = begin.start.prompt.ids.nrows();
    let sampling = args.sampling(&model.config().generation.forbidden);
    let sampler = |row: usize| Sampler::new(sampling.clone(), seed.wrapping_add(row as u64));
    let mut samplers = (0..rows).map(sampler).collect::<Result<Vec<_>>>()?;
    samplers = samplers.into_iter().map(|one| one.alternatives(args.top)).collect();
    let tokenizer = begin.writes(model);
    let mut telling: Vec<Telling<'_>> =
        (0..rows).map(|row| Telling::new(tokenizer, begin.before(row), &args.stop)).collect();
    // one text is shown as it comes, several one after the other
    let live = rows == 1 && !console.talk.json;
    if live {
        console.result(&plain(&begin.shown(0)));
    }
    let writing = writer.write(&mut samplers, until, &mut |row, choice: &Choice| {
        let new = telling[row].push(choice.id);
        if live {
            console.result(&plain(&new));
        }
        match telling[row].stop.reached() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    if live && writing.is_err() {
        console.result("\n"); // the error has a line of its own
    }
    let writing = writing?;
    let mut texts = Vec::new();
    for (row, one) in telling.into_iter().enumerate() {
        let (rest, text) = one.finish();
        if live {
            console.result(&format!("{}\n", plain(&rest)));
        } else if !console.talk.json {
            console.result(&format!("{}{}\n", plain(&begin.shown(row)), plain(&text)));
        }
        texts.push(text);
    }
    console.detail(&format!("seed {seed}: {}", ended(&writing.texts)));
    Ok(Sample { seed, writing, texts, written: None, page: None })
}

/// How texts ended, for the curious.
fn ended(texts: &[Written]) -> String {
    let one = |text: &Written| {
        let why = match text.end {
            End::Length => "as many as asked for".into(),
            End::Token(id) => format!("ended by token {id}"),
            End::Stopped => "stopped by its text".into(),
        };
        format!(
            "{} tokens, {why}; mean entropy {:.2} nats, {:.0}% of 4-grams repeated",
            text.choices.len(),
            text.mean_entropy(),
            100.0 * text.repetition(4)
        )
    };
    texts.iter().map(one).collect::<Vec<_>>().join("; ")
}
