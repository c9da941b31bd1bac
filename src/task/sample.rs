//! One batch of examples: what the model reads, and what it is held against.

use candle_core::Tensor;
use ndarray::Array2;

use super::target::Target;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::tokens::{Batch, Encoding, Input, Limit};
use crate::trace::{Intervention, Recorder};

/// One batch of examples.
#[derive(Debug, Clone)]
pub struct Sample {
    /// What the model reads.
    pub batch: Batch,
    /// Which tokens were added by the tokenizer, `[B,T]`.
    pub special: Array2<bool>,
    /// What the decoder of an encoder-decoder reads; without it the encoder alone runs.
    pub written: Option<Written>,
    /// What it is held against; `None` for scores that need no loss.
    pub target: Option<Target>,
}

/// The texts that the decoder of an encoder-decoder is to have written.
#[derive(Debug, Clone)]
pub struct Written {
    /// What it reads of them.
    pub batch: Batch,
    /// Which tokens were added by the tokenizer, `[B,T]`.
    pub special: Array2<bool>,
}

impl Sample {
    /// The batch of these inputs, padded with `pad_id`.
    pub fn new(encodings: &[Encoding], pad_id: u32, target: Option<Target>) -> Self {
        let batch = Batch::new(encodings, pad_id);
        Self { special: special(encodings, &batch), batch, written: None, target }
    }

    /// The same with what the decoder reads, as [`Tokenizer::encode_target`] gives it.
    ///
    /// [`Tokenizer::encode_target`]: crate::tokens::Tokenizer::encode_target
    pub fn with_written(mut self, encodings: &[Encoding], pad_id: u32) -> Self {
        let batch = Batch::new(encodings, pad_id);
        self.written = Some(Written { special: special(encodings, &batch), batch });
        self
    }

    /// The texts whose positions [`run`](Self::run) gives: those that are written, where there are
    /// any, else those that are read.
    pub fn last(&self) -> &Batch {
        self.written.as_ref().map_or(&self.batch, |written| &written.batch)
    }

    /// Runs the model over the batch, of an encoder-decoder with texts to write through both stacks:
    /// the last layer's output, `[B,T,D]`, for the positions of [`last`](Self::last).
    ///
    /// # Errors
    /// Those of [`Model::forward`], [`Model::encode`] and [`Model::decode`].
    pub fn run(
        &self,
        model: &Model,
        recorder: &mut Recorder,
        changes: &[Intervention],
    ) -> Result<Tensor> {
        match &self.written {
            None => model.forward(&self.batch, recorder, changes),
            Some(written) => {
                let memory = model.encode(&self.batch, recorder, changes)?;
                model.decode(&written.batch, Some(&memory), None, recorder, changes)
            }
        }
    }
}

fn special(encodings: &[Encoding], batch: &Batch) -> Array2<bool> {
    let special = |(b, t): (usize, usize)| {
        encodings.get(b).and_then(|one| one.tokens.get(t)).is_none_or(|token| token.special)
    };
    Array2::from_shape_fn(batch.ids.dim(), special)
}

/// Tokens of an input, held against what the model takes: at most as many as it has positions for,
/// or fewer where `limit` says so.
///
/// # Errors
/// Those of [`Tokenizer::encode`](crate::tokens::Tokenizer::encode), and
/// [`Error::Input`](crate::Error::Input) for a token that the model has no embedding of.
pub fn encode(model: &Model, input: &Input, limit: &Limit) -> Result<Encoding> {
    let config = model.config();
    let most = config.max_positions;
    let max = Some(limit.max.map_or(most, |asked| most.min(asked)));
    let mut encoding = model.tokenizer()?.encode(input, &Limit { max, ..*limit })?;
    encoding.limit_types(config.type_vocab_size);
    encoding.check_ids(config.vocab_size)?;
    Ok(encoding)
}

/// What the decoder of an encoder-decoder reads of a text that it is to have written, and the token
/// that it is to write behind each: the next one, and at the end the one that ends a text, where the
/// tokenizer has such.
///
/// # Errors
/// [`Error::Checkpoint`] for a model without such a decoder or without a token that it starts from,
/// those of [`Tokenizer::encode_target`](crate::tokens::Tokenizer::encode_target).
pub fn encode_written(
    model: &Model,
    text: &str,
    limit: &Limit,
) -> Result<(Encoding, Vec<Option<u32>>)> {
    let lacks = |why: &str| Error::checkpoint(&model.report().name, why);
    let decoder = model.config().decoder.as_ref();
    let decoder = decoder.ok_or_else(|| lacks("it has no decoder beside an encoder"))?;
    let start = decoder.generation.start.ok_or_else(|| {
        lacks(
            "the configuration names no token that a decoder starts from (decoder_start_token_id)",
        )
    })?;
    let most = decoder.max_positions;
    let limit = Limit { max: Some(limit.max.map_or(most, |asked| most.min(asked))), ..*limit };
    let tokenizer = model.tokenizer()?;
    let read = tokenizer.encode_target(text, start, &limit)?;
    read.check_ids(decoder.vocab_size)?;
    let side = tokenizer.target().unwrap_or(tokenizer);
    let whole = side.encode(&Input::Text(text.into()), &limit)?;
    let end = whole.tokens.last().filter(|token| token.special).and_then(|token| token.id);
    let mut next: Vec<Option<u32>> = read.tokens.iter().skip(1).map(|token| token.id).collect();
    next.push(end);
    Ok((read, next))
}
