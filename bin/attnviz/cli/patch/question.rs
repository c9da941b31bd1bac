//! The two texts, and what is asked of the model about them.

use attnviz::decode::{Filler, Start};
use attnviz::patch::{Metric, next_token, token_in_place};
use attnviz::tokens::{Batch, Encoding, Input};
use attnviz::{Config, Error, Model, Result, Task, Token};

use super::Both;
use crate::cli::args::PatchArgs;
use crate::cli::console::Console;
use crate::cli::report::listed;
use crate::cli::session;

/// What is measured of a run.
pub struct Question {
    pub metric: Metric,
    /// Where; [`None`] for the whole text.
    pub at: Option<usize>,
    /// The answer and the wrong one as the model has them.
    pub answer: Option<String>,
    pub wrong: Option<String>,
}

/// Both texts, which must have as many tokens.
pub fn texts(args: &PatchArgs, model: &Model, console: &Console) -> Result<Both> {
    let (Some(clean), Some(corrupted)) = (&args.clean, &args.corrupted) else {
        return Err(Error::Usage {
            flag: "CLEAN CORRUPTED".into(),
            want: "two texts, each as one argument".into(),
            found: if args.clean.is_some() { "one" } else { "none" }.into(),
        });
    };
    let filler = match model.config().task {
        Task::MaskedLm => Some(Filler::new(model)?),
        _ => None,
    };
    let read = |text: &String| -> Result<Encoding> {
        let typed = Input::Text(text.clone());
        let renamed = filler.as_ref().and_then(|filler| filler.with_own_mask(&typed));
        let mut encoding = session::encode(model, &renamed.unwrap_or(typed), &args.run)?;
        if model.config().causal {
            encoding.open_end();
        }
        session::token_notes(&encoding).iter().for_each(|note| console.note(note));
        Ok(encoding)
    };
    let both =
        Both { clean: read(clean)?, corrupted: read(corrupted)?, written: written(args, model)? };
    let (one, other) = (both.clean.len(), both.corrupted.len());
    if one != other {
        let why = format!(
            "expected as many tokens in both, found {one} in the clean text ({}) and {other} in the \
             corrupted one ({})",
            pieces(&both.clean),
            pieces(&both.corrupted)
        );
        return Err(Error::Input { place: "texts".into(), why });
    }
    Ok(both)
}

fn pieces(encoding: &Encoding) -> String {
    encoding.tokens.iter().map(listed).collect::<Vec<_>>().join(" ")
}

/// What the decoder of an encoder-decoder reads: its start token, and what it has written so far.
fn written(args: &PatchArgs, model: &Model) -> Result<Option<Encoding>> {
    if model.config().decoder.is_none() || args.target.is_some() {
        return session::encode_target(model, args.target.as_deref(), &args.run);
    }
    let source = ndarray::Array2::ones((1, 1));
    let start = Start::behind(model, Batch::from_ids(source.clone(), source))?;
    let tokenizer = model.tokenizer()?;
    let side = tokenizer.target().unwrap_or(tokenizer);
    let token = |&id: &u32| Token {
        text: side.piece(id).unwrap_or_default(),
        id: Some(id),
        special: true,
        ..Token::default()
    };
    Ok(Some(Encoding::of_tokens(start.prompt.ids.iter().map(token).collect())))
}

impl Question {
    pub fn new(args: &PatchArgs, model: &Model, both: &Both) -> Result<Self> {
        let kind = kind(args, model.config())?;
        let at = if kind == "cosine" { None } else { at(args, model, both)? };
        let word = |flag: &str, word: &Option<String>| {
            word.as_deref().map(|word| answer(model, both, at, flag, word)).transpose()
        };
        let (answer, wrong) = (word("--answer", &args.answer)?, word("--wrong", &args.wrong)?);
        let id = |word: &Option<(u32, String)>, flag: &str| match word {
            Some((id, _)) => Ok(*id),
            None => Err(usage(flag, &format!("a word, for --metric {kind}"), "none")),
        };
        let metric = match kind {
            "cosine" => Metric::Cosine,
            "divergence" => Metric::Divergence { at },
            "probability" => Metric::Probability { at, answer: id(&answer, "--answer")? },
            _ => Metric::LogitDifference {
                at,
                answer: id(&answer, "--answer")?,
                wrong: id(&wrong, "--wrong")?,
            },
        };
        let text = |word: Option<(u32, String)>| word.map(|(_, text)| text);
        Ok(Self { metric, at, answer: text(answer), wrong: text(wrong) })
    }
}

/// The metric that was asked for, or that what was given is for.
fn kind<'a>(args: &'a PatchArgs, config: &Config) -> Result<&'a str> {
    let headless = config.task == Task::Encoder;
    match (args.metric.as_deref(), &args.answer, &args.wrong) {
        (None | Some("cosine" | "divergence"), Some(word), _)
            if headless || args.metric.is_some() =>
        {
            Err(usage("--answer", "no word, for nothing of this metric is about one", word))
        }
        (Some(metric), ..) => Ok(metric),
        (None, Some(_), Some(_)) => Ok("logit-difference"),
        (None, Some(_), None) => Ok("probability"),
        (None, None, _) => Ok(if headless { "cosine" } else { "divergence" }),
    }
}

/// Where a distribution is looked at; [`None`] for that of the whole text.
fn at(args: &PatchArgs, model: &Model, both: &Both) -> Result<Option<usize>> {
    let asked = both.written.as_ref().unwrap_or(&both.clean);
    let count = asked.len() as i64;
    match (model.config().task, args.at) {
        (Task::SequenceClassification, None) => Ok(None),
        (Task::SequenceClassification, Some(at)) => {
            Err(usage("--at", "no position, for the head sees the whole text", &at.to_string()))
        }
        (_, Some(at)) => {
            let place = if at < 0 { at + count } else { at };
            let there = usize::try_from(place).ok().filter(|_| place < count);
            let want = format!("a position from 0 to {}, or from -1 to -{count}", count - 1);
            there.map(Some).ok_or_else(|| usage("--at", &want, &at.to_string()))
        }
        (Task::CausalLm | Task::Seq2SeqLm, None) => Ok(Some(asked.len().saturating_sub(1))),
        (Task::MaskedLm, None) => mask(model, both).map(Some),
        _ => Err(usage("--at", "a position, for the head gives one answer per token", "none")),
    }
}

/// The one mask, at the same place of both texts.
fn mask(model: &Model, both: &Both) -> Result<usize> {
    let id = model.tokenizer()?.mask_id();
    let masks = |encoding: &Encoding| -> Vec<usize> {
        let all = encoding.tokens.iter().enumerate();
        all.filter(|(_, token)| token.id.is_some() && token.id == id).map(|(at, _)| at).collect()
    };
    match (&masks(&both.clean)[..], &masks(&both.corrupted)[..]) {
        (&[one], &[other]) if one == other => Ok(one),
        (one, other) => {
            let found = format!("{one:?} and {other:?}");
            Err(usage("--at", "a position, or one mask at the same place of both texts", &found))
        }
    }
}

/// A token or class with its name.
fn answer(
    model: &Model,
    both: &Both,
    at: Option<usize>,
    flag: &str,
    word: &str,
) -> Result<(u32, String)> {
    let (config, tokenizer) = (model.config(), model.tokenizer()?);
    let words = matches!(config.task, Task::MaskedLm | Task::CausalLm | Task::Seq2SeqLm);
    if !words {
        let labels = &config.labels;
        let place = labels.iter().position(|label| label == word).or_else(|| word.parse().ok());
        let class = place.filter(|&class| class < labels.len());
        let class =
            class.ok_or_else(|| usage(flag, &format!("one of {}", labels.join(", ")), word))?;
        return Ok((class as u32, labels[class].clone()));
    }
    let side = tokenizer.target().filter(|_| both.written.is_some()).unwrap_or(tokenizer);
    let asked = both.written.as_ref().unwrap_or(&both.clean);
    let id = match config.task {
        Task::MaskedLm => at.and_then(|at| token_in_place(side, asked, at, word)),
        _ => {
            // what is typed behind the position does not count
            let token = at.and_then(|at| asked.tokens.get(at));
            let text = token.and_then(|token| asked.texts.get(token.sequence?));
            let end = token.map_or(0, |token| token.offsets.1);
            let text: String =
                text.map_or_else(String::new, |text| text.chars().take(end).collect());
            next_token(side, &text, word)
        }
    };
    let id = id.ok_or_else(|| usage(flag, "a word that is one token there", word))?;
    Ok((id, side.readable(id).unwrap_or_else(|| word.to_owned())))
}

fn usage(flag: &str, want: &str, found: &str) -> Error {
    Error::Usage { flag: flag.into(), want: want.into(), found: found.into() }
}
