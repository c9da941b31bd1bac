//! Checkpoints made from a golden one by changing tensors or config.

use std::collections::HashMap;
use std::path::Path;

use attnviz::{Model, Result};
use candle_core::{DType, Device, Tensor};
use serde_json::Value;
use tempfile::TempDir;

use super::{fixture, open};

/// A golden checkpoint in memory, to be changed and written somewhere else.
pub struct Variant {
    pub tensors: HashMap<String, Tensor>,
    pub config: Value,
}

impl Variant {
    pub fn of(golden: &str) -> Self {
        Self::at(&fixture("goldens").join(golden))
    }

    /// One of another folder.
    pub fn at(folder: &Path) -> Self {
        let path = folder.join("model.safetensors");
        let tensors = candle_core::safetensors::load(path, &Device::Cpu).expect("tensors");
        let config = std::fs::read(folder.join("config.json")).expect("config");
        Self { tensors, config: serde_json::from_slice(&config).expect("JSON") }
    }

    /// Renames every tensor; an empty name drops it.
    pub fn renamed(mut self, name: impl Fn(&str) -> String) -> Self {
        let all = std::mem::take(&mut self.tensors);
        let named = all.into_iter().map(|(raw, tensor)| (name(&raw), tensor));
        self.tensors = named.filter(|(name, _)| !name.is_empty()).collect();
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        assert!(self.tensors.remove(name).is_some(), "{name}");
        self
    }

    pub fn with(mut self, name: &str, tensor: Tensor) -> Self {
        self.tensors.insert(name.into(), tensor);
        self
    }

    pub fn set(mut self, key: &str, value: Value) -> Self {
        self.config[key] = value;
        self
    }

    pub fn unset(mut self, key: &str) -> Self {
        self.config.as_object_mut().expect("object").remove(key);
        self
    }

    pub fn write(&self, folder: &Path) {
        candle_core::safetensors::save(&self.tensors, folder.join("model.safetensors"))
            .expect("saved");
        std::fs::write(folder.join("config.json"), self.config.to_string()).expect("saved");
    }

    /// Writes it into a fresh folder and opens it from there.
    pub fn open(&self) -> Result<Model> {
        let folder = TempDir::new().expect("folder");
        self.write(folder.path());
        open(folder.path(), None)
    }

    /// The one line with which opening it fails, its folder's path left out.
    pub fn refusal(&self) -> (String, u8) {
        let folder = TempDir::new().expect("folder");
        self.write(folder.path());
        refusal(folder.path())
    }

    /// Cuts heads out of the weights as transformers 4 did: rows of query, key and value, columns
    /// of the output; the output bias stays.
    pub fn prune(mut self, prefix: &str, head_dim: usize, gone: &[(usize, Vec<usize>)]) -> Self {
        let mut listed = serde_json::Map::new();
        for (layer, heads) in gone {
            listed.insert(layer.to_string(), heads.clone().into());
            let at = format!("{prefix}encoder.layer.{layer}.attention");
            let cut = |tensor: &Tensor, axis: usize| {
                let kept: Vec<u32> = (0..tensor.dim(axis).expect("axis"))
                    .filter(|row| !heads.contains(&(row / head_dim)))
                    .map(|row| row as u32)
                    .collect();
                let count = kept.len();
                let kept = Tensor::from_vec(kept, count, &Device::Cpu).expect("rows");
                tensor.index_select(&kept, axis).and_then(|t| t.contiguous()).expect("cut")
            };
            for part in ["query", "key", "value"] {
                for end in ["weight", "bias"] {
                    let tensor = self.tensors.get_mut(&format!("{at}.self.{part}.{end}"));
                    let tensor = tensor.expect("part");
                    *tensor = cut(tensor, 0);
                }
            }
            let output = self.tensors.get_mut(&format!("{at}.output.dense.weight"));
            let output = output.expect("output");
            *output = cut(output, 1);
        }
        self.config["pruned_heads"] = listed.into();
        self
    }

    pub fn cast(mut self, dtype: DType) -> Self {
        for tensor in self.tensors.values_mut() {
            *tensor = tensor.to_dtype(dtype).expect("cast");
        }
        self
    }
}

/// The one line with which opening a folder fails, the folder's path left out, and its exit code.
pub fn refusal(folder: &Path) -> (String, u8) {
    let error = open(folder, None).err().expect("must be refused");
    let line = error.to_string();
    assert!(!line.contains('\n'), "one line: {line}");
    (line.replace(&folder.display().to_string(), ""), error.exit_code())
}
