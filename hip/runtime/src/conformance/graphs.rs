//! Graphs: recorded once, run with changed inputs, and in charge of their memory.

use super::{Bench, Done};
use crate::{Buffer, Error, LaunchConfig, Result};

pub(super) const NO_GRAPHS: Done = Done::NotHere("HIP before 5.3 records no kernels");

pub(super) fn replay_with_changed_inputs(bench: &Bench) -> Result<Done> {
    if !bench.device.platform().can_capture() {
        return Ok(NO_GRAPHS);
    }
    let stream = &bench.stream;
    let count = 1000u32;
    let config = LaunchConfig::for_elements(count as usize, 256);
    let mut input = bench.upload(&vec![1.0f32; count as usize])?;
    let mut output = stream.zeros::<f32>(count as usize)?;
    let graph = stream.capture(|stream| {
        let mut double = stream.alloc::<f32>(count as usize)?;
        double.copy_from(&input)?;
        bench.launch("scale", config, &(&mut double, 2.0f32, count))?;
        bench.launch("add_into", config, &(&input, &double, &mut output, count))?;
        // A constant from the host: the graph keeps it, though the array is gone when it runs.
        output.slice_mut(..2)?.write(&[-1.0, -2.0])
    })?;
    assert!(graph.node_count() >= 4, "{graph:?}");
    assert_eq!(output.to_vec()?, vec![0.0; count as usize], "what is captured does not run");
    for round in 1..5 {
        input.write(&vec![round as f32; count as usize])?;
        graph.launch(stream)?;
        let mut expected = vec![3.0 * round as f32; count as usize];
        expected[..2].copy_from_slice(&[-1.0, -2.0]);
        assert_eq!(output.to_vec()?, expected, "round {round}");
    }
    // On another stream it is ordered with both.
    let other = bench.device.new_stream()?;
    input.fill(10.0)?;
    graph.launch(&other)?;
    assert_eq!(output.to_vec()?[2..], vec![30.0; count as usize - 2]);
    Ok(Done::Passed)
}

pub(super) fn memory_of_a_capture(bench: &Bench) -> Result<Done> {
    if !bench.device.platform().can_capture() {
        return Ok(NO_GRAPHS);
    }
    let stream = &bench.stream;
    let count = 4096usize;
    let config = LaunchConfig::for_elements(count, 256);
    let before = bench.device.pool_stats();
    let source = bench.upload(&vec![1.0f32; count])?;
    let freed = bench.upload(&vec![5.0f32; count])?;
    let freed_address = freed.ptr();
    let mut kept: Option<Buffer<f32>> = None;
    let mut first_temporary = None;
    let graph = stream.capture(|stream| {
        let mut freed = Some(freed);
        for _ in 0..3 {
            let mut temporary = stream.alloc::<f32>(count)?;
            let again = *first_temporary.get_or_insert(temporary.ptr()) == temporary.ptr();
            assert!(again || bench.device.is_checked(), "freed memory is used again inside");
            temporary.copy_from(&source)?;
            let mut result = stream.alloc::<f32>(count)?;
            if let Some(freed) = freed.take() {
                bench.launch("add_into", config, &(&temporary, &freed, &mut result, count as u32))?;
                kept = Some(result);
            }
        }
        Ok(())
    })?;
    // Nothing outside may get what the graph writes to or reads from.
    let mut outside = Vec::new();
    for _ in 0..8 {
        let mut buffer = stream.alloc::<f32>(count)?;
        assert_ne!(buffer.ptr(), freed_address, "the graph still reads this memory");
        buffer.fill(77.0)?;
        outside.push(buffer);
    }
    graph.launch(stream)?;
    let kept = kept.ok_or_else(|| Error::refused("the capture did not run its closure"))?;
    assert_eq!(kept.to_vec()?, vec![6.0; count]);
    for buffer in &outside {
        assert_eq!(buffer.to_vec()?, vec![77.0; count]);
    }
    drop((outside, kept, source, graph));
    assert_eq!(bench.device.pool_stats().live_bytes, before.live_bytes, "a graph gives its memory back when it goes");
    Ok(Done::Passed)
}

pub(super) fn forks_and_joins(bench: &Bench) -> Result<Done> {
    if !bench.device.platform().can_capture() {
        return Ok(NO_GRAPHS);
    }
    let (stream, other) = (&bench.stream, bench.device.new_stream()?);
    let count = 512usize;
    let config = LaunchConfig::for_elements(count, 128);
    let mut left = bench.upload(&vec![1.0f32; count])?;
    let mut right = other.upload(&vec![1.0f32; count])?;
    let mut sum = stream.zeros::<f32>(count)?;
    bench.device.synchronize()?;
    let graph = stream.capture(|stream| {
        other.wait_for(stream)?;
        assert!(other.is_capturing(), "a stream that waits for a captured one becomes part of the capture");
        bench.launch("scale", config, &(&mut left, 2.0f32, count as u32))?;
        let temporary = other.alloc::<f32>(count)?;
        bench.launch_on(&other, "scale", config, &(&mut right, 3.0f32, count as u32))?;
        drop(temporary);
        stream.wait_for(&other)?;
        bench.launch("add_into", config, &(&left, &right, &mut sum, count as u32))
    })?;
    assert!(!other.is_capturing() && !stream.is_capturing());
    for round in 1..4 {
        graph.launch(stream)?;
        let expected = 2f32.powi(round) + 3f32.powi(round);
        assert_eq!(sum.to_vec()?, vec![expected; count], "round {round}");
    }
    Ok(Done::Passed)
}

pub(super) fn what_a_capture_refuses(bench: &Bench) -> Result<Done> {
    if !bench.device.platform().can_capture() {
        return Ok(NO_GRAPHS);
    }
    let stream = &bench.stream;
    let mut buffer = bench.upload(&[1u32, 2, 3])?;
    let copy = stream.zeros::<u32>(3)?;
    let graph = stream.capture(|stream| {
        for error in [
            buffer.to_vec().map(|_| ()).unwrap_err(),
            stream.synchronize().unwrap_err(),
            stream.is_idle().map(|_| ()).unwrap_err(),
            stream.capture(|_| Ok(())).map(|_| ()).unwrap_err(),
            bench.device.trim_pools().map(|_| ()).unwrap_err(),
        ] {
            assert!(error.to_string().contains("captured"), "{error}");
        }
        // None of that has spoiled the capture.
        buffer.copy_from(&copy)
    })?;
    graph.launch(stream)?;
    assert_eq!(buffer.to_vec()?, [0, 0, 0]);
    Ok(Done::Passed)
}

pub(super) fn a_failed_capture_is_forgotten(bench: &Bench) -> Result<Done> {
    if !bench.device.platform().can_capture() {
        return Ok(NO_GRAPHS);
    }
    let stream = &bench.stream;
    let mut buffer = bench.upload(&[1u32, 2, 3])?;
    let error = stream
        .capture(|_| {
            buffer.zero()?;
            Err(Error::refused("changed my mind"))
        })
        .unwrap_err();
    assert_eq!(error.to_string(), "changed my mind");
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        stream.capture(|_| std::panic::resume_unwind(Box::new("a panic inside"))).map(|_| ())
    }));
    assert!(panicked.is_err());
    assert!(!stream.is_capturing());
    assert_eq!(buffer.to_vec()?, [1, 2, 3], "nothing of it has run, and the stream works");
    Ok(Done::Passed)
}
