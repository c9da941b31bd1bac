//! The attentions of one input: of a model's one stack, or of an encoder, of its decoder, and of the
//! decoder over the encoder.

use std::collections::BTreeMap;

use attnviz::tokens::{Batch, Encoding};
use attnviz::{Attention, Config, Head, Keep, Model, Recorder, Result, Site, Stack, Token, Trace};
use serde_json::Value;

use super::args::ChoiceArgs;
use super::choice::choose;

/// One of the attentions of an input.
#[derive(Clone)]
pub struct Part {
    /// Which one, where a model has several.
    pub stack: Option<Stack>,
    /// Query heads that share one head of keys and values.
    pub group_size: usize,
    pub attention: Attention,
}

impl Part {
    /// All that there is.
    pub fn only(attention: Attention) -> Self {
        Self { stack: None, group_size: 1, attention }
    }

    /// Its name in files and JSON; empty for the only one.
    pub fn key(&self) -> &'static str {
        match self.stack {
            None => "",
            Some(Stack::Encoder) => "encoder",
            Some(Stack::Decoder) => "decoder",
            Some(Stack::Cross) => "cross",
        }
    }

    /// Before the names of its files and heads.
    pub fn prefix(&self) -> String {
        if self.stack.is_some() { format!("{}-", self.key()) } else { String::new() }
    }

    /// Its name for people.
    pub fn name(&self) -> &'static str {
        match self.stack {
            None => "",
            Some(Stack::Encoder) => "encoder",
            Some(Stack::Decoder) => "decoder",
            Some(Stack::Cross) => "cross-attention",
        }
    }

    /// The head of keys and values that a query head reads, where heads share them.
    pub fn key_value_head(&self, head: Head) -> Option<usize> {
        (self.group_size > 1).then(|| head.head / self.group_size)
    }

    /// `L3H5`, or `L3H5 (kv 1)`.
    pub fn label(&self, head: Head) -> String {
        let shared = self.key_value_head(head).map(|kv| format!(" (kv {kv})"));
        format!("{head}{}", shared.unwrap_or_default())
    }

    /// Adds to an object about a head what does not follow from its number.
    pub fn tag(&self, head: Head, object: &mut Value) {
        if self.stack.is_some() {
            object["stack"] = self.key().into();
        }
        if let Some(shared) = self.key_value_head(head) {
            object["key_value_head"] = shared.into();
        }
    }

    /// What the axes are, where that does not go without saying.
    pub fn axes(&self) -> Option<(&'static str, &'static str)> {
        let cross = self.stack == Some(Stack::Cross);
        cross.then_some(("decoder token (attends)", "encoder token (attended to)"))
    }

    /// What a picture of all heads should say.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.stack == Some(Stack::Cross) {
            notes.push("Rows are tokens of the decoder, columns tokens of the encoder.".to_owned());
        }
        let (size, most) = (self.group_size, self.attention.head_counts.iter().max());
        if size > 1 && most.is_some_and(|&most| most > size) {
            notes.push(format!(
                "Query heads share keys and values in groups of {size}: heads 0-{} those of kv 0, \
                 and so on.",
                size - 1
            ));
        } else if size > 1 {
            notes.push("All query heads share one head of keys and values.".to_owned());
        }
        notes
    }
}

/// The heads to show of each attention that is going to run.
pub struct Chosen(Vec<(Stack, BTreeMap<usize, Vec<usize>>)>);

impl Chosen {
    /// `with_target`: whether the decoder of an encoder-decoder runs too.
    pub fn new(args: &ChoiceArgs, config: &Config, with_target: bool) -> Result<Self> {
        let mut stacks = vec![(config.stack(), config, &config.heads)];
        if let Some(decoder) = config.decoder.as_deref().filter(|_| with_target) {
            stacks.push((Stack::Decoder, decoder, &decoder.heads));
            stacks.push((Stack::Cross, decoder, &decoder.cross_heads));
        }
        let one = |(stack, config, there): (Stack, &Config, &Vec<Vec<usize>>)| {
            Ok((stack, choose(args, &config.head_counts, there)?))
        };
        Ok(Self(stacks.into_iter().map(one).collect::<Result<_>>()?))
    }

    /// What to keep: a recorder tells layers apart, but not stacks.
    pub fn keep(&self) -> Keep {
        let mut all: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (&layer, heads) in self.0.iter().flat_map(|(_, by_layer)| by_layer) {
            all.entry(layer).or_default().extend(heads);
        }
        Keep::Heads(all)
    }

    /// The chosen heads of one example out of what was kept: `read` are its tokens, of an
    /// encoder-decoder those of the encoder, and `written` those of the decoder.
    pub fn parts(
        &self,
        trace: &Trace,
        example: usize,
        (read, written): (&[Token], &[Token]),
        config: &Config,
    ) -> Result<Vec<Part>> {
        let one = |(stack, by_layer): &(Stack, BTreeMap<usize, Vec<usize>>)| {
            let mut part = part(trace, *stack, example, (read, written), config)?;
            let shown =
                |head: Head| by_layer.get(&head.layer).is_some_and(|h| h.contains(&head.head));
            part.attention.heads.retain(|one| shown(one.head));
            Ok(part)
        };
        self.0.iter().map(one).collect()
    }
}

/// The attentions of each input, the chosen heads only. `targets` are what the decoder of an
/// encoder-decoder reads, one for each input or none.
pub fn attend(
    model: &Model,
    inputs: &[Encoding],
    targets: &[Encoding],
    chosen: &Chosen,
) -> Result<Vec<Vec<Part>>> {
    let pad = model.tokenizer()?.pad_id();
    let mut recorder = Recorder::new().keep(Site::Probs, chosen.keep());
    let batch = Batch::new(inputs, pad);
    match targets.is_empty() {
        true => drop(model.forward(&batch, &mut recorder, &[])?),
        false => {
            let memory = model.encode(&batch, &mut recorder, &[])?;
            let target = Batch::new(targets, pad);
            model.decode(&target, Some(&memory), None, &mut recorder, &[])?;
        }
    }
    let trace = recorder.into_trace()?;
    let of_one = |(i, encoding): (usize, &Encoding)| {
        let written = targets.get(i).map_or_else(Vec::new, written);
        chosen.parts(&trace, i, (&encoding.tokens, &written), model.config())
    };
    inputs.iter().enumerate().map(of_one).collect()
}

/// The tokens of a decoder beside an encoder: those of a second text.
fn written(encoding: &Encoding) -> Vec<Token> {
    let second = |token: &Token| Token { sequence: token.sequence.map(|_| 1), ..token.clone() };
    encoding.tokens.iter().map(second).collect()
}

fn part(
    trace: &Trace,
    stack: Stack,
    example: usize,
    (read, written): (&[Token], &[Token]),
    config: &Config,
) -> Result<Part> {
    let several = config.decoder.is_some();
    let (queries, keys) = match (several, stack) {
        (true, Stack::Decoder) => (written, written),
        (true, Stack::Cross) => (written, read),
        _ => (read, read),
    };
    let attention = trace.attention_between(stack, example, (0, queries), (0, keys), config)?;
    Ok(Part { stack: several.then_some(stack), group_size: config.of(stack).group_size, attention })
}
