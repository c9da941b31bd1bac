//! Gates as variables: the derivative of a number per example by every head's gate.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor, Var};
use ndarray::Array2;

use super::place::{left, stacks};
use crate::config::{Config, Stack};
use crate::error::{Error, Result};
use crate::model::Model;
use crate::task::Sample;
use crate::trace::{Change, Intervention, Recorder, Site};

/// Derivatives by the gates of one batch.
#[derive(Debug, Clone, Default)]
pub struct Gradients {
    /// Per stack and layer that ran, `[B, H]` with the heads that the layer still has, in their
    /// order. Layers that share one block share its gates, and each has the sum over all of them.
    pub layers: BTreeMap<(Stack, usize), Array2<f64>>,
}

/// The stacks whose heads have part in a run: of an encoder-decoder without a text to write the
/// encoder alone.
pub(crate) fn running(config: &Config, sample: &Sample) -> Vec<Stack> {
    let whole = sample.written.is_some();
    let runs = |stack: &Stack| match (stack, &config.decoder) {
        (Stack::Cross, _) => whole,
        (Stack::Decoder, Some(_)) => whole,
        _ => true,
    };
    stacks(config).filter(runs).collect()
}

/// Layers of a stack with the block that each runs and the heads that are left.
pub(crate) fn layers(
    config: &Config,
    stack: Stack,
) -> impl Iterator<Item = (usize, usize, &Vec<usize>)> {
    let shared = config.of(stack).shared.iter();
    let layers = left(config, stack).into_iter().flatten();
    layers.zip(shared).enumerate().map(|(layer, (heads, &block))| (layer, block, heads))
}

/// A gate per example and head, for all layers or for some.
pub(super) struct Gates<'a> {
    config: &'a Config,
    stacks: Vec<Stack>,
    /// The gates of each block, `[B,H,1,1]`, where it is asked for and has heads.
    blocks: BTreeMap<(Stack, usize), Var>,
    batch: usize,
}

impl<'a> Gates<'a> {
    /// Gates of the value `at` on those blocks of the stacks that `on` chooses.
    pub fn new(
        config: &'a Config,
        sample: &Sample,
        at: f64,
        on: impl Fn((Stack, usize)) -> bool,
        device: &Device,
    ) -> Result<Self> {
        let (stacks, batch) = (running(config, sample), sample.batch.ids.nrows());
        let mut blocks = BTreeMap::new();
        for &stack in &stacks {
            for (_, block, heads) in layers(config, stack) {
                let at_block = (stack, block);
                if !heads.is_empty() && on(at_block) && !blocks.contains_key(&at_block) {
                    let ones = Tensor::ones((batch, heads.len(), 1, 1), DType::F32, device)?;
                    blocks.insert(at_block, Var::from_tensor(&(ones * at)?)?);
                }
            }
        }
        Ok(Self { config, stacks, blocks, batch })
    }

    /// The blocks that run and have heads.
    pub fn blocks(config: &Config, sample: &Sample) -> Vec<(Stack, usize)> {
        let of = |stack: Stack| {
            let some = layers(config, stack).filter(|(.., heads)| !heads.is_empty());
            some.map(move |(_, block, _)| (stack, block)).collect::<Vec<_>>()
        };
        let all = running(config, sample).into_iter().flat_map(of);
        all.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
    }

    pub fn interventions(&self) -> Vec<Intervention> {
        let of = |&stack: &Stack| {
            layers(self.config, stack).filter_map(move |(layer, block, _)| {
                let gates = self.blocks.get(&(stack, block))?;
                Some(Intervention {
                    stack,
                    site: Site::Context,
                    layers: Some(vec![layer]),
                    heads: None,
                    positions: None,
                    change: Change::Multiply(gates.as_tensor().clone()),
                })
            })
        };
        self.stacks.iter().flat_map(of).collect()
    }

    /// The derivatives of `sum`, to which each example contributes through its own gates alone. A
    /// gate that nothing depends on has 0.
    pub fn gradients(&self, sum: &Tensor) -> Result<Gradients> {
        let store = sum.backward()?;
        let mut all = BTreeMap::new();
        for &stack in &self.stacks {
            for (layer, block, heads) in layers(self.config, stack) {
                let shape = (self.batch, heads.len());
                let gates = self.blocks.get(&(stack, block));
                let found = match gates.and_then(|gates| store.get(gates.as_tensor())) {
                    None => Array2::zeros(shape),
                    Some(found) => {
                        let values = found.to_dtype(DType::F64)?.flatten_all()?.to_vec1::<f64>()?;
                        Array2::from_shape_vec(shape, values).map_err(|error| Error::Array {
                            what: format!("gradient of layer {layer}"),
                            want: format!("{} by {}", shape.0, shape.1),
                            found: error.to_string(),
                        })?
                    }
                };
                all.insert((stack, layer), found);
            }
        }
        Ok(Gradients { layers: all })
    }
}

/// The numbers `of(hidden)` `[B]` of the last layer's output `[B,T,D]` (see [`Sample::run`]), and
/// their derivatives by the gates of all stacks that run, at 1: one pass forward, in which `changes`
/// act behind the gates, and one back. Example b's number must depend on its own output alone; then
/// its derivative by its own gates is that of the sum.
///
/// # Errors
/// Those of [`Sample::run`] and of `of`.
pub fn gradients(
    model: &Model,
    sample: &Sample,
    changes: &[Intervention],
    of: impl Fn(&Tensor) -> Result<Tensor>,
) -> Result<(Vec<f32>, Gradients)> {
    let gates = Gates::new(model.config(), sample, 1.0, |_| true, model.device())?;
    let all = [gates.interventions(), changes.to_vec()].concat();
    let each = of(&sample.run(model, &mut Recorder::new(), &all)?)?;
    let found = gates.gradients(&each.sum_all()?)?;
    Ok((each.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?, found))
}
