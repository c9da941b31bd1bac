//! What must not get worse: the losses of texts, labelled sets with what a model makes of them, and
//! whether two runs differ by more than chance.
//!
//! A [`Sample`] is a batch with what it is held against, a [`Set`] a labelled set that is encoded for
//! one model. Whatever changes a model, gates or surgery or training, is measured by the same items.

mod classes;
mod correlation;
mod drawn;
mod encoded;
mod labelled;
mod measure;
mod paired;
#[cfg(feature = "parquet")]
mod parquet;
mod probe;
mod reached;
mod rows;
mod sample;
mod set;
mod target;
mod teller;

pub(crate) use classes::named;
pub use correlation::{pearson, spearman};
pub(crate) use drawn::drawn;
pub use labelled::{Item, Label, Labelled, Split};
pub use measure::{Likeness, Outputs, cosines, likeness, outputs};
pub(crate) use measure::{joined, outputs_of};
pub use paired::{Effect, McNemar, benjamini_hochberg, effect, holm, mcnemar};
#[cfg(feature = "parquet")]
pub use parquet::THREAD as PARQUET_THREAD;
pub use probe::{Probe, STRENGTHS, Told, told};
pub use reached::{Answers, Reached};
pub use sample::{Sample, Written, encode, encode_written};
pub use set::Set;
pub(crate) use target::unit;
pub use target::{Target, embedding, mask_some};
