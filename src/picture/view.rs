//! One labelled matrix, ready to draw: what a heatmap takes, from a model, a file or anywhere.

use ndarray::Array2;

use crate::attention::Attention;
use crate::error::{Error, Result};
use crate::picture::palette::Span;
use crate::picture::style::Ranges;
use crate::select::Head;
use crate::tokens::Token;

/// A row that lost more than this share of its weight says little and is greyed.
pub const NEARLY_ALL: f32 = 0.95;

/// One matrix with its labels: rows are queries (what attends), columns are keys (what is attended
/// to).
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// Over the picture, such as `all-MiniLM-L6-v2, layer 3, head 1`.
    pub title: String,
    /// A label per row.
    pub rows: Vec<String>,
    /// A label per column.
    pub columns: Vec<String>,
    /// What the rows are.
    pub row_caption: String,
    /// What the columns are.
    pub column_caption: String,
    /// `[rows, columns]`
    pub values: Array2<f32>,
    /// Values that the palette spans.
    pub span: Span,
    /// Lines over the colour bar: what is shown, and by which scale.
    pub legend: Vec<String>,
    /// Per row, the share of its weight that went to tokens left out (0 to 1), shown beside it.
    pub lost: Option<Vec<f32>>,
    /// Rows before which the second text of a pair begins, or a continuation.
    pub row_breaks: Vec<usize>,
    /// Columns before which the second text of a pair begins, or a continuation.
    pub column_breaks: Vec<usize>,
    /// Sentences under the picture.
    pub notes: Vec<String>,
}

impl View {
    /// A matrix with its labels, on a scale of its own.
    ///
    /// # Errors
    /// [`Error::Array`] when `values` is not `[rows, columns]` or empty.
    pub fn new(
        title: impl Into<String>,
        rows: Vec<String>,
        columns: Vec<String>,
        values: Array2<f32>,
    ) -> Result<Self> {
        let title = title.into();
        if values.dim() != (rows.len(), columns.len()) || values.is_empty() {
            return Err(Error::Array {
                what: format!("picture `{title}`"),
                want: format!("{} rows and {} columns, at least one", rows.len(), columns.len()),
                found: format!("{} by {}", values.nrows(), values.ncols()),
            });
        }
        let bounds = values.iter().filter(|value| value.is_finite());
        let (low, high) = bounds.fold((0.0_f32, 0.0_f32), |(l, h), &v| (l.min(v), h.max(v)));
        Ok(Self {
            title,
            rows,
            columns,
            row_caption: "query (attends)".into(),
            column_caption: "key (attended to)".into(),
            values,
            span: if low < high { (low, high) } else { (0.0, 1.0) }.into(),
            legend: vec!["attention".into()],
            lost: None,
            row_breaks: Vec::new(),
            column_breaks: Vec::new(),
            notes: Vec::new(),
        })
    }

    /// The picture of one head; `model` goes into the title.
    ///
    /// # Errors
    /// [`Error::Array`] when the head is not there or there are no tokens.
    pub fn head(attention: &Attention, head: Head, model: &str, ranges: &Ranges) -> Result<Self> {
        let one = attention.get(head).ok_or_else(|| Error::Array {
            what: format!("picture of {head}"),
            want: "a head that is here".into(),
            found: "none of that number".into(),
        })?;
        let title = format!("{model}, layer {}, head {}", head.layer, head.head);
        let span = ranges.span(Some(head.layer), &one.weights);
        Self::of(attention, title, one.weights.clone(), span, ranges.caption(false))
    }

    /// The picture of the mean over the heads of one layer.
    ///
    /// # Errors
    /// [`Error::Array`] when the layer has no heads or there are no tokens.
    pub fn mean(attention: &Attention, layer: usize, model: &str, ranges: &Ranges) -> Result<Self> {
        let values = attention.layer_mean(layer).ok_or_else(|| Error::Array {
            what: format!("mean of layer {layer}"),
            want: "at least one head".into(),
            found: "none".into(),
        })?;
        let count = attention.layer(layer).count();
        let heads = if count == 1 { "1 head".into() } else { format!("{count} heads") };
        let title = format!("{model}, layer {layer}, mean of {heads}");
        let span = ranges.span(Some(layer), &values);
        Self::of(attention, title, values, span, ranges.caption(true))
    }

    fn of(
        attention: &Attention,
        title: String,
        values: Array2<f32>,
        span: Span,
        scale: &str,
    ) -> Result<Self> {
        let rows = attention.queries.iter().map(token_label).collect();
        let columns = attention.keys.iter().map(token_label).collect();
        let view = Self::new(title, rows, columns, values)?;
        Ok(Self {
            span,
            legend: vec!["attention".into(), scale.into()],
            row_breaks: breaks(&attention.queries),
            column_breaks: breaks(&attention.keys),
            ..view
        })
    }

    /// With the share of weight that each row lost to tokens left out; rows that lost nearly all
    /// ([`NEARLY_ALL`]) are greyed.
    ///
    /// # Errors
    /// [`Error::Array`] unless there is a share for every row.
    pub fn with_lost(self, lost: Vec<f32>) -> Result<Self> {
        if lost.len() != self.rows.len() {
            return Err(Error::Array {
                what: format!("weight lost in `{}`", self.title),
                want: format!("{} values, one per row", self.rows.len()),
                found: lost.len().to_string(),
            });
        }
        Ok(Self { lost: Some(lost), ..self })
    }

    /// Whether the row is greyed.
    pub(crate) fn greyed(&self, row: usize) -> bool {
        let share = self.lost.as_ref().and_then(|lost| lost.get(row));
        share.is_some_and(|&share| share > NEARLY_ALL)
    }
}

/// Where the next text begins: in a pair the first token of the second, in a text that was written
/// the first of the continuation. Token types say it too, where tokens came without texts.
fn breaks(tokens: &[Token]) -> Vec<usize> {
    let mut sequence = tokens.iter().find_map(|token| token.sequence);
    let begins = |(i, pair): (usize, &[Token])| {
        let next = pair[1].sequence.filter(|next| sequence.is_some_and(|now| *next > now));
        sequence = next.or(sequence);
        (next.is_some() || pair[0].type_id < pair[1].type_id).then_some(i + 1)
    };
    tokens.windows(2).enumerate().filter_map(begins).collect()
}

/// A token as a label: its text, and what was typed where the vocabulary did not know it.
pub fn token_label(token: &Token) -> String {
    match &token.unknown {
        Some(typed) => format!("{} {typed}", token.text),
        None => token.text.clone(),
    }
}
