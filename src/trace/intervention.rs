//! What a run changes on the way.

use candle_core::Tensor;

use super::{Site, Stack};
use crate::select::Head;

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
    /// Heads under their original numbers; `None` for all. Ignored where the site has none. Keys
    /// and values that several heads share change for all of them.
    pub heads: Option<Vec<usize>>,
    /// Positions on the axis before the last (of queries, or of keys at `Key` and `Value`), counted
    /// from the first that a cache holds; `None` for all.
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
    /// Each becomes the mean over the real positions of all examples of this run; where a cache
    /// is used, over the new ones of each step.
    Mean,
    /// They become those of this tensor, which must broadcast to the whole site: what another run
    /// kept there.
    Replace(Tensor),
}

impl Intervention {
    /// A head gate: scales the head's context by `factor`; 0 is the head cut out of the weights,
    /// 1 leaves it as it is.
    pub fn gate(stack: Stack, head: Head, factor: f64) -> Self {
        Self {
            stack,
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
