//! ELECTRA (Clark et al. 2020): BERT with narrow embeddings where it is small, as generator
//! (masked words) or discriminator (replaced words).

use super::Family;
use super::bert::BODY;
use super::common::{self, KEYS};
use super::fields::Fields;
use super::roberta::ROBERTA;
use crate::config::{Absolute, Activation, Config, Heads, Task};
use crate::error::Result;

pub(super) const ELECTRA: Family = Family {
    model_type: "electra",
    prefix: "electra.",
    modules: &[
        BODY,
        &[
            ("embeddings_project", "embeddings.projection"),
            ("generator_predictions.dense", "lm.transform"),
            ("generator_predictions.LayerNorm", "lm.norm"),
            ("generator_lm_head", "lm.decoder"),
            ("discriminator_predictions.dense", "replaced.transform"),
            ("discriminator_predictions.dense_prediction", "replaced.output"),
            ("classifier.dense", "sequence.transform"),
            ("classifier.out_proj", "classifier"),
            ("classifier", "classifier"),
        ],
    ],
    ignorable: &[
        "summary_activation",
        "summary_first_dropout",
        "summary_last_dropout",
        "summary_type",
        "summary_use_proj",
    ],
    classes: &[
        ("ElectraModel", Task::Encoder),
        ("ElectraForMaskedLM", Task::MaskedLm),
        ("ElectraForPreTraining", Task::ReplacedTokens),
        ("ElectraForSequenceClassification", Task::SequenceClassification),
        ("ElectraForTokenClassification", Task::TokenClassification),
    ],
    read,
    ..ROBERTA
};

fn read(fields: &Fields) -> Result<Config> {
    common::refuse_decoders(fields)?;
    let base = common::read(fields, "electra", &KEYS)?;
    let (absolute, distances) = common::positions(fields, Absolute::Ordinal)?;
    Ok(Config {
        embedding_size: fields.count("embedding_size")?.unwrap_or(128),
        type_vocab_size: fields.count("type_vocab_size")?.unwrap_or(2),
        norm_eps: fields.epsilon("layer_norm_eps")?.unwrap_or(1e-12),
        absolute,
        distances,
        task_heads: Heads { sequence: Activation::Gelu, ..base.task_heads },
        ..base
    })
}
