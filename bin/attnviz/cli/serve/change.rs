//! What is switched off or masked in a run.

use std::collections::BTreeSet;

use attnviz::picture::token_label;
use attnviz::tokens::{Batch, Encoding};
use attnviz::{Head, Intervention, Model, Result, Token};

use super::run::wrong;

/// Heads that add nothing, and tokens that are not read.
#[derive(Debug, Default)]
pub struct Change {
    pub off: Vec<Head>,
    /// Positions, in order.
    pub masked: Vec<usize>,
    /// What they become; none where they are hidden from attention.
    mask: Option<Token>,
    /// The masked tokens as they were typed.
    were: Vec<String>,
    /// Whether positions count the tokens that are not hidden, so that later ones move up.
    moves: bool,
}

impl Change {
    /// # Errors
    /// [`Error::Input`](attnviz::Error::Input) for a head that the model does not have, and a position
    /// that is none or of a special token.
    pub fn new(
        model: &Model,
        off: &[(usize, usize)],
        masked: &[usize],
        typed: &Encoding,
    ) -> Result<Self> {
        let heads = &model.config().heads;
        let mut change = Self::default();
        for &(layer, head) in off {
            let one = Head { layer, head };
            if !heads.get(layer).is_some_and(|heads| heads.contains(&head)) {
                let why = format!("{one} is no head of this model, which has {}", sizes(heads));
                return Err(wrong("off", why));
            }
            change.off.push(one);
        }
        let masked: BTreeSet<usize> = masked.iter().copied().collect();
        for position in masked {
            let Some(token) = typed.tokens.get(position).filter(|token| !token.special) else {
                let last = typed.len().saturating_sub(1);
                let why =
                    format!("expected tokens of the text among 0 to {last}, found {position}");
                return Err(wrong("masked", why));
            };
            change.masked.push(position);
            change.were.push(token_label(token));
        }
        change.off.sort();
        change.off.dedup();
        change.moves = model.config().causal;
        let tokenizer = model.tokenizer()?;
        change.mask = tokenizer.mask_id().map(|id| Token {
            text: tokenizer.piece(id).unwrap_or_default(),
            id: Some(id),
            ..Token::default()
        });
        Ok(change)
    }

    /// The typed tokens with the mask where it replaces one.
    pub fn encoding(&self, typed: &Encoding) -> Encoding {
        let mut encoding = typed.clone();
        let Some(mask) = &self.mask else { return encoding };
        for &position in &self.masked {
            if let Some(token) = encoding.tokens.get_mut(position) {
                let (sequence, type_id) = (token.sequence, token.type_id);
                // of no word: what was typed there must not be read off the page
                *token = Token { sequence, type_id, ..mask.clone() };
            }
        }
        encoding
    }

    /// Hides from attention what no mask replaces.
    pub fn hide(&self, batch: &mut Batch) {
        for &position in self.masked.iter().filter(|_| self.mask.is_none()) {
            if let Some(real) = batch.mask.get_mut((0, position)) {
                *real = 0;
            }
        }
    }

    pub fn interventions(&self, model: &Model) -> Vec<Intervention> {
        let stack = model.config().stack();
        self.off.iter().map(|&head| Intervention::gate(stack, head, 0.0)).collect()
    }

    /// A sentence for each kind of change.
    pub fn said(&self) -> Vec<String> {
        let mut said = Vec::new();
        if !self.off.is_empty() {
            let heads: Vec<String> = self.off.iter().map(Head::to_string).collect();
            said.push(format!("Switched off: {}.", heads.join(", ")));
        }
        if !self.were.is_empty() {
            let how = match &self.mask {
                Some(mask) => format!("Replaced by {}", mask.text),
                None => "Hidden from attention".into(),
            };
            said.push(format!("{how}: {}.", self.were.join(", ")));
        }
        if self.moves && self.mask.is_none() {
            match self.were.len() {
                0 => {}
                1 => {
                    said.push("Tokens behind the hidden one are read one position earlier.".into())
                }
                _ => said.push(
                    "A token is read earlier by as many positions as are hidden before it.".into(),
                ),
            }
        }
        said
    }
}

fn sizes(heads: &[Vec<usize>]) -> String {
    let most = heads.iter().flatten().max().map_or(0, |&last| last + 1);
    format!("{} layers of up to {most} heads from 0", heads.len())
}
