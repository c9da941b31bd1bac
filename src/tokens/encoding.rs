//! The tokens of one input.

use super::Token;
use super::words::{self, Span};
use crate::error::{Error, Result};

/// One input as the model will read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoding {
    /// Every token, special ones included, no padding: T of them.
    pub tokens: Vec<Token>,
    /// What was typed, by sequence: one text, or two of a pair. Words and pieces that came apart
    /// are joined by spaces, and offsets count in the joined text.
    pub texts: Vec<String>,
    /// How many tokens `--truncate` removed.
    pub cut: usize,
    /// Positions of the tokens that see all and are seen by all, in models that have such
    /// (Longformer); `None` leaves them to the model.
    pub global: Option<Vec<usize>>,
    /// The words of each sequence.
    pub(super) words: Vec<Vec<Span>>,
}

/// How much of a text the vocabulary does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unknown {
    /// Tokens that became the unknown token.
    pub count: usize,
    /// All tokens that were typed, special ones left out.
    pub of: usize,
    /// Hub id of a model whose vocabulary would know most of them, if they are of a script that
    /// one is known for.
    pub knows: Option<&'static str>,
}

impl Encoding {
    pub(super) fn new(tokens: Vec<Token>, texts: Vec<String>, words: Vec<Vec<Span>>) -> Self {
        Self { tokens, texts, cut: 0, global: None, words }
    }

    /// Tokens that come from no text, such as the one that a decoder starts from.
    pub fn of_tokens(tokens: Vec<Token>) -> Self {
        Self { tokens, texts: Vec::new(), cut: 0, words: Vec::new(), global: None }
    }

    /// How many tokens there are, special ones included.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// The text of each word of a sequence (0 or 1) as it was typed, by [`Token::word`].
    pub fn words(&self, sequence: usize) -> Vec<&str> {
        let text = self.texts.get(sequence).map_or("", String::as_str);
        let spans = self.words.get(sequence).map_or(&[][..], Vec::as_slice);
        spans.iter().map(|span| words::slice(text, span.start, span.end)).collect()
    }

    /// Gives a sequence (0 or 1) the words that the caller says it has, in place of those by the
    /// Unicode rules: `spans` are `start..end` in characters of its text, in order, none overlapping
    /// another. Characters outside all of them belong to no word; words that one token spans become
    /// one, and words without a token are not counted.
    ///
    /// # Errors
    /// [`Error::Input`] naming the first span that is empty, out of order, or beyond the text.
    pub fn set_words(&mut self, sequence: usize, spans: &[(usize, usize)]) -> Result<()> {
        let wrong = |why: String| Error::input("spans", why);
        let Some(text) = self.texts.get(sequence) else {
            let count = self.texts.len();
            return Err(wrong(format!("for text {sequence}, but there are {count} (from 0)")));
        };
        let length = text.chars().count();
        let mut before = 0;
        for &(start, end) in spans {
            let why = if end <= start {
                "is empty".to_owned()
            } else if start < before {
                format!("begins before the one before it ends, at {before}")
            } else if end > length {
                format!("ends beyond the text, which has {length} characters")
            } else {
                before = end;
                continue;
            };
            return Err(wrong(format!("[{start},{end}] {why}")));
        }
        let spans: Vec<Span> = spans.iter().map(|&(start, end)| Span { start, end }).collect();
        let words = words::assign(&mut self.tokens, sequence, &spans);
        if let Some(slot) = self.words.get_mut(sequence) {
            *slot = words;
        }
        Ok(())
    }

    /// Brings token types into a model that knows only so many: types beyond become 0. A model with
    /// one type, or none, is given pairs whose separators alone tell the two texts apart.
    pub fn limit_types(&mut self, types: usize) {
        for token in &mut self.tokens {
            if token.type_id as usize >= types {
                token.type_id = 0;
            }
        }
    }

    /// What the vocabulary did not know, if anything.
    pub fn unknown(&self) -> Option<Unknown> {
        let of = self.tokens.iter().filter(|token| !token.special).count();
        let sources: Vec<&str> =
            self.tokens.iter().filter_map(|token| token.unknown.as_deref()).collect();
        // a longer word is unknown to every vocabulary of pieces
        let words = || sources.iter().filter(|text| text.chars().count() <= LONGEST_WORD);
        let any = |test: fn(char) -> bool| words().any(|text| text.chars().any(test));
        let typed = |test: fn(char) -> bool| self.texts.iter().any(|text| text.chars().any(test));
        let knows = match any(is_han) && !typed(is_kana_or_hangul) {
            true => Some("bert-base-chinese"),
            false if any(char::is_alphabetic) => Some("bert-base-multilingual-cased"),
            false => None,
        };
        (!sources.is_empty()).then_some(Unknown { count: sources.len(), of, knows })
    }

    /// Checks that the embedding table has a row for every token.
    ///
    /// # Errors
    /// [`Error::Input`] naming the first token without one, its id and the number of rows.
    pub fn check_ids(&self, vocab_rows: usize) -> Result<()> {
        for (position, token) in self.tokens.iter().enumerate() {
            match token.id {
                Some(id) if id as usize >= vocab_rows => {
                    let why = format!(
                        "id {id} is beyond the model's {vocab_rows} embeddings; \
                         the tokenizer does not belong to this checkpoint"
                    );
                    return Err(Error::input(format!("token {position} `{}`", token.text), why));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Characters of the longest word that BERT's tokenizer cuts into pieces.
const LONGEST_WORD: usize = 100;

fn is_han(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3134f}')
}

fn is_kana_or_hangul(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{1100}'..='\u{11ff}' | '\u{ac00}'..='\u{d7af}')
}
