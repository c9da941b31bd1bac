//! The attention of every token, prompt and continuation.

use attnviz::picture::TextEngine;
use attnviz::{Attention, Error, Model, Result, Token};
use serde_json::json;

use super::Sample;
use super::start::Begin;
use crate::cli::args::GenerateArgs;
use crate::cli::named::{Named, Source};
use crate::cli::parts::{Chosen, Part};
use crate::cli::pictures::{Shown, Target, Written, by_words, draw, shown_arguments};

/// The attentions of a text, with the words that its tokens make.
pub struct Attended {
    pub parts: Vec<Part>,
    pub words: Vec<Vec<String>>,
    /// Tokens that the decoder had before it wrote.
    pub prompt: usize,
}

/// The chosen heads of a sample: over every token that was read, which the last one was not.
pub fn attended(
    model: &Model,
    begin: &Begin,
    sample: &Sample,
    chosen: &Chosen,
) -> Result<Option<Attended>> {
    let Some(text) = sample.writing.texts.first() else { return Ok(None) };
    let (Some(before), Some(tokenizer)) = (begin.decoder(), begin.writes(model)) else {
        return Ok(None);
    };
    let new = text.ids.get(text.prompt..).unwrap_or_default();
    let all = tokenizer.continued(before, new);
    let names = |sequence| all.words(sequence).into_iter().map(str::to_owned).collect::<Vec<_>>();
    let read: Vec<Token> = all.tokens[..all.tokens.len().saturating_sub(1)].to_vec();
    let (tokens, words) = match &begin.start.source {
        None => ((read.clone(), read), vec![names(0), names(1)]),
        Some(_) => {
            let typed = begin.typed.as_ref();
            let source = typed.map(|typed| typed.tokens.clone()).unwrap_or_default();
            let second =
                |token: &Token| Token { sequence: token.sequence.map(|_| 1), ..token.clone() };
            let typed = typed.map(|typed| typed.words(0)).unwrap_or_default();
            let typed = typed.into_iter().map(str::to_owned).collect();
            ((source, read.iter().map(second).collect()), vec![typed, names(0)])
        }
    };
    let parts = chosen.parts(&sample.writing.trace, 0, (&tokens.0, &tokens.1), model.config())?;
    Ok(Some(Attended { parts, words, prompt: text.prompt }))
}

/// Draws a sample into a folder of its own.
pub fn pictures(
    args: &GenerateArgs,
    model: &Model,
    (begin, sample): (&Begin, &Sample),
    attended: &Attended,
    engine: &TextEngine,
) -> Result<Written> {
    let names: Vec<Vec<&str>> =
        attended.words.iter().map(|words| words.iter().map(String::as_str).collect()).collect();
    let parts = &attended.parts;
    let words: Vec<Attention> =
        parts.iter().map(|part| by_words(&part.attention, &names)).collect();
    let shown =
        parts.iter().zip(&words).map(|(part, words)| Shown::new(&args.drawn.choice, part, words));
    let shown: Vec<Shown<'_>> = shown.collect();
    let text = sample.texts.first().map_or("", String::as_str);
    let mut arguments = shown_arguments(&args.drawn.choice, &args.drawn.picture);
    arguments.insert("attn_temperature".into(), json!(args.attn_temperature));
    let named = Named {
        input: json!({
            "prompt": args.prompt,
            "seed": sample.seed,
            "continuation": text,
            "prompt_tokens": attended.prompt,
        }),
        text: format!("{}{text}", begin.shown(0)),
        notes: vec![format!(
            "{} tokens were given, the others written; the last one written was read by none.",
            attended.prompt
        )],
    };
    let target = Target {
        out: &args.drawn.out,
        force: args.drawn.force,
        picture: &args.drawn.picture,
        arguments,
    };
    draw(target, &Source::of(model), &named, &shown, engine)
}

/// Pictures need the tokens that only a text has.
pub fn check(args: &GenerateArgs) -> Result<()> {
    match (args.drawn.any(), &args.inputs) {
        (true, Some(path)) => Err(Error::Usage {
            flag: if args.drawn.png { "--png" } else { "--html" }.into(),
            want: "a prompt, whose tokens are the labels; for ids there is --export".into(),
            found: format!("--inputs {}", path.display()),
        }),
        _ => Ok(()),
    }
}
