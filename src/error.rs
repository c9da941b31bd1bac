//! What can go wrong, in the reader's terms: which file, tensor, input line or flag, what was
//! expected and what was found, in one line.

use std::path::{Path, PathBuf};

/// The result of everything in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong. Each variant belongs to one exit code of the command line, see
/// [`Error::exit_code`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // each message documents its variant
pub enum Error {
    // 1: failed while running
    #[error("{}: could not {action}: {source}", path.display())]
    Io { path: PathBuf, action: &'static str, source: std::io::Error },
    #[error("tensor operation failed: {0}")]
    Tensor(#[from] candle_core::Error),
    #[error("{}: {why}", path.display())]
    Output { path: PathBuf, why: String },
    #[error("{what}: expected {want}, found {found}")]
    Array { what: String, want: String, found: String },

    // 2: wrong usage
    #[error("{flag}: expected {want}, found `{found}`")]
    Usage { flag: String, want: String, found: String },

    // 3: model not found or offline
    #[error("{model}: {why}")]
    ModelNotFound { model: String, why: String },

    // 4: unusable checkpoint
    #[error("{}: {why}", path.display())]
    Checkpoint { path: PathBuf, why: String },
    #[error("{}: tensor `{tensor}` is missing, expected {want:?}", path.display())]
    MissingTensor { path: PathBuf, tensor: String, want: Vec<usize> },
    #[error("{}: tensor `{tensor}` is {found:?}, expected {want:?}", path.display())]
    Shape { path: PathBuf, tensor: String, want: Vec<usize>, found: Vec<usize> },
    #[error("{}: `{key}`: expected {want}, found {found}", path.display())]
    Config { path: PathBuf, key: String, want: String, found: String },

    // 5: unusable input
    #[error("{place}: {why}")]
    Input { place: String, why: String },
}

impl Error {
    /// The exit code of the command line: 1 failed while running, 2 wrong usage, 3 model not found
    /// or offline, 4 unusable checkpoint, 5 unusable input.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Io { .. } | Error::Tensor(_) | Error::Output { .. } | Error::Array { .. } => 1,
            Error::Usage { .. } => 2,
            Error::ModelNotFound { .. } => 3,
            Error::Checkpoint { .. }
            | Error::MissingTensor { .. }
            | Error::Shape { .. }
            | Error::Config { .. } => 4,
            Error::Input { .. } => 5,
        }
    }

    pub(crate) fn io(
        path: impl AsRef<Path>,
        action: &'static str,
    ) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.as_ref().to_path_buf();
        move |source| Error::Io { path, action, source }
    }

    pub(crate) fn checkpoint(path: impl AsRef<Path>, why: impl Into<String>) -> Error {
        Error::Checkpoint { path: path.as_ref().to_path_buf(), why: why.into() }
    }

    pub(crate) fn input(place: impl Into<String>, why: impl Into<String>) -> Error {
        Error::Input { place: place.into(), why: why.into() }
    }
}
