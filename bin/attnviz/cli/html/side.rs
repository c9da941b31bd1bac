//! A text under a model → one side of a page.

use std::collections::BTreeMap;
use std::slice;

use attnviz::picture::page::Side;
use attnviz::tokens::{Batch, Encoding};
use attnviz::{Error, Intervention, Keep, Model, Recorder, Result, Site};
use candle_core::Tensor;

#[cfg(feature = "serve")]
use crate::cli::args::ChoiceArgs;
use crate::cli::args::HtmlArgs;
use crate::cli::pages::sheet;
use crate::cli::parts::Chosen;

/// What goes into the page.
pub struct Asked {
    heads: Chosen,
    /// Layers of the neuron view.
    neuron: Vec<usize>,
    pub compared: Option<(usize, usize)>,
}

impl Asked {
    pub fn new(args: &HtmlArgs, model: &Model) -> Result<Self> {
        let config = model.config();
        let heads = Chosen::new(&args.choice, config, args.target.is_some())?;
        let decoder = config.decoder.as_ref().filter(|_| args.target.is_some());
        let layers = decoder.map_or(0, |decoder| decoder.layers()).max(config.layers());
        let neuron = match &args.neuron {
            Some(given) => given.value.resolve("neuron", layers)?,
            None => Vec::new(),
        };
        let compared = Self::compared_of(args, layers)?;
        let lacks = |layer: &usize| match heads.keep() {
            Keep::Heads(by_layer) => !by_layer.contains_key(layer),
            Keep::All => false,
        };
        let mut wanted = neuron.clone();
        wanted.extend(compared.iter().flat_map(|&(a, b)| [a, b]));
        if let Some(layer) = wanted.into_iter().find(lacks) {
            let want = "layers with heads among those that --layers and --heads leave";
            return Err(usage("--neuron and --compare-layers", want, &layer.to_string()));
        }
        Ok(Self { heads, neuron, compared })
    }

    /// Two layers of so many to show side by side.
    pub fn compared_of(args: &HtmlArgs, layers: usize) -> Result<Option<(usize, usize)>> {
        let Some(given) = &args.compare_layers else { return Ok(None) };
        match given.value.resolve("compare-layers", layers)?[..] {
            [a, b] => Ok(Some((a, b))),
            _ => Err(usage("--compare-layers", "two layers, such as 3,5", &given.text)),
        }
    }

    /// All heads, and with `neurons` what they multiplied.
    #[cfg(feature = "serve")]
    pub fn all(model: &Model, with_target: bool, neurons: bool) -> Result<Self> {
        let heads = Chosen::new(&ChoiceArgs::default(), model.config(), with_target)?;
        let neuron = match heads.keep() {
            Keep::Heads(by_layer) if neurons => by_layer.into_keys().collect(),
            _ => Vec::new(),
        };
        Ok(Self { heads, neuron, compared: None })
    }

    /// Runs the model and gathers what the page shows. `target` is what the decoder of an
    /// encoder-decoder reads.
    pub fn side(
        &self,
        model: &Model,
        encoding: &Encoding,
        target: Option<&Encoding>,
    ) -> Result<Side> {
        self.changed(model, (encoding, target), &[], |_| {}).map(|(side, _)| side)
    }

    /// The same with changes on the way, and with what `hide` does to the batch that is read first;
    /// beside it the last layer's output and the batch that it is of.
    pub fn changed(
        &self,
        model: &Model,
        (encoding, target): (&Encoding, Option<&Encoding>),
        changes: &[Intervention],
        hide: impl Fn(&mut Batch),
    ) -> Result<(Side, (Tensor, Batch))> {
        let (config, pad) = (model.config(), model.tokenizer()?.pad_id());
        let batch = |encoding| Batch::new(slice::from_ref(encoding), pad);
        let (mut first, mut recorder) = (batch(encoding), self.recorder());
        hide(&mut first);
        let last = match target {
            None => (model.forward(&first, &mut recorder, changes)?, first),
            Some(target) => {
                let memory = model.encode(&first, &mut recorder, changes)?;
                let second = batch(target);
                (model.decode(&second, Some(&memory), None, &mut recorder, changes)?, second)
            }
        };
        let trace = recorder.into_trace()?;
        let written = target.map_or(&[][..], |target| &target.tokens);
        let parts = self.heads.parts(&trace, 0, (&encoding.tokens, written), config)?;
        let mut words: Vec<Vec<String>> = words(encoding);
        if let Some(target) = target {
            words.truncate(1);
            words.extend(self::words(target));
        }
        let mut sheets = Vec::new();
        for part in parts.into_iter().filter(|part| !part.attention.heads.is_empty()) {
            let stack = part.stack.unwrap_or(config.stack());
            let sheet = sheet(part, &words, model);
            sheets.push(sheet.with_neurons(&trace, stack, 0, &self.neuron, config)?);
        }
        let texts: Vec<&str> = encoding
            .texts
            .iter()
            .chain(target.iter().flat_map(|t| &t.texts))
            .map(String::as_str)
            .collect();
        Ok((Side::new(texts.join(" / "), &model.report().name, sheets), last))
    }

    fn recorder(&self) -> Recorder {
        let recorder = Recorder::new().keep(Site::Probs, self.heads.keep());
        let Keep::Heads(mut some) = self.heads.keep() else { return recorder };
        some.retain(|layer, _| self.neuron.contains(layer));
        let some: BTreeMap<usize, Vec<usize>> = some;
        if some.is_empty() {
            return recorder;
        }
        let sites = [Site::Query, Site::Key, Site::Scores];
        sites.into_iter().fold(recorder, |all, site| all.keep(site, Keep::Heads(some.clone())))
    }
}

pub fn usage(flag: &str, want: &str, found: &str) -> Error {
    Error::Usage { flag: flag.into(), want: want.into(), found: found.into() }
}

/// The words of each text as they were typed.
fn words(encoding: &Encoding) -> Vec<Vec<String>> {
    let of = |sequence| encoding.words(sequence).into_iter().map(str::to_owned).collect();
    (0..encoding.texts.len()).map(of).collect()
}
