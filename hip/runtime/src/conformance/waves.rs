//! What the lanes of a wave do together, for whatever wave size the device has.

use super::{Bench, Done};
use crate::{LaunchConfig, Result};

pub(super) fn wave_size(bench: &Bench) -> Result<Done> {
    let mut size = bench.stream.zeros::<i32>(1)?;
    bench.launch("wave_size", LaunchConfig::new(1, 1), &(&mut size,))?;
    assert_eq!(size.to_vec()?, [bench.device.wave_size() as i32], "kernels and properties must agree");
    assert!([32, 64].contains(&bench.device.wave_size()));
    Ok(Done::Passed)
}

pub(super) fn shuffles(bench: &Bench) -> Result<Done> {
    let wave = bench.device.wave_size() as i32;
    let threads = 192;
    let mut to = bench.stream.zeros::<i32>(2 * threads as usize * 8)?;
    bench.launch("shuffles", LaunchConfig::new(2, threads as u32), &(&mut to,))?;
    let mut expected = Vec::new();
    for _block in 0..2 {
        for t in 0..threads {
            let (base, lane) = (t / wave * wave, t % wave);
            let of = |lane: i32| (base + lane) * 10;
            expected.extend([
                of(3),
                of(if lane >= 1 { lane - 1 } else { lane }),
                of(if lane + 2 < wave { lane + 2 } else { lane }),
                of(lane ^ 5),
                of(lane / 8 * 8 + 1),
                of(lane ^ 2),
                of(wave - 1),
                lane,
            ]);
        }
    }
    assert_eq!(to.to_vec()?, expected);
    Ok(Done::Passed)
}

pub(super) fn ballots(bench: &Bench) -> Result<Done> {
    let wave = bench.device.wave_size();
    let mask =
        |vote: &dyn Fn(u32) -> bool| (0..wave).filter(|&lane| vote(lane)).fold(0u64, |mask, lane| mask | 1 << lane);
    let mut to = bench.stream.zeros::<u64>(128 * 5)?;
    bench.launch("ballots", LaunchConfig::new(1, 128), &(&mut to,))?;
    for (t, results) in to.to_vec()?.chunks(5).enumerate() {
        let lane = t as u32 % wave;
        let branch = if lane % 2 == 1 { mask(&|lane| lane % 2 == 1) } else { mask(&|lane| lane % 2 == 0 && lane >= 4) };
        assert_eq!(results, [mask(&|lane| lane % 3 == 0), 1, 1, 0, branch], "thread {t}");
    }
    Ok(Done::Passed)
}

pub(super) fn reductions(bench: &Bench) -> Result<Done> {
    let wave = bench.device.wave_size() as usize;
    let count = 1000;
    let source: Vec<f32> = (0..count).map(|i| (i % 17) as f32).collect();
    let (from, mut sums) = (bench.upload(&source)?, bench.stream.zeros::<f32>(1024 / wave)?);
    bench.launch("wave_sums", LaunchConfig::new(4, 256), &(&from, &mut sums, count as u32))?;
    let expected: Vec<f32> = source.chunks(wave).map(|lanes| lanes.iter().sum()).collect();
    assert_eq!(sums.to_vec()?, expected);
    Ok(Done::Passed)
}
