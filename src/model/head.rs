//! The last layer → what a task wants: pooled text, logits over words or classes.

use candle_core::{DType, Device, Tensor};
use rayon::prelude::*;

use super::kernel::matmul::{Sizes, View, matmul};
use super::ops::{Linear, Norm, Then};
use crate::config::Activation;
use crate::error::Result;
use crate::weights::Table;

/// What is computed on top of the encoder.
#[derive(Clone)]
pub(crate) enum TaskHead {
    /// The pooler, where the file has one.
    Encoder { pooler: Option<Linear> },
    /// transform, norm, decoder: a distribution over the vocabulary for each token.
    MaskedLm { transform: Linear, activation: Activation, norm: Norm, decoder: Decoder },
    /// Class scores of the text: a linear map of the pooled first token.
    Sequence { pooler: Linear, classifier: Linear },
    /// Class scores of each token.
    Token { classifier: Linear },
}

/// What a task's head gives.
#[derive(Debug, Clone, Default)]
pub struct HeadOutputs {
    /// tanh of a linear map of the first token, of models without another head: `[B,D]`.
    pub pooler_output: Option<Tensor>,
    /// `[B,T,V]` of a masked-LM head, `[B,labels]` or `[B,T,labels]` of a classifier.
    pub logits: Option<Tensor>,
}

impl TaskHead {
    /// `hidden` [B, T, D] is the output of the last layer.
    pub fn forward(&self, hidden: &Tensor) -> Result<HeadOutputs> {
        let pooled = |pooler: &Linear| -> Result<Tensor> {
            let first = hidden.narrow(1, 0, 1)?.squeeze(1)?; // [B, D]
            pooler.forward(&first, None, Then::Activate(Activation::Tanh))
        };
        let mut outputs = HeadOutputs::default();
        match self {
            Self::Encoder { pooler } => {
                outputs.pooler_output = pooler.as_ref().map(pooled).transpose()?;
            }
            Self::MaskedLm { transform, activation, norm, decoder } => {
                let x = transform.forward(hidden, None, Then::Activate(*activation))?;
                outputs.logits = Some(decoder.forward(&norm.forward(&x)?)?);
            }
            Self::Sequence { pooler, classifier } => {
                let pooled = pooled(pooler)?;
                outputs.logits = Some(classifier.forward(&pooled, None, Then::Nothing)?);
            }
            Self::Token { classifier } => {
                outputs.logits = Some(classifier.forward(hidden, None, Then::Nothing)?);
            }
        }
        Ok(outputs)
    }
}

/// A linear map to the vocabulary whose matrix, usually the word embedding itself, stays as it is
/// stored and is converted a few hundred rows at a time.
#[derive(Clone)]
pub(crate) struct Decoder {
    pub table: Table, // [V, D]
    pub bias: Vec<f32>,
}

/// Rows of the vocabulary that one task converts and multiplies.
const ROWS: usize = 512;

impl Decoder {
    /// `x` [.., D] → [.., V].
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let mut shape = x.dims().to_vec();
        if let Some(last) = shape.last_mut() {
            *last = self.table.rows;
        }
        let (vocab, width) = (self.table.rows, self.table.cols);
        let x = x.to_device(&Device::Cpu)?.to_dtype(DType::F32)?;
        let device = x.device().clone();
        let x = x.flatten_all()?.to_vec1::<f32>()?;
        let count = x.len() / width.max(1);
        let blocks: Vec<(usize, Vec<f32>)> = (0..vocab)
            .into_par_iter()
            .step_by(ROWS)
            .map(|first| -> Result<(usize, Vec<f32>)> {
                let rows = ROWS.min(vocab - first);
                let matrix = self.table.rows_range(first, rows)?; // [rows, D]
                let bias = &self.bias[first..first + rows];
                let mut block = bias.repeat(count); // [count, rows]
                let factors = (View::rows(&x, width), View::rows(&matrix, width).t());
                let sizes = Sizes { m: count, k: width, n: rows };
                matmul(&mut block, rows, true, factors, sizes, 1.0, 1);
                Ok((first, block))
            })
            .collect::<Result<_>>()?;
        let mut out = vec![0.0; count * vocab];
        for (first, block) in blocks {
            let rows = block.len() / count.max(1);
            for (line, part) in out.chunks_exact_mut(vocab).zip(block.chunks_exact(rows.max(1))) {
                line[first..first + rows].copy_from_slice(part);
            }
        }
        Ok(Tensor::from_vec(out, shape, &device)?)
    }
}
