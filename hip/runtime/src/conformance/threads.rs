//! Eight threads on one device, each on a stream of its own and then all on one.

use super::{Bench, Done};
use crate::{Error, LaunchConfig, Result, Stream};

const THREADS: u32 = 8;
const ROUNDS: u32 = 50;

/// What each thread does: allocate, upload, launch, read back, free; sizes differ, so that pools split and join.
fn work(bench: &Bench, stream: &Stream, thread: u32) -> Result<()> {
    for round in 0..ROUNDS {
        let count = 1 + (thread * 7919 + round * 104_729) % 20_000;
        let value = (thread * ROUNDS + round) as f32;
        let mut data = stream.upload(&vec![value; count as usize])?;
        let temporary = stream.zeros::<f32>(count as usize / 2 + 1)?;
        let config = LaunchConfig::for_elements(count as usize, 128);
        bench.launch_on(stream, "scale", config, &(&mut data, 2.0f32, count))?;
        drop(temporary);
        let copy = data.try_clone()?;
        drop(data);
        if round % 5 == 0 {
            stream.record()?.synchronize()?;
        }
        let seen = copy.to_vec()?;
        if seen.iter().any(|&found| found != 2.0 * value) {
            return Err(Error::refused(format!("thread {thread} saw another's data in round {round}")));
        }
    }
    Ok(())
}

fn on_all_threads(work: impl Fn(u32) -> Result<()> + Sync) -> Result<Done> {
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn({
                    let work = &work;
                    move || work(thread)
                })
            })
            .collect();
        for handle in handles {
            handle.join().map_err(|_| Error::refused("a thread panicked"))??;
        }
        Ok(Done::Passed)
    })
}

pub(super) fn eight_threads_share_a_device(bench: &Bench) -> Result<Done> {
    on_all_threads(|thread| work(bench, &bench.device.new_stream()?, thread))
}

pub(super) fn eight_threads_share_a_stream(bench: &Bench) -> Result<Done> {
    on_all_threads(|thread| work(bench, &bench.stream, thread))
}

pub(super) fn a_capture_beside_other_threads(bench: &Bench) -> Result<Done> {
    if !bench.device.platform().can_capture() {
        return Ok(super::graphs::NO_GRAPHS);
    }
    // One thread records and runs graphs while the others make their pools grow and shrink.
    let (count, config) = (1000u32, LaunchConfig::for_elements(1000, 128));
    on_all_threads(|thread| {
        let stream = bench.device.new_stream()?;
        if thread != 0 {
            work(bench, &stream, thread)?;
            return bench.device.trim_pools().map(|_| ()).or_else(|error| match error.name() {
                // The other thread is in the middle of a capture.
                None => Ok(()),
                Some(_) => Err(error),
            });
        }
        for round in 0..ROUNDS {
            let mut data = stream.upload(&vec![1.0f32; count as usize])?;
            let graph = stream.capture(|stream| {
                let mut copy = stream.alloc::<f32>(count as usize)?;
                copy.copy_from(&data)?;
                bench.launch_on(stream, "scale", config, &(&mut copy, 3.0f32, count))?;
                data.copy_from(&copy)
            })?;
            (0..3).try_for_each(|_| graph.launch(&stream))?;
            if data.to_vec()? != vec![27.0; count as usize] {
                return Err(Error::refused(format!("round {round} of the graph saw another's data")));
            }
        }
        Ok(())
    })
}
