//! `pytorch_model.bin`: the tensors of a pickle, left where they lie in the file.

mod archive;
mod read;
mod state;

use std::ops::Range;

use safetensors::Dtype;

use archive::Archive;
use state::View;

/// A tensor of the file.
pub(super) struct Found {
    pub name: String,
    pub shape: Vec<usize>,
    pub dtype: Dtype,
    pub place: Place,
}

/// Its numbers, in row order, little-endian.
pub(super) enum Place {
    InFile(Range<usize>),
    /// Put into row order or turned from big-endian.
    Copied(Vec<u8>),
}

pub(super) struct Pickled {
    pub tensors: Vec<Found>,
    /// What was left aside.
    pub notes: Vec<String>,
}

/// Reads which tensors a file of `torch.save` holds, and where.
///
/// Nothing in it is executed, and what is more than a dictionary of tensors is refused. The error
/// says what is wrong, without the file's name.
pub(super) fn read(bytes: &[u8]) -> Result<Pickled, String> {
    let mut archive = archive::open(bytes)?;
    let views = std::mem::take(&mut archive.state.views);
    // views may share a storage; a file whose views add up to many times its size is made up
    let mut left = (8 * bytes.len()).max(1 << 20);
    let mut copies = bytes.len();
    let mut tensors = Vec::with_capacity(views.len());
    for view in views {
        let length = length(&view)?;
        left = left.checked_sub(length).ok_or("its tensors overlap many times over")?;
        let place = place(&archive, &view, length, bytes, &mut copies)?;
        let View { name, shape, dtype, .. } = view;
        tensors.push(Found { name, shape, dtype, place });
    }
    Ok(Pickled { tensors, notes: archive.state.notes })
}

/// Bytes of a tensor in row order.
fn length(view: &View) -> Result<usize, String> {
    let size = view.dtype.bitsize() / 8;
    let bytes = view.shape.iter().try_fold(size, |all, &n| all.checked_mul(n));
    bytes.ok_or_else(|| format!("tensor `{}` has the impossible shape {:?}", view.name, view.shape))
}

fn place(
    archive: &Archive,
    view: &View,
    length: usize,
    bytes: &[u8],
    copies: &mut usize,
) -> Result<Place, String> {
    let name = &view.name;
    let Some(storage) = archive.storages.get(&view.key) else {
        return Err(format!("the storage `{}` of tensor `{name}` is not in the file", view.key));
    };
    if length == 0 {
        return Ok(Place::InFile(storage.start..storage.start));
    }
    let size = view.dtype.bitsize() / 8;
    let end = last(view).and_then(|last| last.checked_add(1)?.checked_mul(size));
    if end.is_none_or(|end| end > storage.len()) {
        return Err(format!(
            "tensor `{name}` reaches beyond its storage of {} bytes: shape {:?}, strides {:?}",
            storage.len(),
            view.shape,
            view.strides
        ));
    }
    let start = storage.start + view.offset * size;
    let swap = archive.big_endian && size > 1;
    if in_row_order(view) && !swap {
        return Ok(Place::InFile(start..start + length));
    }
    *copies = copies.checked_sub(length).ok_or("its tensors overlap many times over")?;
    Ok(Place::Copied(gather(view, &bytes[start..storage.end], size, length, swap)))
}

/// Offset of the last element, unless it is beyond counting.
fn last(view: &View) -> Option<usize> {
    let mut steps = view.shape.iter().zip(&view.strides);
    steps.try_fold(view.offset, |at, (n, stride)| at.checked_add((n - 1).checked_mul(*stride)?))
}

fn in_row_order(view: &View) -> bool {
    let mut want = 1;
    view.shape.iter().zip(&view.strides).rev().all(|(&n, &stride)| {
        let fits = n == 1 || stride == want;
        want *= n;
        fits
    })
}

/// The elements in row order. The caller has checked that all lie in `storage`, which starts at
/// the first.
fn gather(view: &View, storage: &[u8], size: usize, length: usize, swap: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(length);
    // an axis of one element may have any stride
    let axes: Vec<(usize, usize)> =
        view.shape.iter().copied().zip(view.strides.iter().copied()).filter(|a| a.0 > 1).collect();
    let mut index = vec![0usize; axes.len()];
    let mut at = 0;
    while out.len() < length {
        let element = &storage[at * size..][..size];
        match swap {
            true => out.extend(element.iter().rev()),
            false => out.extend(element),
        }
        for (&(count, stride), i) in axes.iter().zip(&mut index).rev() {
            *i += 1;
            at += stride;
            if *i < count {
                break;
            }
            at -= count * stride;
            *i = 0;
        }
    }
    out
}
