//! Training: a loop over seeded batches with AdamW, gates that learn which heads to keep, and the
//! check of every gradient behind it.
//!
//! Whatever is random in a run (the order of examples, masks, dropout, gate noise) is a function of
//! the run's seed and the step's number, so that a run that goes on from a checkpoint does what it
//! would have done.

mod adamw;
mod dropout;
mod examples;
mod gated;
mod gates;
mod gradcheck;
mod held;
mod run;
mod schedule;
mod scratch;
mod settings;
mod store;
mod tune;

pub use adamw::{AdamW, Decay};
pub use dropout::{Dropout, dropout};
pub use examples::{Examples, LabelledExamples, TextExamples, mean_loss};
pub use gates::{Gating, LearnedGates, Penalty};
pub(crate) use gates::{Learning, learn_gates};
pub use gradcheck::{Check, Checked};
pub use run::{Plan, Point, Run};
pub use schedule::{Schedule, Shape};
pub use scratch::{
    Corpus, Init, Masking, NewModel, Recipe, Vocabulary, WindowExamples, Windows, wordpiece,
};
pub use tune::{Bench, Tune, Tuned};

use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::SeedableRng;
use sha2::{Digest, Sha256};

/// SHA-256 in hexadecimal digits: tells one text or set from another.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Random numbers of one step for one purpose.
pub(crate) fn random(seed: u64, step: u64, purpose: Purpose) -> ChaCha12Rng {
    let mut random = ChaCha12Rng::seed_from_u64(seed);
    random.set_stream(step.wrapping_mul(Purpose::COUNT) + purpose as u64);
    random
}

/// What random numbers are drawn for; each has a stream of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    /// The order of the examples in a pass over them.
    Order,
    /// What is done to the examples of a batch, such as masking.
    Examples,
    Dropout,
    Gates,
    /// New weights.
    Start,
}

impl Purpose {
    const COUNT: u64 = 5;
}

/// A number from 0 (within) to 1 (without), of the upper 24 bits that a float32 can hold.
pub(crate) fn uniform(random: &mut ChaCha12Rng) -> f32 {
    use rand_chacha::rand_core::RngCore;
    (random.next_u32() >> 8) as f32 / (1u32 << 24) as f32
}

/// A number of the standard normal distribution (Box and Muller 1958).
pub(crate) fn normal(random: &mut ChaCha12Rng) -> f32 {
    let (u, v) = (1.0 - uniform(random), uniform(random));
    (-2.0 * u.ln()).sqrt() * (std::f32::consts::TAU * v).cos()
}

/// Numbers of a normal distribution around 0.
pub(crate) fn normal_numbers(random: &mut ChaCha12Rng, count: usize, deviation: f32) -> Vec<f32> {
    (0..count).map(|_| deviation * normal(random)).collect()
}
