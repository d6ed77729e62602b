//! Kernels in Rust on the embedded device, at wave sizes 32 and 64, against plain Rust. `CANDLE_ROCM_PLATFORM=gfx1100,gfx90a` runs the same
//! on emulated GPUs, `CANDLE_ROCM_PLATFORM=host HIP_HOST_DEVICES=2 HIP_HOST_WAVE=32,64 HIP_HOST_CHECKED=1` with all checks. What the translation refuses is tested where it is, in `hip/macros`.

mod blocks;
mod memory;
mod scalars;

use hip::{Device, Platform, Stream};
use std::sync::OnceLock;

/// A stream on each device: of waves of 32, and of 64 lanes.
pub fn streams() -> Vec<Stream> {
    static DEVICES: OnceLock<Vec<Device>> = OnceLock::new();
    let devices = DEVICES.get_or_init(|| {
        let named = std::env::var_os(hip::PLATFORM_VARIABLE).is_some_and(|name| name != "host")
            || std::env::var_os("HIP_HOST_WAVE").is_some();
        let platform = if named {
            Platform::detect()
        } else {
            let options = hip_host::Options { devices: 2, wave_sizes: vec![32, 64], ..hip_host::Options::default() };
            hip_host::configure(options).expect("nothing has used the device before");
            Platform::named("host")
        };
        let platform = platform.expect("the platform starts");
        (0..platform.device_count()).map(|n| platform.device(n).expect("it is there")).collect()
    });
    let waves: Vec<u32> = devices.iter().map(Device::wave_size).collect();
    assert!(waves.contains(&32) && waves.contains(&64), "{waves:?}");
    devices.iter().map(|device| device.new_stream().expect("a stream")).collect()
}
