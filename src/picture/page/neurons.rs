//! From what a run kept to the data of the neuron view.

use candle_core::{DType, Tensor};
use ndarray::Array2;

use super::{Neurons, Sheet};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::select::Head;
use crate::trace::{Kept, Site, Stack, Trace};

impl Sheet {
    /// With the queries, keys and scores of the heads of `layers` that both the sheet and the trace
    /// hold: sites [`Site::Query`], [`Site::Key`] and [`Site::Scores`] of one example.
    ///
    /// # Errors
    /// [`Error::Array`] where the trace has fewer positions than the sheet has tokens.
    pub fn with_neurons(
        mut self,
        trace: &Trace,
        stack: Stack,
        example: usize,
        layers: &[usize],
        config: &Config,
    ) -> Result<Self> {
        let config = config.of(stack);
        let heads: Vec<Head> = self.attention.heads.iter().map(|one| one.head).collect();
        for head in heads.into_iter().filter(|head| layers.contains(&head.layer)) {
            let kept = |site| trace.get(stack, head.layer, site);
            let (Some(query), Some(key), Some(scores)) =
                (kept(Site::Query), kept(Site::Key), kept(Site::Scores))
            else {
                continue;
            };
            let (rows, columns) = (self.attention.queries.len(), self.attention.keys.len());
            let at = |kept| place(kept, head.head);
            let (Some(q), Some(k), Some(s)) = (at(query), at(key), at(scores)) else { continue };
            self.neurons.push(Neurons {
                head,
                query: matrix(&query.tensor, (example, q), (rows, config.head_dim))?,
                key: matrix(&key.tensor, (example, k), (columns, config.head_dim))?,
                factor: config.of(stack).score_scales.get(head.layer).copied().unwrap_or(1.0),
                scores: matrix(&scores.tensor, (example, s), (rows, columns))?,
            });
        }
        Ok(self)
    }
}

fn place(kept: &Kept, head: usize) -> Option<usize> {
    kept.heads.iter().position(|&one| one == head)
}

/// The top left `rows` × `columns` of one example's head.
fn matrix(
    tensor: &Tensor,
    (example, place): (usize, usize),
    (rows, columns): (usize, usize),
) -> Result<Array2<f32>> {
    let wrong = |found: String| Error::Array {
        what: "neuron data".into(),
        want: format!("at least {rows} by {columns} of example {example}"),
        found,
    };
    let (b, h, r, c) = tensor.dims4()?;
    if example >= b || place >= h || rows > r || columns > c {
        return Err(wrong(format!("{:?}", tensor.dims())));
    }
    let one = tensor.get(example)?.get(place)?.narrow(0, 0, rows)?.narrow(1, 0, columns)?;
    let values = one.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?;
    Array2::from_shape_vec((rows, columns), values).map_err(|e| wrong(e.to_string()))
}
