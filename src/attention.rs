//! Attention weights with their tokens: what every analysis and every picture takes, whether it
//! came from a model here or as an array from elsewhere.

use ndarray::Array2;

use crate::error::{Error, Result};
use crate::select::Head;
use crate::tokens::Token;

/// The weights of one head: rows are queries, columns are keys.
#[derive(Debug, Clone, PartialEq)]
pub struct HeadWeights {
    /// Layer and head, as numbered before any pruning.
    pub head: Head,
    /// `[Q, K]`; without merging or hiding, rows sum to 1.
    pub weights: Array2<f32>,
}

/// Attention weights of one input, ordered by layer and head, with the tokens on both axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Attention {
    /// The tokens that attend, one per row.
    pub queries: Vec<Token>,
    /// The tokens attended to, one per column.
    pub keys: Vec<Token>,
    /// The heads that are here; pruned or unchosen ones are absent.
    pub heads: Vec<HeadWeights>,
    /// Heads per layer before any pruning, so that a gap can be shown under its number.
    pub head_counts: Vec<usize>,
}

impl Attention {
    /// Puts weights and tokens together.
    ///
    /// # Errors
    /// [`Error::Array`] when a matrix is not `[queries, keys]` or a head is beyond `head_counts`.
    pub fn new(
        queries: Vec<Token>,
        keys: Vec<Token>,
        heads: Vec<HeadWeights>,
        head_counts: Vec<usize>,
    ) -> Result<Self> {
        let want = (queries.len(), keys.len());
        for one in &heads {
            if one.weights.dim() != want {
                return Err(Error::Array {
                    what: format!("weights of {}", one.head),
                    want: format!("{} queries by {} keys, one per token", want.0, want.1),
                    found: format!("{} by {}", one.weights.nrows(), one.weights.ncols()),
                });
            }
            if head_counts.get(one.head.layer).is_none_or(|&count| one.head.head >= count) {
                return Err(Error::Array {
                    what: format!("head {}", one.head),
                    want: format!("a head of {head_counts:?} per layer"),
                    found: "one beyond them".into(),
                });
            }
        }
        Ok(Self { queries, keys, heads, head_counts })
    }

    /// The weights of one head, if it is here.
    pub fn get(&self, head: Head) -> Option<&HeadWeights> {
        self.heads.iter().find(|one| one.head == head)
    }

    /// The heads of one layer that are here.
    pub fn layer(&self, layer: usize) -> impl Iterator<Item = &HeadWeights> {
        self.heads.iter().filter(move |one| one.head.layer == layer)
    }

    /// The mean over the heads of one layer that are here; `None` where there is none.
    pub fn layer_mean(&self, layer: usize) -> Option<Array2<f32>> {
        let mut sum = Array2::<f32>::zeros((self.queries.len(), self.keys.len()));
        let mut count = 0;
        for one in self.layer(layer) {
            sum += &one.weights;
            count += 1;
        }
        (count > 0).then(|| sum / count as f32)
    }
}
