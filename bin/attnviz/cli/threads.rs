//! Threads: how many, and how those of candle wait.

use std::env::{set_var, var_os};
use std::num::NonZero;

use attnviz::{Error, Result};

/// Tells candle's own threads to sleep between two operations. Unless told otherwise they wait in a
/// loop, on the cores that everything else computes on: a step of training took 164 ms of two cores
/// so and takes 120 ms (`cargo bench --bench train`). Call it first of all.
pub fn calm() {
    put("CANDLE_BARRIER_POOL_SPIN_LIMIT", "1");
}

/// Sets the number of threads for everything. More than one per core never helps, and thousands
/// would spend their time waiting for each other. Call it before anything is computed.
pub fn set(threads: Option<u16>) -> Result<()> {
    let Some(threads) = threads else { return Ok(()) };
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = usize::from(threads).min(cores);
    put("CANDLE_NUM_THREADS", &threads.to_string());
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().map_err(|e| Error::Usage {
        flag: "--threads".into(),
        want: "a number of threads that can be started".into(),
        found: format!("{threads} ({e})"),
    })
}

/// Sets a variable of the environment, which candle reads when it first needs its threads; one
/// that the user has set stays.
fn put(name: &str, value: &str) {
    if var_os(name).is_none() {
        // SAFETY: both callers come before the program starts its first thread, and no C library
        // that reads the environment runs beside them
        #[allow(unsafe_code)]
        unsafe {
            set_var(name, value);
        }
    }
}
