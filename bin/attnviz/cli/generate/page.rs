//! The page of a text that was written: its attention stitched over all steps.

use attnviz::output::{PageFile, hash8, slug};
use attnviz::picture::page::{Options, Page, Side, render};
use attnviz::{Model, Result, Stack};
use serde_json::json;

use super::pictures::{Attended, attended};
use super::start::Begin;
use super::{Chosen, Sample};
use crate::cli::args::GenerateArgs;
use crate::cli::console::{Console, one_line};
use crate::cli::html::sheet;

/// A page per sample, in the folder of pictures.
pub fn write(
    args: &GenerateArgs,
    model: &Model,
    (begin, samples): (&Begin, &mut [Sample]),
    chosen: &Chosen,
    console: &Console,
) -> Result<()> {
    for sample in samples {
        let Some(attended) = attended(model, begin, sample, chosen)? else { continue };
        let text = sample.texts.first().map_or("", String::as_str);
        let text = format!("{}{text}", begin.shown(0));
        let page = page(model, &text, attended);
        let source = json!([model.report().name, model.report().revision, text, sample.seed]);
        let generator =
            format!("attnviz {} {}", env!("CARGO_PKG_VERSION"), hash8(&source.to_string()));
        let file = PageFile::claim(&args.out, &slug(&text), &generator, args.force)?;
        let (words, no_special) = (args.choice.words, args.choice.no_special);
        let options = Options { words, no_special, generator, ..Options::default() };
        file.write(&render(&page, &options)?.html)?;
        if !console.talk.json {
            console.result(&format!("{}\n", one_line(&file.path().display().to_string())));
        }
        sample.page = Some(file.path().into());
    }
    Ok(())
}

fn page(model: &Model, text: &str, attended: Attended) -> Page {
    let Attended { parts, words, prompt } = attended;
    let mut sheets = Vec::new();
    for part in parts.into_iter().filter(|part| !part.attention.heads.is_empty()) {
        let writes = matches!(part.stack, None | Some(Stack::Decoder));
        let mut sheet = sheet(part, &words, model);
        // with nothing written that was read again there are no steps
        let rows = sheet.attention.queries.len();
        sheet.prompt = Some(prompt).filter(|&prompt| writes && prompt > 0 && prompt <= rows);
        sheets.push(sheet);
    }
    let note = "The last token that was written is not here: nothing read it.".into();
    let side = Side::new(text, &model.report().name, sheets);
    Page { notes: vec![note], ..Page::new(text, side) }
}
