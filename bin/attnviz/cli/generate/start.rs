//! What a text begins with.

use attnviz::decode::Start;
use attnviz::export::read_batch;
use attnviz::tokens::{Batch, Encoding, Input, Token, Tokenizer};
use attnviz::{Error, Model, Result};
use ndarray::ArrayView1;

use crate::cli::args::GenerateArgs;
use crate::cli::console::Console;
use crate::cli::session;

/// What the command line gives, before there is a model.
pub enum Read {
    Prompt(String),
    /// What is read first and, of an encoder-decoder, what its decoder has.
    Ids(Box<(Batch, Option<Batch>)>),
}

/// What the model begins with.
pub struct Begin {
    pub start: Start,
    /// What was typed: the prompt, or what an encoder reads; `None` for ids.
    pub typed: Option<Encoding>,
    /// The decoder's tokens before the first that is written, of typed input.
    decoder: Option<Encoding>,
    /// The decoder's ids of each row, without padding.
    before: Vec<Vec<u32>>,
    /// Whether they are text that belongs to what is shown.
    shown: Vec<String>,
}

impl Read {
    pub fn new(args: &GenerateArgs) -> Result<Self> {
        if let Some(path) = &args.inputs {
            let second = attnviz::export::read_decoder_batch(path)?;
            return Ok(Self::Ids(Box::new((read_batch(path)?, second))));
        }
        match &args.prompt {
            Some(prompt) => Ok(Self::Prompt(prompt.clone())),
            None => Err(Error::Usage {
                flag: "PROMPT".into(),
                want: "a text, as one argument".into(),
                found: "nothing".into(),
            }),
        }
    }

    /// The tokens of the prompt, or of source and start token.
    pub fn begin(self, model: &Model, args: &GenerateArgs, console: &Console) -> Result<Begin> {
        let encodes = model.config().decoder.is_some();
        match self {
            Self::Ids(ids) => {
                let (first, second) = *ids;
                let start = match (encodes, second) {
                    (false, _) => Start { source: None, prompt: first },
                    (true, Some(prompt)) => Start { source: Some(first), prompt },
                    (true, None) => Start::behind(model, first)?,
                };
                Ok(Begin::new(start, None, None))
            }
            Self::Prompt(text) => {
                let mut encoding = session::encode(model, &Input::Text(text), &args.run)?;
                for note in session::token_notes(&encoding) {
                    console.note(&note);
                }
                let tokenizer = model.tokenizer()?;
                let pad = tokenizer.pad_id();
                if encodes {
                    let source = Batch::new(std::slice::from_ref(&encoding), pad);
                    let start = Start::behind(model, source)?;
                    let decoder = alone(tokenizer, &start.prompt);
                    return Ok(Begin::new(start, Some(encoding), Some(decoder)));
                }
                encoding.open_end();
                let prompt = Batch::new(std::slice::from_ref(&encoding), pad);
                let start = Start { source: None, prompt };
                Ok(Begin::new(start, Some(encoding.clone()), Some(encoding)))
            }
        }
    }
}

/// The start token as an encoding of no text.
fn alone(tokenizer: &Tokenizer, prompt: &Batch) -> Encoding {
    let token = |&id: &u32| Token {
        text: tokenizer.piece(id).unwrap_or_default(),
        id: Some(id),
        special: true,
        ..Token::default()
    };
    Encoding::of_tokens(prompt.ids.iter().map(token).collect())
}

impl Begin {
    fn new(start: Start, typed: Option<Encoding>, decoder: Option<Encoding>) -> Self {
        let rows = start.prompt.ids.rows().into_iter().zip(start.prompt.mask.rows());
        let real = |(ids, mask): (ArrayView1<'_, u32>, ArrayView1<'_, u32>)| {
            let pairs = ids.iter().zip(mask).filter(|(_, real)| **real != 0);
            pairs.map(|(&id, _)| id).collect::<Vec<u32>>()
        };
        let before: Vec<Vec<u32>> = rows.map(real).collect();
        let shown = match (&start.source, &typed) {
            (None, Some(typed)) => vec![typed.texts.join(" ")],
            _ => vec![String::new(); before.len()],
        };
        Self { start, typed, decoder, before, shown }
    }

    /// The tokenizer of what is written; none for ids of a model without one.
    pub fn writes<'m>(&self, model: &'m Model) -> Option<&'m Tokenizer> {
        let tokenizer = model.tokenizer().ok()?;
        let target = tokenizer.target().filter(|_| self.start.source.is_some());
        Some(target.unwrap_or(tokenizer))
    }

    /// The decoder's ids before the first that is written.
    pub fn before(&self, row: usize) -> &[u32] {
        self.before.get(row).map_or(&[], Vec::as_slice)
    }

    /// What stands before the continuation where it is shown.
    pub fn shown(&self, row: usize) -> String {
        self.shown.get(row).cloned().unwrap_or_default()
    }

    /// The decoder's tokens before the first that is written, of typed input.
    pub fn decoder(&self) -> Option<&Encoding> {
        self.decoder.as_ref()
    }
}
