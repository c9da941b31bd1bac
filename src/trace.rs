//! What a run keeps and what it changes on the way: [`Recorder`], [`Intervention`], [`Trace`].

use std::collections::BTreeMap;

use candle_core::{DType, Tensor};
use ndarray::Array2;

use crate::attention::{Attention, HeadWeights};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::select::Head;
use crate::tokens::Token;

/// A place in the model where tensors pass, the same for every family. B batch, T new positions,
/// S visible positions, H heads of the layer, K head width, D width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Site {
    /// Output of the embeddings, layer 0 only: `[B,T,D]`.
    Embedding,
    /// Projected queries, turned by position where the model does that: `[B,H,T,K]`.
    Query,
    /// Projected keys, likewise: `[B,H,S,K]`.
    Key,
    /// Projected values: `[B,H,S,K]`.
    Value,
    /// Scaled products plus position terms, before the visibility mask: `[B,H,T,S]`.
    Scores,
    /// Attention probabilities, rows summing to 1: `[B,H,T,S]`.
    Probs,
    /// Weighted values of a head: `[B,H,T,K]`. A head gate acts here.
    Context,
    /// A head's own contribution after the output projection, without its bias: `[B,H,T,D]`.
    HeadOutput,
    /// Output of the layer, before a final norm where there is one: `[B,T,D]`.
    Residual,
}

impl Site {
    /// Whether its second axis is heads.
    pub fn has_heads(self) -> bool {
        !matches!(self, Site::Embedding | Site::Residual)
    }
}

/// Which attention of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stack {
    /// Self-attention of an encoder.
    Encoder,
    /// Self-attention of a decoder.
    Decoder,
    /// A decoder's attention over the encoder's output.
    Cross,
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

/// What to keep during a run. Nothing, unless asked.
#[derive(Debug, Default)]
pub struct Recorder {
    wants: BTreeMap<Site, Keep>,
    kept: BTreeMap<(Stack, usize, Site), Kept>,
}

impl Recorder {
    /// A recorder that keeps nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps `site` as well.
    pub fn keep(mut self, site: Site, keep: Keep) -> Self {
        self.wants.insert(site, keep);
        self
    }

    /// Places, among `heads` of a layer, of those to keep at `site`; `None` if there are none.
    pub(crate) fn places(&self, layer: usize, site: Site, heads: &[usize]) -> Option<Vec<usize>> {
        let places: Vec<usize> = match self.wants.get(&site)? {
            Keep::All => (0..heads.len()).collect(),
            Keep::Heads(by_layer) => {
                let chosen = by_layer.get(&layer)?;
                (0..heads.len()).filter(|&i| chosen.contains(&heads[i])).collect()
            }
        };
        (!places.is_empty()).then_some(places)
    }

    /// Whether a site without heads is wanted at a layer.
    pub(crate) fn wants(&self, layer: usize, site: Site) -> bool {
        match self.wants.get(&site) {
            None => false,
            Some(Keep::All) => true,
            Some(Keep::Heads(by_layer)) => by_layer.contains_key(&layer),
        }
    }

    pub(crate) fn put(&mut self, at: (Stack, usize, Site), tensor: Tensor, heads: Vec<usize>) {
        self.kept.insert(at, Kept { tensor, heads });
    }

    /// Ends the recording.
    pub fn into_trace(self) -> Trace {
        Trace { kept: self.kept }
    }
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

    /// The kept attention probabilities of one example of the batch with its tokens; rows and
    /// columns of padding are cut.
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
        let mut heads = Vec::new();
        for (&(_, layer, _), kept) in
            self.kept.iter().filter(|((s, _, site), _)| *s == stack && *site == Site::Probs)
        {
            let (batch, _, queries, keys) = kept.tensor.dims4()?;
            if example >= batch || tokens.len() > queries.min(keys) {
                return Err(Error::Array {
                    what: format!("example {example} with {} tokens", tokens.len()),
                    want: format!("one of {batch} examples of up to {queries} tokens"),
                    found: "more".into(),
                });
            }
            let n = tokens.len();
            for (place, &head) in kept.heads.iter().enumerate() {
                let one = kept.tensor.get(example)?.get(place)?;
                let one = one.narrow(0, 0, n)?.narrow(1, 0, n)?.to_dtype(DType::F32)?;
                let values = one.flatten_all()?.to_vec1::<f32>()?;
                let weights = Array2::from_shape_vec((n, n), values).map_err(|e| Error::Array {
                    what: "attention matrix".into(),
                    want: format!("{n} by {n}"),
                    found: e.to_string(),
                })?;
                heads.push(HeadWeights { head: Head { layer, head }, weights });
            }
        }
        Attention::new(tokens.to_vec(), tokens.to_vec(), heads, config.head_counts.clone())
    }
}

/// A change of what passes at a site: ablation, pruning by gates and activation patching are all
/// values of this type. A kept tensor is the changed one.
#[derive(Debug, Clone)]
pub struct Intervention {
    /// Which attention.
    pub stack: Stack,
    /// Where.
    pub site: Site,
    /// Layers; `None` for all.
    pub layers: Option<Vec<usize>>,
    /// Heads under their original numbers; `None` for all. Ignored where the site has none.
    pub heads: Option<Vec<usize>>,
    /// Positions on the axis before the last (of queries, or of keys at `Key` and `Value`);
    /// `None` for all.
    pub positions: Option<Vec<usize>>,
    /// What becomes of the values there.
    pub change: Change,
}

/// What an [`Intervention`] does with the values at its site.
#[derive(Debug, Clone)]
pub enum Change {
    /// All become 0.
    Zero,
    /// Each is multiplied by this.
    Scale(f64),
    /// Each is multiplied by this tensor, which must broadcast to the whole site, such as a gate
    /// per example `[B,H,1,1]`.
    Multiply(Tensor),
    /// Each becomes the mean over the real positions of all examples of this run.
    Mean,
    /// They become those of this tensor, which must broadcast to the whole site: what another run
    /// kept there.
    Replace(Tensor),
}

impl Intervention {
    /// A head gate: scales the head's context by `factor`; 0 is the head cut out of the weights,
    /// 1 leaves it as it is.
    pub fn gate(head: Head, factor: f64) -> Self {
        Self {
            stack: Stack::Encoder,
            site: Site::Context,
            layers: Some(vec![head.layer]),
            heads: Some(vec![head.head]),
            positions: None,
            change: Change::Scale(factor),
        }
    }

    pub(crate) fn acts_on(&self, stack: Stack, layer: usize, site: Site) -> bool {
        self.stack == stack
            && self.site == site
            && self.layers.as_ref().is_none_or(|layers| layers.contains(&layer))
    }
}
