//! A run's state as one file: whole, and replaced whole.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor, Var};
use safetensors::{Dtype, SafeTensors};

use super::run::{Plan, Run, State};
use super::settings::same;
use crate::error::{Error, Result};
use crate::model::Trainable;
use crate::output::write_by_path;

/// Key of what is not a tensor.
const ABOUT: &str = "attnviz";

/// The file of a run's state in a folder.
fn file(folder: &Path) -> PathBuf {
    folder.join("state.safetensors")
}

impl Run {
    /// Writes everything that a later step depends on into `state.safetensors` of a folder, aside and
    /// then renamed: whenever the program is killed, the file is the old or the new one.
    ///
    /// # Errors
    /// [`Error::Io`] and [`Error::Output`] where it cannot be written.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let path = file(folder);
        let failed = |why: String| Error::Output { path: path.clone(), why };
        let (state, tensors) = self.state()?;
        let about = serde_json::to_string(&state).map_err(|why| failed(why.to_string()))?;
        let about = HashMap::from([(ABOUT.to_owned(), about)]);
        write_by_path(&path, |aside| {
            safetensors::serialize_to_file(&tensors, Some(about), aside)
                .map_err(|why| failed(why.to_string()))
        })
    }

    /// Goes on from what [`Run::save`] wrote into a folder; `None` where there is nothing yet.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] for a file that is no state of a run, [`Error::Usage`] for one of a run
    /// with another plan.
    pub fn resume(folder: &Path, plan: &Plan, trainable: Trainable) -> Result<Option<Self>> {
        let path = file(folder);
        if !path.exists() {
            return Ok(None);
        }
        let bytes = std::fs::read(&path).map_err(Error::io(&path, "read it"))?;
        let (state, tensors) = read(&path, &bytes)?;
        let settings = |plan: &Plan| serde_json::to_value(plan).unwrap_or_default();
        same(&path, &settings(&state.plan), &settings(plan))?;
        Self::resumed(trainable, state, &tensors).map(Some)
    }
}

fn read(path: &Path, bytes: &[u8]) -> Result<(State, BTreeMap<String, Tensor>)> {
    let broken = |why: String| Error::checkpoint(path, why);
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(|why| broken(why.to_string()))?;
    let about = header.metadata().as_ref().and_then(|about| about.get(ABOUT));
    let about = about.ok_or_else(|| broken("it is no state of a run".into()))?;
    let state = serde_json::from_str(about).map_err(|why| broken(why.to_string()))?;
    let all = SafeTensors::deserialize(bytes).map_err(|why| broken(why.to_string()))?;
    let mut tensors = BTreeMap::new();
    for (name, view) in all.iter() {
        if view.dtype() != Dtype::F32 {
            return Err(broken(format!("`{name}` is {:?}, expected F32", view.dtype())));
        }
        let one = Tensor::from_raw_buffer(view.data(), DType::F32, view.shape(), &Device::Cpu)?;
        tensors.insert(name.to_owned(), one);
    }
    Ok((state, tensors))
}

/// The numbers of variables, by their names.
pub(super) fn values(variables: &BTreeMap<String, Var>) -> BTreeMap<String, Tensor> {
    let one = |(name, var): (&String, &Var)| (name.clone(), var.as_detached_tensor());
    variables.iter().map(one).collect()
}

/// Puts tensors into a state, under a name of their own.
pub(super) fn put(
    state: &mut BTreeMap<String, Tensor>,
    prefix: &str,
    some: BTreeMap<String, Tensor>,
) {
    state.extend(some.into_iter().map(|(name, one)| (format!("{prefix}/{name}"), one)));
}

/// The tensors that [`put`] put into a state.
pub(super) fn part(state: &BTreeMap<String, Tensor>, prefix: &str) -> BTreeMap<String, Tensor> {
    let own = |(name, one): (&String, &Tensor)| {
        Some((name.strip_prefix(prefix)?.strip_prefix('/')?.to_owned(), one.clone()))
    };
    state.iter().filter_map(own).collect()
}

/// Puts values into the variables of the same names, each of which must have one of its shape.
pub(super) fn set(
    variables: &BTreeMap<String, Var>,
    values: &BTreeMap<String, Tensor>,
) -> Result<()> {
    for (name, var) in variables {
        let found = values.get(name).map(Tensor::dims);
        match values.get(name).filter(|value| value.dims() == var.dims()) {
            Some(value) => var.set(&value.to_device(var.device())?)?,
            None => {
                let (what, want) = (format!("saved {name}"), format!("{:?}", var.dims()));
                let found = found.map_or("none".into(), |dims| format!("{dims:?}"));
                return Err(Error::Array { what, want, found });
            }
        }
    }
    Ok(())
}
