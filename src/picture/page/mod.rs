//! One offline page: the weights of a text with the views to look at them, in one file that opens
//! from disk and loads nothing.
//!
//! The template, the style sheet and the script are in `assets/page`; the data is one block that no
//! browser runs. What a text, a model's name or a title holds is data in that block and never
//! markup, and a Content-Security-Policy in the page forbids every outside load.
//!
//! ```
//! use attnviz::picture::page::{Options, Page, Sheet, Side, render};
//! use attnviz::{Attention, Head, HeadWeights, Token};
//! use ndarray::array;
//!
//! let tokens: Vec<Token> =
//!     ["a", "cat"].map(|text| Token { text: text.into(), ..Token::default() }).to_vec();
//! let weights = HeadWeights { head: Head { layer: 0, head: 0 }, weights: array![[0.9, 0.1], [0.3, 0.7]] };
//! let attention = Attention::new(tokens.clone(), tokens, vec![weights], vec![1])?;
//! let side = Side::new("a cat", "my model", vec![Sheet::new("self", attention)]);
//! let page = render(&Page::new("a cat", side), &Options::default())?;
//! assert!(page.html.starts_with(b"<!doctype html>"));
//! assert!(page.errors.weight < 0.004);
//! # Ok::<(), attnviz::Error>(())
//! ```

mod assets;
mod check;
mod codes;
mod data;
mod live;
mod neurons;

use ndarray::Array2;
use serde::Serialize;

use crate::attention::Attention;
use crate::error::Result;
use crate::select::Head;

pub use codes::Errors;
pub use live::{Answer, Live, LiveModel, LiveToken};

/// Everything that one page shows.
#[derive(Debug, Clone)]
pub struct Page {
    /// Over the page and in the window's title.
    pub title: String,
    /// One text under one model, or two to compare.
    pub sides: Vec<Side>,
    /// What the reader should know, one sentence each.
    pub notes: Vec<String>,
    /// Two layers of the first side to compare from the start.
    pub compared_layers: Option<(usize, usize)>,
}

impl Page {
    /// A page of one side.
    pub fn new(title: impl Into<String>, side: Side) -> Self {
        let title = title.into();
        Self { title, sides: vec![side], notes: Vec::new(), compared_layers: None }
    }
}

/// One text under one model.
#[derive(Debug, Clone)]
pub struct Side {
    /// What tells it from the other side: the text, or the model.
    pub name: String,
    /// The model as the user knows it.
    pub model: String,
    /// Its attentions: one, or encoder, decoder and cross.
    pub sheets: Vec<Sheet>,
}

impl Side {
    /// A side of a page.
    pub fn new(name: impl Into<String>, model: impl Into<String>, sheets: Vec<Sheet>) -> Self {
        Self { name: name.into(), model: model.into(), sheets }
    }
}

/// One stack's attention.
#[derive(Debug, Clone)]
pub struct Sheet {
    /// `self`, `encoder`, `decoder` or `cross`.
    pub name: String,
    /// The weights and the tokens of both axes, by pieces and with special tokens: the page merges
    /// and hides.
    pub attention: Attention,
    /// The words of each sequence of the queries as they were typed; pieces are joined without.
    pub query_words: Vec<Vec<String>>,
    /// The same of the keys.
    pub key_words: Vec<Vec<String>>,
    /// Heads that the model lost: gaps of another kind than heads that are not on the page.
    pub pruned: Vec<Head>,
    /// Of a generated text, how many of its tokens were given.
    pub prompt: Option<usize>,
    /// Queries and keys, for the neuron view.
    pub neurons: Vec<Neurons>,
    /// What the scores hold beside query times key, for a heading.
    pub terms: String,
}

impl Sheet {
    /// Attention without anything further.
    pub fn new(name: impl Into<String>, attention: Attention) -> Self {
        Self {
            name: name.into(),
            attention,
            query_words: Vec::new(),
            key_words: Vec::new(),
            pruned: Vec::new(),
            prompt: None,
            neurons: Vec::new(),
            terms: "position".into(),
        }
    }

    /// With the typed words of each sequence, the same for both axes.
    pub fn with_words(self, words: Vec<Vec<String>>) -> Self {
        Self { query_words: words.clone(), key_words: words, ..self }
    }
}

/// What one head multiplied.
#[derive(Debug, Clone)]
pub struct Neurons {
    /// The head, which must be among the sheet's.
    pub head: Head,
    /// `[T,K]`, turned by position where the model does that.
    pub query: Array2<f32>,
    /// `[S,K]`, likewise; of a grouped head, its group's.
    pub key: Array2<f32>,
    /// What products are multiplied by.
    pub factor: f64,
    /// `[T,S]`, as recorded: scaled products plus whatever the model adds.
    pub scores: Array2<f32>,
}

/// How a page is written and how it opens. A link's own choice goes before.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// 16 bits a weight in place of 8.
    pub exact: bool,
    /// Opens by words.
    pub words: bool,
    /// Opens without special tokens.
    pub no_special: bool,
    /// Share of a token's own residual in the rollout, from 0 to 1 (exclusive).
    pub residual: f64,
    /// The view it opens with.
    pub view: View,
    /// What made it, in the page's head, so that the maker knows it again.
    pub generator: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            exact: false,
            words: false,
            no_special: false,
            residual: crate::analysis::RESIDUAL,
            view: View::Head,
            generator: String::new(),
        }
    }
}

/// The views of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum View {
    /// Two columns of tokens, a line per head between them.
    Head,
    /// All layers and heads.
    Model,
    /// Query, key, product and soft-max of one token.
    Neuron,
    /// One heatmap.
    Matrix,
    /// Tokens through the layers.
    Flow,
}

/// A page that was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Rendered {
    /// The file.
    pub html: Vec<u8>,
    /// What coding the weights cost; it is in the page too.
    pub errors: Errors,
}

/// Writes the page.
///
/// # Errors
/// [`Error::Array`](crate::Error::Array) where there is nothing to show, a weight is negative or no
/// number, or arrays of the neuron view do not fit their tokens;
/// [`Error::Usage`](crate::Error::Usage) for a residual out of range.
pub fn render(page: &Page, options: &Options) -> Result<Rendered> {
    check::check(page, options)?;
    let (data, errors) = data::encode(page, options, None)?;
    Ok(Rendered { html: assets::page(&data, &options.generator, false), errors })
}

/// Writes a page for a server: as [`render`] does, with a box to type into. Its policy lets it ask
/// the server that it came from, and no other.
///
/// # Errors
/// Those of [`render`].
pub fn render_live(page: &Page, options: &Options, live: &Live) -> Result<Rendered> {
    check::check(page, options)?;
    let (data, errors) = data::encode(page, options, Some(live))?;
    Ok(Rendered { html: assets::page(&data, &options.generator, true), errors })
}

/// The data alone, as JSON: what such a page shows in place of the data that it came with.
///
/// # Errors
/// Those of [`render`].
pub fn live_data(page: &Page, options: &Options, live: &Live) -> Result<String> {
    check::check(page, options)?;
    data::encode(page, options, Some(live)).map(|(data, _)| data)
}
