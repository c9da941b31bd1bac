//! Attention by its definition: a loop over heads in f64 and the einsum over named axes, against
//! the batched operations and the tiled kernel.

use candle_core::{Device, Tensor};

use super::distance::{Distances, Index};
use super::scores::Attend;

/// Numbers in (−1, 1) from a small generator.
fn noise(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

struct Case {
    sizes: [usize; 5], // B, H, T, S, K
    query: Vec<f32>,
    key: Vec<f32>,
    value: Vec<f32>,
    bias: Vec<f32>,
    table: Option<(Vec<f32>, bool)>, // rows max − 1 + i − j
}

const MAX: usize = 96;

impl Case {
    fn new(sizes: [usize; 5], scale: f32, table: Option<bool>) -> Self {
        let [b, h, t, s, k] = sizes;
        let scaled = |count, seed| -> Vec<f32> {
            noise(count, seed).into_iter().map(|x| x * scale).collect()
        };
        let mut bias = vec![0.0; b * s];
        bias[(b - 1) * s + s / 2..].fill(f32::MIN); // the last example is padded
        Self {
            sizes,
            query: scaled(b * h * t * k, 1),
            key: scaled(b * h * s * k, 2),
            value: noise(b * h * s * k, 3),
            bias,
            table: table.map(|with_keys| (noise((2 * MAX - 1) * k, 4), with_keys)),
        }
    }

    /// One head after another in f64: (probabilities [B,H,T,S], context [B,H,T,K]).
    fn loop_over_heads(&self) -> (Vec<f64>, Vec<f64>) {
        let [b, h, t, s, k] = self.sizes;
        let (mut probs, mut context) = (Vec::new(), Vec::new());
        for head in 0..b * h {
            let row = |of: &[f32], count: usize, i: usize| -> Vec<f64> {
                of[(head * count + i) * k..][..k].iter().map(|&x| f64::from(x)).collect()
            };
            for i in 0..t {
                let q = row(&self.query, t, i);
                let scores: Vec<f64> = (0..s)
                    .map(|j| {
                        let key = row(&self.key, s, j);
                        let mut score: f64 = q.iter().zip(&key).map(|(a, b)| a * b).sum();
                        if let Some((table, with_keys)) = &self.table {
                            let term = &table[(MAX - 1 + i - j) * k..][..k];
                            for c in 0..k {
                                let own = if *with_keys { key[c] } else { 0.0 };
                                score += (q[c] + own) * f64::from(term[c]);
                            }
                        }
                        score / (k as f64).sqrt() + f64::from(self.bias[head / h * s + j])
                    })
                    .collect();
                let max = scores.iter().copied().fold(f64::MIN, f64::max);
                let exps: Vec<f64> = scores.iter().map(|x| (x - max).exp()).collect();
                let sum: f64 = exps.iter().sum();
                let mut mixed = vec![0.0; k];
                for (j, e) in exps.iter().enumerate() {
                    probs.push(e / sum);
                    for (m, v) in mixed.iter_mut().zip(row(&self.value, s, j)) {
                        *m += e / sum * v;
                    }
                }
                context.extend(mixed);
            }
        }
        (probs, context)
    }

    fn tensors(&self) -> [Tensor; 4] {
        let [b, h, t, s, k] = self.sizes;
        let tensor = |data: &[f32], shape: &[usize]| {
            Tensor::from_slice(data, shape, &Device::Cpu).expect("tensor")
        };
        [
            tensor(&self.query, &[b, h, t, k]),
            tensor(&self.key, &[b, h, s, k]),
            tensor(&self.value, &[b, h, s, k]),
            tensor(&self.bias, &[b, s]),
        ]
    }

    fn distances(&self) -> Option<Distances> {
        let k = self.sizes[4];
        self.table.as_ref().map(|(table, with_keys)| {
            let table = Tensor::from_slice(table, (1, 2 * MAX - 1, k), &Device::Cpu);
            let table = table.expect("tensor");
            let key = with_keys.then(|| table.clone());
            Distances { index: Index::Plain { max: MAX }, query: Some(table), key, bias: None }
        })
    }

    fn attend<'a>(
        &self,
        [query, key, value, bias]: [&'a Tensor; 4],
        distances: Option<&'a Distances>,
    ) -> Attend<'a> {
        Attend {
            query,
            key,
            value,
            bias,
            group: 1,
            past: 0,
            causal: false,
            window: None,
            distances,
            global: None,
            scale: 1.0 / (self.sizes[4] as f64).sqrt(),
        }
    }
}

fn close(what: &str, got: &Tensor, want: &[f64]) {
    let got = got.flatten_all().and_then(|t| t.to_vec1::<f32>()).expect("numbers");
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        let off = (f64::from(*g) - w).abs();
        assert!(off <= 1e-5, "{what} {i}: {g} for {w}");
    }
}

/// `bhqd,bhkd→bhqk`, soft-max over k, `bhqk,bhkd→bhqd`: the axes as the strings name them.
fn einsum(case: &Case) -> (Tensor, Tensor) {
    let [query, key, value, bias] = case.tensors();
    let [b, _, _, s, k] = case.sizes;
    let product =
        query.unsqueeze(3).expect("bhq1d").broadcast_mul(&key.unsqueeze(2).expect("bh1kd"));
    let scores = (product.expect("bhqkd").sum(4).expect("bhqk") / (k as f64).sqrt()).expect("bhqk");
    let bias = bias.reshape((b, 1, 1, s)).expect("b11k");
    let probs =
        candle_nn::ops::softmax(&scores.broadcast_add(&bias).expect("bhqk"), 3).expect("bhqk");
    let product =
        probs.unsqueeze(4).expect("bhqk1").broadcast_mul(&value.unsqueeze(2).expect("bh1kd"));
    (probs, product.expect("bhqkd").sum(3).expect("bhqd"))
}

fn hold(case: &Case) {
    let (probs, context) = case.loop_over_heads();
    let [query, key, value, bias] = case.tensors();
    let distances = case.distances();
    // as the model has them: views into one wide projection
    let wide =
        |t: &Tensor| t.transpose(1, 2).and_then(|t| t.contiguous()).and_then(|t| t.transpose(1, 2));
    let [wide_query, wide_key, wide_value] = [&query, &key, &value].map(|t| wide(t).expect("view"));
    for (query, key, value) in [(&query, &key, &value), (&wide_query, &wide_key, &wide_value)] {
        let attend = case.attend([query, key, value, &bias], distances.as_ref());
        let batched = attend.probs(&attend.scores().expect("scores")).expect("probs");
        close("batched probabilities", &batched, &probs);
        let mixed = batched.matmul(&value.contiguous().expect("value")).expect("context");
        close("batched context", &mixed, &context);
        let all: Vec<usize> = (0..case.sizes[1]).collect();
        let tiled = attend.in_tiles(&all, &all).expect("runs").expect("on the CPU");
        close("tiled probabilities", &tiled.probs.expect("kept"), &probs);
        close("tiled context", &tiled.context, &context);
        let unrecorded = attend.in_tiles(&[], &[]).expect("runs").expect("on the CPU");
        assert!(unrecorded.probs.is_none() && unrecorded.scores.is_none());
        close("unrecorded context", &unrecorded.context, &context);
    }
    if case.table.is_none() {
        let (summed, mixed) = einsum(case);
        close("einsum probabilities", &summed, &probs);
        close("einsum context", &mixed, &context);
    }
}

#[test]
fn loop_batch_einsum_and_tiles_agree() {
    for sizes in [[1, 1, 1, 1, 4], [2, 3, 7, 7, 8], [3, 4, 33, 33, 16], [2, 2, 5, 90, 6]] {
        hold(&Case::new(sizes, 1.0, None));
    }
}

#[test]
fn position_terms_agree() {
    for with_keys in [false, true] {
        hold(&Case::new([2, 3, 9, 9, 8], 1.0, Some(with_keys)));
        hold(&Case::new([1, 2, 60, 60, 24], 1.0, Some(with_keys)));
    }
}

#[test]
fn scores_of_ten_thousand_and_hidden_rows() {
    // products of ±1e4 after scaling: a soft-max that does not subtract the maximum overflows
    let mut case = Case::new([2, 2, 6, 6, 4], 1.0, None);
    case.query.iter_mut().for_each(|x| *x = x.signum() * 100.0);
    case.key.iter_mut().for_each(|x| *x = x.signum() * 50.0);
    hold(&case);
    let (probs, _) = case.loop_over_heads();
    assert!(probs.iter().all(|p| p.is_finite()));
    // every key of an example hidden: uniform, as in the reference
    case.bias.fill(f32::MIN);
    let [query, key, value, bias] = case.tensors();
    let attend = case.attend([&query, &key, &value, &bias], None);
    let tiled = attend.in_tiles(&[0, 1], &[0, 1]).expect("runs").expect("on the CPU");
    let batched = attend.probs(&attend.scores().expect("scores")).expect("probs");
    close("tiled", &tiled.probs.expect("kept"), &[1.0 / 6.0; 2 * 2 * 6 * 6]);
    close("batched", &batched, &[1.0 / 6.0; 2 * 2 * 6 * 6]);
}

#[test]
fn heads_that_are_kept_are_the_ones_asked_for() {
    let case = Case::new([2, 4, 5, 5, 8], 1.0, None);
    let (probs, _) = case.loop_over_heads();
    let [query, key, value, bias] = case.tensors();
    let attend = case.attend([&query, &key, &value, &bias], None);
    let tiled = attend.in_tiles(&[], &[1, 3]).expect("runs").expect("on the CPU");
    let want: Vec<f64> =
        [1, 3, 5, 7].iter().flat_map(|&h| probs[h * 25..][..25].to_vec()).collect();
    close("heads 1 and 3 of both", &tiled.probs.expect("kept"), &want);
}
