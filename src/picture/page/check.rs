//! What a page may hold.

use ndarray::Array2;

use super::{Neurons, Options, Page, Sheet};
use crate::error::{Error, Result};

pub(super) fn check(page: &Page, options: &Options) -> Result<()> {
    if !(0.0..1.0).contains(&options.residual) {
        return Err(Error::Usage {
            flag: "--residual".into(),
            want: "a share from 0 to below 1".into(),
            found: options.residual.to_string(),
        });
    }
    let sheets = page.sides.iter().map(|side| side.sheets.len()).min().unwrap_or(0);
    if sheets == 0 || page.sides.len() > 2 {
        let found = format!("{} sides, {sheets} stacks in the smallest", page.sides.len());
        return Err(wrong("a page", "one or two sides with a stack each", found));
    }
    page.sides.iter().flat_map(|side| &side.sheets).try_for_each(sheet)
}

fn sheet(sheet: &Sheet) -> Result<()> {
    let attention = &sheet.attention;
    let (rows, columns) = (attention.queries.len(), attention.keys.len());
    if rows == 0 || columns == 0 || attention.heads.is_empty() {
        let found = format!("{} heads of {rows} by {columns}", attention.heads.len());
        return Err(wrong(&sheet.name, "tokens on both axes and a head", found));
    }
    for one in &attention.heads {
        if let Some(bad) = one.weights.iter().find(|w| !w.is_finite() || **w < 0.0) {
            let what = format!("weights of {}", one.head);
            return Err(wrong(&what, "finite numbers from 0", bad.to_string()));
        }
    }
    match sheet.prompt {
        Some(prompt) if prompt == 0 || prompt > rows || rows != columns => {
            let want = format!("1 to {rows} tokens of one axis for both queries and keys");
            return Err(wrong("prompt", &want, format!("{prompt} of {rows} by {columns}")));
        }
        _ => {}
    }
    sheet.neurons.iter().try_for_each(|one| neurons(one, sheet))
}

fn neurons(one: &Neurons, sheet: &Sheet) -> Result<()> {
    let (rows, columns) = (sheet.attention.queries.len(), sheet.attention.keys.len());
    let width = one.query.ncols();
    let fits = |array: &Array2<f32>, want: (usize, usize), name: &str| {
        let finite = array.iter().all(|value| value.is_finite());
        if array.dim() == want && finite {
            return Ok(());
        }
        let found = format!("{:?}{}", array.dim(), if finite { "" } else { ", not all finite" });
        Err(wrong(&format!("{name} of {}", one.head), &format!("finite {want:?}"), found))
    };
    if sheet.attention.get(one.head).is_none() || !one.factor.is_finite() {
        return Err(wrong(&format!("neurons of {}", one.head), "a head of its stack", "none"));
    }
    fits(&one.query, (rows, width), "query")?;
    fits(&one.key, (columns, width), "key")?;
    fits(&one.scores, (rows, columns), "scores")
}

fn wrong(what: &str, want: &str, found: impl Into<String>) -> Error {
    Error::Array { what: what.into(), want: want.into(), found: found.into() }
}
