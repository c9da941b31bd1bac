//! Many places, one run for several of them.

use std::collections::BTreeMap;

use candle_core::Tensor;

use super::place::{By, Place, Point, places};
use super::run::{Pair, Patching};
use crate::error::Result;
use crate::trace::{Change, Intervention, Recorder};

/// Tokens that run at once.
const TOKENS: usize = 256;

/// What patching one place gave.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Cell {
    /// Where.
    #[serde(flatten)]
    pub place: Place,
    /// The metric.
    pub value: f64,
    /// The same on the scale of [`Patching::restored`].
    pub restored: f64,
}

impl Patching<'_> {
    /// Patches the places of a point, each for itself; `heads` are those to go through, by layer, and
    /// `done` is called after each. Short prompts run several times side by side, of a model with one
    /// stack, so a value is that of [`Patching::value`] to rounding.
    ///
    /// # Errors
    /// Those of [`Patching::value`].
    pub fn sweep(
        &self,
        point: Point,
        by: By,
        heads: &BTreeMap<usize, Vec<usize>>,
        mut done: impl FnMut(),
    ) -> Result<Vec<Cell>> {
        let places = self.places(point, by, heads);
        let at_once = match self.base.written {
            Some(_) => 1,
            None => (TOKENS / self.base.read.ids.ncols().max(1)).max(1),
        };
        let mut cells = Vec::with_capacity(places.len());
        for layer in places.chunk_by(|one, next| one.layer == next.layer) {
            for some in layer.chunks(at_once) {
                for (place, value) in some.iter().zip(self.values(point, some)?) {
                    let restored = self.restored(value);
                    cells.push(Cell { place: place.clone(), value, restored });
                    done();
                }
            }
        }
        Ok(cells)
    }

    /// The places that [`Patching::sweep`] goes through.
    pub fn places(&self, point: Point, by: By, heads: &BTreeMap<usize, Vec<usize>>) -> Vec<Place> {
        places(self.model.config(), self.stack, point, by, heads, self.positions(point))
    }

    /// The metric of each of these places of one layer.
    fn values(&self, point: Point, places: &[Place]) -> Result<Vec<f64>> {
        let [first, _, ..] = places else {
            let one = |place| self.value(point, std::slice::from_ref(place));
            return places.iter().map(one).collect();
        };
        places.iter().try_for_each(|place| self.check(point, place))?;
        let pair = self.kept(point, first.layer)?;
        // up to this layer every example is the run as it is
        let change = Intervention {
            stack: self.stack,
            site: point.site(),
            layers: Some(vec![first.layer]),
            heads: None,
            positions: None,
            change: Change::Replace(mixed(&pair, places)?),
        };
        let batch = self.base.read.repeated(places.len())?;
        let hidden = self.model.forward(&batch, &mut Recorder::new(), &[change])?;
        self.read(&hidden, &batch)
    }
}

/// For each place an example: the other run's values there, and the own ones elsewhere.
fn mixed(pair: &Pair, places: &[Place]) -> Result<Tensor> {
    let mut shape = pair.own.dims().to_vec();
    shape[0] = places.len();
    let axis = shape.len() - 2;
    let (heads, positions) = (pair.heads.len().max(1), shape[axis]);
    let mut marks = Vec::with_capacity(places.len() * heads * positions);
    for place in places {
        for head in 0..heads {
            let of = pair.heads.get(head).map_or(&[][..], Vec::as_slice);
            let here =
                place.heads.as_ref().is_none_or(|all| of.iter().any(|one| all.contains(one)));
            let at = |position| place.position.is_none_or(|own| own == position);
            marks.extend((0..positions).map(|position| u8::from(here && at(position))));
        }
    }
    let mut marked = vec![1; shape.len()];
    marked[0] = places.len();
    marked[axis] = positions;
    if axis > 1 {
        marked[1] = heads;
    }
    let marks =
        Tensor::from_vec(marks, marked, pair.own.device())?.broadcast_as(shape.as_slice())?;
    let (other, own) = (pair.other.broadcast_as(shape.as_slice())?, pair.own.broadcast_as(shape)?);
    Ok(marks.where_cond(&other.contiguous()?, &own.contiguous()?)?)
}
