//! Attention of a sliding window in the layout that transformers gives it for Longformer.

use candle_core::{Device, Tensor};
use ndarray::Array2;

use crate::error::Result;

/// The same weights in two narrow arrays: `attentions_native` `[B,H,T,x+w+1]` and, where the batch
/// has global positions, `global_attentions` `[B,H,T,x]`.
///
/// `probs` is `[B,H,T,T]`, `radius` the furthest distance of a visible key (w = 2 · radius), x the
/// most global positions of one example. A row holds its weights on the global keys, in order, and
/// then on the keys from −radius to +radius, a global one among them as 0. Rows of global queries
/// are 0; their weights stand, by key, in the second array, which is uniform where an example has
/// fewer than x, as in the reference. T grows to a multiple of w, as the reference pads it.
///
/// # Errors
/// [`Error::Tensor`](crate::Error::Tensor) where `probs` has not four axes.
///
/// # Source
/// `LongformerBaseModelOutput` in transformers.
pub fn banded(
    probs: &Tensor,
    global: Option<&Array2<u32>>,
    radius: usize,
) -> Result<(Tensor, Option<Tensor>)> {
    let (b, h, t, _) = probs.dims4()?;
    let window = 2 * radius;
    let padded = t.next_multiple_of(window.max(1));
    let is = |example: usize, at: usize| global.is_some_and(|g| g[(example, at)] != 0);
    let places: Vec<Vec<usize>> =
        (0..b).map(|example| (0..t).filter(|&at| is(example, at)).collect()).collect();
    let x = places.iter().map(Vec::len).max().unwrap_or(0);
    let width = x + window + 1;
    let values = probs.flatten_all()?.to_vec1::<f32>()?;
    let mut native = vec![0.0f32; b * h * padded * width];
    let mut columns = vec![0.0f32; b * h * padded * x];
    for (i, weight) in columns.iter_mut().enumerate() {
        let (example, place) = (i / (h * padded * x), i % x);
        if place >= places[example].len() {
            *weight = 1.0 / padded as f32;
        }
    }
    for (head, matrix) in values.chunks_exact((t * t).max(1)).enumerate() {
        let example = head / h;
        for (i, row) in matrix.chunks_exact(t).enumerate() {
            if is(example, i) {
                let place = places[example].iter().position(|&at| at == i).unwrap_or(0);
                for (j, &weight) in row.iter().enumerate() {
                    columns[(head * padded + j) * x + place] = weight;
                }
                continue;
            }
            let out = &mut native[(head * padded + i) * width..][..width];
            for (slot, &at) in out.iter_mut().zip(&places[example]) {
                *slot = row[at];
            }
            for j in i.saturating_sub(radius)..(i + radius + 1).min(t) {
                if !is(example, j) {
                    out[x + j + radius - i] = row[j];
                }
            }
        }
    }
    let native = Tensor::from_vec(native, (b, h, padded, width), &Device::Cpu)?;
    let columns = Tensor::from_vec(columns, (b, h, padded, x), &Device::Cpu)?;
    Ok((native, (x > 0).then_some(columns)))
}
