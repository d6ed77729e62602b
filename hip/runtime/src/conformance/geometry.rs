//! Launches: what arrives in a kernel, how many threads there are, and what is refused.

use super::{Bench, Done};
use crate::{LaunchConfig, Result};
use bytemuck::{Pod, Zeroable};

/// The structure of the same name in kernels.hip.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(super) struct Layout {
    pub(super) dims: [u32; 3],
    pub(super) padding: u32,
    pub(super) strides: [i64; 3],
    pub(super) dim_count: u8,
    pub(super) more_padding: [u8; 3],
    pub(super) bias: f32,
}

pub(super) fn arguments_by_value(bench: &Bench) -> Result<Done> {
    let layout =
        Layout { dims: [2, 3, 4], padding: 0, strides: [1, 2, 6], dim_count: 3, more_padding: [0; 3], bias: 0.25 };
    let mut out = bench.stream.zeros::<f64>(10)?;
    let args = (250u8, -3000i16, 7u8, -100_000i32, 9u8, -(1i64 << 40), 1.5f32, 2.25f64, layout, &mut out);
    bench.launch("echo", LaunchConfig::new(1, 1), &args)?;
    let expected = [250.0, -3000.0, 7.0, -100_000.0, 9.0, -((1i64 << 40) as f64), 1.5, 2.25, 6.0, 0.25];
    assert_eq!(out.to_vec()?, expected);
    let source: Vec<f32> = (0..24).map(|i| i as f32).collect();
    let (from, mut to) = (bench.upload(&source)?, bench.stream.zeros::<f32>(24)?);
    bench.launch("gather", LaunchConfig::for_elements(24, 64), &(&from, &mut to, layout, 24u32))?;
    let expected: Vec<f32> = (0..24)
        .map(|i| {
            let (x, y, z) = (i / 12, i / 4 % 3, i % 4);
            source[x + 2 * y + 6 * z] + 0.25
        })
        .collect();
    assert_eq!(to.to_vec()?, expected);
    // The same through arguments that are only known at run time.
    let (count, mut args) = (24u32, crate::DynamicArgs::new());
    let (source_address, target_address) = (from.ptr(), to.ptr());
    args.push(&source_address).push(&target_address).push(&layout).push(&count);
    to.zero()?;
    bench.launch("gather", LaunchConfig::for_elements(24, 64), &args)?;
    assert_eq!(to.to_vec()?, expected);
    Ok(Done::Passed)
}

pub(super) fn three_dimensions(bench: &Bench) -> Result<Done> {
    for (grid, block) in
        [((3, 4, 5), (4, 2, 3)), ((1, 1, 1), (1, 1, 1)), ((7, 1, 2), (33, 3, 1)), ((1, 65, 1), (1, 1, 64))]
    {
        let config = LaunchConfig::new(grid, block);
        let total = (config.grid.total() * config.block.total()) as usize;
        let mut ids = bench.stream.zeros::<u32>(total)?;
        bench.launch("linear_ids", config, &(&mut ids,))?;
        assert!(
            ids.to_vec()?.iter().enumerate().all(|(at, &id)| id == at as u32 + 1),
            "grid {grid:?}, block {block:?}"
        );
    }
    Ok(Done::Passed)
}

pub(super) fn blocks_of_1024(bench: &Bench) -> Result<Done> {
    for block in [(1024, 1, 1), (8, 8, 16), (1, 1024, 1), (32, 32, 1)] {
        let config = LaunchConfig::new((3, 2), block);
        let mut ids = bench.stream.zeros::<u32>(6 * 1024)?;
        bench.launch("linear_ids", config, &(&mut ids,))?;
        assert!(ids.to_vec()?.iter().enumerate().all(|(at, &id)| id == at as u32 + 1), "block {block:?}");
    }
    Ok(Done::Passed)
}

pub(super) fn a_million_blocks(bench: &Bench) -> Result<Done> {
    let blocks = 1_000_000u32;
    let mut marks = bench.stream.zeros::<u32>(blocks as usize)?;
    bench.launch("mark_block", LaunchConfig::new(blocks, 2), &(&mut marks,))?;
    assert!(marks.to_vec()?.iter().enumerate().all(|(at, &mark)| mark == at as u32 ^ 0x5a5a_5a5a));
    Ok(Done::Passed)
}

pub(super) fn launch_errors(bench: &Bench) -> Result<Done> {
    let limits = *bench.device.limits();
    let mut data = bench.upload(&[1.0f32; 64])?;
    let attempts = [
        ("no threads", LaunchConfig::new(1, 0)),
        ("no blocks", LaunchConfig::new(0, 64)),
        ("too many threads", LaunchConfig::new(1, limits.threads_per_block + 1)),
        ("too many threads in all", LaunchConfig::new(1, (limits.threads_per_block, 2))),
        ("too much shared memory", LaunchConfig::new(1, 64).shared(limits.shared_bytes_per_block + 1024)),
    ];
    for (what, config) in attempts {
        let outcome =
            bench.launch("scale", config, &(&mut data, 2.0f32, 64u32)).and_then(|()| bench.stream.synchronize());
        let error = outcome.expect_err(what);
        let text = error.to_string();
        assert!(error.code().is_some() && text.contains("kernel scale") && text.contains("grid"), "{what}: {text}");
        // The next launch works.
        bench.launch("scale", LaunchConfig::new(1, 64), &(&mut data, 1.0f32, 64u32))?;
        bench.stream.synchronize()?;
    }
    assert_eq!(data.to_vec()?, [1.0; 64], "a launch that failed must not have run");
    Ok(Done::Passed)
}
