//! Asynchrony: work that is submitted is not done, streams run beside each other, events order them.

use super::{Bench, Done, LONG_TICKS, PATIENCE_TICKS};
use crate::{Event, LaunchConfig, Result};
use std::time::Duration;

const ONE: fn() -> LaunchConfig = || LaunchConfig::new(1, 1);

/// Runs the kernels of the cases below once: a runtime that loads a kernel at its first launch may wait for the device then.
fn warm_up(bench: &Bench) -> Result<()> {
    let mut told = bench.upload(&[1i32, 0])?;
    let address = told.ptr();
    bench.launch("tell", ONE(), &(&mut told,))?;
    bench.launch("write_when_told", ONE(), &(address, address.offset(1), 0i32, 0i64))?;
    bench.launch("copy_one", ONE(), &(address.offset(1), address))?;
    bench.device.synchronize()
}

pub(super) fn work_is_asynchronous(bench: &Bench) -> Result<Done> {
    warm_up(bench)?;
    let other = bench.device.new_stream()?;
    let mut told = other.zeros::<i32>(1)?;
    let mut value = bench.stream.zeros::<i32>(1)?;
    bench.device.synchronize()?;
    assert!(bench.stream.is_idle()?);
    bench.launch("write_when_told", ONE(), &(&mut told, &mut value, 3i32, PATIENCE_TICKS))?;
    let event = bench.stream.record()?;
    assert!(!bench.stream.is_idle()?, "a launch must return before its kernel is done");
    assert!(!event.is_reached()?);
    bench.launch_on(&other, "tell", ONE(), &(&mut told,))?;
    event.synchronize()?;
    assert!(event.is_reached()? && bench.stream.is_idle()?);
    assert_eq!(value.to_vec()?, [3]);
    assert!(Event::new(&bench.device)?.is_reached()?, "an event never recorded counts as reached");
    Ok(Done::Passed)
}

pub(super) fn events_order_streams(bench: &Bench) -> Result<Done> {
    let other = bench.device.new_stream()?;
    let mut value = bench.stream.zeros::<i32>(1)?;
    let mut seen = other.zeros::<i32>(1)?;
    for round in 0..20 {
        bench.launch("sleep_then_write", ONE(), &(&mut value, round, LONG_TICKS / 50))?;
        other.wait(&bench.stream.record()?)?;
        bench.launch_on(&other, "copy_one", ONE(), &(&mut seen, &value))?;
        bench.launch_on(&other, "add_one", ONE(), &(&mut seen,))?;
        bench.stream.wait_for(&other)?;
        bench.launch("sleep_then_write", ONE(), &(&mut value, -1i32, 0i64))?;
        assert_eq!(seen.to_vec()?, [round + 1]);
    }
    Ok(Done::Passed)
}

pub(super) fn a_missing_wait_is_visible(bench: &Bench) -> Result<Done> {
    warm_up(bench)?;
    let other = bench.device.new_stream()?;
    let mut told = other.zeros::<i32>(1)?;
    let mut value = bench.stream.zeros::<i32>(1)?;
    let mut seen = other.upload(&[-1])?;
    bench.device.synchronize()?;
    // The writer does not finish before it is told to, and whoever does not wait for it cannot see what it writes.
    bench.launch("write_when_told", ONE(), &(&mut told, &mut value, 7i32, PATIENCE_TICKS))?;
    bench.launch_on(&other, "copy_one", ONE(), &(&mut seen, &value))?;
    assert_eq!(seen.to_vec()?, [0], "the other stream did not wait, and must have come first");
    bench.launch_on(&other, "tell", ONE(), &(&mut told,))?;
    other.wait_for(&bench.stream)?;
    bench.launch_on(&other, "copy_one", ONE(), &(&mut seen, &value))?;
    assert_eq!(seen.to_vec()?, [7]);
    Ok(Done::Passed)
}

pub(super) fn events_tell_time(bench: &Bench) -> Result<Done> {
    let mut value = bench.stream.zeros::<i32>(1)?;
    // On a busy machine something else may take its time between two events; not every time.
    for attempt in 1..=5 {
        let start = bench.stream.record_timed()?;
        bench.launch("sleep_then_write", ONE(), &(&mut value, 1i32, LONG_TICKS))?;
        let middle = bench.stream.record_timed()?;
        let stop = bench.stream.record_timed()?;
        stop.synchronize()?;
        let (slept, rest) = (middle.elapsed_since(&start)?, stop.elapsed_since(&middle)?);
        assert!(slept > Duration::from_millis(20) && slept < Duration::from_secs(20), "the kernel took {slept:?}");
        let untimed = bench.stream.record()?;
        assert!(untimed.elapsed_since(&start).unwrap_err().to_string().contains("record_timed"));
        if rest < slept / 2 {
            break;
        }
        assert!(attempt < 5, "nothing happened between the last two events, for {rest:?}");
    }
    Ok(Done::Passed)
}
