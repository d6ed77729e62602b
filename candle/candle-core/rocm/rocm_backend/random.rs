//! Random numbers. They depend on the seed, on how many were drawn since it was set, and on their place in the tensor,
//! never on the device, so that a run can be repeated anywhere.

use super::kernels::Output;
use super::{RocmDevice, RocmStorage};
use crate::{DType, Result};

/// Fills a new storage; `fill` gets the output, the seed and the offset, and returns the next offset.
fn draw(
    device: &RocmDevice,
    op: &'static str,
    dtype: DType,
    count: usize,
    fill: impl FnOnce(&mut Output<'_>, u64, u64) -> hip::Result<u64>,
) -> Result<RocmStorage> {
    // Held over the launch: two threads never get the same numbers.
    let mut random = device.random();
    let (seed, drawn) = (random.seed, &mut random.drawn);
    RocmStorage::filled(device, dtype, count, op, |out| {
        *drawn = fill(out, seed, *drawn)?;
        Ok(())
    })
}

/// Numbers from `low` up to, but not including, `high`.
pub(super) fn uniform(device: &RocmDevice, count: usize, dtype: DType, low: f64, high: f64) -> Result<RocmStorage> {
    draw(device, "rand_uniform", dtype, count, |out, seed, offset| {
        device.kernels().rand_uniform(out, low, high, seed, offset)
    })
}

/// Numbers with a mean and a standard deviation.
pub(super) fn normal(
    device: &RocmDevice,
    count: usize,
    dtype: DType,
    mean: f64,
    deviation: f64,
) -> Result<RocmStorage> {
    draw(device, "rand_normal", dtype, count, |out, seed, offset| {
        device.kernels().rand_normal(out, mean, deviation, seed, offset)
    })
}
