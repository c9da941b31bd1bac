//! What each head does as a picture: layers down, heads across.

use std::collections::BTreeSet;
use std::path::Path;

use attnviz::output::{prove_writable, write_file};
use attnviz::picture::{Format, Style, TextEngine, View, heatmap};
use attnviz::{Error, Model, Result, Stack};
use ndarray::Array2;

use super::super::args::AblateArgs;
use super::super::prune::table::{label, stack_name};
use super::super::prune::texts::Texts;
use super::super::report::many;
use super::{Found, off, what};

/// By the ending of a file that can be written.
pub fn format_of(path: &Path, force: bool) -> Result<Format> {
    if path.exists() && !force {
        let why = "exists already; --force overwrites it".into();
        return Err(Error::Output { path: path.into(), why });
    }
    prove_writable(path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")))?;
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    ending.parse().map_err(|_| Error::Usage {
        flag: "--out".into(),
        want: "a file ending in .png or .svg".into(),
        found: path.display().to_string(),
    })
}

/// Heads that are gone are blank.
pub fn picture(
    path: &Path,
    format: Format,
    args: &AblateArgs,
    read: &Texts,
    model: &Model,
    found: &[Found],
    engine: &TextEngine,
) -> Result<()> {
    let config = model.config();
    // the stacks of an encoder-decoder one under another
    let rows: Vec<(Stack, usize)> = found
        .iter()
        .map(|one| one.head.stack)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .flat_map(|stack| (0..config.of(stack).layers()).map(move |layer| (stack, layer)))
        .collect();
    let most = |&(stack, _): &(Stack, usize)| config.of(stack).head_counts.iter().max().copied();
    let columns = rows.iter().filter_map(most).max().unwrap_or(0);
    let mut values = Array2::from_elem((rows.len(), columns), f32::NAN);
    for one in found {
        let row = rows.iter().position(|&row| row == (one.head.stack, one.head.head.layer));
        if let Some(cell) = row.and_then(|row| values.get_mut((row, one.head.head.head))) {
            *cell = one.effect.mean as f32;
        }
    }
    let name = |&(stack, layer): &(Stack, usize)| match config.decoder {
        Some(_) => format!("{} L{layer}", stack_name(stack)),
        None => format!("L{layer}"),
    };
    let title = format!("{}: {}", model.report().name, off(args));
    let columns = (0..columns).map(|head| format!("H{head}")).collect();
    let mut view = View::new(title, rows.iter().map(name).collect(), columns, values)?;
    view.row_caption = "layer".into();
    view.column_caption = "head".into();
    view.legend = vec![what(read).into()];
    view.notes = vec![format!("Mean over {}.", many(read.count, "text"))];
    let marked: Vec<String> =
        found.iter().filter(|one| one.marked()).map(|one| label(config, one.head)).collect();
    if !marked.is_empty() {
        view.notes.push(format!("p below 0.05 after Holm: {}.", marked.join(", ")));
    }
    let bytes = heatmap(&view, &Style::default(), format, engine)?;
    write_file(path, &bytes)
}
