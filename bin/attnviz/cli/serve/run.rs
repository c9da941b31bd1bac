//! A request → a run of the model → the page's data.

use attnviz::picture::page::{
    Live, LiveModel, LiveToken, Options, Page, Side, live_data, render_live,
};
use attnviz::picture::token_label;
use attnviz::tokens::{Encoding, Input};
use attnviz::{Error, Model, Result, Stack, Token};
use serde::Deserialize;

use super::answers::answers;
use super::change::Change;
use crate::cli::args::RunArgs;
use crate::cli::html::Asked;
use crate::cli::session;

/// Most weights of a run: those of 504 tokens in a model of 24 layers of 11 heads. A browser gets a
/// byte for each.
const WEIGHTS: usize = 1 << 26;

/// Most bytes of queries, keys and scores that a page gets for its neuron view.
const NEURONS: usize = 12 << 20;

/// What the page asks for.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    pub text: String,
    #[serde(default)]
    pub pair: Option<String>,
    /// Which model, from 0.
    #[serde(default)]
    pub model: usize,
    /// Layer and head of those to switch off.
    #[serde(default)]
    pub off: Vec<(usize, usize)>,
    /// Positions of tokens to mask.
    #[serde(default)]
    pub masked: Vec<usize>,
    /// Whether to run it unchanged as well.
    #[serde(default)]
    pub compare: bool,
}

/// The models that were chosen; nothing else of this machine is reachable from here.
pub struct Server {
    models: Vec<Model>,
    run: RunArgs,
    known: Vec<LiveModel>,
    options: Options,
}

impl Server {
    /// # Errors
    /// [`Error::Checkpoint`] for a model without a tokenizer.
    pub fn new(models: Vec<Model>, run: RunArgs) -> Result<Self> {
        let known = |model: &Model| {
            let tokenizer = model.tokenizer()?;
            let mask = tokenizer.mask_id().and_then(|id| tokenizer.piece(id));
            Ok(LiveModel { name: model.report().name.clone(), mask })
        };
        let known = models.iter().map(known).collect::<Result<_>>()?;
        let generator = concat!("attnviz ", env!("CARGO_PKG_VERSION"), " serve").into();
        let options = Options { generator, ..Options::default() };
        Ok(Self { models, run, known, options })
    }

    pub fn names(&self) -> Vec<&str> {
        self.known.iter().map(|model| model.name.as_str()).collect()
    }

    /// The page that opens with a run.
    pub fn page(&self, ask: &Ask) -> Result<Vec<u8>> {
        let (page, live) = self.run(ask)?;
        Ok(render_live(&page, &self.options, &live)?.html)
    }

    /// What goes into a page that is open.
    pub fn data(&self, ask: &Ask) -> Result<String> {
        let (page, live) = self.run(ask)?;
        live_data(&page, &self.options, &live)
    }

    fn run(&self, ask: &Ask) -> Result<(Page, Live)> {
        let model = self.models.get(ask.model).ok_or_else(|| {
            let why = format!("expected one of {} from 0, found {}", self.models.len(), ask.model);
            wrong("model", why)
        })?;
        let typed = self.read(model, ask)?;
        let change = Change::new(model, &ask.off, &ask.masked, &typed.encoding)?;
        let neurons = sizes(model, &typed).iter().map(|size| 4 * size.neurons).sum::<usize>();
        let asked = Asked::all(model, typed.target.is_some(), neurons <= NEURONS)?;
        let read =
            Read { encoding: change.encoding(&typed.encoding), target: typed.target.clone() };
        let hide = |batch: &mut _| change.hide(batch);
        let (mut side, last) =
            asked.changed(model, read.parts(), &change.interventions(model), hide)?;
        let title = side.name.clone();
        let answers = answers(model, &read, &last)?;
        let mut notes = session::token_notes(&typed.encoding);
        notes.extend(change.said());
        let mut sides = Vec::new();
        if ask.compare {
            side.name = "changed".into();
            sides.push(Side {
                name: "unchanged".into(),
                ..asked.side(model, &typed.encoding, typed.target.as_ref())?
            });
        }
        sides.insert(0, side);
        let page = Page { sides, notes, ..Page::new(title, Side::new("", "", Vec::new())) };
        let live = Live {
            models: self.known.clone(),
            model: ask.model,
            text: ask.text.clone(),
            pair: ask.pair.clone(),
            tokens: typed.encoding.tokens.iter().map(live_token).collect(),
            masked: change.masked,
            off: change.off.iter().map(|head| (head.layer, head.head)).collect(),
            heads: model.config().heads.clone(),
            stack: model.config().decoder.as_ref().map(|_| "encoder".into()),
            compare: ask.compare,
            answers,
        };
        Ok((page, live))
    }

    /// The tokens, no more of them than the model takes and a page can show. What stands second is
    /// for the decoder of an encoder-decoder, and else the other text of a pair.
    fn read(&self, model: &Model, ask: &Ask) -> Result<Read> {
        let (first, second) = (ask.text.clone(), ask.pair.clone());
        let second = second.filter(|second| !second.trim().is_empty());
        let encode = |input| session::encode(model, &input, &self.run);
        let read = match second {
            Some(second) if model.config().decoder.is_some() => Read {
                encoding: encode(Input::Text(first))?,
                target: session::encode_target(model, Some(&second), &self.run)?,
            },
            Some(second) => Read { encoding: encode(Input::Pair(first, second))?, target: None },
            None => Read { encoding: encode(Input::Text(first))?, target: None },
        };
        let weights: usize = sizes(model, &read).iter().map(|size| size.weights).sum();
        if weights > WEIGHTS {
            let tokens = read.encoding.len();
            let why = format!(
                "{tokens} tokens make {weights} weights in this model, but a page holds {WEIGHTS}"
            );
            return Err(wrong("text", why));
        }
        Ok(read)
    }
}

/// What the model reads: `target` by the decoder of an encoder-decoder.
pub struct Read {
    pub encoding: Encoding,
    pub target: Option<Encoding>,
}

impl Read {
    fn parts(&self) -> (&Encoding, Option<&Encoding>) {
        (&self.encoding, self.target.as_ref())
    }
}

/// How many numbers a stack's heads make of a text.
struct Size {
    weights: usize,
    neurons: usize,
}

fn sizes(model: &Model, read: &Read) -> Vec<Size> {
    let size = |stack, rows: usize, columns: usize| {
        let config = model.config().of(stack);
        let heads = if stack == Stack::Cross { &config.cross_heads } else { &config.heads };
        let heads: usize = heads.iter().map(Vec::len).sum();
        let weights = heads * rows * columns;
        Size { weights, neurons: weights + heads * config.head_dim * (rows + columns) }
    };
    let first = read.encoding.len();
    let mut all = vec![size(Stack::Encoder, first, first)];
    if let Some(second) = read.target.as_ref().map(|target| target.len()) {
        all.extend([size(Stack::Decoder, second, second), size(Stack::Cross, second, first)]);
    }
    all
}

fn live_token(token: &Token) -> LiveToken {
    LiveToken { text: token_label(token), free: !token.special }
}

pub fn wrong(place: &str, why: String) -> Error {
    Error::Input { place: place.into(), why }
}
