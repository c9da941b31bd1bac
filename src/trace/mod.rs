//! What a run keeps and what it changes on the way: [`Recorder`], [`Intervention`], [`Trace`].

mod intervention;
mod recorder;

use std::collections::BTreeMap;

use candle_core::{DType, Tensor};
use ndarray::Array2;

use crate::attention::{Attention, HeadWeights};
use crate::config::Config;
pub use crate::config::Stack;
use crate::error::{Error, Result};
use crate::select::Head;
use crate::tokens::Token;
pub use intervention::{Change, Intervention};
pub use recorder::Recorder;

/// A place in the model where tensors pass, the same for every family. B batch, T new positions,
/// S visible positions, H heads of the layer, K head width, D width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Site {
    /// Output of the embeddings, layer 0 only: `[B,T,D]`.
    Embedding,
    /// Projected queries, turned by position where the model does that: `[B,H,T,K]`.
    Query,
    /// Projected keys, likewise: `[B,H,S,K]`. Those that heads share are kept for each of them.
    Key,
    /// Projected values: `[B,H,S,K]`, likewise.
    Value,
    /// Scaled products plus position terms, before the visibility mask: `[B,H,T,S]`.
    Scores,
    /// Attention probabilities, rows summing to 1: `[B,H,T,S]`.
    Probs,
    /// Weighted values of a head: `[B,H,T,K]`. A head gate acts here.
    Context,
    /// A head's own contribution after the output projection, without its bias: `[B,H,T,D]`.
    HeadOutput,
    /// What attention adds to the residual stream, output bias included: `[B,T,D]`.
    AttentionOutput,
    /// What the two linear maps add to it: `[B,T,D]`.
    MlpOutput,
    /// Output of the layer, before a final norm where there is one: `[B,T,D]`.
    Residual,
}

impl Site {
    /// Whether its second axis is heads.
    pub fn has_heads(self) -> bool {
        use Site::{AttentionOutput, Embedding, MlpOutput, Residual};
        !matches!(self, Embedding | AttentionOutput | MlpOutput | Residual)
    }
}

/// Which layers and heads of a site to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keep {
    /// All of them.
    All,
    /// These heads, by layer, under their original numbers; other layers not at all. A site
    /// without heads is kept for the layers named.
    Heads(BTreeMap<usize, Vec<usize>>),
}

/// A tensor that was kept.
#[derive(Debug, Clone)]
pub struct Kept {
    /// The values; the shape is the [`Site`]'s, with the kept heads on its second axis.
    pub tensor: Tensor,
    /// Original numbers of the heads on the second axis; empty where the site has none.
    pub heads: Vec<usize>,
}

/// What a run kept.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    kept: BTreeMap<(Stack, usize, Site), Kept>,
}

impl Trace {
    /// The tensor kept at a site of a layer.
    pub fn get(&self, stack: Stack, layer: usize, site: Site) -> Option<&Kept> {
        self.kept.get(&(stack, layer, site))
    }

    /// Everything that was kept, by stack, layer and site.
    pub fn iter(&self) -> impl Iterator<Item = (Stack, usize, Site, &Kept)> {
        self.kept.iter().map(|(&(stack, layer, site), kept)| (stack, layer, site, kept))
    }

    /// The kept attention probabilities of one example of the batch with its tokens, over
    /// themselves; rows and columns of padding on the right are cut.
    ///
    /// # Errors
    /// [`Error::Array`] when the batch has no such example or fewer positions than `tokens`.
    pub fn attention(
        &self,
        stack: Stack,
        example: usize,
        tokens: &[Token],
        config: &Config,
    ) -> Result<Attention> {
        self.attention_between(stack, example, (0, tokens), (0, tokens), config)
    }

    /// The kept attention probabilities of one example of the batch between queries and keys, each
    /// given by the position of its first token and the tokens: of a cross-attention, say, or of an
    /// input that is padded on the left.
    ///
    /// # Errors
    /// [`Error::Array`] when the batch has no such example or position.
    pub fn attention_between(
        &self,
        stack: Stack,
        example: usize,
        (first_query, queries): (usize, &[Token]),
        (first_key, keys): (usize, &[Token]),
        config: &Config,
    ) -> Result<Attention> {
        let size = (queries.len(), keys.len());
        let mut heads = Vec::new();
        for (&(_, layer, _), kept) in
            self.kept.iter().filter(|((s, _, site), _)| *s == stack && *site == Site::Probs)
        {
            let (batch, _, rows, columns) = kept.tensor.dims4()?;
            let ends = (first_query.saturating_add(size.0), first_key.saturating_add(size.1));
            if example >= batch || ends.0 > rows || ends.1 > columns {
                return Err(Error::Array {
                    what: format!("example {example} with {} by {} tokens", size.0, size.1),
                    want: format!("one of {batch} examples of up to {rows} by {columns} tokens"),
                    found: "more".into(),
                });
            }
            for (place, &head) in kept.heads.iter().enumerate() {
                let one = kept.tensor.get(example)?.get(place)?;
                let one = one.narrow(0, first_query, size.0)?.narrow(1, first_key, size.1)?;
                let values = one.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?;
                let weights = Array2::from_shape_vec(size, values).map_err(|e| Error::Array {
                    what: "attention matrix".into(),
                    want: format!("{} by {}", size.0, size.1),
                    found: e.to_string(),
                })?;
                heads.push(HeadWeights { head: Head { layer, head }, weights });
            }
        }
        let counts = config.of(stack).head_counts.clone();
        Attention::new(queries.to_vec(), keys.to_vec(), heads, counts)
    }
}
