//! `model_type` → how a family's config is read and what its tensors are called. A family is data;
//! what is computed stays in `model`.

pub(crate) mod fields;

mod albert;
mod bart;
mod bert;
mod common;
mod deberta_v2;
mod distilbert;
mod electra;
pub(crate) mod generation;
mod gpt2;
mod llama;
mod longformer;
mod modernbert;
mod mpnet;
mod roberta;
mod rope;
mod t5;

use std::path::Path;

use crate::config::{Config, Task};
use crate::error::{Error, Result};
use fields::Fields;

/// Modules by their name in a file and here; `{}` stands for the layer.
type Names = &'static [(&'static str, &'static str)];

/// One family: how it spells its config and its tensors.
pub(crate) struct Family {
    /// As `model_type` names it.
    pub model_type: &'static str,
    /// Prefix of the encoder's tensors where the file holds a task's head too, such as `bert.`.
    pub prefix: &'static str,
    /// Its modules, in one table or several.
    pub modules: &'static [Names],
    /// Whether linear maps of layers are stored as [in, out] (GPT-2's `Conv1D`).
    pub turned: bool,
    /// Tensors that may be left out of account, by the end of their name: buffers, not weights.
    pub buffers: &'static [&'static str],
    /// Config keys that change nothing at inference, beyond those of every family.
    pub ignorable: &'static [&'static str],
    /// Class names in `architectures`, each with its task; others run as the encoder alone.
    pub classes: &'static [(&'static str, Task)],
    /// Reads the config; the task comes later, from `architectures` or the tensors.
    pub read: fn(&Fields) -> Result<Config>,
}

/// Key of the heads that were cut out, as transformers 4 wrote it: of an encoder-decoder the
/// encoder's.
pub(crate) const PRUNED: &str = "pruned_heads";
/// The same of a decoder that reads an encoder's output, which transformers does not know.
pub(crate) const DECODER_PRUNED: &str = "decoder_pruned_heads";
/// The same of its attention over that output.
pub(crate) const CROSS_PRUNED: &str = "cross_pruned_heads";
/// Removed heads whose means the output biases hold.
pub(crate) const FOLDED: &str = "folded_heads";

const FAMILIES: &[&Family] = &[
    &bert::BERT,
    &roberta::ROBERTA,
    &roberta::XLM_ROBERTA,
    &roberta::CAMEMBERT,
    &distilbert::DISTILBERT,
    &albert::ALBERT,
    &electra::ELECTRA,
    &mpnet::MPNET,
    &deberta_v2::DEBERTA_V2,
    &modernbert::MODERNBERT,
    &longformer::LONGFORMER,
    &gpt2::GPT2,
    &llama::LLAMA,
    &llama::MISTRAL,
    &llama::QWEN2,
    &bart::BART,
    &bart::MARIAN,
    &t5::T5,
];

/// The family that a `model_type` names.
///
/// # Errors
/// [`Error::Config`] that lists the families.
pub(crate) fn of(fields: &Fields, model_type: &str) -> Result<&'static Family> {
    FAMILIES.iter().copied().find(|family| family.model_type == model_type).ok_or_else(|| {
        let known: Vec<&str> = FAMILIES.iter().map(|family| family.model_type).collect();
        let want = format!("a family that attnviz runs ({})", known.join(", "));
        fields.wrong("model_type", want, format!("`{model_type}`"))
    })
}

/// The family that tensor names point to, for a config without `model_type`.
pub(crate) fn infer<'a>(
    path: &Path,
    mut names: impl Iterator<Item = &'a str>,
) -> Result<&'static Family> {
    let known = |name: &str| {
        FAMILIES.iter().copied().find(|family| {
            family.canonical(name).is_some_and(|name| name.ends_with("attention.query.weight"))
        })
    };
    names.find_map(known).ok_or_else(|| {
        Error::checkpoint(
            path,
            "the config has no `model_type` and the tensor names belong to no known family",
        )
    })
}

impl Family {
    fn modules(&self) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
        self.modules.iter().copied().flatten()
    }

    /// The name used here for a tensor of the file; `None` for one that the family does not have.
    pub fn canonical(&self, raw: &str) -> Option<String> {
        let name = raw.strip_prefix(self.prefix).unwrap_or(raw);
        // `cls.predictions.bias` is a parameter of a module that has modules of its own
        if let Some((_, here)) = self.modules().find(|(file, _)| *file == name) {
            return Some(here.to_string());
        }
        let (module, parameter) = name.rsplit_once('.')?;
        let parameter = match parameter {
            "gamma" => "weight", // as TensorFlow's checkpoints named the parts of a norm
            "beta" => "bias",
            other => other,
        };
        let place = |(file, here): &(&str, &str)| {
            let module = match file.split_once("{}") {
                None => (*file == module).then(|| here.to_string())?,
                Some((before, after)) => {
                    let layer = module.strip_prefix(before)?.strip_suffix(after)?;
                    let number: usize = layer.parse().ok()?;
                    (number.to_string() == layer).then(|| here.replace("{}", layer))?
                }
            };
            Some(format!("{module}.{parameter}"))
        };
        self.modules().find_map(place)
    }

    /// The name in a file, without the encoder's prefix unless it is one of the encoder's, of a tensor
    /// that is called `canonical` here; `None` for one that the family does not have.
    pub fn raw(&self, canonical: &str) -> Option<String> {
        let (module, parameter) = canonical.rsplit_once('.')?;
        let named = |(file, here): &(&str, &str)| match here.split_once("{}") {
            None => (*here == module).then(|| (*file).to_owned()),
            Some((before, after)) => {
                let layer = module.strip_prefix(before)?.strip_suffix(after)?;
                layer.parse::<usize>().ok().map(|_| file.replace("{}", layer))
            }
        };
        // RoBERTa's `classifier` is a module of several where it is one of texts
        let file = self.modules().filter_map(named).max_by_key(String::len)?;
        let head = ["classifier", "sequence.transform", "lm.", "replaced."];
        let of_head = head.iter().any(|head| module.starts_with(head));
        let prefix = if of_head { "" } else { self.prefix };
        Some(format!("{prefix}{file}.{parameter}"))
    }

    /// Whether a tensor is a buffer that needs no account.
    pub fn is_buffer(&self, raw: &str) -> bool {
        self.buffers.iter().any(|end| raw == *end || raw.ends_with(&format!(".{end}")))
    }
}
