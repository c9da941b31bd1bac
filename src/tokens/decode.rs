//! Ids → text.

use tokenizers::{Decoder, DecoderWrapper};

use super::{Tokenizer, display};

impl Tokenizer {
    /// The text that ids stand for, special tokens and ids beyond the vocabulary left out. Bytes
    /// that make no character become U+FFFD. It is what transformers writes with
    /// `skip_special_tokens=True, clean_up_tokenization_spaces=False`.
    pub fn decode(&self, ids: &[u32]) -> String {
        let added = self.inner.get_added_vocabulary();
        let known = ids.iter().filter_map(|&id| self.piece(id));
        let pieces: Vec<String> = known.filter(|piece| !added.is_special_token(piece)).collect();
        if pieces.is_empty() {
            return String::new(); // the crate's decoders count on a first piece
        }
        let readable = |pieces: &[String]| -> String {
            pieces.iter().map(|piece| display::readable(self.kind(), piece)).collect()
        };
        let text = match self.inner.get_decoder() {
            None => pieces.join(" "),
            Some(decoder) if !is_safe(decoder) => readable(&pieces),
            Some(decoder) => decoder.decode(pieces.clone()).unwrap_or_else(|_| readable(&pieces)),
        };
        if self.lookup.is_some() { text.trim().to_owned() } else { text }
    }

    /// Decodes ids as they come.
    ///
    /// ```
    /// # use attnviz::hub::{HubEnv, ModelRequest, resolve};
    /// # use attnviz::tokens::Tokenizer;
    /// # fn main() -> attnviz::Result<()> {
    /// # if cfg!(not(feature = "embedded")) { return Ok(()) }
    /// # let files = resolve(&ModelRequest::default(), &HubEnv::from_env(), &())?;
    /// let tokenizer = Tokenizer::open(&files.tokenizer)?;
    /// let mut stream = tokenizer.decode_stream();
    /// let text: Vec<String> = [2023, 2003, 2307].map(|id| stream.push(id)).into();
    /// assert_eq!(text, ["this", " is", " great"]);
    /// assert_eq!(stream.finish(), "");
    /// # Ok(()) }
    /// ```
    pub fn decode_stream(&self) -> DecodeStream<'_> {
        DecodeStream { tokenizer: self, ids: Vec::new(), before: 0, told: String::new() }
    }
}

/// The crate's `Strip` counts back from the end of a piece without asking how long that is.
fn is_safe(decoder: &DecoderWrapper) -> bool {
    match decoder {
        DecoderWrapper::Strip(strip) => strip.stop == 0,
        DecoderWrapper::Sequence(steps) => steps.get_decoders().iter().all(is_safe),
        _ => true,
    }
}

/// Text from ids that come one by one; see [`Tokenizer::decode_stream`].
///
/// What is given out, put together, is [`Tokenizer::decode`] of all ids, unless later bytes turn
/// out to spoil earlier ones that were characters (byte fallback decodes a run of bytes as one).
#[derive(Debug, Clone)]
pub struct DecodeStream<'a> {
    tokenizer: &'a Tokenizer,
    /// Those still needed: the last whose text was given out, and those after.
    ids: Vec<u32>,
    /// How many of them `told` is the text of.
    before: usize,
    told: String,
}

impl DecodeStream<'_> {
    /// Takes the next id and gives the text that is certain by now: nothing while a character's
    /// bytes are incomplete, and nothing for a special token.
    pub fn push(&mut self, id: u32) -> String {
        self.ids.push(id);
        let text = self.tokenizer.decode(&self.ids);
        if text.ends_with(char::REPLACEMENT_CHARACTER) {
            return String::new();
        }
        let new = self.beyond(&text);
        if !new.is_empty() {
            self.ids.drain(..self.before);
            self.before = self.ids.len();
            self.told = self.tokenizer.decode(&self.ids);
        }
        new
    }

    /// What was held back, bytes that never became a character as U+FFFD.
    pub fn finish(self) -> String {
        self.beyond(&self.tokenizer.decode(&self.ids))
    }

    fn beyond(&self, text: &str) -> String {
        match text.strip_prefix(&self.told) {
            Some(new) => new.to_owned(),
            None => text.chars().skip(self.told.chars().count()).collect(),
        }
    }
}
