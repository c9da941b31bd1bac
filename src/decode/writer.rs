//! A prompt → a continuation, token by token: [`Writer`].

use std::ops::ControlFlow;

use candle_core::Tensor;
use ndarray::{Array2, s};

use super::sampler::{Choice, Sampler};
use super::text::{Text, Written, batch};
use crate::error::{Error, Result};
use crate::model::{Cache, Memory, Model};
use crate::tokens::Batch;
use crate::trace::{Intervention, Recorder, Trace};

/// What a [`Writer`] starts from.
#[derive(Debug, Clone)]
pub struct Start {
    /// What an encoder-decoder's encoder reads, `[B, S]`; `None` for a decoder by itself.
    pub source: Option<Batch>,
    /// What the decoder has before it writes, `[B, P]`: prompts padded on the left, or, behind an
    /// encoder, the start token.
    pub prompt: Batch,
}

impl Start {
    /// A decoder behind what its encoder reads: from its start token, for each row of `source`.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] where the config names no start token.
    pub fn behind(model: &Model, source: Batch) -> Result<Self> {
        let Some(start) = model.config().generation.start else {
            let why = "its config names no decoder_start_token_id to begin with";
            return Err(Error::checkpoint(&model.report().name, why));
        };
        let shape = (source.ids.nrows(), 1);
        let prompt = Batch::from_ids(Array2::from_elem(shape, start), Array2::ones(shape));
        Ok(Self { source: Some(source), prompt })
    }
}

/// How far to write.
#[derive(Debug, Clone, Default)]
pub struct Until {
    /// Most new tokens.
    pub tokens: usize,
    /// Tokens that end a text; they are part of it.
    pub ends: Vec<u32>,
    /// Tokens of which one is taken last, where a text has not ended before; none: any token.
    pub last: Vec<u32>,
    /// Whether to keep the logits of every step, `[B, V]` each.
    pub keep_logits: bool,
}

impl Until {
    /// No tokens yet, and the ends that a model knows.
    pub fn of(model: &Model) -> Self {
        let own = &model.config().generation;
        Self { ends: own.ends.clone(), last: own.last.clone(), ..Self::default() }
    }
}

/// Texts and what was kept while they were written.
#[derive(Debug, Clone)]
pub struct Writing {
    /// One per row of the prompt.
    pub texts: Vec<Written>,
    /// What the recorder asked for, over all positions that were read: every token but the last.
    pub trace: Trace,
    /// The logits that each step's token was taken from, `[B, V]`; empty unless asked for.
    pub logits: Vec<Tensor>,
}

/// Writes with a causal model or an encoder-decoder. The prompt is read once; every
/// [`Writer::write`] begins behind it, with the cache rewound.
///
/// ```no_run
/// use std::ops::ControlFlow;
///
/// use attnviz::decode::{Sampler, Sampling, Start, Until, Writer};
/// use attnviz::tokens::{Batch, Input, Limit};
/// use attnviz::{Model, Recorder};
///
/// let model = Model::from_pretrained("gpt2")?;
/// let tokenizer = model.tokenizer()?;
/// let prompt = tokenizer.encode(&Input::Text("Once upon a".into()), &Limit::default())?;
/// let prompt = Batch::new(&[prompt], tokenizer.pad_id());
/// let start = Start { source: None, prompt };
/// let mut writer = Writer::new(&model, start, true, Recorder::new(), &[])?;
/// let mut samplers = [Sampler::new(Sampling { temperature: 0.7, ..Sampling::default() }, 1)?];
/// let until = Until { tokens: 20, ..Until::default() };
/// let writing = writer.write(&mut samplers, &until, &mut |_, _| ControlFlow::Continue(()))?;
/// println!("{}", tokenizer.decode(&writing.texts[0].ids));
/// # Ok::<(), attnviz::Error>(())
/// ```
pub struct Writer<'m> {
    model: &'m Model,
    interventions: &'m [Intervention],
    memory: Option<Memory>,
    /// `None` reads everything again at every step, for comparison.
    cache: Option<Cache>,
    prompt: Batch,
    /// What the prompt left behind: what was kept of it and the logits of its last token, [B, V].
    read: (Recorder, Tensor),
}

impl<'m> Writer<'m> {
    /// Reads the prompt, and before it what the encoder has to read.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] for a model that is no decoder or has no map to the vocabulary,
    /// [`Error::Input`] for an empty prompt or one whose last token is padding, and those of
    /// [`Model::decode`].
    pub fn new(
        model: &'m Model,
        start: Start,
        cached: bool,
        mut recorder: Recorder,
        interventions: &'m [Intervention],
    ) -> Result<Self> {
        let Start { source, prompt } = start;
        if prompt.mask.ncols() == 0
            || prompt.mask.column(prompt.mask.ncols() - 1).iter().any(|&m| m == 0)
        {
            return Err(Error::input("prompt", "expected tokens up to the last position"));
        }
        let encode = |source: &Batch| model.encode(source, &mut recorder, interventions);
        let memory = source.as_ref().map(encode).transpose()?;
        let mut cache = cached.then(|| model.cache());
        let step = Step { model, memory: memory.as_ref(), interventions };
        let logits = step.logits(&prompt, cache.as_mut(), &mut recorder)?;
        Ok(Self { model, interventions, memory, cache, prompt, read: (recorder, logits) })
    }

    /// How many tokens the model has positions for behind the longest prompt: it need not read the
    /// last one.
    pub fn room(&self) -> usize {
        let config = self.model.config();
        let most = config.decoder.as_deref().unwrap_or(config).max_positions;
        let longest = self.prompt.lengths.iter().max().copied().unwrap_or(0);
        (most + 1).saturating_sub(longest)
    }

    /// Writes one text for each row of the prompt, with a sampler each; `each` sees every token
    /// with the number of its row, and may stop that text behind it.
    ///
    /// # Errors
    /// [`Error::Input`] where there is not a sampler for each row, or not room for so many tokens;
    /// those of [`Sampler::choose`] and [`Model::decode`].
    pub fn write(
        &mut self,
        samplers: &mut [Sampler],
        until: &Until,
        each: &mut dyn FnMut(usize, &Choice) -> ControlFlow<()>,
    ) -> Result<Writing> {
        self.check(samplers, until)?;
        let (mut recorder, mut logits) = self.read.clone();
        let cache = &mut self.cache;
        if let Some(cache) = cache {
            cache.rewind(self.prompt.ids.ncols());
        }
        let mut texts: Vec<Text> = self
            .prompt
            .ids
            .rows()
            .into_iter()
            .zip(self.prompt.mask.rows())
            .map(|(ids, mask)| Text::new(ids.to_vec(), mask.to_vec()))
            .collect();
        let mut kept = Vec::new();
        let first = match self.prompt.ids.ncols() {
            1 => self.model.config().generation.first.as_slice(),
            _ => &[],
        };
        let step = Step {
            model: self.model,
            memory: self.memory.as_ref(),
            interventions: self.interventions,
        };
        for number in 0..until.tokens {
            let rows: Vec<Vec<f32>> = logits.to_vec2()?;
            let forced = match number {
                _ if number + 1 == until.tokens && !until.last.is_empty() => &until.last,
                0 => first,
                _ => &[][..],
            };
            for (i, (text, row)) in texts.iter_mut().zip(&rows).enumerate() {
                if text.end.is_some() {
                    continue;
                }
                let choice = match forced {
                    [] => samplers[i].choose(row, text.real())?,
                    ids => samplers[i].choose_among(ids, row.len())?,
                };
                let stop = each(i, &choice).is_break();
                text.push(choice, stop, until);
            }
            if until.keep_logits {
                kept.push(logits);
            }
            if number + 1 == until.tokens || texts.iter().all(|text| text.end.is_some()) {
                break;
            }
            let whole = batch(&texts, &self.prompt, self.model.config().pad_token_id);
            let batch = match cache {
                Some(cache) => columns_from(&whole, cache.len()),
                None => whole,
            };
            logits = step.logits(&batch, cache.as_mut(), &mut recorder)?;
        }
        let texts = texts.into_iter().map(Text::finish).collect();
        Ok(Writing { texts, trace: recorder.into_trace()?, logits: kept })
    }

    fn check(&self, samplers: &[Sampler], until: &Until) -> Result<()> {
        let (rows, room) = (self.prompt.ids.nrows(), self.room());
        if samplers.len() != rows {
            let why = format!("{rows} texts to write, but {} samplers", samplers.len());
            return Err(Error::input("prompt", why));
        }
        if until.tokens > room {
            let longest = self.prompt.lengths.iter().max().copied().unwrap_or(0);
            let why = format!(
                "{} tokens to write, but behind {longest} the model has room for {room}",
                until.tokens
            );
            return Err(Error::input("prompt", why));
        }
        Ok(())
    }
}

/// One run of the decoder.
struct Step<'a> {
    model: &'a Model,
    memory: Option<&'a Memory>,
    interventions: &'a [Intervention],
}

impl Step<'_> {
    /// The logits [B, V] behind the last position of `batch`.
    fn logits(
        &self,
        batch: &Batch,
        cache: Option<&mut Cache>,
        recorder: &mut Recorder,
    ) -> Result<Tensor> {
        let hidden = self.model.decode(batch, self.memory, cache, recorder, self.interventions)?;
        let last = hidden.narrow(1, hidden.dim(1)? - 1, 1)?.contiguous()?; // [B, 1, D]
        let batch = columns_from(batch, batch.ids.ncols() - 1);
        match self.model.head(&last, &batch)?.logits {
            Some(logits) if logits.rank() == 3 => Ok(logits.squeeze(1)?),
            _ => {
                let report = self.model.report();
                Err(Error::checkpoint(
                    &report.name,
                    "it has no map to the vocabulary to write with",
                ))
            }
        }
    }
}

/// The positions from `first` on.
fn columns_from(batch: &Batch, first: usize) -> Batch {
    let cut = |a: &Array2<u32>| a.slice(s![.., first..]).to_owned();
    let type_ids = cut(&batch.type_ids);
    Batch { type_ids, ..Batch::from_ids(cut(&batch.ids), cut(&batch.mask)) }
}
