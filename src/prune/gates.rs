//! Gates as variables: the derivative of a number per example by every head's gate.

use candle_core::{DType, Device, Tensor, Var};
use ndarray::Array2;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::tokens::Batch;
use crate::trace::{Change, Intervention, Recorder, Site};

/// Derivatives by the gates of one batch.
#[derive(Debug, Clone)]
pub struct Gradients {
    /// Per layer, `[B, H]` with the heads that the layer still has, in their order. Layers that
    /// share one block share its gates, and each has the sum over all of them.
    pub layers: Vec<Array2<f64>>,
}

/// A gate per example and head, for all layers or for some.
pub(super) struct Gates {
    /// The gates of each block, `[B,H,1,1]`; `None` where it is not asked for or has no heads.
    blocks: Vec<Option<Var>>,
    /// Which block each layer runs.
    shared: Vec<usize>,
    config: Config,
    batch: usize,
}

impl Gates {
    /// Gates of the value `at` on the blocks that `on` chooses.
    pub fn new(
        config: &Config,
        batch: usize,
        at: f64,
        on: impl Fn(usize) -> bool,
        device: &Device,
    ) -> Result<Self> {
        let count = config.shared.iter().max().map_or(0, |last| last + 1);
        let mut blocks: Vec<Option<Var>> = vec![None; count];
        for (layer, &block) in config.shared.iter().enumerate() {
            let heads = config.heads[layer].len();
            if blocks[block].is_none() && heads > 0 && on(block) {
                let ones = Tensor::ones((batch, heads, 1, 1), DType::F32, device)?;
                blocks[block] = Some(Var::from_tensor(&(ones * at)?)?);
            }
        }
        Ok(Self { blocks, shared: config.shared.clone(), config: config.clone(), batch })
    }

    /// Whether a block has no heads left.
    pub fn empty(config: &Config, block: usize) -> bool {
        let layer = config.shared.iter().position(|&shared| shared == block);
        layer.is_none_or(|layer| config.heads[layer].is_empty())
    }

    pub fn interventions(&self) -> Vec<Intervention> {
        let gate = |(layer, &block): (usize, &usize)| {
            let gates = self.blocks[block].as_ref()?;
            Some(Intervention {
                stack: self.config.stack(),
                site: Site::Context,
                layers: Some(vec![layer]),
                heads: None,
                positions: None,
                change: Change::Multiply(gates.as_tensor().clone()),
            })
        };
        self.shared.iter().enumerate().filter_map(gate).collect()
    }

    /// The derivatives of `sum`, to which each example contributes through its own gates alone. A
    /// gate that nothing depends on has 0.
    pub fn gradients(&self, sum: &Tensor) -> Result<Gradients> {
        let store = sum.backward()?;
        let layer = |(layer, &block): (usize, &usize)| {
            let shape = (self.batch, self.config.heads[layer].len());
            let found = self.blocks[block].as_ref().and_then(|gates| store.get(gates.as_tensor()));
            let Some(found) = found else { return Ok(Array2::zeros(shape)) };
            let values = found.to_dtype(DType::F64)?.flatten_all()?.to_vec1::<f64>()?;
            Array2::from_shape_vec(shape, values).map_err(|error| Error::Array {
                what: format!("gradient of layer {layer}"),
                want: format!("{} by {}", shape.0, shape.1),
                found: error.to_string(),
            })
        };
        let layers = self.shared.iter().enumerate().map(layer).collect::<Result<_>>()?;
        Ok(Gradients { layers })
    }
}

/// The numbers `of(hidden)` `[B]` of the last layer's output `[B,T,D]`, and their derivatives by
/// all gates at 1, in one pass forward, in which `changes` act behind the gates, and one back. Example b's number must depend on its own
/// output alone; then its derivative by its own gates is that of the sum.
///
/// # Errors
/// Those of [`Model::forward`] and of `of`.
pub fn gradients(
    model: &Model,
    batch: &Batch,
    changes: &[Intervention],
    of: impl Fn(&Tensor) -> Result<Tensor>,
) -> Result<(Vec<f32>, Gradients)> {
    let gates = Gates::new(model.config(), batch.ids.nrows(), 1.0, |_| true, model.device())?;
    let hidden = model.forward(
        batch,
        &mut Recorder::new(),
        &[gates.interventions(), changes.to_vec()].concat(),
    )?;
    let each = of(&hidden)?;
    let found = gates.gradients(&each.sum_all()?)?;
    Ok((each.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?, found))
}
