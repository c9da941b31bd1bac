//! What the script reads: JSON with the names of things, and all numbers in one run of bytes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ndarray::Array2;
use rayon::prelude::*;
use serde::Serialize;

use super::codes::{self, Errors};
use super::{Live, Neurons, Options, Page, Sheet, Side, View};
use crate::analysis::merge::{groups, joined};
use crate::attention::Attention;
use crate::error::{Error, Result};
use crate::picture::palette::Colormap;
use crate::picture::view::token_label;
use crate::tokens::Token;

#[derive(Serialize)]
struct Data<'a> {
    tool: &'static str,
    title: &'a str,
    notes: &'a [String],
    bits: u32,
    errors: Errors,
    /// Colours from the smallest value to the largest, six hexadecimal digits each.
    palette: String,
    start: Start,
    compare: Option<(usize, usize)>,
    sides: Vec<SideData<'a>>,
    /// Of a served page.
    #[serde(skip_serializing_if = "Option::is_none")]
    live: Option<&'a Live>,
    /// Base64.
    block: String,
}

#[derive(Serialize)]
struct Start {
    view: View,
    words: bool,
    bare: bool,
    residual: f64,
}

#[derive(Serialize)]
struct SideData<'a> {
    name: &'a str,
    model: &'a str,
    sheets: Vec<SheetData<'a>>,
}

/// Numbers named `…_at` are places in the block.
#[derive(Serialize)]
struct SheetData<'a> {
    name: &'a str,
    rows: AxisData,
    /// Absent where they are the rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    columns: Option<AxisData>,
    counts: &'a [usize],
    heads: Vec<(usize, usize)>,
    pruned: Vec<(usize, usize)>,
    scales_at: usize,
    codes_at: usize,
    causal: bool,
    prompt: Option<usize>,
    terms: &'a str,
    neurons: Vec<NeuronData>,
}

#[derive(Serialize)]
struct AxisData {
    tokens: Vec<TokenData>,
    /// First piece, last piece + 1, text.
    words: Vec<(usize, usize, String)>,
}

#[derive(Serialize)]
struct TokenData {
    /// Text.
    t: String,
    /// Id.
    #[serde(skip_serializing_if = "Option::is_none")]
    i: Option<u32>,
    /// 1 for a special one.
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<u8>,
    /// 1 in the second text of a pair.
    #[serde(skip_serializing_if = "Option::is_none")]
    q: Option<u8>,
}

#[derive(Serialize)]
struct NeuronData {
    layer: usize,
    head: usize,
    width: usize,
    factor: f64,
    query_at: usize,
    key_at: usize,
    /// What scores hold beside the products, NaN where a key is hidden.
    #[serde(skip_serializing_if = "Option::is_none")]
    terms_at: Option<usize>,
}

/// The numbers, each run of them at a multiple of four bytes.
#[derive(Default)]
struct Block(Vec<u8>);

impl Block {
    fn put(&mut self, bytes: &[u8]) -> usize {
        let at = self.0.len();
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        at
    }

    fn floats<'a>(&mut self, values: impl IntoIterator<Item = &'a f32>) -> usize {
        let bytes: Vec<u8> = values.into_iter().flat_map(|value| value.to_le_bytes()).collect();
        self.put(&bytes)
    }
}

/// The data as JSON in which no `<` is left.
pub(super) fn encode(
    page: &Page,
    options: &Options,
    live: Option<&Live>,
) -> Result<(String, Errors)> {
    let (mut block, mut errors) = (Block::default(), Errors::default());
    let mut sides = Vec::with_capacity(page.sides.len());
    for side in &page.sides {
        sides.push(side_data(side, options.exact, &mut block, &mut errors));
    }
    let palette = Colormap::Viridis.colours(false);
    let data = Data {
        tool: concat!("attnviz ", env!("CARGO_PKG_VERSION")),
        title: &page.title,
        notes: &page.notes,
        bits: if options.exact { 16 } else { 8 },
        errors,
        palette: palette.iter().flatten().map(|channel| format!("{channel:02x}")).collect(),
        start: Start {
            view: options.view,
            words: options.words,
            bare: options.no_special,
            residual: options.residual,
        },
        compare: page.compared_layers,
        sides,
        live,
        block: STANDARD.encode(&block.0),
    };
    let text = serde_json::to_string(&data).map_err(|e| Error::Array {
        what: "data of the page".into(),
        want: "something that JSON can hold".into(),
        found: e.to_string(),
    })?;
    Ok((text.replace('<', "\\u003c"), errors))
}

fn side_data<'a>(
    side: &'a Side,
    exact: bool,
    block: &mut Block,
    errors: &mut Errors,
) -> SideData<'a> {
    let sheets = side.sheets.iter().map(|sheet| sheet_data(sheet, exact, block, errors)).collect();
    SideData { name: &side.name, model: &side.model, sheets }
}

fn sheet_data<'a>(
    sheet: &'a Sheet,
    exact: bool,
    block: &mut Block,
    errors: &mut Errors,
) -> SheetData<'a> {
    let attention = &sheet.attention;
    let coded: Vec<_> =
        attention.heads.par_iter().map(|one| codes::encode(&one.weights, exact)).collect();
    *errors = coded.iter().fold(*errors, |all, one| all.join(one.errors));
    let scales_at = block.floats(coded.iter().flat_map(|one| &one.scales));
    let codes: Vec<u8> = coded.iter().flat_map(|one| &one.codes).copied().collect();
    let codes_at = block.put(&codes);
    let rows = axis_data(&attention.queries, &sheet.query_words);
    let same = attention.queries == attention.keys && sheet.query_words == sheet.key_words;
    SheetData {
        name: &sheet.name,
        rows,
        columns: (!same).then(|| axis_data(&attention.keys, &sheet.key_words)),
        counts: &attention.head_counts,
        heads: attention.heads.iter().map(|one| (one.head.layer, one.head.head)).collect(),
        pruned: sheet.pruned.iter().map(|head| (head.layer, head.head)).collect(),
        scales_at,
        codes_at,
        causal: causal(attention),
        prompt: sheet.prompt,
        terms: &sheet.terms,
        neurons: sheet.neurons.iter().map(|one| neuron_data(one, attention, block)).collect(),
    }
}

/// Whether no token attends to a later one.
fn causal(attention: &Attention) -> bool {
    let n = attention.queries.len();
    let later = |w: &Array2<f32>| w.indexed_iter().any(|((i, j), &weight)| j > i && weight != 0.0);
    n > 1 && n == attention.keys.len() && !attention.heads.iter().any(|one| later(&one.weights))
}

fn axis_data(tokens: &[Token], words: &[Vec<String>]) -> AxisData {
    let name = |sequence: usize, word: usize| words.get(sequence)?.get(word).cloned();
    let label = |pieces: &[Token]| token_label(&joined(pieces, name));
    let token = |token: &Token| TokenData {
        t: token_label(token),
        i: token.id,
        s: token.special.then_some(1),
        q: (token.sequence == Some(1)).then_some(1),
    };
    AxisData {
        tokens: tokens.iter().map(token).collect(),
        words: groups(tokens)
            .into_iter()
            .map(|group| (group.start, group.end, label(&tokens[group.clone()])))
            .collect(),
    }
}

/// Below this, what scores hold beside the products is rounding.
const ROUNDING: f64 = 1e-4;

fn neuron_data(one: &Neurons, attention: &Attention, block: &mut Block) -> NeuronData {
    let products = one.query.dot(&one.key.t()); // [T, S]
    let mut terms = Array2::<f32>::zeros(one.scores.dim());
    let mut needed = false;
    let seen = attention.get(one.head).map(|head| &head.weights);
    for ((at, &score), &product) in one.scores.indexed_iter().zip(&products) {
        let term = f64::from(score) - one.factor * f64::from(product);
        if seen.and_then(|weights| weights.get(at)) == Some(&0.0) {
            terms[at] = f32::NAN; // hidden: a soft-max gives no zeros
            needed = true;
        } else if term.abs() > ROUNDING * f64::from(score.abs()).max(1.0) {
            terms[at] = term as f32;
            needed = true;
        }
    }
    NeuronData {
        layer: one.head.layer,
        head: one.head.head,
        width: one.query.ncols(),
        factor: one.factor,
        query_at: block.floats(&one.query),
        key_at: block.floats(&one.key),
        terms_at: needed.then(|| block.floats(&terms)),
    }
}
