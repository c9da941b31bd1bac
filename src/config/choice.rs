//! An enum or number for every real difference between families.

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
    /// As [`Absolute::Ordinal`], in a table that begins with this many rows for other ends (BART).
    Shifted {
        /// Rows before position 0's.
        by: u32,
    },
    /// No table: sines and cosines of the position (Vaswani et al. 2017), the sines first (Marian).
    Sinusoidal,
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
        /// Buckets of both directions; of the one that a causal stack sees.
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

/// What a norm does to each position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NormKind {
    /// Takes the mean away and divides by the deviation (Ba et al. 2016).
    Layer,
    /// Divides by the root mean square (Zhang & Sennrich 2019).
    Rms,
}

/// Rotary positions of one layer (Su et al. 2021).
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Rope {
    /// The base θ of the frequencies.
    pub base: f64,
    /// How frequencies are changed for inputs longer than those of the training.
    pub scaling: RopeScaling,
}

/// `rope_scaling` of a config.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RopeScaling {
    /// As they are.
    None,
    /// All divided by a factor (Chen et al. 2023).
    Linear {
        /// The divisor.
        factor: f64,
    },
    /// Low ones divided by a factor, high ones kept, those between blended (Llama 3.1).
    Llama3 {
        /// The divisor of the low ones.
        factor: f64,
        /// Waves longer than `original / low` are divided.
        low: f64,
        /// Waves shorter than `original / high` are kept.
        high: f64,
        /// Positions of the training.
        original: f64,
    },
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

/// Which attention of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stack {
    /// Self-attention of an encoder.
    Encoder,
    /// Self-attention of a decoder.
    Decoder,
    /// A decoder's attention over the encoder's output.
    Cross,
}
