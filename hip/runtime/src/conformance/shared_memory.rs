//! Shared memory, static and dynamic, and the barriers that make it useful.

use super::{Bench, Done};
use crate::{LaunchConfig, Result};

pub(super) fn dynamic(bench: &Bench) -> Result<Done> {
    for threads in [1u32, 64, 200, 1024] {
        let source: Vec<f32> = (0..threads * 5).map(|i| i as f32).collect();
        let (from, mut to) = (bench.upload(&source)?, bench.stream.zeros::<f32>(source.len())?);
        bench.launch("reverse_dynamic", LaunchConfig::new(5, threads).shared(threads * 4), &(&from, &mut to))?;
        let expected: Vec<f32> =
            source.chunks(threads as usize).flat_map(|block| block.iter().rev().copied()).collect();
        assert_eq!(to.to_vec()?, expected, "{threads} threads");
    }
    Ok(Done::Passed)
}

pub(super) fn two_types_at_once(bench: &Bench) -> Result<Done> {
    let threads = 256u32;
    let mut to = bench.stream.zeros::<u32>(4 * threads as usize)?;
    bench.launch("two_dynamic", LaunchConfig::new(4, threads).shared(threads * 12), &(&mut to,))?;
    let one: Vec<u32> = (0..threads).map(|t| threads - 1 - t + (t + 1) % threads * 3).collect();
    assert_eq!(to.to_vec()?, one.repeat(4));
    Ok(Done::Passed)
}

pub(super) fn tree_reduction(bench: &Bench) -> Result<Done> {
    for threads in [2usize, 64, 256, 1024] {
        let source: Vec<u32> = (0..threads as u32 * 37).map(|i| i * 7 % 1000).collect();
        let (from, mut sums) = (bench.upload(&source)?, bench.stream.zeros::<u32>(37)?);
        bench.launch("block_sum", LaunchConfig::new(37, threads as u32), &(&from, &mut sums))?;
        let expected: Vec<u32> = source.chunks(threads).map(|block| block.iter().sum()).collect();
        assert_eq!(sums.to_vec()?, expected, "{threads} threads");
    }
    Ok(Done::Passed)
}

pub(super) fn uneven_loops(bench: &Bench) -> Result<Done> {
    let (blocks, threads) = (40u32, 96usize);
    let mut to = bench.stream.zeros::<u32>(blocks as usize * threads)?;
    bench.launch("uneven_loops", LaunchConfig::new(blocks, threads as u32), &(&mut to,))?;
    let expected: Vec<u32> = (0..blocks)
        .flat_map(|block| {
            let rounds = block % 7;
            let total = rounds * (rounds + 1) / 2 + if block % 2 == 0 { 100 * rounds } else { 0 };
            vec![total; threads]
        })
        .collect();
    assert_eq!(to.to_vec()?, expected);
    Ok(Done::Passed)
}

pub(super) fn early_exits(bench: &Bench) -> Result<Done> {
    let threads = 256u32;
    for active in [1u32, 31, 64, 100, 256] {
        let mut to = bench.stream.zeros::<u32>(3 * threads as usize)?;
        bench.launch("early_exit", LaunchConfig::new(3, threads), &(&mut to, active))?;
        let one: Vec<u32> = (0..threads).map(|t| active.saturating_sub(t)).collect();
        assert_eq!(to.to_vec()?, one.repeat(3), "{active} of {threads} threads");
    }
    Ok(Done::Passed)
}

pub(super) fn votes(bench: &Bench) -> Result<Done> {
    let threads = 192usize;
    let votes: Vec<i32> = (0..4 * threads)
        .map(|i| match i / threads {
            0 => 1,
            1 => 0,
            2 => i32::from(i % threads == 77),
            _ => (i % 3 == 0).into(),
        })
        .collect();
    let (from, mut counts) = (bench.upload(&votes)?, bench.stream.zeros::<i32>(12)?);
    bench.launch("count_votes", LaunchConfig::new(4, threads as u32), &(&from, &mut counts))?;
    assert_eq!(counts.to_vec()?, [192, 1, 1, 0, 0, 0, 1, 0, 1, 64, 0, 1]);
    Ok(Done::Passed)
}
