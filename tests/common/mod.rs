//! What several test files share: the golden checkpoints and comparing tensors.
#![allow(dead_code)] // each test file uses its own part

pub mod gguf;
pub mod kinds;
pub mod ran;
pub mod stages;
pub mod variant;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use attnviz::hub::{self, HubEnv, ModelRequest};
use attnviz::tokens::Batch;
use attnviz::{Keep, LoadOptions, Model, Recorder, Result, Site, Stack, Trace};
use candle_core::{DType, Device, Tensor};
use ndarray::Array2;

pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// The names in a folder, in order.
pub fn files_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("folder");
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("entry").file_name();
    let mut names: Vec<String> =
        entries.map(|entry| name(entry).into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

/// A model from a folder, optionally with another config.
pub fn open(folder: &Path, config: Option<&str>) -> Result<Model> {
    open_with(folder, config, &LoadOptions::default())
}

pub fn open_with(folder: &Path, config: Option<&str>, options: &LoadOptions) -> Result<Model> {
    let request = ModelRequest {
        model: Some(folder.display().to_string()),
        config: config.map(|name| folder.join(name)),
        ..ModelRequest::default()
    };
    Model::open(&hub::resolve(&request, &HubEnv::from_env(), &())?, options)
}

/// One golden folder: a tiny checkpoint and what transformers computes from it.
pub struct Golden {
    pub folder: PathBuf,
    pub tensors: HashMap<String, Tensor>,
    pub info: serde_json::Value,
}

impl Golden {
    pub fn open(name: &str) -> Self {
        let mut golden = Self::at(fixture("goldens").join(name));
        let info = std::fs::read(golden.folder.join("info.json")).expect("info.json");
        golden.info = serde_json::from_slice(&info).expect("JSON");
        golden
    }

    /// A folder with `golden.safetensors` and no `info.json`.
    pub fn at(folder: PathBuf) -> Self {
        let tensors =
            candle_core::safetensors::load(folder.join("golden.safetensors"), &Device::Cpu)
                .expect("golden tensors");
        Self { folder, tensors, info: serde_json::Value::Null }
    }

    pub fn tensor(&self, name: &str) -> &Tensor {
        self.tensors.get(name).unwrap_or_else(|| panic!("no golden tensor {name}"))
    }

    pub fn ids(&self, name: &str) -> Array2<u32> {
        let tensor = self.tensor(name);
        let shape = tensor.dims2().expect("two axes");
        let ids = tensor.flatten_all().and_then(|t| t.to_vec1::<i64>()).expect("ids");
        Array2::from_shape_vec(shape, ids.into_iter().map(|id| id as u32).collect()).expect("ids")
    }

    pub fn batch(&self) -> Batch {
        let mask = self.ids("attention_mask");
        let lengths = mask.rows().into_iter().map(|row| row.sum() as usize).collect();
        let ids = self.ids("input_ids");
        let type_ids = match self.tensors.contains_key("token_type_ids") {
            true => self.ids("token_type_ids"),
            false => Array2::zeros(ids.dim()),
        };
        let global = "global_attention_mask";
        let global = self.tensors.contains_key(global).then(|| self.ids(global));
        Batch { ids, mask, type_ids, global, lengths }
    }
}

/// Everything a golden names, computed here.
pub struct Run {
    pub trace: Trace,
    pub hidden: Tensor,
    pub batch: Batch,
}

/// Every site of an attention, and what is before and behind it.
pub const SITES: [Site; 9] = [
    Site::Embedding,
    Site::Query,
    Site::Key,
    Site::Value,
    Site::Scores,
    Site::Probs,
    Site::Context,
    Site::HeadOutput,
    Site::Residual,
];

/// Keeps what a golden names.
pub fn recorder() -> Recorder {
    let sites = [Site::Embedding, Site::Residual, Site::Probs];
    sites.into_iter().fold(Recorder::new(), |recorder, site| recorder.keep(site, Keep::All))
}

pub fn record(model: &Model, batch: &Batch, interventions: &[attnviz::Intervention]) -> Run {
    let mut recorder = recorder();
    let hidden = model.forward(batch, &mut recorder, interventions).expect("forward");
    Run { trace: recorder.into_trace().expect("trace"), hidden, batch: batch.clone() }
}

impl Run {
    pub fn kept(&self, layer: usize, site: Site) -> &Tensor {
        &self.trace.get(Stack::Encoder, layer, site).expect("recorded").tensor
    }

    /// `hidden_states.i` as transformers counts them.
    pub fn hidden_state(&self, i: usize) -> &Tensor {
        match i {
            0 => self.kept(0, Site::Embedding),
            i => self.kept(i - 1, Site::Residual),
        }
    }
}

pub fn numbers(tensor: &Tensor) -> Vec<f32> {
    let tensor = tensor.to_dtype(DType::F32).and_then(|t| t.flatten_all()).expect("numbers");
    tensor.to_vec1::<f32>().expect("numbers")
}

/// Largest |got − want| / max(1, |want|) over real query positions. `axis` is the one of
/// positions; rows where `mask` [B, T] is 0 are left out.
pub fn worst(got: &Tensor, want: &Tensor, axis: Option<usize>, mask: &Array2<u32>) -> f32 {
    assert_eq!(got.dims(), want.dims());
    let shape = want.dims();
    let real = |index: usize| {
        let Some(axis) = axis else { return true };
        let inner: usize = shape[axis + 1..].iter().product();
        let outer: usize = shape[1..].iter().product();
        mask[(index / outer, index / inner % shape[axis])] != 0
    };
    let mut worst = 0.0f32;
    for (i, (g, w)) in numbers(got).into_iter().zip(numbers(want)).enumerate() {
        if real(i) {
            let off = (g - w).abs() / w.abs().max(1.0);
            worst = if off > worst || off.is_nan() { off } else { worst };
            assert!(!off.is_nan(), "NaN at {i}");
        }
    }
    worst
}
