//! Canonical tensors → linear maps.

use candle_core::{Device, Tensor};

use super::super::ops::{Linear, Weight};
use super::super::stored::Stored;
use super::Loader;
use crate::error::Result;

impl Loader<'_> {
    /// Maps of one input, each `(name, outputs)`, side by side in one `[inputs, ..]`.
    pub(super) fn maps(
        &self,
        parts: &[(String, usize)],
        inputs: usize,
        optional_bias: bool,
    ) -> Result<Linear> {
        // before anything is allocated by sizes that a config may have made up
        for (name, outputs) in parts {
            self.weights.expect(&format!("{name}.weight"), &self.stored(inputs, *outputs))?;
        }
        let bias = |(name, outputs): &(String, usize)| {
            self.bias(&format!("{name}.bias"), *outputs, optional_bias)
        };
        let bias = side_by_side(&parts.iter().map(bias).collect::<Result<Vec<_>>>()?)?;
        if let Some(weight) = self.live_maps(parts, inputs)? {
            return Ok(Linear { weight: Weight::Turned(weight), bias });
        }
        if let Some(stored) = self.stored_maps(parts, inputs)? {
            return Ok(Linear { weight: Weight::Stored(stored), bias });
        }
        let all = parts.iter().map(|(_, outputs)| outputs).sum();
        let (mut weight, mut first) = (vec![0.0; inputs * all], 0);
        for (name, outputs) in parts {
            let file = format!("{name}.weight");
            match self.turned {
                false => {
                    let sizes = (*outputs, inputs);
                    self.weights.turned(&file, sizes, &mut weight, (first, all))?
                }
                true => {
                    let values = self.weights.values(&file, &[inputs, *outputs])?;
                    let rows = values.chunks_exact((*outputs).max(1));
                    for (row, to) in rows.zip(weight.chunks_exact_mut(all.max(1))) {
                        to[first..first + outputs].copy_from_slice(row);
                    }
                }
            }
            first += outputs;
        }
        Ok(Linear { weight: Weight::Dense(self.tensor(weight, &[inputs, all])?), bias })
    }

    /// The same maps [outputs, inputs] where one of them is trained.
    fn live_maps(&self, parts: &[(String, usize)], inputs: usize) -> Result<Option<Tensor>> {
        if !parts.iter().any(|(name, _)| self.live.contains_key(&format!("{name}.weight"))) {
            return Ok(None);
        }
        let one = |(name, outputs): &(String, usize)| -> Result<Tensor> {
            let one = self.parameter(&format!("{name}.weight"), &self.stored(inputs, *outputs))?;
            Ok(if self.turned { one.t()? } else { one })
        };
        side_by_side(&parts.iter().map(one).collect::<Result<Vec<_>>>()?).map(Some)
    }

    /// The same maps as they are stored, where that is in blocks that the CPU decodes as it
    /// multiplies.
    fn stored_maps(&self, parts: &[(String, usize)], inputs: usize) -> Result<Option<Stored>> {
        let weight = |name: &str| format!("{name}.weight");
        let blocks = parts.iter().any(|(name, _)| self.weights.in_blocks(&weight(name)));
        if !blocks || self.turned || !matches!(self.device, Device::Cpu) {
            return Ok(None);
        }
        let table =
            |(name, outputs): &(String, usize)| self.weights.table(&weight(name), *outputs, inputs);
        let tables = parts.iter().map(table).collect::<Result<Vec<_>>>()?;
        Ok(Some(Stored::new(tables, inputs)))
    }

    /// The shape in which a map is stored.
    fn stored(&self, inputs: usize, outputs: usize) -> [usize; 2] {
        if self.turned { [inputs, outputs] } else { [outputs, inputs] }
    }

    pub fn linear(&self, name: &str, inputs: usize, outputs: usize) -> Result<Linear> {
        self.maps(&[(name.to_string(), outputs)], inputs, self.config.optional_biases)
    }
}

/// One after another along the first axis.
fn side_by_side(parts: &[Tensor]) -> Result<Tensor> {
    match parts {
        [only] => Ok(only.clone()),
        parts => Ok(Tensor::cat(parts, 0)?),
    }
}
