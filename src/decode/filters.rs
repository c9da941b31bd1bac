//! What keeps tokens from being drawn. Each takes the logits [V] of one position; a token that is
//! out has −∞. The rules at the edges are those of transformers' `LogitsProcessor` classes.

const OUT: f64 = f64::NEG_INFINITY;

/// Makes tokens that occur in `so_far` less likely, each once however often it occurs.
pub fn penalize_repetition(logits: &mut [f64], so_far: &[u32], penalty: f64) {
    let mut seen = vec![false; logits.len()];
    for &id in so_far {
        let id = id as usize;
        // a prompt may hold tokens that the model reads and cannot write
        if let (Some(logit), Some(seen @ false)) = (logits.get_mut(id), seen.get_mut(id)) {
            *logit = if *logit < 0.0 { *logit * penalty } else { *logit / penalty };
            *seen = true;
        }
    }
}

/// Takes out every token that would complete one of these sequences behind `so_far`; of one token:
/// the token.
pub fn forbid_sequences<'a>(
    logits: &mut [f64],
    so_far: &[u32],
    sequences: impl IntoIterator<Item = &'a [u32]>,
) {
    for sequence in sequences {
        let Some((&last, before)) = sequence.split_last() else { continue };
        if so_far.ends_with(before) {
            // a prompt may hold tokens that the model reads and cannot write
            if let Some(logit) = logits.get_mut(last as usize) {
                *logit = OUT;
            }
        }
    }
}

/// Keeps the `k` likeliest tokens and those that tie with the last of them.
pub fn keep_top_k(logits: &mut [f64], k: usize) {
    if k == 0 || k >= logits.len() {
        return;
    }
    let mut sorted = logits.to_vec();
    let (_, &mut least, _) = sorted.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a));
    retain(logits, |logit| logit >= least);
}

/// Takes the least likely tokens out as long as all of them together have at most 1 − `p`; of
/// equally likely ones those with higher ids go first. The likeliest stays.
pub fn keep_top_p(logits: &mut [f64], p: f64) {
    if p >= 1.0 {
        return;
    }
    let probabilities = softmax(logits);
    let mut order: Vec<usize> = (0..logits.len()).filter(|&id| probabilities[id] > 0.0).collect();
    order.sort_unstable_by(|&a, &b| probabilities[a].total_cmp(&probabilities[b]).then(b.cmp(&a)));
    order.pop();
    let mut below = 0.0;
    for id in order {
        below += probabilities[id];
        if below > 1.0 - p {
            break;
        }
        logits[id] = OUT;
    }
}

/// Keeps the tokens at least `p` times as probable as the likeliest.
pub fn keep_min_p(logits: &mut [f64], p: f64) {
    let most = largest(logits);
    retain(logits, |logit| (logit - most).exp() >= p);
}

/// Soft-max; zeros where every token is out.
pub fn softmax(logits: &[f64]) -> Vec<f64> {
    let most = largest(logits);
    if most == OUT {
        return vec![0.0; logits.len()];
    }
    let mut weights: Vec<f64> = logits.iter().map(|logit| (logit - most).exp()).collect();
    let sum: f64 = weights.iter().sum(); // at least 1
    weights.iter_mut().for_each(|weight| *weight /= sum);
    weights
}

/// The largest logit.
pub fn largest(logits: &[f64]) -> f64 {
    logits.iter().copied().fold(OUT, f64::max)
}

fn retain(logits: &mut [f64], stays: impl Fn(f64) -> bool) {
    for logit in logits {
        if !stays(*logit) {
            *logit = OUT;
        }
    }
}
