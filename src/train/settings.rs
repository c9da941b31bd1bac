//! Settings that must be as they were where a run goes on.

use std::path::Path;

use serde_json::Value;

use crate::error::{Error, Result};

/// Refuses settings that differ from those that `path` is of.
pub(super) fn same(path: &Path, there: &Value, here: &Value) -> Result<()> {
    match there == here {
        true => Ok(()),
        false => Err(Error::Usage {
            flag: "--resume".into(),
            want: format!("the settings of the run that {} is of", path.display()),
            found: differences(there, here),
        }),
    }
}

/// What differs, as `name: there, now here`; of digests that they do.
fn differences(there: &Value, here: &Value) -> String {
    let mut all = Vec::new();
    for (key, now) in here.as_object().into_iter().flatten() {
        match (&there[key], now) {
            (before, now) if before == now => {}
            (before @ Value::Object(_), Value::Object(_)) => all.push(differences(before, now)),
            (before, now) => all.push(match key.strip_suffix("_sha256") {
                Some(what) => format!("another {what}"),
                None => format!("{key}: {before}, now {now}"),
            }),
        }
    }
    all.join("; ")
}
