//! Texts that heads are scored and measured on, with the loss of each, and how scores are listed.

use std::path::Path;

use attnviz::prune::{HeadScore, Sample, Score, Target, mask_some};
use attnviz::tokens::{Batch, Encoding, Input, group_by_length};
use attnviz::{Error, Model, Result, Task};

use super::super::args::{RunArgs, ScoringArgs, TextsArgs};
use super::super::console::Console;
use super::super::{lines, session};
use super::labelled::Set;

/// What a text's loss is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    MaskedLm,
    CausalLm,
    Embedding,
    Logits,
    Classes,
}

impl Loss {
    pub fn name(self) -> &'static str {
        match self {
            Self::MaskedLm => "masked-LM loss",
            Self::CausalLm => "causal-LM loss",
            Self::Embedding => "1 - cosine to the unpruned embedding",
            Self::Logits => "divergence from the unpruned logits",
            Self::Classes => "cross entropy of the classes",
        }
    }

    /// As asked for, else what the model's head is for.
    pub fn of(args: &TextsArgs, model: &Model) -> Option<Self> {
        match (args.loss.as_deref(), model.config().task) {
            (Some("masked-lm"), _) | (None, Task::MaskedLm) => Some(Self::MaskedLm),
            (Some("causal-lm"), _) | (None, Task::CausalLm) => Some(Self::CausalLm),
            (Some("embedding"), _) => Some(Self::Embedding),
            (Some(_), _) => Some(Self::Logits),
            (None, _) => None,
        }
    }
}

/// Samples of all texts that can be read.
pub struct Texts {
    pub samples: Vec<Sample>,
    pub count: usize,
    pub tokens: usize,
    pub loss: Option<Loss>,
    /// Lines that could not be read.
    pub bad: usize,
    /// The labelled set that they are from.
    pub set: Option<Set>,
}

/// Reads and encodes the texts and puts them into batches.
pub fn texts(
    args: &TextsArgs,
    text: Option<&str>,
    model: &Model,
    run: &RunArgs,
    console: &Console,
) -> Result<Texts> {
    if !(args.mask_share > 0.0 && args.mask_share <= 1.0) {
        return Err(Error::Usage {
            flag: "--mask-share".into(),
            want: "a share above 0 and up to 1".into(),
            found: args.mask_share.to_string(),
        });
    }
    if let (None, Some(name)) = (text, &args.data) {
        return labelled(name, args, model, run);
    }
    let loss = Loss::of(args, model);
    let (encodings, bad) = match (text, &args.file) {
        (Some(text), _) => (vec![session::encode(model, &Input::Text(text.into()), run)?], 0),
        (None, Some(path)) => from_file(path, model, run, console)?,
        (None, None) => {
            return Err(Error::Usage {
                flag: "--file".into(),
                want: "texts to score or measure on".into(),
                found: "none".into(),
            });
        }
    };
    let lengths: Vec<usize> = encodings.iter().map(Encoding::len).collect();
    let mut groups = group_by_length(&lengths, args.batch_size.into());
    // a text alone at the end has no other to be compared with
    if groups.len() > 1 && groups.last().is_some_and(|last| last.len() == 1) {
        let alone = groups.pop().unwrap_or_default();
        groups.last_mut().into_iter().for_each(|last| last.extend(&alone));
    }
    let sample = |group: &Vec<usize>| {
        let some = group.iter().map(|&i| encodings[i].clone()).collect();
        sample(some, loss, args, model)
    };
    let samples = groups.iter().map(sample).collect::<Result<_>>()?;
    Ok(Texts {
        samples,
        count: encodings.len(),
        tokens: lengths.iter().sum(),
        loss,
        bad,
        set: None,
    })
}

/// The part of a labelled set that heads are scored on.
fn labelled(name: &str, args: &TextsArgs, model: &Model, run: &RunArgs) -> Result<Texts> {
    let set = Set::open(name, args.batch_size.into(), model, run)?;
    let samples = set.samples(model)?;
    let lengths = || samples.iter().flat_map(|sample| &sample.batch.lengths);
    Ok(Texts {
        count: lengths().count(),
        tokens: lengths().sum(),
        loss: set.has_loss().then_some(Loss::Classes),
        bad: 0,
        samples,
        set: Some(set),
    })
}

fn from_file(
    path: &Path,
    model: &Model,
    run: &RunArgs,
    console: &Console,
) -> Result<(Vec<Encoding>, usize)> {
    let (mut encodings, mut bad) = (Vec::new(), 0);
    for line in lines::read(path)? {
        let encoded = line.given.and_then(|given| session::encode_line(model, &given, run));
        match encoded {
            Ok(encoding) => encodings.push(encoding),
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
    match encodings.is_empty() {
        false => Ok((encodings, bad)),
        true => Err(Error::Input {
            place: path.display().to_string(),
            why: "holds no text that can be read".into(),
        }),
    }
}

fn sample(
    mut encodings: Vec<Encoding>,
    loss: Option<Loss>,
    args: &TextsArgs,
    model: &Model,
) -> Result<Sample> {
    let tokenizer = model.tokenizer()?;
    let pad = tokenizer.pad_id();
    let target = match loss {
        Some(Loss::MaskedLm) => {
            let mask = tokenizer.mask_id().ok_or_else(|| Error::Usage {
                flag: "--loss".into(),
                want: "a loss without masks: the tokenizer has no mask token".into(),
                found: "masked-lm".into(),
            })?;
            Some(mask_some(&mut encodings, mask, args.mask_share, args.seed))
        }
        _ => None,
    };
    let batch = Batch::new(&encodings, pad);
    let target = match loss {
        Some(Loss::CausalLm) => Some(Target::next_tokens(&batch)),
        Some(Loss::Embedding) => Some(Target::unpruned_embedding(model, &batch)?),
        Some(Loss::Logits) => Some(Target::unpruned_logits(model, &batch)?),
        _ => target,
    };
    Ok(Sample::new(&encodings, pad, target))
}

/// The score of a name, or the default for what the texts have.
pub fn score(name: Option<&str>, args: &ScoringArgs, seed: u64, loss: Option<Loss>) -> Score {
    match name {
        Some("fisher") => Score::Fisher,
        Some("integrated") => Score::Integrated { steps: args.steps.into() },
        Some("confidence") => Score::Confidence,
        Some("output-norm") => Score::OutputNorm,
        Some("gradient") => Score::Gradient,
        Some(_) => Score::Jacobian { probes: args.probes.into(), seed },
        None => match loss {
            Some(Loss::MaskedLm | Loss::CausalLm | Loss::Classes) => Score::Gradient,
            Some(_) => Score::Integrated { steps: args.steps.into() },
            None => Score::Jacobian { probes: args.probes.into(), seed },
        },
    }
}

/// Layers down, heads across; heads that are gone are dots, and `mark` follows a number.
pub fn table(scores: &[HeadScore], heads: usize, mark: impl Fn(usize) -> bool) -> String {
    let layers = scores.iter().map(|one| one.head.layer + 1).max().unwrap_or(0);
    let mut text = format!("{:>4}", "");
    text.extend((0..heads).map(|head| format!("{:>10}", format!("H{head}"))));
    text.push('\n');
    for layer in 0..layers {
        text += &format!("{:>4}", format!("L{layer}"));
        for head in 0..heads {
            let found = scores.iter().position(|s| s.head.layer == layer && s.head.head == head);
            let cell = match found {
                None => ".".into(),
                Some(i) => {
                    format!("{}{}", number(scores[i].score), if mark(i) { "*" } else { " " })
                }
            };
            text += &format!("{cell:>10}");
        }
        text.push('\n');
    }
    text
}

/// Three digits or so.
pub fn number(x: f64) -> String {
    match x.abs() {
        0.0 => "0".into(),
        size if (1e-3..1e4).contains(&size) => {
            format!("{x:.*}", (2 - size.log10().floor() as i32).clamp(0, 5) as usize)
        }
        _ => format!("{x:.1e}"),
    }
}
