//! Where writing begins and ends: keys of config.json, or of a generation_config.json beside it.

use serde_json::Value;

use super::fields::Fields;
use crate::config::Generation;
use crate::error::Result;

/// What a config says.
pub(super) fn read(fields: &Fields) -> Result<Generation> {
    let ends = ids(fields, "eos_token_id")?;
    Ok(Generation {
        first: one(fields, "forced_bos_token_id")?,
        start: one(fields, "decoder_start_token_id")?.or(one(fields, "bos_token_id")?),
        last: ids(fields, "forced_eos_token_id")?,
        forbidden: forbidden(fields, &ends)?,
        ends,
    })
}

/// What a `generation_config.json` says, before what a config said. As in transformers it alone
/// forces and forbids tokens; but where it names no start or no end, those of the config stay,
/// without which nothing could be written.
pub(crate) fn over(fields: &Fields, config: &Generation) -> Result<Generation> {
    let own = read(fields)?;
    let ends = if own.ends.is_empty() { config.ends.clone() } else { own.ends };
    Ok(Generation {
        start: own.start.or(config.start),
        forbidden: forbidden(fields, &ends)?,
        ends,
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

/// `suppress_tokens` one by one, and the phrases of `bad_words_ids` but for an end by itself, which
/// transformers leaves out of them.
fn forbidden(fields: &Fields, ends: &[u32]) -> Result<Vec<Vec<u32>>> {
    let key = "bad_words_ids";
    let suppressed = ids(fields, "suppress_tokens")?.into_iter().map(|id| vec![id]);
    let mut all: Vec<Vec<u32>> = suppressed.collect();
    let Some(phrases) = fields.get(key) else { return Ok(all) };
    let wrong = |found: &Value| fields.wrong(key, "lists of token ids", found.to_string());
    for phrase in phrases.as_array().ok_or_else(|| wrong(phrases))? {
        let list = phrase.as_array().filter(|list| !list.is_empty());
        let list = list.ok_or_else(|| wrong(phrase))?.iter().map(|one| id(fields, key, one));
        let phrase = list.collect::<Result<Vec<u32>>>()?;
        if !ends.iter().any(|&end| phrase == [end]) {
            all.push(phrase);
        }
    }
    Ok(all)
}
