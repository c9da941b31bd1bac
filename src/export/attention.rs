//! Anyone's arrays and tokens → [`Attention`]: drawn without a model.

use std::collections::BTreeMap;
use std::path::Path;

use ndarray::{ArrayD, Axis, Ix2};
use serde::Deserialize;

use super::arrays::{Array, Arrays, bad};
use crate::attention::{Attention, HeadWeights};
use crate::error::{Error, Result};
use crate::select::Head;
use crate::tokens::Token;

/// More layers than any file has, and few enough to count.
const MOST_LAYERS: usize = 10_000;

/// Reads attention weights of one input: one array [L, H, Q, K], or one [H, Q, K] per layer
/// (`attentions.0`, `blocks.0.attn.hook_pattern`, `arr_0`, …), from `.npz`, `.npy` or
/// `.safetensors`, in half, single or double precision. An axis of one for the batch is dropped.
///
/// `tokens` is a JSON file: a list of strings, a list of objects with `text` and perhaps `special`,
/// `sequence` and `word`, or an object with such a list as `tokens` or two as `queries` and `keys`.
/// It may be left out for a safetensors file that attnviz wrote. From strings alone the usual
/// names (`[CLS]`, `</s>`, …) count as special, and pieces with the usual marks (`##`, `Ġ`, `▁`)
/// as parts of words.
///
/// # Errors
/// [`Error::Input`] for files that are not of this form and for arrays and tokens that do not
/// match, [`Error::Io`] when a file cannot be read.
pub fn read_attention(arrays: &Path, tokens: Option<&Path>) -> Result<Attention> {
    let mut file = Arrays::open(arrays)?;
    let (queries, keys) = match tokens {
        Some(path) => {
            let bytes = std::fs::read(path).map_err(Error::io(path, "read it"))?;
            parse_tokens(path, &bytes)?
        }
        None => match file.metadata().get("attnviz") {
            Some(text) => parse_tokens(arrays, text.as_bytes())?,
            None => return Err(bad(arrays, "holds no tokens; give them by --tokens FILE.json")),
        },
    };
    let mut head_counts = Vec::new();
    let mut heads = Vec::new();
    for (layer, weights) in layers(&mut file)? {
        head_counts.resize(layer + 1, 0);
        head_counts[layer] = weights.len_of(Axis(0));
        for (head, matrix) in weights.outer_iter().enumerate() {
            let weights = matrix
                .into_dimensionality::<Ix2>()
                .map_err(|e| bad(arrays, e))?
                .as_standard_layout()
                .into_owned();
            if weights.iter().any(|weight| !weight.is_finite()) {
                return Err(bad(arrays, format!("L{layer}H{head}: expected finite weights")));
            }
            heads.push(HeadWeights { head: Head { layer, head }, weights });
        }
    }
    if heads.is_empty() {
        return Err(bad(arrays, "holds no heads"));
    }
    Attention::new(queries, keys, heads, head_counts).map_err(|error| bad(arrays, error))
}

/// The layers, [H, Q, K] each, by number.
fn layers(file: &mut Arrays) -> Result<BTreeMap<usize, ArrayD<f32>>> {
    let path = file.path().to_path_buf();
    let names = file.names();
    if let Some(name) = stacked(&names) {
        let all = float(file, name)?;
        let all = match all.shape() {
            [_, 1, _, _, _] => all.index_axis_move(Axis(1), 0),
            [_, _, _, _] => all,
            other => return Err(wrong(&path, name, "[layers, heads, queries, keys]", other)),
        };
        return Ok(all.outer_iter().map(|layer| layer.into_owned()).enumerate().collect());
    }
    let mut found = BTreeMap::new();
    for (layer, name) in numbered(&path, &names)? {
        let one = float(file, &name)?;
        let one = match one.shape() {
            [1, _, _, _] => one.index_axis_move(Axis(0), 0),
            [_, _, _] => one,
            other => return Err(wrong(&path, &name, "[heads, queries, keys] of one input", other)),
        };
        found.insert(layer, one);
    }
    Ok(found)
}

/// The name of the array that holds all layers, if there is one.
fn stacked(names: &[String]) -> Option<&str> {
    const USUAL: [&str; 4] = ["attentions", "attention", "attn", "arr_0"];
    match names {
        [only] if split(only).is_none() || only == "arr_0" => Some(only),
        _ => names.iter().map(String::as_str).find(|n| USUAL[..3].contains(n)),
    }
}

/// The names of the arrays that hold one layer each, by layer.
fn numbered(path: &Path, names: &[String]) -> Result<BTreeMap<usize, String>> {
    let mut series: BTreeMap<(&str, &str), BTreeMap<usize, String>> = BTreeMap::new();
    for name in names {
        if let Some((before, layer, after)) = split(name) {
            series.entry((before, after)).or_default().insert(layer, name.clone());
        }
    }
    let called = |wanted: fn(&str, &str) -> bool| {
        let mut fit = series.iter().filter(|((before, after), _)| wanted(before, after));
        fit.next().filter(|_| fit.next().is_none()).map(|(_, layers)| layers.clone())
    };
    called(|before, after| before == "attentions." && after.is_empty())
        .or_else(|| called(|before, after| before.contains("attention") && after.is_empty()))
        .or_else(|| called(|_, after| after.ends_with("hook_pattern")))
        .or_else(|| called(|_, _| true))
        .ok_or_else(|| {
            let shown: Vec<&str> = names.iter().take(8).map(String::as_str).collect();
            let found = format!("found {} arrays: {}", names.len(), shown.join(", "));
            bad(path, format!("expected `attentions`, or `attentions.0` and so on; {found}"))
        })
}

/// A name around its one number.
fn split(name: &str) -> Option<(&str, usize, &str)> {
    let start = name.find(|c: char| c.is_ascii_digit())?;
    let length = name[start..].find(|c: char| !c.is_ascii_digit()).unwrap_or(name.len() - start);
    let (before, rest) = name.split_at(start);
    let (number, after) = rest.split_at(length);
    let number = number.parse().ok().filter(|&n| n < MOST_LAYERS)?;
    (!after.contains(|c: char| c.is_ascii_digit())).then_some((before, number, after))
}

fn float(file: &mut Arrays, name: &str) -> Result<ArrayD<f32>> {
    match file.get(name)? {
        Array::Float(array) => Ok(array),
        Array::Int(_) => Err(bad(file.path(), format!("`{name}`: expected real numbers"))),
    }
}

fn wrong(path: &Path, name: &str, want: &str, found: &[usize]) -> Error {
    let what = if name.is_empty() { "array".into() } else { format!("`{name}`") };
    bad(path, format!("{what}: expected {want}, found {found:?}"))
}

#[derive(Deserialize)]
#[serde(untagged)]
enum TokenFile {
    List(Vec<TokenEntry>),
    Both { queries: Vec<TokenEntry>, keys: Vec<TokenEntry> },
    Inside { tokens: Box<TokenFile> },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum TokenEntry {
    Text(String),
    Full {
        text: String,
        #[serde(default)]
        special: Option<bool>,
        #[serde(default)]
        sequence: Option<usize>,
        #[serde(default)]
        word: Option<usize>,
        #[serde(default)]
        unknown: Option<String>,
    },
}

fn parse_tokens(path: &Path, bytes: &[u8]) -> Result<(Vec<Token>, Vec<Token>)> {
    const WANT: &str = "expected a JSON list of tokens (strings, or objects with `text`), or an \
                        object with such lists as `queries` and `keys`";
    let value = serde_json::from_slice::<serde_json::Value>(bytes)
        .map_err(|e| bad(path, format!("{WANT}; {e}")))?;
    let mut file = TokenFile::deserialize(value).map_err(|_| bad(path, WANT))?;
    loop {
        match file {
            TokenFile::Inside { tokens } => file = *tokens,
            TokenFile::Both { queries, keys } => return Ok((tokens_of(queries), tokens_of(keys))),
            TokenFile::List(list) => {
                let tokens = tokens_of(list);
                return Ok((tokens.clone(), tokens));
            }
        }
    }
}

/// Fills in what the entries do not say: which are special, which text and word they belong to.
fn tokens_of(entries: Vec<TokenEntry>) -> Vec<Token> {
    // with one of these marks in the list, a piece without it goes on with the word before
    let starts = |e: &TokenEntry| matches!(e, TokenEntry::Text(text) if text.starts_with(MARKS));
    let marked = entries.iter().any(starts);
    let (mut sequence, mut words, mut open, mut typed) = (0, 0, false, false);
    let mut tokens = Vec::with_capacity(entries.len());
    for entry in entries {
        let mut token = match entry {
            TokenEntry::Full { text, special, sequence, word, unknown } => {
                let special = special.unwrap_or_else(|| is_special(&text));
                Token { text, special, sequence, word, unknown, ..Token::default() }
            }
            TokenEntry::Text(text) if is_special(&text) => {
                Token { text, special: true, ..Token::default() }
            }
            TokenEntry::Text(text) => {
                let begins = if marked { text.starts_with(MARKS) } else { !text.starts_with("##") };
                words += usize::from(begins || !open);
                Token { text: unmarked(text), word: Some(words - 1), ..Token::default() }
            }
        };
        if !token.special {
            typed = true;
            token.sequence = token.sequence.or(Some(sequence));
        } else if typed && sequence == 0 {
            // a special token after typed ones ends the first text of a pair
            (sequence, words) = (1, 0);
        }
        open = !token.special;
        tokens.push(token);
    }
    tokens
}

/// What byte-level and SentencePiece tokenizers write for a space before a word.
const MARKS: [char; 2] = ['Ġ', '▁'];

fn unmarked(text: String) -> String {
    match text.trim_start_matches(MARKS) {
        "" => text,
        word => word.to_owned(),
    }
}

/// The names that special tokens have in most vocabularies.
fn is_special(text: &str) -> bool {
    matches!(
        text,
        "[CLS]"
            | "[SEP]"
            | "[PAD]"
            | "<s>"
            | "</s>"
            | "<pad>"
            | "<|endoftext|>"
            | "<bos>"
            | "<eos>"
            | "<cls>"
    )
}
