//! Windows of a tokenised text as examples.

use std::ops::Range;
use std::sync::Arc;

use ndarray::Array2;
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::RngCore;

use super::super::{Examples, Purpose, random};
use super::vocabulary::{MASK, SPECIAL};
use crate::error::Result;
use crate::task::{Sample, Target};
use crate::tokens::Batch;

/// What a masked language model is asked for.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Masking {
    /// Share of the tokens.
    pub share: f64,
    /// Of those, 10 % become another token and 10 % stay (Devlin et al. 2019, section 3.1); without
    /// it all become the mask.
    pub mixed: bool,
}

/// Windows of `context` tokens. While training, each pass over the text cuts it elsewhere: the
/// windows of a step are moved by up to a window's length, as its seed says.
pub struct WindowExamples {
    ids: Arc<[u32]>,
    context: usize,
    /// Where each window begins, and how far it may be moved.
    windows: Vec<(usize, usize)>,
    /// `None` asks for each next token.
    masking: Option<Masking>,
    vocabulary: u32,
    moved: bool,
}

impl WindowExamples {
    /// The windows of these stretches of `ids`; `moved` ones are for training.
    pub fn new(
        ids: Arc<[u32]>,
        stretches: &[Range<usize>],
        context: usize,
        masking: Option<Masking>,
        vocabulary: usize,
        moved: bool,
    ) -> Self {
        let context = context.max(1);
        let windows = stretches.iter().flat_map(|stretch| {
            let ends = stretch.end.min(ids.len());
            let starts = (stretch.start..).step_by(context);
            let whole = starts.take_while(move |start| start + context <= ends);
            whole.map(move |start| (start, (ends - start - context).min(context)))
        });
        let (windows, vocabulary) = (windows.collect(), vocabulary as u32);
        Self { ids, context, windows, masking, vocabulary, moved }
    }

    /// Tokens that the windows hold.
    pub fn tokens(&self) -> usize {
        self.windows.len() * self.context
    }

    fn masked(&self, ids: &mut Array2<u32>, how: Masking, random: &mut ChaCha12Rng) -> Target {
        let special = SPECIAL.len() as u32;
        let mut labels = Array2::from_elem(ids.dim(), None);
        for (mut row, mut labels) in ids.rows_mut().into_iter().zip(labels.rows_mut()) {
            let mut typed: Vec<usize> = (0..row.len()).filter(|&t| row[t] >= special).collect();
            let count = ((typed.len() as f64 * how.share).round() as usize).max(1).min(typed.len());
            for i in 0..count {
                let other = i + (random.next_u64() % (typed.len() - i) as u64) as usize;
                typed.swap(i, other);
                let (t, kind) = (typed[i], random.next_u32() % 10);
                labels[t] = Some(row[t]);
                row[t] = match kind {
                    0 if how.mixed => row[t],
                    1 if how.mixed => {
                        special + random.next_u32() % self.vocabulary.saturating_sub(special).max(1)
                    }
                    _ => MASK,
                };
            }
        }
        Target::Tokens(labels)
    }
}

impl Examples for WindowExamples {
    fn count(&self) -> usize {
        self.windows.len()
    }

    fn sample(&self, places: &[usize], seed: u64) -> Result<Sample> {
        let mut random = random(seed, 0, Purpose::Examples);
        let mut ids = Vec::with_capacity(places.len() * self.context);
        for &place in places {
            let (start, slack) = self.windows[place];
            let by = random.next_u64() % (slack as u64 + 1);
            let start = start + if self.moved { by as usize } else { 0 };
            ids.extend_from_slice(&self.ids[start..start + self.context]);
        }
        let shape = (places.len(), self.context);
        let mut ids = Array2::from_shape_fn(shape, |(b, t)| ids[b * self.context + t]);
        let special = ids.mapv(|id| id < SPECIAL.len() as u32);
        let masked = self.masking.map(|how| self.masked(&mut ids, how, &mut random));
        let batch = Batch::from_ids(ids, Array2::ones(shape));
        let target = masked.unwrap_or_else(|| Target::next_tokens(&batch));
        Ok(Sample { batch, special, written: None, target: Some(target) })
    }
}
