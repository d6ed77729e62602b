//! Two devices: copies between them, kernels on each.

use super::{compiled, load, Bench, Done, LONG_TICKS};
use crate::{Device, LaunchConfig, Result};

const ONE_DEVICE: Done = Done::NotHere("the platform has one device");

fn another(bench: &Bench) -> Result<Option<Device>> {
    let devices = bench.device.platform().devices()?;
    Ok(devices.into_iter().find(|device| *device != bench.device))
}

pub(super) fn copies_between_devices(bench: &Bench) -> Result<Done> {
    let Some(peer) = another(bench)? else { return Ok(ONE_DEVICE) };
    let (here, there) = (&bench.stream, peer.new_stream()?);
    let data: Vec<u64> = (0..100_000).collect();
    let source = here.upload(&data)?;
    let copy = source.to_stream(&there)?;
    drop(source);
    assert_eq!(copy.to_stream(here)?.to_vec()?, data);
    // The copy waits for work on the other device, and the other device for the copy.
    let mut slow = here.zeros::<i32>(1)?;
    bench.launch("sleep_then_write", LaunchConfig::new(1, 1), &(&mut slow, 5i32, LONG_TICKS))?;
    let seen = slow.to_stream(&there)?;
    slow.write(&[6])?;
    assert_eq!(seen.to_vec()?, [5]);
    assert_eq!(slow.to_vec()?, [6]);
    if bench.device.can_access(&peer)? {
        bench.device.enable_access(&peer)?;
        bench.device.enable_access(&peer)?;
    }
    Ok(Done::Passed)
}

pub(super) fn kernels_stay_on_their_device(bench: &Bench) -> Result<Done> {
    let Some(peer) = another(bench)? else { return Ok(ONE_DEVICE) };
    let there = peer.new_stream()?;
    let mut data = there.upload(&[1.0f32; 100])?;
    let error = bench.launch_on(&there, "scale", LaunchConfig::new(1, 100), &(&mut data, 3.0f32, 100u32)).unwrap_err();
    assert!(error.to_string().contains("load its module there"), "{error}");
    let module = load(&peer, compiled(&peer, "kernels.hip", include_str!("kernels.hip"))?.to_vec())?;
    // SAFETY: the kernel takes a pointer, a float and a count.
    unsafe { module.function("scale")?.launch(&there, LaunchConfig::new(1, 100), &(&mut data, 3.0f32, 100u32)) }?;
    assert_eq!(data.to_vec()?, [3.0; 100]);
    let count = bench.device.platform().device_count();
    let error = bench.device.platform().device(count).unwrap_err().to_string();
    assert!(error.contains(&format!("has {count} devices, with the ordinals 0 to {}", count - 1)), "{error}");
    Ok(Done::Passed)
}
