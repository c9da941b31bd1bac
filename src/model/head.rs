//! The last layer → what a task wants: pooled text, logits over words or classes.

use candle_core::{DType, Device, Tensor};

use super::embed::Rows;
use super::gradient::known;
use super::ops::{Linear, Norm, Then};
use super::parameter::affine;
use super::stored::{add_product, add_product_back};
use crate::config::{Activation, Pooling};
use crate::error::Result;
use crate::weights::Table;

/// What is computed on top of the encoder.
#[derive(Clone)]
pub(crate) enum TaskHead {
    /// The pooler, where the file has one.
    Encoder { pooler: Option<Linear> },
    /// A distribution over the vocabulary for each token, masked or next.
    Words { transform: Option<Transform>, decoder: Decoder },
    /// Class scores of the text: a linear map of its transformed first token or mean.
    Sequence { transform: Transform, pooling: Pooling, classifier: Linear },
    /// Class scores of each token.
    Token { transform: Option<Transform>, classifier: Linear },
    /// One score for each token.
    Replaced { transform: Transform, output: Linear },
}

/// A linear map, an activation and, in some heads, a norm.
#[derive(Clone)]
pub(crate) struct Transform {
    pub map: Linear,
    pub activation: Activation,
    pub norm: Option<Norm>,
}

impl Transform {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.map.forward(x, None, Then::Activate(self.activation))?;
        self.norm.as_ref().map_or(Ok(x.clone()), |norm| norm.forward(&x))
    }
}

/// What a task's head gives.
#[derive(Debug, Clone, Default)]
pub struct HeadOutputs {
    /// tanh of a linear map of the first token, of models without another head: `[B,D]`.
    pub pooler_output: Option<Tensor>,
    /// `[B,T,V]` of a language-model head, `[B,labels]` or `[B,T,labels]` of a classifier, `[B,T]` of
    /// replaced tokens.
    pub logits: Option<Tensor>,
}

impl TaskHead {
    /// `hidden` [B, T, D] is the output of the last layer; `real` [B, T] is 1 for real positions.
    pub fn forward(&self, hidden: &Tensor, real: &Tensor) -> Result<HeadOutputs> {
        let first = || -> Result<Tensor> { Ok(hidden.narrow(1, 0, 1)?.squeeze(1)?) }; // [B, D]
        let mut outputs = HeadOutputs::default();
        outputs.logits = Some(match self {
            Self::Encoder { pooler } => {
                let tanh = Then::Activate(Activation::Tanh);
                let pooled = pooler.as_ref().map(|map| map.forward(&first()?, None, tanh));
                outputs.pooler_output = pooled.transpose()?;
                return Ok(outputs);
            }
            Self::Words { transform, decoder } => {
                let x = transform.as_ref().map(|t| t.forward(hidden)).transpose()?;
                decoder.forward(x.as_ref().unwrap_or(hidden))?
            }
            Self::Sequence { transform, pooling, classifier } => {
                let pooled = match pooling {
                    Pooling::First => first()?,
                    Pooling::Mean => mean(hidden, real)?,
                };
                classifier.forward(&transform.forward(&pooled)?, None, Then::Nothing)?
            }
            Self::Token { transform, classifier } => {
                let x = transform.as_ref().map(|t| t.forward(hidden)).transpose()?;
                classifier.forward(x.as_ref().unwrap_or(hidden), None, Then::Nothing)?
            }
            Self::Replaced { transform, output } => {
                output.forward(&transform.forward(hidden)?, None, Then::Nothing)?.squeeze(2)?
            }
        });
        Ok(outputs)
    }
}

/// Mean over the real positions: [B, D].
fn mean(hidden: &Tensor, real: &Tensor) -> Result<Tensor> {
    let real = real.unsqueeze(2)?; // [B, T, 1]
    Ok(hidden.broadcast_mul(&real)?.sum(1)?.broadcast_div(&real.sum(1)?)?)
}

/// A linear map to the vocabulary whose matrix, usually the word embedding itself, stays as it is
/// stored and is converted a few hundred rows at a time.
#[derive(Clone)]
pub(crate) struct Decoder {
    pub table: Rows,  // [V, D]
    pub bias: Tensor, // [V]
    /// What the input is multiplied by.
    pub scale: f32,
}

impl Decoder {
    /// `x` [.., D] → [.., V], with a gradient where it is wanted.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = x.to_device(&Device::Cpu)?.to_dtype(DType::F32)?;
        let table = match &self.table {
            Rows::Live(table) => return affine(&(x * f64::from(self.scale))?, table, &self.bias),
            Rows::Stored(table) => table,
        };
        if !x.track_op() {
            return self.values(table, &x);
        }
        let (kept, scale) = (table.clone(), self.scale);
        let back = move |x: &Tensor, _: &Tensor, gradient: &Tensor| {
            let gradient = gradient.flatten_all()?.to_vec1::<f32>()?;
            let mut back = vec![0.0; x.elem_count()];
            add_product_back(&kept, &mut back, &gradient, scale)?;
            Ok(Tensor::from_vec(back, x.shape(), x.device())?)
        };
        known(&x, |x| self.values(table, x), back)
    }

    fn values(&self, table: &Table, x: &Tensor) -> Result<Tensor> {
        let mut shape = x.dims().to_vec();
        if let Some(last) = shape.last_mut() {
            *last = table.rows;
        }
        let x = x.flatten_all()?.to_vec1::<f32>()?;
        let bias = self.bias.to_device(&Device::Cpu)?.to_vec1::<f32>()?;
        let mut out = bias.repeat(x.len() / table.cols.max(1));
        add_product(table, (&mut out, table.rows, 0..table.rows), &x, self.scale)?;
        Ok(Tensor::from_vec(out, shape, &Device::Cpu)?)
    }
}
