//! What a model is: sizes, and an enum for every real difference between families.

mod choice;

pub use choice::{
    Absolute, Activation, Convolution, Distances, Heads, NormKind, NormOrder, Pooling, Rope,
    RopeScaling, Stack,
};

/// What the model computes on top of its last layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Nothing but, where there is one, the pooler.
    Encoder,
    /// A distribution over the vocabulary for each token.
    MaskedLm,
    /// One set of class scores for the text.
    SequenceClassification,
    /// One set of class scores for each token.
    TokenClassification,
    /// One score for each token: whether it was replaced (Clark et al. 2020).
    ReplacedTokens,
    /// A distribution over the next token.
    CausalLm,
    /// A distribution over the next token of a second text, for a first one.
    Seq2SeqLm,
}

impl Task {
    /// The names that `--task` takes, each with its task.
    pub const NAMES: [(&'static str, Task); 7] = [
        ("encoder", Self::Encoder),
        ("masked-lm", Self::MaskedLm),
        ("sequence-classification", Self::SequenceClassification),
        ("token-classification", Self::TokenClassification),
        ("replaced-tokens", Self::ReplacedTokens),
        ("causal-lm", Self::CausalLm),
        ("seq2seq-lm", Self::Seq2SeqLm),
    ];

    /// Its name in `--task` and in reports.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, task)| *task == self).map_or("encoder", |(name, _)| name)
    }
}

/// Where a text that is written begins and ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Generation {
    /// The token that a decoder starts from, where it continues no prompt.
    pub start: Option<u32>,
    /// The token that is always chosen first behind a start token alone.
    pub first: Option<u32>,
    /// Tokens that end a text.
    pub ends: Vec<u32>,
    /// Tokens of which one is chosen last where a text has not ended before.
    pub last: Vec<u32>,
    /// Sequences of tokens that are never completed; of one token: tokens that are never chosen.
    pub forbidden: Vec<Vec<u32>>,
}

/// Sizes and choices of one model, the same for every family; of its encoder, where it has a
/// [`decoder`](Config::decoder) too.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct Config {
    /// The family, as `model_type` names it.
    pub model_type: String,
    /// D: width of the residual stream.
    pub hidden_size: usize,
    /// Width of the embeddings, which are projected to D where it differs.
    pub embedding_size: usize,
    /// Whether they are projected before their norm rather than after it.
    pub project_first: bool,
    /// Width between the two linear maps of a block.
    pub intermediate_size: usize,
    /// K: width of one head.
    pub head_dim: usize,
    /// Heads per layer before any pruning.
    pub head_counts: Vec<usize>,
    /// The heads that each layer still has, under their original numbers.
    pub heads: Vec<Vec<usize>>,
    /// The heads that each layer's cross-attention still has; empty where there is none.
    pub cross_heads: Vec<Vec<usize>>,
    /// Rows of the word embedding; follows the tensor.
    pub vocab_size: usize,
    /// Most tokens that one input may have.
    pub max_positions: usize,
    /// Rows of the token type (segment) embedding.
    pub type_vocab_size: usize,
    /// The id that fills a batch up.
    pub pad_token_id: u32,
    /// Activation of the blocks and of the masked-LM head.
    pub activation: Activation,
    /// What a norm does.
    pub norm: NormKind,
    /// ε of every norm.
    pub norm_eps: f64,
    /// Whether embeddings are normalised.
    pub embedding_norm: bool,
    /// What word embeddings are multiplied by.
    pub embedding_scale: f64,
    /// Where positions of a position embedding go.
    pub absolute: Absolute,
    /// Terms by distance.
    pub distances: Distances,
    /// Rotary positions per layer; empty for none.
    pub rotary: Vec<Rope>,
    /// Whether a position sees none behind it.
    pub causal: bool,
    /// Whether each layer also attends over an encoder's output.
    pub cross: bool,
    /// Query heads that share one head of keys and values (Ainslie et al. 2023); 1 for none.
    pub group_size: usize,
    /// What products of queries and keys are multiplied by, per layer.
    pub score_scales: Vec<f64>,
    /// Furthest distance of a visible key per layer; `None` for any.
    pub windows: Vec<Option<usize>>,
    /// Whether chosen positions see and are seen by all, with projections of their own
    /// (Longformer).
    pub global_queries: bool,
    /// Where the norms of a block stand.
    pub norm_order: NormOrder,
    /// Whether the first map's output is halved into a value and a gate (Shazeer 2020).
    pub gated: bool,
    /// Whether padding is set to 0 after the embeddings.
    pub blank_padding: bool,
    /// A convolution beside the first layer.
    pub convolution: Option<Convolution>,
    /// Layers that share one set of weights stand under one number: `shared[l]` is layer l's.
    pub shared: Vec<usize>,
    /// What the heads on top do.
    pub task_heads: Heads,
    /// Whether biases may be absent from the file, and are then 0.
    pub optional_biases: bool,
    /// Whether the map to the vocabulary shares the word embedding.
    pub tied: bool,
    /// What its input is multiplied by.
    pub logit_scale: f64,
    /// Where a text that is written begins and ends.
    pub generation: Generation,
    /// The decoder of an encoder-decoder: causal, with attention over the encoder's output.
    pub decoder: Option<Box<Config>>,
    /// What is computed on top.
    pub task: Task,
    /// Names of the classes, where the file has a classifier.
    pub labels: Vec<String>,
}

impl Config {
    /// Rows of the position embedding.
    pub(crate) fn position_rows(&self) -> usize {
        match self.absolute {
            Absolute::AfterPad { pad } => self.max_positions + pad as usize + 1,
            Absolute::Shifted { by } => self.max_positions + by as usize,
            Absolute::Ordinal => self.max_positions,
            Absolute::None | Absolute::Sinusoidal => 0,
        }
    }

    /// Where the self-attention of these layers is recorded.
    pub fn stack(&self) -> Stack {
        if self.causal { Stack::Decoder } else { Stack::Encoder }
    }

    /// The sizes and choices of a stack; cross-attention is the decoder's.
    pub fn of(&self, stack: Stack) -> &Config {
        match (stack, &self.decoder) {
            (Stack::Decoder | Stack::Cross, Some(decoder)) => decoder,
            _ => self,
        }
    }

    /// Head of keys and values, under its original number, that a query head reads.
    pub fn key_value_head(&self, head: usize) -> usize {
        head / self.group_size
    }

    /// How positions reach the model, in a word or two.
    pub fn position_kind(&self) -> String {
        let mut kinds = Vec::new();
        match self.absolute {
            Absolute::None => {}
            Absolute::Sinusoidal => kinds.push("sinusoidal"),
            _ => kinds.push("absolute"),
        }
        match self.distances {
            Distances::None => {}
            Distances::Embedded { with_keys: false } => kinds.push("relative key"),
            Distances::Embedded { with_keys: true } => kinds.push("relative key and query"),
            Distances::Buckets { .. } => kinds.push("bias by distance"),
            Distances::Disentangled { .. } => kinds.push("disentangled"),
        }
        if !self.rotary.is_empty() {
            kinds.push("rotary");
        }
        match kinds.is_empty() {
            true => "none".into(),
            false => kinds.join(", "),
        }
    }

    /// L: number of layers.
    pub fn layers(&self) -> usize {
        self.heads.len()
    }
}
