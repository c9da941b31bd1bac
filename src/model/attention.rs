//! The one attention, configured by data. Axes: B batch, T new positions, S visible positions,
//! D width, H heads of the layer, K head width.

use candle_core::Tensor;

use super::distance::Distances;
use super::intervene::{self, At};
use super::ops::{Linear, Then, finish, merge_heads};
use super::rotary::Rotary;
use super::scores::{Attend, Attended, Global};
use crate::error::Result;
use crate::trace::{Intervention, Recorder, Site, Stack};

/// What one layer may read and write during a run; the weights stay behind `&self`.
pub(crate) struct Pass<'a> {
    pub stack: Stack,
    pub layer: usize,
    /// `[B, S]`: 0 where a key is visible, `f32::MIN` where hidden.
    pub bias: &'a Tensor,
    /// `[B, S]`: 1 for real positions, 0 for padding.
    pub real: &'a Tensor,
    /// `[B, S]`, row after row: positions that see and are seen by all; empty for none.
    pub global: &'a [bool],
    pub recorder: &'a mut Recorder,
    pub interventions: &'a [Intervention],
}

impl Pass<'_> {
    /// Changes and keeps what passes at a site; `heads` are the original numbers on axis 1.
    pub fn visit(&mut self, site: Site, x: Tensor, heads: &[usize]) -> Result<Tensor> {
        let (stack, layer) = (self.stack, self.layer);
        let at = At { stack, layer, site, heads, real: self.real };
        let x = intervene::apply(x, &at, self.interventions)?;
        if !site.has_heads() {
            if self.recorder.wants(layer, site) {
                self.recorder.put((stack, layer, site), x.clone(), Vec::new());
            }
        } else if let Some(places) = self.recorder.places(layer, site, heads) {
            let kept = select(&x, &places)?;
            let heads = places.iter().map(|&i| heads[i]).collect();
            self.recorder.put((stack, layer, site), kept, heads);
        }
        Ok(x)
    }

    fn changes(&self, site: Site) -> bool {
        self.interventions.iter().any(|one| one.acts_on(self.stack, self.layer, site))
    }
}

/// The heads at `places` of axis 1, contiguous.
fn select(x: &Tensor, places: &[usize]) -> Result<Tensor> {
    if places.len() == x.dim(1)? {
        return Ok(x.contiguous()?);
    }
    let count = places.len();
    let places: Vec<u32> = places.iter().map(|&i| i as u32).collect();
    let places = Tensor::from_vec(places, count, x.device())?;
    Ok(x.contiguous()?.index_select(&places, 1)?)
}

/// Multi-head attention with the weights of one layer.
#[derive(Debug, Clone)]
pub(crate) struct Attention {
    /// Query, key and value in one product: `[D, 3·H·K]`.
    pub qkv: Linear,
    /// `[H·K, D]`
    pub output: Linear,
    /// Original numbers of the heads that are left.
    pub heads: Vec<usize>,
    pub head_dim: usize,
    /// What products of queries and keys are multiplied by.
    pub scale: f64,
    pub distances: Option<Distances>,
    pub rotary: Option<Rotary>,
    /// Furthest distance of a visible key.
    pub window: Option<usize>,
    /// Query, key and value of global queries: `[D, 3·H·K]`.
    pub global: Option<Linear>,
}

impl Attention {
    /// `x` [B, T, D] → [B, T, D]: attention of x over itself, plus `residual`, and then `then`.
    pub fn forward(
        &self,
        x: &Tensor,
        residual: &Tensor,
        then: Then<'_>,
        pass: &mut Pass<'_>,
    ) -> Result<Tensor> {
        let (b, t, _) = x.dims3()?;
        let (h, k) = (self.heads.len(), self.head_dim);
        if h == 0 {
            // every head is pruned: what is left of the sum is the output bias
            let bias = self.output.bias.broadcast_as(residual.shape())?;
            return finish(&(residual + bias)?, &then);
        }
        let projected = |map: &Linear| -> Result<Tensor> {
            Ok(map.forward(x, None, Then::Nothing)?.reshape((b, t, 3, h, k))?)
        };
        let of = |qkv: &Tensor, i: usize| -> Result<Tensor> {
            Ok(qkv.narrow(2, i, 1)?.squeeze(2)?.transpose(1, 2)?) // [B, H, T, K]
        };
        let qkv = projected(&self.qkv)?;
        let part = |i: usize| of(&qkv, i);
        let global = match &self.global {
            Some(map) if pass.global.contains(&true) => {
                let all = projected(map)?;
                let (query, key, value) = (of(&all, 0)?, of(&all, 1)?, of(&all, 2)?);
                Some(Global { is: pass.global.to_vec(), query, key, value })
            }
            _ => None,
        };
        let turned = |x: Tensor| match &self.rotary {
            Some(rotary) => rotary.turn(&x),
            None => Ok(x),
        };
        let query = pass.visit(Site::Query, turned(part(0)?)?, &self.heads)?;
        let key = pass.visit(Site::Key, turned(part(1)?)?, &self.heads)?;
        let value = pass.visit(Site::Value, part(2)?, &self.heads)?;
        let attend = Attend {
            query: &query,
            key: &key,
            value: &value,
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
                    pass.recorder.put(at, tensor, numbers(&places));
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
            let weight = self.output.weight.reshape((1, h, k, ()))?;
            let each = context.contiguous()?.broadcast_matmul(&weight)?; // [B, H, T, D]
            let each = pass.visit(Site::HeadOutput, each, &self.heads)?;
            if changes {
                let sum = each.sum(1)?.broadcast_add(&self.output.bias)?;
                return finish(&(sum + residual)?, &then);
            }
        }
        self.output.forward(&merge_heads(context)?, Some(residual), then)
    }
}
