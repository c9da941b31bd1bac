//! How configs spell rotary positions.

use serde_json::Value;

use super::fields::Fields;
use crate::config::{Rope, RopeScaling};
use crate::error::Result;

/// `rope_parameters` as transformers 5 writes it, or `rope_theta` with `rope_scaling`.
pub(super) fn read(fields: &Fields) -> Result<Rope> {
    let old = fields.number("rope_theta")?;
    let (key, all) = match fields.get("rope_parameters") {
        Some(all) => ("rope_parameters", Some(all)),
        None => ("rope_scaling", fields.get("rope_scaling")),
    };
    let number = |name: &str| {
        let value = all.and_then(|all| all.get(name)).and_then(Value::as_f64);
        let want = || format!("a number above 0 as `{name}`");
        let found = || all.map_or("nothing".into(), Value::to_string);
        let value = value.filter(|value| *value > 0.0 && value.is_finite());
        value.ok_or_else(|| fields.wrong(key, want(), found()))
    };
    let base = match all.and_then(|all| all.get("rope_theta")) {
        Some(_) => number("rope_theta")?,
        None => old.unwrap_or(10_000.0),
    };
    if base <= 0.0 {
        return Err(fields.wrong("rope_theta", "a rotary base above 0", base.to_string()));
    }
    let kind = all.and_then(|all| all.get("rope_type").or(all.get("type")));
    let scaling = match kind.and_then(Value::as_str).unwrap_or("default") {
        "default" => RopeScaling::None,
        "linear" => RopeScaling::Linear { factor: number("factor")? },
        "llama3" => RopeScaling::Llama3 {
            factor: number("factor")?,
            low: number("low_freq_factor")?,
            high: number("high_freq_factor")?,
            original: number("original_max_position_embeddings")?,
        },
        other => {
            let want = "rope_type default, linear or llama3";
            return Err(fields.wrong(key, want, format!("`{other}`")));
        }
    };
    Ok(Rope { base, scaling })
}
