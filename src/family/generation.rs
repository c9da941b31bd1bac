//! Where writing begins and ends: keys of config.json, or of a generation_config.json beside it.

use serde_json::Value;

use super::fields::Fields;
use crate::config::Generation;
use crate::error::Result;

/// What a config says.
pub(super) fn read(fields: &Fields) -> Result<Generation> {
    Ok(Generation {
        first: one(fields, "forced_bos_token_id")?,
        start: one(fields, "decoder_start_token_id")?.or(one(fields, "bos_token_id")?),
        ends: ids(fields, "eos_token_id")?,
        suppressed: suppressed(fields)?,
    })
}

/// What a `generation_config.json` says, before what a config said. As in transformers it alone
/// forces and forbids tokens; but where it names no start or no end, those of the config stay,
/// without which nothing could be written.
pub(crate) fn over(fields: &Fields, config: &Generation) -> Result<Generation> {
    let own = read(fields)?;
    Ok(Generation {
        start: own.start.or(config.start),
        ends: if own.ends.is_empty() { config.ends.clone() } else { own.ends },
        ..own
    })
}

fn id(fields: &Fields, key: &str, value: &Value) -> Result<u32> {
    let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
    id.ok_or_else(|| fields.wrong(key, "a token id", value.to_string()))
}

fn one(fields: &Fields, key: &str) -> Result<Option<u32>> {
    fields.get(key).map(|value| id(fields, key, value)).transpose()
}

/// An id, or a list of them.
fn ids(fields: &Fields, key: &str) -> Result<Vec<u32>> {
    match fields.get(key) {
        None => Ok(Vec::new()),
        Some(Value::Array(list)) => list.iter().map(|one| id(fields, key, one)).collect(),
        Some(one) => Ok(vec![id(fields, key, one)?]),
    }
}

/// Lists of one id forbid it; longer ones are phrases, which the reference forbids too, but which
/// no checkpoint of these families is known to bring.
fn suppressed(fields: &Fields) -> Result<Vec<u32>> {
    let mut all = ids(fields, "suppress_tokens")?;
    let words = fields.get("bad_words_ids").and_then(Value::as_array);
    let single = words.into_iter().flatten().filter_map(Value::as_array);
    for list in single.filter(|list| list.len() == 1) {
        all.push(id(fields, "bad_words_ids", &list[0])?);
    }
    Ok(all)
}
