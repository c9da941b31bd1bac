//! Some of many, at random.

use std::collections::BTreeSet;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// `count` of the numbers below `of`, none twice; all where there are no more.
pub(crate) fn drawn(of: usize, count: usize, seed: u64) -> BTreeSet<usize> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut all: Vec<usize> = (0..of).collect();
    let count = count.min(of);
    for i in 0..count {
        let other = i + (random.next_u64() % (of - i) as u64) as usize;
        all.swap(i, other);
    }
    all.into_iter().take(count).collect()
}
