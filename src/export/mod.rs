//! Arrays out and in: safetensors, npz and JSON under the names that transformers uses; whole
//! checkpoints out as safetensors.

mod arrays;
mod attention;
mod banded;
mod cast;
mod convert;
mod folder;
mod inputs;
mod npy;
mod trained;
mod write;

pub use arrays::{Array, Arrays};
pub use attention::read_attention;
pub use banded::banded;
pub(crate) use cast::Cast;
pub use convert::{ConvertOptions, Converted, FloatType, convert};
pub(crate) use convert::{config, plain};
pub use folder::prove_folder;
pub(crate) use folder::write_folder;
pub use inputs::{read_batch, read_decoder_batch};
pub use trained::{write_start, write_trained};
pub use write::{FileFormat, Stages, Target};
