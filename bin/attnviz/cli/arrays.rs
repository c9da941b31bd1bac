//! Attention from elsewhere, as it is given to commands.

use std::path::Path;

use attnviz::export::read_attention;
use attnviz::{Attention, HeadWeights, Result};
use ndarray::ArrayView1;
use serde_json::json;

use super::args::{ArrayArgs, ChoiceArgs};
use super::choice::choose;
use super::console::Console;
use super::named::{Named, Source};

/// The chosen heads of arrays from elsewhere, what they are called and where they are from.
pub fn read(
    args: &ArrayArgs,
    choice: &ChoiceArgs,
    console: &Console,
) -> Result<(Attention, Named, Source)> {
    let path = args.attention.as_deref().unwrap_or(Path::new(""));
    let mut attention = read_attention(path, args.tokens.as_deref())?;
    let there: Vec<Vec<usize>> = (0..attention.head_counts.len())
        .map(|layer| attention.layer(layer).map(|one| one.head.head).collect())
        .collect();
    let chosen = choose(choice, &attention.head_counts, &there)?;
    attention
        .heads
        .retain(|one| chosen.get(&one.head.layer).is_some_and(|h| h.contains(&one.head.head)));
    let file = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
    let texts: Vec<&str> = attention.queries.iter().map(|token| &*token.text).collect();
    let notes: Vec<String> = off_rows(&attention).into_iter().collect();
    for note in &notes {
        console.note(note);
    }
    let named = Named { input: json!({ "tokens": texts }), text: texts.join(" "), notes };
    Ok((attention, named, Source { model: file, revision: None, dtype: None }))
}

/// What is drawn as attention but is none: masked, scored or scaled weights.
fn off_rows(attention: &Attention) -> Option<String> {
    let off = |one: &&HeadWeights| {
        let whole = |row: ArrayView1<'_, f32>| (row.sum() - 1.0).abs() <= WHOLE;
        one.weights.iter().any(|&weight| weight < 0.0) || !one.weights.rows().into_iter().all(whole)
    };
    let heads: Vec<String> =
        attention.heads.iter().filter(off).map(|one| one.head.to_string()).collect();
    let (first, rest) = heads.split_first()?;
    let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
    Some(format!("{first}{more}: not attention, for rows do not sum to 1 or hold less than 0"))
}

/// How far from 1 a row may sum: half precision rounds 512 weights to no worse.
const WHOLE: f32 = 1e-2;
