//! The page of a text that was written: its attention stitched over all steps.

use attnviz::picture::page::{Page, Side};
use attnviz::{Model, Result, Stack};
use serde_json::json;

use super::pictures::{Attended, attended};
use super::start::Begin;
use super::{Chosen, Sample};
use crate::cli::args::GenerateArgs;
use crate::cli::console::{Console, one_line};
use crate::cli::pages::{sheet, store};

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
        let place = (args.drawn.out.as_path(), args.drawn.force);
        let path = store(&page, place, &args.drawn.choice, (&text, &source))?;
        if !console.talk.json {
            console.result(&format!("{}\n", one_line(&path.display().to_string())));
        }
        sample.page = Some(path);
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
