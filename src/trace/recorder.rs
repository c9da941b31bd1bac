//! What a run keeps.

use std::collections::BTreeMap;

use candle_core::{D, Tensor};

use super::{Keep, Kept, Site, Stack, Trace};
use crate::error::Result;

/// What to keep during a run, or during the steps of one. Nothing, unless asked.
#[derive(Debug, Clone, Default)]
pub struct Recorder {
    wants: BTreeMap<Site, Keep>,
    kept: BTreeMap<Place, Vec<Piece>>,
}

type Place = (Stack, usize, Site);

/// What one step kept of a site.
#[derive(Debug, Clone)]
struct Piece {
    /// Position of its first row.
    past: usize,
    kept: Kept,
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

    /// Keeps the rows of a step behind those of the first `past` positions; what was kept of later
    /// ones, before a rewinding, is forgotten.
    pub(crate) fn put(&mut self, at: Place, tensor: Tensor, heads: Vec<usize>, past: usize) {
        let pieces = self.kept.entry(at).or_default();
        pieces.retain(|piece| piece.past < past);
        pieces.push(Piece { past, kept: Kept { tensor, heads } });
    }

    /// Ends the recording. The rows of all steps are put together: those of scores and
    /// probabilities into one matrix, whose columns behind a step's own are 0, or `f32::MIN` where
    /// they are scores: what one pass over the finished text gives.
    ///
    /// # Errors
    /// [`Error::Tensor`](crate::Error::Tensor) where steps of different batches went into it.
    pub fn into_trace(self) -> Result<Trace> {
        let whole = |(at, pieces)| Ok((at, stitch(at, pieces)?));
        Ok(Trace { kept: self.kept.into_iter().map(whole).collect::<Result<_>>()? })
    }
}

fn stitch((stack, _, site): Place, pieces: Vec<Piece>) -> Result<Kept> {
    let squares = stack != Stack::Cross && matches!(site, Site::Scores | Site::Probs);
    let heads = pieces.first().map(|piece| piece.kept.heads.clone()).unwrap_or_default();
    let ends: Vec<usize> = pieces.iter().skip(1).map(|piece| piece.past).collect();
    let width = match pieces.last() {
        Some(last) if squares => last.kept.tensor.dim(D::Minus1)?,
        _ => 0,
    };
    let mut rows = Vec::with_capacity(pieces.len());
    for (i, piece) in pieces.into_iter().enumerate() {
        let mut tensor = piece.kept.tensor;
        let axis = tensor.rank() - 2;
        if let Some(count) = ends.get(i).map(|end| end - piece.past)
            && count < tensor.dim(axis)?
        {
            tensor = tensor.narrow(axis, 0, count)?; // rewound into the middle of a step
        }
        let columns = tensor.dim(D::Minus1)?;
        if squares && columns > width {
            tensor = tensor.narrow(D::Minus1, 0, width)?;
        } else if squares && columns < width {
            let mut shape = tensor.dims().to_vec();
            shape[axis + 1] = width - columns;
            let fill = if site == Site::Scores { f32::MIN } else { 0.0 };
            let fill = Tensor::full(fill, shape, tensor.device())?.to_dtype(tensor.dtype())?;
            tensor = Tensor::cat(&[&tensor, &fill], D::Minus1)?;
        }
        rows.push(tensor);
    }
    let tensor = match rows.len() {
        1 => rows.remove(0),
        _ => Tensor::cat(&rows, rows[0].rank() - 2)?,
    };
    Ok(Kept { tensor, heads })
}
