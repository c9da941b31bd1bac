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

/// How positions reach the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Positions {
    /// A learnt embedding added to each token's (Devlin et al. 2019).
    Absolute,
    /// q·E[i−j] added to each product instead (Shaw et al. 2018).
    RelativeKey,
    /// The same, and k·E[i−j] as well (Huang et al. 2020, method 4).
    RelativeKeyQuery,
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
}

impl Task {
    /// The names that `--task` takes, each with its task.
    pub const NAMES: [(&'static str, Task); 4] = [
        ("encoder", Self::Encoder),
        ("masked-lm", Self::MaskedLm),
        ("sequence-classification", Self::SequenceClassification),
        ("token-classification", Self::TokenClassification),
    ];

    /// Its name in `--task` and in reports.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, task)| *task == self).map_or("encoder", |(name, _)| name)
    }
}

/// Sizes and choices of one model, the same for every family.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Config {
    /// The family, as `model_type` names it.
    pub model_type: String,
    /// D: width of the residual stream.
    pub hidden_size: usize,
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
    /// How positions reach the model.
    pub positions: Positions,
    /// Whether the masked-LM decoder shares the word embedding.
    pub tied: bool,
    /// What is computed on top.
    pub task: Task,
    /// Names of the classes, where the file has a classifier.
    pub labels: Vec<String>,
}

impl Config {
    /// L: number of layers.
    pub fn layers(&self) -> usize {
        self.heads.len()
    }
}
