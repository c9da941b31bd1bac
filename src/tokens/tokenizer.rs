//! The tokenizer: what was typed → an [`Encoding`].

use super::input::{Input, join, not_blank, place};
use super::kind::{self, Behaviour, Kind};
use super::special::Special;
use super::words;
use super::{Encoding, Limit, Token, display, gguf, load, marian};
use crate::error::{Error, Result};
use crate::hub::TokenizerFiles;

/// A pretrained tokenizer.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    pub(super) inner: load::Inner,
    pub(super) kind: Kind,
    pub(super) special: Special,
    notes: Vec<String>,
    /// Ids by name, where they are not those of `inner`.
    pub(super) lookup: Option<marian::Lookup>,
    target: Option<Box<Self>>,
}

impl Tokenizer {
    /// Opens a tokenizer from `tokenizer.json`, or else from `vocab.txt`, from `vocab.json` with
    /// `merges.txt` or `source.spm`, or from a SentencePiece model, with what `tokenizer_config.json` and the
    /// model's `config.json` say of its class; or from the metadata of a GGUF file. Padding and truncation that `tokenizer.json` asks
    /// for are switched off.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when a file is missing, malformed, or contradicts another;
    /// [`Error::Io`] when one cannot be read.
    pub fn open(files: &TokenizerFiles) -> Result<Self> {
        load::open(files).map(Self::of)
    }

    /// The tokenizer of a model's files, where they hold one.
    ///
    /// # Errors
    /// Those of [`Tokenizer::open`].
    pub fn find(files: &TokenizerFiles) -> Result<Option<Self>> {
        match &files.gguf {
            Some(asset) => Ok(gguf::open(asset)?.map(Self::of)),
            None => files.any().then(|| Self::open(files)).transpose(),
        }
    }

    fn of(loaded: load::Loaded) -> Self {
        let load::Loaded { inner, special, notes, lookup, target } = loaded;
        let target = target.map(|target| Box::new(Self::of(*target)));
        Self { kind: kind::kind(&inner), inner, special, notes, lookup, target }
    }

    /// The tokenizer of the text that the model writes, where it is not this one (Marian).
    pub fn target(&self) -> Option<&Self> {
        self.target.as_deref()
    }

    /// How it cuts words.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What it does to capitals, accents and Chinese characters.
    pub fn behaviour(&self) -> Behaviour {
        kind::behaviour(&self.inner)
    }

    /// What was assumed when the tokenizer was opened, one sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The id that fills up a batch.
    pub fn pad_id(&self) -> u32 {
        self.special.pad.unwrap_or(0)
    }

    /// The id of `[MASK]`, where the vocabulary has one.
    pub fn mask_id(&self) -> Option<u32> {
        self.special.mask
    }

    /// How many tokens there are, added ones included.
    pub fn vocab_size(&self) -> usize {
        self.lookup.as_ref().map_or_else(|| self.inner.get_vocab_size(true), marian::Lookup::len)
    }

    /// The piece of an id.
    pub fn piece(&self, id: u32) -> Option<String> {
        match &self.lookup {
            Some(lookup) => lookup.piece(id),
            None => self.inner.id_to_token(id),
        }
    }

    pub(super) fn id(&self, piece: &str) -> Option<u32> {
        match &self.lookup {
            Some(lookup) => lookup.id(piece),
            None => self.inner.token_to_id(piece),
        }
    }

    /// The piece of an id as [`Token::text`] has it.
    pub fn readable(&self, id: u32) -> Option<String> {
        Some(self.shown(id, &self.piece(id)?))
    }

    /// Tokenizes one input, with the special tokens that the model expects.
    ///
    /// # Errors
    /// [`Error::Input`] when the input is empty or becomes no token at all, when it is longer than
    /// `limit` allows (naming both numbers), or when a piece of [`Input::Tokens`] is not in a
    /// vocabulary that has no unknown token.
    pub fn encode(&self, input: &Input, limit: &Limit) -> Result<Encoding> {
        if matches!(input, Input::Words(list) | Input::Tokens(list) if list.is_empty()) {
            return Err(Error::input(place(input), "an empty list"));
        }
        let mut encoding = match input {
            Input::Text(text) => self.text(text)?,
            Input::Pair(a, b) => self.pair(a, b)?,
            Input::Words(words) => self.words(words)?,
            Input::Tokens(pieces) => self.pieces(pieces)?,
        };
        if !encoding.tokens.iter().any(|token| !token.special) {
            return Err(Error::input(place(input), "nothing in it is text that becomes a token"));
        }
        limit.apply(&mut encoding, place(input))?;
        Ok(encoding)
    }

    fn text(&self, text: &str) -> Result<Encoding> {
        not_blank("text", text)?;
        let mut tokens = self.read("text", &[text])?;
        let spans = words::assign(&mut tokens, 0, &words::split(text));
        Ok(Encoding::new(tokens, vec![text.to_owned()], vec![spans]))
    }

    fn pair(&self, a: &str, b: &str) -> Result<Encoding> {
        not_blank("text", a)?;
        not_blank("text_b", b)?;
        let mut tokens = self.read("text", &[a, b])?;
        let spans = [a, b]
            .iter()
            .enumerate()
            .map(|(sequence, text)| words::assign(&mut tokens, sequence, &words::split(text)))
            .collect();
        Ok(Encoding::new(tokens, vec![a.to_owned(), b.to_owned()], spans))
    }

    /// The tokenizers crate counts offsets from each word's start; here they count in the text
    /// that the words make when joined. Where the space before a word is part of its pieces, that
    /// text is tokenized as it is.
    fn words(&self, words: &[String]) -> Result<Encoding> {
        let (text, spans) = join(words)?;
        if !matches!(self.kind, Kind::WordPiece | Kind::WordLevel) {
            let mut tokens = self.read("words", &[&text])?;
            let spans = words::assign(&mut tokens, 0, &spans);
            return Ok(Encoding::new(tokens, vec![text], vec![spans]));
        }
        let raw = self.run("words", words)?;
        let mut tokens = self.tokens(&raw);
        for (token, word) in tokens.iter_mut().zip(raw.get_word_ids()) {
            let Some(span) = word.and_then(|word| spans.get(word as usize)) else { continue };
            token.offsets.0 += span.start;
            token.offsets.1 += span.start;
        }
        self.mark_unknown(&mut tokens, &[&text]);
        let spans = words::assign(&mut tokens, 0, &spans);
        Ok(Encoding::new(tokens, vec![text], vec![spans]))
    }

    fn unknown_text(&self) -> String {
        self.special.unknown.and_then(|id| self.piece(id)).unwrap_or_default()
    }

    /// The readable text of a token. Those beside the vocabulary are text already; an unknown one
    /// goes by the name of the unknown token, whatever piece of the text it stands for.
    pub(super) fn shown(&self, id: u32, piece: &str) -> String {
        if Some(id) == self.special.unknown {
            return self.unknown_text();
        }
        let added = match self.lookup {
            Some(_) => None, // ids of `inner` are others; nothing added has a marker in it
            None => self.inner.get_added_vocabulary().simple_id_to_token(id),
        };
        added.unwrap_or_else(|| display::readable(self.kind, piece))
    }

    fn run<'s>(
        &self,
        place: &str,
        input: impl Into<tokenizers::EncodeInput<'s>>,
    ) -> Result<tokenizers::Encoding> {
        self.inner
            .encode_char_offsets(input, true)
            .map_err(|why| Error::input(place, format!("cannot be tokenized: {why}")))
    }

    /// One text or two, without words.
    fn read(&self, place: &str, texts: &[&str]) -> Result<Vec<Token>> {
        let apart = |text| match self.lookup {
            Some(_) => marian::split_code(text),
            None => ("", text),
        };
        let parts: Vec<(&str, &str)> = texts.iter().copied().map(apart).collect();
        let raw = match parts.as_slice() {
            [(_, a), (_, b)] => self.run(place, (*a, *b)),
            _ => self.run(place, parts.first().map_or("", |(_, text)| text)),
        }?;
        let mut tokens = self.tokens(&raw);
        for (sequence, (code, _)) in parts.iter().enumerate().filter(|(_, one)| !one.0.is_empty()) {
            let token = self.piece_token(code)?;
            marian::put_code(&mut tokens, sequence, code, token);
        }
        self.mark_unknown(&mut tokens, texts);
        Ok(tokens)
    }

    /// Without words, and without what was typed for the unknown.
    fn tokens(&self, raw: &tokenizers::Encoding) -> Vec<Token> {
        let sequences = raw.get_sequence_ids();
        let id = |i: usize| match &self.lookup {
            Some(lookup) => lookup.id(&raw.get_tokens()[i]).unwrap_or(lookup.unknown),
            None => raw.get_ids()[i],
        };
        (0..raw.len())
            .map(|i| Token {
                text: self.shown(id(i), &raw.get_tokens()[i]),
                id: Some(id(i)),
                type_id: raw.get_type_ids()[i],
                sequence: sequences[i],
                word: None,
                offsets: raw.get_offsets()[i],
                special: raw.get_special_tokens_mask()[i] == 1,
                unknown: None,
            })
            .collect()
    }

    fn mark_unknown(&self, tokens: &mut [Token], texts: &[&str]) {
        let name = self.unknown_text();
        for token in tokens.iter_mut().filter(|token| token.id == self.special.unknown) {
            let Some(text) = token.sequence.and_then(|sequence| texts.get(sequence)) else {
                continue;
            };
            let source = words::slice(text, token.offsets.0, token.offsets.1).trim();
            // typed as such
            if source != name {
                token.unknown = Some(source.to_owned());
            }
        }
    }
}
