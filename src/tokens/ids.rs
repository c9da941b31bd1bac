//! Many texts as ids alone.

use super::Tokenizer;
use crate::error::{Error, Result};

impl Tokenizer {
    /// The id of what the vocabulary does not have.
    pub(crate) fn unknown_id(&self) -> Option<u32> {
        self.special.unknown
    }

    /// Ids of texts without special tokens, and without words and offsets, which take many times
    /// their room.
    pub(crate) fn ids_of(&self, texts: &[&str]) -> Result<Vec<Vec<u32>>> {
        let failed = |why: tokenizers::Error| Error::input("text", why.to_string());
        let encoded = self.inner.encode_batch_fast(texts.to_vec(), false).map_err(failed)?;
        Ok(encoded.into_iter().map(|one| one.get_ids().to_vec()).collect())
    }
}
