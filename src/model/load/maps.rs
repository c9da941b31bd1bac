//! Canonical tensors → linear maps.

use candle_core::Device;

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
        if let Some(stored) = self.stored_maps(parts, inputs)? {
            let bias = |(name, outputs): &(String, usize)| {
                self.bias(&format!("{name}.bias"), *outputs, optional_bias)
            };
            let bias = parts.iter().map(bias).collect::<Result<Vec<_>>>()?.concat();
            let bias = self.tensor(bias, &[stored.sizes().1])?;
            return Ok(Linear { weight: Weight::Stored(stored), bias });
        }
        let all = parts.iter().map(|(_, outputs)| outputs).sum();
        let mut weight = vec![0.0; inputs * all];
        let mut bias = Vec::with_capacity(all);
        for (name, outputs) in parts {
            let (file, first) = (format!("{name}.weight"), bias.len());
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
            bias.extend(self.bias(&format!("{name}.bias"), *outputs, optional_bias)?);
        }
        Ok(Linear {
            weight: Weight::Dense(self.tensor(weight, &[inputs, all])?),
            bias: self.tensor(bias, &[all])?,
        })
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
