//! Canonical tensors → the head of a task.

use super::super::head::{Decoder, TaskHead, Transform};
use super::Loader;
use crate::config::Task;
use crate::error::{Error, Result};

impl Loader<'_> {
    pub fn head(&self) -> Result<TaskHead> {
        let (width, heads) = (self.config.hidden_size, &self.config.task_heads);
        Ok(match self.config.task {
            Task::Encoder => {
                let there = self.weights.has("pooler.weight");
                let pooler = there.then(|| self.linear("pooler", width, width)).transpose()?;
                TaskHead::Encoder { pooler }
            }
            Task::MaskedLm => self.words(true)?,
            // BERT as a decoder transforms as its masked-LM head does, others not at all
            Task::CausalLm | Task::Seq2SeqLm => {
                self.words(self.weights.has("lm.transform.weight"))?
            }
            Task::SequenceClassification => TaskHead::Sequence {
                transform: self.text_transform()?,
                pooling: heads.pooling,
                classifier: self.classifier()?,
            },
            Task::TokenClassification => TaskHead::Token {
                transform: heads.shared.then(|| self.word_transform()).transpose()?,
                classifier: self.classifier()?,
            },
            Task::ReplacedTokens => TaskHead::Replaced {
                transform: Transform {
                    map: self.linear("replaced.transform", width, width)?,
                    activation: self.config.activation,
                    norm: None,
                },
                output: self.linear("replaced.output", width, 1)?,
            },
        })
    }

    fn words(&self, transformed: bool) -> Result<TaskHead> {
        let transform = transformed.then(|| self.word_transform()).transpose()?;
        Ok(TaskHead::Words { transform, decoder: self.decoder(transformed)? })
    }

    /// What the masked-LM head does before its decoder, whose width may be that of the embeddings.
    fn word_transform(&self) -> Result<Transform> {
        let own = self.weights.shape("lm.transform.weight").and_then(|s| s.first().copied());
        let hidden = self.config.hidden_size;
        let width = match own {
            Some(width) if width == hidden => hidden,
            _ => self.config.embedding_size,
        };
        Ok(Transform {
            map: self.linear("lm.transform", hidden, width)?,
            activation: self.config.task_heads.masked_lm,
            norm: Some(self.norm("lm.norm", width)?),
        })
    }

    /// What a classifier of texts does first: its own map, or the pooler.
    fn text_transform(&self) -> Result<Transform> {
        if self.config.task_heads.shared {
            return self.word_transform();
        }
        let own = self.weights.has("sequence.transform.weight");
        let name = if own { "sequence.transform" } else { "pooler" };
        let width = self.config.hidden_size;
        let activation = self.config.task_heads.sequence;
        Ok(Transform { map: self.linear(name, width, width)?, activation, norm: None })
    }

    /// As many classes as the tensor has rows.
    fn classifier(&self) -> Result<super::super::ops::Linear> {
        let shape = self.weights.shape("classifier.weight");
        let named = self.config.labels.len().max(1);
        let classes = shape.and_then(|shape| shape.first().copied()).unwrap_or(named);
        self.linear("classifier", self.config.hidden_size, classes)
    }

    /// The decoder is the word embedding itself where the config ties them or the file has no
    /// other; its bias, which a transforming head must have, is in either of two places.
    fn decoder(&self, needs_bias: bool) -> Result<Decoder> {
        let (weights, width) = (self.weights, self.config.embedding_size);
        let own = weights.has("lm.decoder.weight");
        if !self.config.tied && !own {
            let path = weights.path().to_path_buf();
            let want = vec![self.config.vocab_size, width];
            return Err(Error::MissingTensor { path, tensor: "lm.decoder.weight".into(), want });
        }
        let word = match &self.config.decoder {
            Some(config) => Loader { config, at: "decoder.", ..*self }.word(),
            None => self.word(),
        };
        let name = if self.config.tied { word.as_str() } else { "lm.decoder.weight" };
        let rows = weights.shape(name).and_then(|s| s.first().copied());
        let table = self.rows(name, rows.unwrap_or(self.config.vocab_size), width)?;
        // an untied decoder has a bias of its own; both names then hold different numbers
        let mut names = ["lm.bias", "lm.decoder.bias"];
        if !self.config.tied {
            names.reverse();
        }
        let bias = names.into_iter().find(|name| weights.has(name));
        let bias = match bias {
            None if self.config.optional_biases || !needs_bias => {
                self.tensor(vec![0.0; table.count()], &[table.count()])?
            }
            // BART's is a row of its own
            Some(name) if weights.shape(name) == Some(&[1, table.count()]) => {
                self.parameter(name, &[1, table.count()])?.squeeze(0)?
            }
            found => self.parameter(found.unwrap_or("lm.bias"), &[table.count()])?,
        };
        weights.account("lm.decoder.weight");
        weights.account("lm.decoder.bias");
        weights.account("lm.bias");
        Ok(Decoder { table, bias, scale: self.config.logit_scale as f32 })
    }
}
