//! Stages of a run against those of a golden: promise 1.

use attnviz::{Site, Stack, Trace};
use candle_core::Tensor;
use ndarray::Array2;

use super::{Golden, worst};

/// Attention on the tiny goldens, absolute.
pub const ATTENTION: f32 = 1e-5;
/// Other stages on the tiny goldens, relative to max(1, |ref|), unless three times the distance
/// of float32 and float64 is larger: the reference itself is no closer to the true value.
const STAGE: f32 = 1e-5;
/// That distance for the goldens whose `info.json` states none, as `fixtures/float64_distance.py`
/// measures it: of (hidden states, outputs).
const FLOAT64_DISTANCE: [(&str, f32, f32); 4] = [
    ("bert_mlm_f16", 1.8e-6, 6.7e-6),
    ("bert_mlm_bf16", 2.5e-6, 5.6e-6),
    ("bert_mlm_sharded", 2.0e-6, 5.8e-6),
    ("bert_mlm_legacy_names", 2.0e-6, 5.8e-6),
];
pub const HIDDEN: &str = "f32_vs_f64_hidden_states";
pub const OUTPUTS: &str = "f32_vs_f64_outputs";
pub const CACHE: &str = "cache_vs_no_cache";

/// How far off a stage may be whose distance has this name.
pub fn bound(golden: &Golden, distance: &str) -> f32 {
    let name = golden.folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let measured = FLOAT64_DISTANCE.iter().find(|(golden, ..)| *golden == name);
    let measured = measured.map(|&(_, hidden, outputs)| match distance {
        HIDDEN => hidden,
        _ => outputs,
    });
    let stated = golden.info.get(distance).and_then(|v| v.as_f64()).map(|v| v as f32);
    STAGE.max(3.0 * stated.or(measured).unwrap_or(0.0))
}

/// Holds a tensor against the golden's of this name; `axis` is the one of positions.
pub fn hold(
    golden: &Golden,
    stage: &str,
    got: &Tensor,
    (axis, mask): (Option<usize>, &Array2<u32>),
    bound: f32,
) {
    let (off, name) = (worst(got, golden.tensor(stage), axis, mask), golden.folder.display());
    assert!(off <= bound, "{name}, {stage}: off by {off:.1e}, at most {bound:.1e}");
}

/// What a run kept of one stack.
pub struct Kept<'a> {
    pub trace: &'a Trace,
    pub stack: Stack,
    pub layers: usize,
    pub mask: &'a Array2<u32>,
}

impl<'a> Kept<'a> {
    pub fn at(&self, layer: usize, site: Site) -> &'a Tensor {
        &self.trace.get(self.stack, layer, site).expect("kept").tensor
    }

    /// Holds the attentions of all layers against those whose names begin so.
    pub fn hold_attentions(&self, golden: &Golden, name: &str) {
        for layer in 0..self.layers {
            let probs = self.at(layer, Site::Probs);
            hold(golden, &format!("{name}.{layer}"), probs, (Some(2), self.mask), ATTENTION);
        }
    }

    /// The same of the hidden states; `last` is that behind the final norm, if there is one.
    pub fn hold_hidden_states(&self, golden: &Golden, name: &str, last: &Tensor) {
        let states = (0..self.layers).map(|layer| match layer + 1 == self.layers {
            true => last,
            false => self.at(layer, Site::Residual),
        });
        let embedded = self.at(0, Site::Embedding);
        for (i, state) in std::iter::once(embedded).chain(states).enumerate() {
            let stage = format!("{name}.{i}");
            hold(golden, &stage, state, (Some(1), self.mask), bound(golden, HIDDEN));
        }
    }
}

/// A test for each golden, with each of its configs.
#[allow(unused_macros)] // each test file uses its own part
macro_rules! goldens {
    ($($name:ident: $($config:expr),+;)+) => {
        $(#[test]
        fn $name() {
            let golden = Golden::open(stringify!($name));
            $(check(&golden, $config);)+
        })+
    };
}
#[allow(unused_imports)]
pub(crate) use goldens;
