//! The memory pool on a real platform: what it keeps, what it gives back, and when it asks the system.

use super::{Bench, Done};
use crate::{Buffer, Error, Result};

pub(super) fn steady_state(bench: &Bench) -> Result<Done> {
    if bench.device.is_checked() {
        return Ok(Done::NotHere("checked mode keeps nothing"));
    }
    let step = || -> Result<()> {
        let mut live: Vec<Buffer<u8>> = Vec::new();
        for index in 0..200usize {
            live.push(bench.stream.alloc(1 + index * index * 37 % 700_000)?);
            if index % 3 == 2 {
                live.swap_remove(index / 2 % live.len());
            }
        }
        Ok(())
    };
    for _ in 0..5 {
        step()?;
    }
    let warm = bench.stream.pool_stats();
    for _ in 0..50 {
        step()?;
    }
    let after = bench.stream.pool_stats();
    assert_eq!(after.system_allocations, warm.system_allocations, "the steady state went to the system");
    assert_eq!(after.requests - warm.requests, 50 * 200);
    assert_eq!(after.hits - warm.hits, 50 * 200);
    assert_eq!(after.live_bytes, 0);
    // Freed memory is there at once for the next on the same stream.
    let first = bench.stream.alloc::<u8>(1000)?;
    let address = first.ptr();
    drop(first);
    assert_eq!(bench.stream.alloc::<u8>(1000)?.ptr(), address);
    Ok(Done::Passed)
}

pub(super) fn growing_context(bench: &Bench) -> Result<Done> {
    if bench.device.is_checked() {
        return Ok(Done::NotHere("checked mode keeps nothing"));
    }
    // 10,000 allocations, each 4 KiB longer than the last, the old one freed after the new one is there.
    let mut cache = bench.stream.alloc::<u8>(4096)?;
    for token in 2..=10_000 {
        cache = bench.stream.alloc::<u8>(4096 * token)?;
    }
    let stats = bench.stream.pool_stats();
    let ratio = stats.reserved_bytes as f64 / stats.peak_live_bytes as f64;
    assert_eq!(stats.requests, 10_000);
    assert!(stats.peak_live_bytes >= 2 * 4096 * 9_999);
    assert!(ratio < 1.5, "reserved is {ratio:.2} times the peak: {stats:?}");
    assert!(stats.system_allocations < 200, "{stats:?}");
    drop(cache);
    bench.device.trim_pools()?;
    assert_eq!(bench.stream.pool_stats().reserved_bytes, 0);
    Ok(Done::Passed)
}

pub(super) fn out_of_memory(bench: &Bench) -> Result<Done> {
    let total = bench.device.memory()?.total;
    let error = bench.stream.alloc::<u8>(total.saturating_mul(4)).map(|_| ()).unwrap_err();
    assert!(error.is_out_of_memory(), "{error}");
    let text = error.to_string();
    assert!(text.contains("hipMalloc") && text.contains("GiB"), "{text}");
    assert_eq!(bench.upload(&[1u32, 2])?.to_vec()?, [1, 2], "the next call works");
    Ok(Done::Passed)
}

pub(super) fn keep_limit(bench: &Bench) -> Result<Done> {
    if bench.device.is_checked() {
        return Ok(Done::NotHere("checked mode keeps nothing"));
    }
    let hold = || -> Result<Vec<Buffer<u8>>> { (0..8).map(|_| bench.stream.alloc(4 << 20)).collect() };
    drop(hold()?);
    assert!(bench.stream.pool_stats().reserved_bytes >= 32 << 20, "without a limit it keeps what it had");
    bench.device.set_pool_keep_limit(8 << 20);
    let held = hold();
    drop(held);
    let kept = bench.stream.pool_stats().reserved_bytes;
    bench.device.set_pool_keep_limit(usize::MAX);
    if kept > 8 << 20 {
        return Err(Error::refused(format!("the pool keeps {kept} bytes, its limit is 8 MiB")));
    }
    Ok(Done::Passed)
}
