//! Tokens that were written rather than typed.

use super::{Encoding, Token, Tokenizer, words};

impl Encoding {
    /// Takes away the special tokens at the end, such as `[SEP]`: they say that the text is over,
    /// and a continuation comes before them.
    pub fn open_end(&mut self) {
        while self.tokens.last().is_some_and(|token| token.special && self.tokens.len() > 1) {
            self.tokens.pop();
        }
    }
}

impl Tokenizer {
    /// `encoding` with the tokens of `ids` behind it, as a sequence of their own: their text, words
    /// and offsets are those of the continuation, whose spaces depend on what is before it. A
    /// character that several tokens share is all of theirs.
    pub fn continued(&self, encoding: &Encoding, ids: &[u32]) -> Encoding {
        let mut all = encoding.clone();
        let sequence = all.texts.len();
        let mut stream = self.decode_stream();
        for id in encoding.tokens.iter().filter_map(|token| token.id) {
            stream.push(id);
        }
        let added = self.inner.get_added_vocabulary();
        let (mut text, mut end) = (String::new(), 0);
        let mut tokens: Vec<Token> = Vec::with_capacity(ids.len());
        let mut held = 0; // tokens at the end whose character is not whole yet
        let mut give = |tokens: &mut [Token], held: &mut usize, new: String| {
            let start = end;
            end += new.chars().count();
            text += &new;
            let first = tokens.len().saturating_sub(*held);
            for token in tokens[first..].iter_mut().filter(|token| !token.special) {
                token.offsets = (start, end);
            }
            *held = 0;
        };
        for &id in ids {
            let piece = self.piece(id).unwrap_or_default();
            let special = added.is_special_token(&piece);
            tokens.push(Token {
                text: self.shown(id, &piece),
                id: Some(id),
                sequence: (!special).then_some(sequence),
                special,
                ..Token::default()
            });
            held += 1;
            let new = stream.push(id);
            if !new.is_empty() {
                give(&mut tokens, &mut held, new);
            }
        }
        give(&mut tokens, &mut held, stream.finish());
        let spans = words::assign(&mut tokens, sequence, &words::split(&text));
        all.tokens.extend(tokens);
        all.texts.push(text);
        all.words.push(spans);
        all
    }
}
