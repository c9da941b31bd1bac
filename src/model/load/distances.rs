//! Canonical tensors → the tables of terms by distance.

use candle_core::Tensor;

use super::super::distance::{Distances, Index};
use super::super::ops::{Linear, Then};
use super::Loader;
use crate::config;
use crate::error::Result;

impl Loader<'_> {
    /// The tables of one layer's attention, for the heads that are left.
    pub fn distances(&self, at: &str, heads: &[usize], qkv: &Linear) -> Result<Option<Distances>> {
        let config = self.config;
        self.weights.account("distance.norm.weight"); // stored even where it norms nothing
        self.weights.account("distance.norm.bias");
        match config.distances {
            config::Distances::None => Ok(None),
            config::Distances::Embedded { with_keys } => {
                let max = config.max_positions;
                let (rows, width) = (2 * max - 1, config.head_dim);
                let table = self.parameter(&format!("{at}.distance.weight"), &[rows, width])?;
                let table = table.unsqueeze(0)?;
                let key = with_keys.then(|| table.clone());
                let index = Index::Plain { max };
                Ok(Some(Distances { index, query: Some(table), key, bias: None }))
            }
            config::Distances::Buckets { count, furthest } => {
                let all = config.head_counts[0];
                let name = format!("{}distance.weight", self.at);
                let table = self.parameter(&name, &[count, all])?;
                let columns: Vec<u32> = heads.iter().map(|&head| head as u32).collect();
                let columns = Tensor::from_vec(columns, heads.len(), table.device())?;
                let bias = table.t()?.contiguous()?.index_select(&columns, 0)?;
                let index = match config.causal {
                    false => Index::Halves { count, furthest },
                    true => Index::Before { count, furthest },
                };
                Ok(Some(Distances { index, query: None, key: None, bias: Some(bias) }))
            }
            config::Distances::Disentangled { .. } => self.disentangled(at, heads.len(), qkv),
        }
    }

    fn disentangled(&self, at: &str, heads: usize, qkv: &Linear) -> Result<Option<Distances>> {
        let config::Distances::Disentangled { c2p, p2c, buckets, furthest, shared, normed } =
            self.config.distances
        else {
            return Ok(None);
        };
        let (width, k) = (self.config.hidden_size, self.config.head_dim);
        let span = buckets.unwrap_or(furthest);
        let rows = 2 * span;
        let mut table = self.parameter("distance.weight", &[rows, width])?;
        if normed {
            table = self.norm("distance.norm", width)?.forward(&table)?;
        }
        let by_head = |x: Tensor| -> Result<Tensor> {
            Ok(x.reshape((rows, heads, k))?.transpose(0, 1)?.contiguous()?) // [H, R, K]
        };
        let projected = |part: usize, name: &str| -> Result<Tensor> {
            if !shared {
                let own = self.linear(&format!("{at}.{name}"), width, heads * k)?;
                return by_head(own.forward(&table, None, Then::Nothing)?);
            }
            let all = qkv.forward(&table, None, Then::Nothing)?; // [R, 3·H·K]
            by_head(all.narrow(1, part * heads * k, heads * k)?.contiguous()?)
        };
        // a query meets projected keys, a key projected queries
        let query = c2p.then(|| projected(1, "position_key")).transpose()?;
        let key = p2c.then(|| projected(0, "position_query")).transpose()?;
        let index = Index::Log { buckets, furthest, span };
        Ok(Some(Distances { index, query, key, bias: None }))
    }
}
