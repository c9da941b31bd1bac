//! Arrays out and in: safetensors, npz and JSON under the names that transformers uses.

mod arrays;
mod attention;
mod inputs;
mod npy;
mod write;

pub use arrays::{Array, Arrays};
pub use attention::read_attention;
pub use inputs::read_batch;
pub use write::{FileFormat, Stages, Target};
