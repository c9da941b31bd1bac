//! Pages of attention that is at hand.

use std::path::{Path, PathBuf};

use attnviz::output::{PageFile, hash8, slug};
use attnviz::picture::page::{Options, Page, Sheet, Side, render};
use attnviz::tokens::Encoding;
use attnviz::{Attention, Head, Model, Result, Stack, Token};
use serde_json::{Value, json};

use super::args::ChoiceArgs;
use super::named::{Named, Source};
use super::parts::Part;

/// The page of `parts` under the words of the encodings that they are over, and what makes it the
/// same page again.
pub fn of_parts(
    model: &Model,
    choice: &ChoiceArgs,
    named: &Named,
    parts: &[Part],
    encodings: &[&Encoding],
) -> Result<(Page, Value)> {
    let of = |encoding: &&Encoding| {
        let one = |sequence| encoding.words(sequence).into_iter().map(str::to_owned).collect();
        (0..encoding.texts.len()).map(one).collect::<Vec<Vec<String>>>()
    };
    let words: Vec<Vec<String>> = encodings.iter().flat_map(of).collect();
    let some = parts.iter().filter(|part| !part.attention.heads.is_empty());
    let sheets = some.map(|part| sheet(part.clone(), &words, model)).collect();
    let report = model.report();
    let heads = choice.heads.as_ref().map(|given| &given.text);
    let source = json!([report.name, report.revision, named.input, heads]);
    let side = Side::new(&named.text, &report.name, sheets);
    Ok((Page { notes: named.notes.clone(), ..Page::new(&named.text, side) }, source))
}

/// The page of arrays, and what makes it the same page again.
pub fn of_arrays(attention: Attention, named: &Named, source: &Source) -> (Page, Value) {
    let about = json!([source.model, null, named.input]);
    let sheet = Sheet::new("self", attention);
    let side = Side::new(&named.text, &source.model, vec![sheet]);
    (Page { notes: named.notes.clone(), ..Page::new(&named.text, side) }, about)
}

/// One attention as a sheet. `words` are those of each text; beside an encoder, the decoder's text
/// is the second one.
pub fn sheet(part: Part, words: &[Vec<String>], model: &Model) -> Sheet {
    let name = match part.stack {
        None => "self",
        Some(_) => part.key(),
    };
    let stack = part.stack;
    let mut attention = part.attention;
    // each of the two texts has an axis of its own, where it is the first
    let own = |tokens: &mut Vec<Token>| {
        tokens.iter_mut().for_each(|token| token.sequence = token.sequence.map(|_| 0));
        words.get(1).cloned().into_iter().collect::<Vec<_>>()
    };
    let beside = matches!(stack, Some(Stack::Decoder | Stack::Cross));
    let query_words = if beside { own(&mut attention.queries) } else { words.to_vec() };
    let decoder = stack == Some(Stack::Decoder);
    let key_words = if decoder { own(&mut attention.keys) } else { words.to_vec() };
    let mut sheet = Sheet::new(name, attention);
    (sheet.query_words, sheet.key_words) = (query_words, key_words);
    sheet.pruned = pruned(model, stack.unwrap_or(model.config().stack()));
    if model.config().global_queries {
        sheet.terms = "other projection".into();
    }
    sheet
}

fn pruned(model: &Model, stack: Stack) -> Vec<Head> {
    let config = model.config().of(stack);
    let left = if stack == Stack::Cross { &config.cross_heads } else { &config.heads };
    let layers = config.head_counts.iter().zip(left).enumerate();
    layers
        .flat_map(|(layer, (&count, left))| {
            let gone = (0..count).filter(|head| !left.contains(head));
            gone.map(move |head| Head { layer, head })
        })
        .collect()
}

/// Writes a page that another command has the attentions for, into a folder under the name of its
/// text; `source` is what makes it the same page again.
pub fn store(
    page: &Page,
    (out, force): (&Path, bool),
    choice: &ChoiceArgs,
    (text, source): (&str, &Value),
) -> Result<PathBuf> {
    let generator = format!("attnviz {} {}", env!("CARGO_PKG_VERSION"), hash8(&source.to_string()));
    let file = PageFile::claim(out, &slug(text), &generator, force)?;
    let (words, no_special) = (choice.words, choice.no_special);
    let options = Options { words, no_special, generator, ..Options::default() };
    file.write(&render(page, &options)?.html)?;
    Ok(file.path().into())
}
