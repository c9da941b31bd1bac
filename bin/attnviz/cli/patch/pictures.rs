//! What patching found as pictures: layers down, heads or positions across.

use attnviz::Result;
use attnviz::output::{Manifest, OutputFolder, slug};
use attnviz::patch::{By, Cell};
use attnviz::picture::{Colormap, Format, Style, TextEngine, View, heatmap};
use ndarray::Array2;
use serde_json::json;

use super::report::{Report, group, groups, head};
use super::{Found, Written};

/// A picture of each sweep, in a folder under the clean text's name.
pub fn draw(report: &Report<'_>, engine: &TextEngine) -> Result<Written> {
    let args = report.args;
    let mut formats = args.format.clone();
    formats.sort_by_key(|format| format.extension());
    formats.dedup();
    let named = |one: &Found, format: &Format| {
        format!("patch-{}-by-{}.{}", one.point.name(), one.by.name(), format.extension())
    };
    let all = report.found.iter().filter(|one| !one.cells.is_empty());
    let all: Vec<&Found> = all.collect();
    let files: Vec<String> =
        all.iter().flat_map(|one| formats.iter().map(|format| named(one, format))).collect();
    let folder = folder(report, files.clone())?;
    let style = Style { cmap: Colormap::RdBu, dark: args.dark, ..Style::default() };
    for one in all {
        let view = view(report, one)?;
        for format in &formats {
            folder.write(&named(one, format), &heatmap(&view, &style, *format, engine)?)?;
        }
    }
    Ok(Written { folder: folder.finish()?, files })
}

fn folder(report: &Report<'_>, files: Vec<String>) -> Result<OutputFolder> {
    let (args, about) = (report.args, report.model.report());
    let input = json!({ "clean": args.clean, "corrupted": args.corrupted, "target": args.target });
    let mut manifest = Manifest::new(about.name.clone(), about.revision.clone(), input);
    manifest.dtype = Some(about.dtypes.join(", "));
    let mut put = |key: &str, value| manifest.arguments.insert(key.into(), value);
    put("metric", report.question.metric.name().into());
    put("at", json!(report.question.at));
    put("answer", json!(report.question.answer));
    put("wrong", json!(report.question.wrong));
    put("direction", report.way().into());
    put("stack", format!("{:?}", report.stack).to_lowercase().into());
    put("layers", json!(args.layers.as_ref().map(|given| &given.text)));
    put("heads", json!(args.heads.as_ref().map(|given| &given.text)));
    manifest.notes = notes(report);
    manifest.files = files;
    let name = format!("patch {}", args.clean.as_deref().unwrap_or_default());
    OutputFolder::claim(&args.out, &slug(&name), manifest, args.force)
}

fn notes(report: &Report<'_>) -> Vec<String> {
    let args = report.args;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let mut notes = vec![
        format!("Model: {}", report.model.report().name),
        format!("Clean: {}", text(&args.clean)),
        format!("Corrupted: {}", text(&args.corrupted)),
    ];
    if let Some(target) = &args.target {
        notes.push(format!("Decoder: {target}"));
    }
    notes.push(format!("Measured: {}.", report.metric()));
    notes
}

/// White is what the run has without any patch.
fn view(report: &Report<'_>, found: &Found) -> Result<View> {
    let (rows, columns) = axes(report, found);
    let mut values = Array2::from_elem((rows.len(), columns.len()), f32::NAN);
    for cell in &found.cells {
        let (row, column) = (row_of(found, cell), column_of(found, cell));
        let place = rows
            .iter()
            .position(|(key, _)| *key == row)
            .zip(columns.iter().position(|(key, _)| *key == column));
        if let Some(place) = place {
            values[place] = cell.restored as f32;
        }
    }
    let names = |axis: Vec<(String, String)>| axis.into_iter().map(|(_, name)| name).collect();
    let stack = report.stack_name().map(|stack| format!("{stack} ")).unwrap_or_default();
    let title = format!("{stack}{}, {}", found.point.name(), report.way());
    let mut view = View::new(title, names(rows), names(columns), values)?;
    let start = report.args.direction.start() as f32;
    let far = view.values.iter().filter(|value| value.is_finite());
    let far = far.map(|value| (value - start).abs()).fold(1e-3, f32::max);
    view.span = (start - far, start + far).into();
    let (row, column) = match found.by {
        By::Head => ("layer", "head"),
        By::Position => ("layer", "position: clean/corrupted token"),
        By::HeadPosition => ("layer and head", "position: clean/corrupted token"),
    };
    (view.row_caption, view.column_caption) = (row.into(), column.into());
    view.legend = vec!["0 corrupted,".into(), "1 clean run".into()];
    view.notes = notes(report);
    Ok(view)
}

/// Rows and columns, each with what tells it apart and its label.
type Axis = Vec<(String, String)>;

fn axes(report: &Report<'_>, found: &Found) -> (Axis, Axis) {
    let mut rows: Axis = Vec::new();
    for cell in &found.cells {
        let key = row_of(found, cell);
        if rows.last().is_none_or(|(last, _)| *last != key) {
            rows.push((key.clone(), key));
        }
    }
    let columns = match found.by {
        By::Head => groups(&found.cells).iter().map(|one| (group(one), group(one))).collect(),
        _ => {
            let last = found.cells.iter().filter_map(|cell| cell.place.position).max();
            let positions = 0..last.map_or(0, |last| last + 1);
            positions.map(|at| (at.to_string(), report.label(found.point, at))).collect()
        }
    };
    (rows, columns)
}

fn row_of(found: &Found, cell: &Cell) -> String {
    match found.by {
        By::HeadPosition => head(&cell.place),
        _ => format!("L{}", cell.place.layer),
    }
}

fn column_of(found: &Found, cell: &Cell) -> String {
    match found.by {
        By::Head => cell.place.heads.as_deref().map(group).unwrap_or_default(),
        _ => cell.place.position.map(|at| at.to_string()).unwrap_or_default(),
    }
}
