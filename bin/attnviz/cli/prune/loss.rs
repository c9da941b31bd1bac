//! What a text's loss is, and the score that suits it.

use attnviz::prune::Score;
use attnviz::{Error, Model, Result, Task};

use super::super::args::{ScoringArgs, TextsArgs};

/// What a text's loss is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    MaskedLm,
    CausalLm,
    Seq2SeqLm,
    Embedding,
    Logits,
    Classes,
}

impl Loss {
    pub fn name(self) -> &'static str {
        match self {
            Self::MaskedLm => "masked-LM loss",
            Self::CausalLm => "causal-LM loss",
            Self::Seq2SeqLm => "loss of the text to write",
            Self::Embedding => "1 - cosine to the unpruned embedding",
            Self::Logits => "divergence from the unpruned logits",
            Self::Classes => "cross entropy of the classes",
        }
    }

    /// Whether it may fall as well as rise without a head.
    pub fn signed(self) -> bool {
        !matches!(self, Self::Embedding | Self::Logits)
    }

    /// As asked for, else what the model's head is for.
    pub fn of(args: &TextsArgs, model: &Model) -> Result<Option<Self>> {
        let wrong = |want: &str, found: &str| {
            Err(Error::Usage { flag: "--loss".into(), want: want.into(), found: found.into() })
        };
        let both = model.config().decoder.is_some();
        match (args.loss.as_deref(), model.config().task) {
            (Some(asked @ ("masked-lm" | "causal-lm")), _) if both => {
                wrong("seq2seq-lm, embedding or logits for a model that reads and writes", asked)
            }
            (Some(asked @ "seq2seq-lm"), _) if !both => {
                wrong("a loss for a model without a decoder beside an encoder", asked)
            }
            (Some("masked-lm"), _) | (None, Task::MaskedLm) => Ok(Some(Self::MaskedLm)),
            (Some("causal-lm"), _) | (None, Task::CausalLm) => Ok(Some(Self::CausalLm)),
            (Some("seq2seq-lm"), _) | (None, Task::Seq2SeqLm) => Ok(Some(Self::Seq2SeqLm)),
            (Some("embedding"), _) => Ok(Some(Self::Embedding)),
            (Some(_), _) => Ok(Some(Self::Logits)),
            (None, _) => Ok(None),
        }
    }
}

/// The score of a name, or the default for what the texts have.
pub fn score(name: Option<&str>, args: &ScoringArgs, seed: u64, loss: Option<Loss>) -> Score {
    let default = match loss {
        Some(loss) if loss.signed() => "gradient",
        Some(_) => "integrated",
        None => "jacobian",
    };
    // the command line takes no other names
    Score::named(name.unwrap_or(default), args.with(seed)).unwrap_or(Score::Gradient)
}
