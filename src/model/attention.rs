//! The one attention, configured by data. Axes: B batch, T new positions, S visible positions,
//! D width, H heads of the layer, K head width.

use candle_core::Tensor;

use super::cache::KeyValues;
use super::distance::Distances;
use super::intervene::{self, At};
use super::ops::{Linear, Then, finish, merge_heads};
use super::packed::packed;
use super::rotary::Rotary;
use super::scores::{Attend, Attended, Global};
use crate::error::Result;
use crate::trace::{Intervention, Recorder, Site, Stack};

/// What one layer may read and write during a run; the weights stay behind `&self`.
pub(crate) struct Pass<'a> {
    pub stack: Stack,
    pub layer: usize,
    /// Position of the first of the T new ones: how many were read before.
    pub past: usize,
    /// Which position each new one has in its text, `[B, T]`, row after row.
    pub positions: &'a [u32],
    /// `[B, S]`: 0 where a key is visible, `f32::MIN` where hidden.
    pub bias: &'a Tensor,
    /// `[B, T]`: 1 for real positions, 0 for padding.
    pub real: &'a Tensor,
    /// `[B, S]`, row after row: positions that see and are seen by all; empty for none.
    pub global: &'a [bool],
    pub recorder: &'a mut Recorder,
    pub interventions: &'a [Intervention],
}

impl Pass<'_> {
    /// Changes and keeps what passes at a site; `heads` are the original numbers on axis 1.
    pub fn visit(&mut self, site: Site, x: Tensor, heads: &[usize]) -> Result<Tensor> {
        self.visit_shared(site, x, heads, 1)
    }

    /// The same where each place on axis 1 serves `group` heads, one after another. What is kept
    /// has a place for every head.
    fn visit_shared(
        &mut self,
        site: Site,
        x: Tensor,
        heads: &[usize],
        group: usize,
    ) -> Result<Tensor> {
        let (stack, layer, past) = (self.stack, self.layer, self.past);
        let at = At { stack, layer, site, heads, group, real: self.real, past };
        let x = intervene::apply(x, &at, self.interventions)?;
        if !site.has_heads() {
            if self.recorder.wants(layer, site) {
                self.recorder.put((stack, layer, site), x.clone(), Vec::new(), past);
            }
        } else if let Some(places) = self.recorder.places(layer, site, heads) {
            let numbers = places.iter().map(|&i| heads[i]).collect();
            let places: Vec<usize> = places.into_iter().map(|i| i / group).collect();
            let kept = select(&x, &places)?;
            self.recorder.put((stack, layer, site), kept, numbers, past);
        }
        Ok(x)
    }

    /// `map` of `x`, seen at `site`, plus `residual`, and then `then`: in one pass where nobody looks.
    pub fn added(
        &mut self,
        site: Site,
        map: &Linear,
        x: &Tensor,
        residual: &Tensor,
        then: Then<'_>,
    ) -> Result<Tensor> {
        if !self.changes(site) && !self.recorder.wants(self.layer, site) {
            return map.forward(x, Some(residual), then);
        }
        let y = self.visit(site, map.forward(x, None, Then::Nothing)?, &[])?;
        finish(&(y + residual)?, &then)
    }

    pub(super) fn changes(&self, site: Site) -> bool {
        self.interventions.iter().any(|one| one.acts_on(self.stack, self.layer, site))
    }
}

/// What is at `places` of axis 1, contiguous.
fn select(x: &Tensor, places: &[usize]) -> Result<Tensor> {
    if places.iter().copied().eq(0..x.dim(1)?) {
        return Ok(x.contiguous()?);
    }
    let count = places.len();
    let places: Vec<u32> = places.iter().map(|&i| i as u32).collect();
    let places = Tensor::from_vec(places, count, x.device())?;
    Ok(x.contiguous()?.index_select(&places, 1)?)
}

/// Multi-head attention with the weights of one layer. H heads of queries share G = H / group heads
/// of keys and values.
#[derive(Debug, Clone)]
pub(crate) struct Attention {
    /// Query, key and value in one product: `[D, (H + 2·G)·K]`; the query alone, `[D, H·K]`, where
    /// keys and values are of an encoder's output.
    pub qkv: Linear,
    /// Key and value of an encoder's output: `[D, 2·G·K]`.
    pub memory: Option<Linear>,
    /// `[H·K, D]`
    pub output: Linear,
    /// Original numbers of the heads that are left.
    pub heads: Vec<usize>,
    pub head_dim: usize,
    pub group: usize,
    /// What products of queries and keys are multiplied by.
    pub scale: f64,
    pub distances: Option<Distances>,
    pub rotary: Option<Rotary>,
    /// Hides the keys behind each query.
    pub causal: bool,
    /// Furthest distance of a visible key.
    pub window: Option<usize>,
    /// Query, key and value of global queries: `[D, 3·H·K]`.
    pub global: Option<Linear>,
}

/// Where keys and values come from.
pub(crate) enum Source<'a> {
    /// From the new positions alone.
    New,
    /// From the new positions and those in the cache, which the new ones join.
    Cached(&'a mut KeyValues),
    /// From an encoder's output: key and value [B, G, S, K].
    Memory(&'a (Tensor, Tensor)),
}

impl Attention {
    /// `x` [B, T, D] → heads → [B, T, D], plus `residual`, and then `then`.
    pub fn forward(
        &self,
        x: &Tensor,
        residual: &Tensor,
        then: Then<'_>,
        pass: &mut Pass<'_>,
        source: Source<'_>,
    ) -> Result<Tensor> {
        if self.heads.is_empty() {
            // every head is pruned: what is left of the sum is the output bias
            let bias = self.output.bias.broadcast_as(residual.shape())?.contiguous()?;
            let bias = pass.visit(Site::AttentionOutput, bias, &[])?;
            return finish(&(residual + bias)?, &then);
        }
        let h = self.heads.len();
        let all = self.qkv.forward(x, None, Then::Nothing)?; // [B, T, (H + 2·G)·K] or [B, T, H·K]
        if let Some(how) = self.packed(&all, pass, &source)? {
            let merged = packed(&all, how)?; // [B, T, H·K]
            return pass.added(Site::AttentionOutput, &self.output, &merged, residual, then);
        }
        let own = self.parted(&all)?; // [B, H + 2·G, T, K] or [B, H, T, K]
        let query = self.turned(own.narrow(1, 0, h)?, pass)?;
        let query = pass.visit(Site::Query, query, &self.heads)?;
        let (key, value) = match source {
            Source::Memory(both) => both.clone(),
            Source::New => self.keys(&own, pass)?,
            Source::Cached(cache) => {
                let (key, value) = self.keys(&own, pass)?;
                cache.append(&key, &value)?
            }
        };
        let global = self.global(x, pass)?;
        let attend = Attend {
            query: &query,
            key: &key,
            value: &value,
            group: self.group,
            past: pass.past,
            causal: self.causal,
            bias: pass.bias,
            window: self.window,
            distances: self.distances.as_ref(),
            global: global.as_ref(),
            scale: self.scale,
        };
        let context = self.context(&attend, pass)?; // [B, H, T, K]
        let context = pass.visit(Site::Context, context, &self.heads)?;
        self.project(&context, residual, then, pass)
    }

    /// Keys and values of an encoder's output `x` [B, S, D], each [B, G, S, K]; `None` for an
    /// attention over its own positions, and for one without heads.
    pub fn remember(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Option<(Tensor, Tensor)>> {
        match &self.memory {
            Some(map) if !self.heads.is_empty() => {
                let both = self.split(map, x)?;
                let (key, value) = self.keys(&both, pass)?;
                Ok(Some((key.contiguous()?, value.contiguous()?)))
            }
            _ => Ok(None),
        }
    }

    /// `map` of `x` by heads: [B, T, D] → [B, ·, T, K], a view.
    fn split(&self, map: &Linear, x: &Tensor) -> Result<Tensor> {
        self.parted(&map.forward(x, None, Then::Nothing)?)
    }

    /// Heads apart: [B, T, ·K] → [B, ·, T, K], a view.
    fn parted(&self, all: &Tensor) -> Result<Tensor> {
        let (b, t, _) = all.dims3()?;
        Ok(all.reshape((b, t, (), self.head_dim))?.transpose(1, 2)?)
    }

    fn turned(&self, x: Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        match &self.rotary {
            Some(rotary) => rotary.turn(&x, pass.positions),
            None => Ok(x),
        }
    }

    /// The last 2·G places of axis 1: keys, turned where the model does that, and values.
    fn keys(&self, all: &Tensor, pass: &mut Pass<'_>) -> Result<(Tensor, Tensor)> {
        let g = self.heads.len() / self.group;
        let first = all.dim(1)? - 2 * g;
        let key = self.turned(all.narrow(1, first, g)?, pass)?;
        let key = pass.visit_shared(Site::Key, key, &self.heads, self.group)?;
        let value = all.narrow(1, first + g, g)?;
        let value = pass.visit_shared(Site::Value, value, &self.heads, self.group)?;
        Ok((key, value))
    }

    /// What global queries see, where there are any.
    fn global(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Option<Global>> {
        let Some(map) = self.global.as_ref().filter(|_| pass.global.contains(&true)) else {
            return Ok(None);
        };
        let h = self.heads.len();
        let all = self.split(map, x)?;
        let part = |i: usize| all.narrow(1, i * h, h);
        Ok(Some(Global {
            is: pass.global.to_vec(),
            query: part(0)?,
            key: part(1)?,
            value: part(2)?,
        }))
    }

    /// Weighted values `[B, H, T, K]`. Where nothing changes scores or probabilities they are
    /// computed in tiles and only what is recorded is kept.
    fn context(&self, attend: &Attend<'_>, pass: &mut Pass<'_>) -> Result<Tensor> {
        let places = |site| pass.recorder.places(pass.layer, site, &self.heads);
        let (scores, probs) = (places(Site::Scores), places(Site::Probs));
        let (scores, probs) = (scores.unwrap_or_default(), probs.unwrap_or_default());
        if !pass.changes(Site::Scores)
            && !pass.changes(Site::Probs)
            && let Some(attended) = attend.in_tiles(&scores, &probs)?
        {
            let Attended { context, scores: kept_scores, probs: kept_probs } = attended;
            let numbers = |places: &[usize]| places.iter().map(|&i| self.heads[i]).collect();
            for (site, kept, places) in
                [(Site::Scores, kept_scores, scores), (Site::Probs, kept_probs, probs)]
            {
                if let Some(tensor) = kept {
                    let at = (pass.stack, pass.layer, site);
                    pass.recorder.put(at, tensor, numbers(&places), pass.past);
                }
            }
            return Ok(context);
        }
        let scores = pass.visit(Site::Scores, attend.scores()?, &self.heads)?;
        let probs = pass.visit(Site::Probs, attend.probs(&scores)?, &self.heads)?;
        attend.context(&probs)
    }

    /// The output projection, head by head where a head's own contribution is asked for.
    fn project(
        &self,
        context: &Tensor,
        residual: &Tensor,
        then: Then<'_>,
        pass: &mut Pass<'_>,
    ) -> Result<Tensor> {
        let changes = pass.changes(Site::HeadOutput);
        let wanted = pass.recorder.places(pass.layer, Site::HeadOutput, &self.heads).is_some();
        if changes || wanted {
            let (h, k) = (self.heads.len(), self.head_dim);
            let weight = self.output.weight.dense()?.reshape((1, h, k, ()))?;
            let each = context.contiguous()?.broadcast_matmul(&weight)?; // [B, H, T, D]
            let each = pass.visit(Site::HeadOutput, each, &self.heads)?;
            if changes {
                let sum = each.sum(1)?.broadcast_add(&self.output.bias)?;
                let sum = pass.visit(Site::AttentionOutput, sum, &[])?;
                return finish(&(sum + residual)?, &then);
            }
        }
        let merged = merge_heads(context)?;
        pass.added(Site::AttentionOutput, &self.output, &merged, residual, then)
    }
}
