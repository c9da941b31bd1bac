//! What a model is: sizes, and an enum for every real difference between families.

/// Activation between the two linear maps of a block, by what it computes; `hidden_act` has
/// several names for some of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// x·Φ(x) with the exact error function (Hendrycks & Gimpel 2016).
    Gelu,
    /// The tanh approximation: `gelu_new`, `gelu_pytorch_tanh`, `gelu_fast`.
    GeluTanh,
    /// x·σ(1.702x): `quick_gelu`.
    QuickGelu,
    /// max(x, 0)
    Relu,
    /// x·σ(x): `silu`, `swish`.
    Silu,
    /// tanh(x)
    Tanh,
}

impl Activation {
    /// The names that `hidden_act` may hold.
    pub const NAMES: [(&'static str, Activation); 9] = [
        ("gelu", Self::Gelu),
        ("gelu_new", Self::GeluTanh),
        ("gelu_pytorch_tanh", Self::GeluTanh),
        ("gelu_fast", Self::GeluTanh),
        ("quick_gelu", Self::QuickGelu),
        ("relu", Self::Relu),
        ("silu", Self::Silu),
        ("swish", Self::Silu),
        ("tanh", Self::Tanh),
    ];
}

/// Where each position of the position embedding goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Absolute {
    /// There is no position embedding.
    None,
    /// 0, 1, 2, … along the input (Devlin et al. 2019).
    Ordinal,
    /// Counted over tokens that are not padding, from the padding id + 1; padding takes the padding
    /// id itself (RoBERTa and its descendants).
    AfterPad {
        /// The padding id.
        pad: u32,
    },
}

/// Terms that a score gains by the distance of query and key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Distances {
    /// None.
    None,
    /// q·E[i−j] (Shaw et al. 2018) and, where asked, k·E[i−j] (Huang et al. 2020, method 4).
    Embedded {
        /// Adds the key's term too.
        with_keys: bool,
    },
    /// A learnt number per head and bucket of distance (Raffel et al. 2020).
    Buckets {
        /// Buckets of both directions.
        count: usize,
        /// Distance from which on all fall into the last bucket.
        furthest: usize,
    },
    /// q·K[i−j] and Q[j−i]·k with projected distance embeddings (He et al. 2021).
    Disentangled {
        /// Content to position: the query's term.
        c2p: bool,
        /// Position to content: the key's term.
        p2c: bool,
        /// Log buckets of one direction; `None` for plain distances.
        buckets: Option<usize>,
        /// Largest distance.
        furthest: usize,
        /// Distances go through the layer's own query and key projections.
        shared: bool,
        /// The distance embedding is normalised first.
        normed: bool,
    },
}

/// Where the norms of a block stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NormOrder {
    /// After each residual sum (Vaswani et al. 2017).
    Post,
    /// Before attention and before the linear maps, and once after the last layer.
    Pre,
}

/// A convolution beside the first layer (DeBERTa-v2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Convolution {
    /// Width of the kernel.
    pub kernel: usize,
    /// Groups of channels.
    pub groups: usize,
    /// What follows it.
    pub activation: Activation,
}

/// Which token stands for the text in a classifier of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// The first one.
    First,
    /// The mean of all real ones.
    Mean,
}

/// How a masked-LM head or a classifier transforms hidden states before its last map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Heads {
    /// Activation of the masked-LM head.
    pub masked_lm: Activation,
    /// Activation of the classifier of texts.
    pub sequence: Activation,
    /// Which token it looks at.
    pub pooling: Pooling,
    /// Whether classifiers transform and normalise as the masked-LM head does, with its weights.
    pub shared: bool,
}

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
}

impl Task {
    /// The names that `--task` takes, each with its task.
    pub const NAMES: [(&'static str, Task); 5] = [
        ("encoder", Self::Encoder),
        ("masked-lm", Self::MaskedLm),
        ("sequence-classification", Self::SequenceClassification),
        ("token-classification", Self::TokenClassification),
        ("replaced-tokens", Self::ReplacedTokens),
    ];

    /// Its name in `--task` and in reports.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, task)| *task == self).map_or("encoder", |(name, _)| name)
    }
}

/// Sizes and choices of one model, the same for every family.
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
    /// ε of every layer norm.
    pub norm_eps: f64,
    /// Where positions of a position embedding go.
    pub absolute: Absolute,
    /// Terms by distance.
    pub distances: Distances,
    /// Base of the rotary embedding per layer (Su et al. 2021); empty for none.
    pub rotary: Vec<f64>,
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
    /// Whether the masked-LM decoder shares the word embedding.
    pub tied: bool,
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
            Absolute::None | Absolute::Ordinal => self.max_positions,
        }
    }

    /// What products of queries and keys are multiplied by: 1/√(K · kinds of terms).
    pub(crate) fn score_scale(&self) -> f64 {
        let terms = match self.distances {
            Distances::Disentangled { c2p, p2c, .. } => 1 + usize::from(c2p) + usize::from(p2c),
            _ => 1,
        };
        1.0 / ((self.head_dim * terms) as f64).sqrt()
    }

    /// How positions reach the model, in a word or two.
    pub fn position_kind(&self) -> String {
        let mut kinds = Vec::new();
        if self.absolute != Absolute::None {
            kinds.push("absolute");
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
