//! The few loops in which a forward pass spends its time, on slices: for f32 on the CPU without
//! gradients. `model::ops` decides between these and candle's operations.

pub(crate) mod attend;
pub(crate) mod back;
pub(crate) mod loss;
pub(crate) mod math;
pub(crate) mod matmul;
pub(crate) mod relative;
pub(crate) mod rows;
pub(crate) mod vector;
