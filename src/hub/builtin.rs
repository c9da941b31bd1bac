//! The checkpoints inside the binary.

#[cfg(feature = "embedded")]
use super::{Asset, TokenizerFiles};
use super::{ModelFiles, ModelRequest};
use crate::error::{Error, Result};

/// Name of the checkpoint that runs when none is asked for.
pub const BUILT_IN: &str = "all-MiniLM-L6-v2";

/// A small causal BERT that was trained on the King James Bible.
const KJV: &str = "kjv";

/// The model argument that asks for a built-in checkpoint by name.
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
    if ![BUILT_IN, KJV].contains(&name) {
        return Err(Error::ModelNotFound {
            model: format!("{PREFIX}:{name}"),
            why: format!("built in are `{PREFIX}:{BUILT_IN}` and `{PREFIX}:{KJV}`"),
        });
    }
    if let Some(folder) = &request.subfolder {
        return Err(Error::Usage {
            flag: "--subfolder".into(),
            want: "a model folder or a Hub id beside it".into(),
            found: folder.clone(),
        });
    }
    let mut files = files(name)?;
    if let Some(revision) = &request.revision {
        files.notes.push(format!("--revision {revision} ignored: the model is built in"));
    }
    Ok(files)
}

#[cfg(not(feature = "embedded"))]
fn files(name: &str) -> Result<ModelFiles> {
    Err(Error::ModelNotFound {
        model: name.into(),
        why: "this build has no checkpoint inside (feature `embedded`): give --model a folder, \
              a .safetensors file or a Hub id such as sentence-transformers/all-MiniLM-L6-v2"
            .into(),
    })
}

/// Puts the bytes at an address that any tensor type and vector instruction can read in place.
#[cfg(feature = "embedded")]
#[repr(C, align(64))]
struct Aligned<T: ?Sized>(T);

/// A file of a folder in assets, under a name that says where it is.
#[cfg(feature = "embedded")]
macro_rules! file {
    ($shown:literal, $folder:literal, $name:literal) => {{
        static BYTES: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/assets/",
            $folder,
            "/",
            $name
        )));
        Asset::BuiltIn { name: concat!($shown, "/", $name), bytes: &BYTES.0 }
    }};
}

#[cfg(feature = "embedded")]
fn files(name: &str) -> Result<ModelFiles> {
    Ok(if name == KJV { kjv() } else { minilm() })
}

#[cfg(feature = "embedded")]
fn minilm() -> ModelFiles {
    macro_rules! own {
        ($name:literal) => {
            file!("built-in", "all-MiniLM-L6-v2-f16", $name)
        };
    }
    let tokenizer = TokenizerFiles {
        json: Some(own!("tokenizer.json")),
        vocab: Some(own!("vocab.txt")),
        config: Some(own!("tokenizer_config.json")),
        special: Some(own!("special_tokens_map.json")),
        ..TokenizerFiles::default()
    };
    checkpoint(BUILT_IN, own!("config.json"), own!("model.safetensors"), tokenizer)
}

#[cfg(feature = "embedded")]
fn kjv() -> ModelFiles {
    macro_rules! own {
        ($name:literal) => {
            file!("built-in:kjv", "kjv", $name)
        };
    }
    let tokenizer = TokenizerFiles {
        json: Some(own!("tokenizer.json")),
        config: Some(own!("tokenizer_config.json")),
        ..TokenizerFiles::default()
    };
    checkpoint(KJV, own!("config.json"), own!("model.safetensors"), tokenizer)
}

#[cfg(feature = "embedded")]
fn checkpoint(name: &str, config: Asset, weights: Asset, tokenizer: TokenizerFiles) -> ModelFiles {
    ModelFiles {
        name: format!("{name} (built in)"),
        revision: None,
        config: Some(config.clone()),
        generation: None,
        weights: vec![weights],
        index: None,
        tokenizer: TokenizerFiles { model: Some(config), ..tokenizer },
        notes: Vec::new(),
    }
}
