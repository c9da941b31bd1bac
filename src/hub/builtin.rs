//! The checkpoint inside the binary.

#[cfg(feature = "embedded")]
use super::Asset;
use super::{ModelFiles, ModelRequest};
use crate::error::{Error, Result};

/// Name of the checkpoint that runs when none is asked for.
pub const BUILT_IN: &str = "all-MiniLM-L6-v2";

/// The model argument that asks for the built-in checkpoint by name.
const PREFIX: &str = "built-in";

/// Whether the model argument means a built-in checkpoint, and which.
pub(super) fn asked_for(model: Option<&str>) -> Option<&str> {
    match model {
        None => Some(BUILT_IN),
        Some(PREFIX) => Some(BUILT_IN),
        Some(model) => model.strip_prefix(PREFIX)?.strip_prefix(':'),
    }
}

pub(super) fn resolve(name: &str, request: &ModelRequest) -> Result<ModelFiles> {
    if name != BUILT_IN {
        return Err(Error::ModelNotFound {
            model: format!("{PREFIX}:{name}"),
            why: format!("there is one built-in checkpoint, `{PREFIX}:{BUILT_IN}`"),
        });
    }
    if let Some(folder) = &request.subfolder {
        return Err(Error::Usage {
            flag: "--subfolder".into(),
            want: "a model folder or a Hub id beside it".into(),
            found: folder.clone(),
        });
    }
    let mut files = files()?;
    if let Some(revision) = &request.revision {
        files.notes.push(format!("--revision {revision} ignored: the model is built in"));
    }
    Ok(files)
}

#[cfg(not(feature = "embedded"))]
fn files() -> Result<ModelFiles> {
    Err(Error::ModelNotFound {
        model: BUILT_IN.into(),
        why: "this build has no checkpoint inside (feature `embedded`): give --model a folder, \
              a .safetensors file or a Hub id such as sentence-transformers/all-MiniLM-L6-v2"
            .into(),
    })
}

/// Puts the bytes at an address that any tensor type and vector instruction can read in place.
#[cfg(feature = "embedded")]
#[repr(C, align(64))]
struct Aligned<T: ?Sized>(T);

#[cfg(feature = "embedded")]
macro_rules! file {
    ($name:literal) => {{
        static BYTES: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/assets/all-MiniLM-L6-v2-f16/",
            $name
        )));
        Asset::BuiltIn { name: concat!("built-in/", $name), bytes: &BYTES.0 }
    }};
}

#[cfg(feature = "embedded")]
fn files() -> Result<ModelFiles> {
    Ok(ModelFiles {
        name: format!("{BUILT_IN} (built in)"),
        revision: None,
        config: Some(file!("config.json")),
        generation: None,
        weights: vec![file!("model.safetensors")],
        index: None,
        tokenizer: super::TokenizerFiles {
            json: Some(file!("tokenizer.json")),
            vocab: Some(file!("vocab.txt")),
            config: Some(file!("tokenizer_config.json")),
            special: Some(file!("special_tokens_map.json")),
            model: Some(file!("config.json")),
            ..super::TokenizerFiles::default()
        },
        notes: Vec::new(),
    })
}
