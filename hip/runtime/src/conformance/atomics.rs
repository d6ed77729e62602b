//! Atomics of 16, 32 and 64 bits with thousands of threads on the same word.

use super::{Bench, Done};
use crate::{LaunchConfig, Result};

pub(super) fn words(bench: &Bench) -> Result<Done> {
    let (blocks, threads) = (64u32, 256u32);
    let n = blocks * threads;
    let mut i32s = bench.upload(&[0i32, 0, i32::MAX, i32::MIN])?;
    let mut u32s = bench.upload(&[0u32, u32::MAX, 0, 0, 0, 0])?;
    let mut u64s = bench.stream.zeros::<u64>(3)?;
    let mut f32s = bench.stream.zeros::<f32>(1)?;
    let mut f64s = bench.stream.zeros::<f64>(1)?;
    bench.launch(
        "contend",
        LaunchConfig::new(blocks, threads),
        &(&mut i32s, &mut u32s, &mut u64s, &mut f32s, &mut f64s),
    )?;
    assert_eq!(i32s.to_vec()?, [n as i32, -2 * n as i32, 1 - n as i32, n as i32 - 1], "add, sub, min, max");
    let u32s = u32s.to_vec()?;
    assert_eq!(u32s[..3], [u32::MAX, 1 << 31, (0..n).fold(0, |all, i| all ^ i)], "or, and, xor");
    assert_eq!(u32s[3..5], [n % 10, (10 - n % 10) % 10], "inc and dec wrap at their limit");
    assert!(u32s[5] >> 31 == 1 && u32s[5] & 0x7fff_ffff < n, "exch leaves the value of one thread");
    assert_eq!(
        u64s.to_vec()?,
        [n as u64 * 0x1_0000_0001, ((n - 1) as u64) << 33, 3 * n as u64],
        "64-bit add, max, cas"
    );
    assert_eq!((f32s.to_vec()?[0], f64s.to_vec()?[0]), (n as f32 * 0.5, n as f64 * 0.25), "float add");
    Ok(Done::Passed)
}

pub(super) fn halves(bench: &Bench) -> Result<Done> {
    let mut counters = bench.upload(&[0u16, 65_535, 10, 20])?;
    bench.launch("contend_halves", LaunchConfig::new(40, 256), &(&mut counters,))?;
    assert_eq!(counters.to_vec()?, [2560, 2559, 2570, 2580]);
    Ok(Done::Passed)
}

pub(super) fn in_shared_memory(bench: &Bench) -> Result<Done> {
    let mut sums = bench.stream.zeros::<u32>(100)?;
    bench.launch("contend_shared", LaunchConfig::new(100, 512), &(&mut sums,))?;
    assert_eq!(sums.to_vec()?, [511 * 512 / 2; 100]);
    Ok(Done::Passed)
}
