//! A text under a model → one side of a page.

use std::collections::BTreeMap;

use attnviz::picture::page::{Sheet, Side};
use attnviz::tokens::{Batch, Encoding, Input, Limit};
use attnviz::{Config, Error, Head, Keep, Model, Recorder, Result, Site, Stack, Token};

use crate::cli::args::HtmlArgs;
use crate::cli::choice::choose;

/// What goes into the page, by layer.
pub struct Chosen {
    heads: BTreeMap<usize, Vec<usize>>,
    neuron: Vec<usize>,
    pub compared: Option<(usize, usize)>,
}

impl Chosen {
    pub fn new(args: &HtmlArgs, model: &Model) -> Result<Self> {
        let config = model.config();
        // of an encoder-decoder, layers and heads of the larger stack
        let larger = |config: &Config| (config.layers(), config.head_counts.iter().sum::<usize>());
        let config = match &config.decoder {
            Some(decoder) if larger(decoder) > larger(config) => decoder,
            _ => config,
        };
        let heads = choose(&args.choice, &config.head_counts, &config.heads)?;
        let neuron = match &args.neuron {
            Some(layers) => layers.value.resolve("neuron", config.layers())?,
            None => Vec::new(),
        };
        let compared = match &args.compare_layers {
            Some(given) => match given.value.resolve("compare-layers", config.layers())?[..] {
                [a, b] => Some((a, b)),
                _ => {
                    return Err(Error::Usage {
                        flag: "--compare-layers".into(),
                        want: "two layers, such as 3,5".into(),
                        found: given.text.clone(),
                    });
                }
            },
            None => None,
        };
        let lacks = |layer: &usize| !heads.contains_key(layer);
        let asked = neuron.iter().chain(compared.iter().flat_map(|(a, b)| [a, b]));
        if let Some(layer) = asked.copied().find(lacks) {
            return Err(Error::Usage {
                flag: "--neuron and --compare-layers".into(),
                want: "layers with heads among those that --layers and --heads leave".into(),
                found: layer.to_string(),
            });
        }
        Ok(Self { heads, neuron, compared })
    }

    /// Runs the model and gathers what the page shows.
    pub fn side(&self, model: &Model, read: &Read) -> Result<Side> {
        let (config, pad) = (model.config(), model.tokenizer()?.pad_id());
        let batch = |encoding| Batch::new(std::slice::from_ref(encoding), pad);
        let (encoding, mut recorder) = (&read.encoding, self.recorder());
        let mut stacks = vec![(config.stack(), encoding, encoding)];
        match &read.target {
            None => drop(model.forward(&batch(encoding), &mut recorder, &[])?),
            Some(target) => {
                let memory = model.encode(&batch(encoding), &mut recorder, &[])?;
                model.decode(&batch(target), Some(&memory), None, &mut recorder, &[])?;
                stacks.push((Stack::Decoder, target, target));
                stacks.push((Stack::Cross, target, encoding));
            }
        }
        let trace = recorder.into_trace()?;
        let mut sheets = Vec::new();
        for (stack, queries, keys) in stacks {
            let tokens = ((0, &queries.tokens[..]), (0, &keys.tokens[..]));
            let attention = trace.attention_between(stack, 0, tokens.0, tokens.1, config)?;
            if attention.heads.is_empty() {
                continue; // a smaller stack can lack the layers that were chosen
            }
            let name = match (stack, &config.decoder) {
                (Stack::Encoder, None) => "self",
                (Stack::Encoder, _) => "encoder",
                (Stack::Decoder, _) => "decoder",
                (Stack::Cross, _) => "cross",
            };
            let mut sheet = Sheet::new(name, attention);
            (sheet.query_words, sheet.key_words) = (words(queries), words(keys));
            sheet.pruned = pruned(model, stack);
            if config.global_queries {
                sheet.terms = "other projection".into();
            }
            sheets.push(sheet.with_neurons(&trace, stack, 0, &self.neuron, config)?);
        }
        Ok(Side::new(read.name(), &model.report().name, sheets))
    }

    fn recorder(&self) -> Recorder {
        let recorder = Recorder::new().keep(Site::Probs, Keep::Heads(self.heads.clone()));
        let some = self.heads.iter().filter(|(layer, _)| self.neuron.contains(layer));
        let some: BTreeMap<_, _> = some.map(|(&layer, heads)| (layer, heads.clone())).collect();
        if some.is_empty() {
            return recorder;
        }
        let sites = [Site::Query, Site::Key, Site::Scores];
        sites.into_iter().fold(recorder, |all, site| all.keep(site, Keep::Heads(some.clone())))
    }
}

/// What the model reads: of an encoder-decoder, the first text of a pair is for the encoder and the
/// second for the decoder.
pub struct Read {
    pub encoding: Encoding,
    target: Option<Encoding>,
}

impl Read {
    /// `encode` makes tokens of an input.
    pub fn new(
        model: &Model,
        input: &Input,
        encode: impl Fn(&Input) -> Result<Encoding>,
    ) -> Result<Self> {
        let (Input::Pair(source, target), Some(decoder)) = (input, &model.config().decoder) else {
            return Ok(Self { encoding: encode(input)?, target: None });
        };
        let encoding = encode(&Input::Text(source.clone()))?;
        let tokenizer = model.tokenizer()?;
        let tokenizer = tokenizer.target().unwrap_or(tokenizer);
        let limit = Limit { max: Some(decoder.max_positions.saturating_sub(1)), truncate: false };
        let mut target = tokenizer.encode(&Input::Text(target.clone()), &limit)?;
        if let Some(start) = model.config().generation.start {
            let text = tokenizer.piece(start).unwrap_or_default();
            let start = Token { text, id: Some(start), special: true, ..Token::default() };
            target.tokens.insert(0, start);
        }
        target.check_ids(decoder.vocab_size)?;
        Ok(Self { encoding, target: Some(target) })
    }

    /// What the text is called.
    pub fn name(&self) -> String {
        let texts = self.target.iter().fold(self.encoding.texts.clone(), |mut all, target| {
            all.extend(target.texts.clone());
            all
        });
        texts.join(" / ")
    }
}

/// The words of each text as they were typed.
fn words(encoding: &Encoding) -> Vec<Vec<String>> {
    let of = |sequence| encoding.words(sequence).into_iter().map(str::to_owned).collect();
    (0..encoding.texts.len()).map(of).collect()
}

fn pruned(model: &Model, stack: Stack) -> Vec<Head> {
    let config = model.config().of(stack);
    let left = if stack == Stack::Cross { &config.cross_heads } else { &config.heads };
    let layers = config.head_counts.iter().zip(left).enumerate();
    layers
        .flat_map(|(layer, (&count, left))| {
            let gone = (0..count).filter(|head| !left.contains(head));
            gone.map(move |head| Head { layer, head })
        })
        .collect()
}
