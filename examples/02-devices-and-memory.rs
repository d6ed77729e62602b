//! Which devices there are, and what the memory pool does: freed memory is kept and used again, because asking the
//! system for memory is slow and giving it back makes the whole device wait.
//!
//!     cargo run --release --example 02-devices-and-memory

use anyhow::{ensure, Result};
use candle_core::rocm_backend::hip::Platform;
use candle_core::rocm_backend::RocmDevice;
use candle_core::{DType, Device, Tensor};

const MIB: f64 = (1 << 20) as f64;

fn report(moment: &str, device: &RocmDevice) {
    let stats = device.memory_stats();
    println!(
        "{moment:<18} {:>6.1} MiB in use, {:>6.1} MiB held, {:>3} requests, {:>2} of them went to the system",
        stats.live_bytes as f64 / MIB,
        stats.reserved_bytes as f64 / MIB,
        stats.requests,
        stats.requests - stats.hits,
    );
}

fn main() -> Result<()> {
    // The HIP runtime below Candle's device can be asked directly.
    let platform = Platform::detect()?;
    println!("platform {}: {}", platform.name(), platform.why().lines().next().unwrap_or_default());
    for device in platform.devices()? {
        let memory = device.memory()?;
        println!(
            "rocm:{} {} ({}), wave {}, {} compute units, {:.1} of {:.1} GiB free",
            device.ordinal(),
            device.name(),
            device.arch(),
            device.wave_size(),
            device.compute_units(),
            memory.free as f64 / MIB / 1024.,
            memory.total as f64 / MIB / 1024.,
        );
    }

    let device = Device::new_rocm(0)?;
    let rocm = device.as_rocm_device()?;
    report("at the start", rocm);

    let weights = Tensor::ones((1024, 1024), DType::F32, &device)?;
    report("one matrix", rocm);

    // Every step makes temporaries and drops them. Only the first step needs new memory.
    for _ in 0..100 {
        let loss = (weights.sqr()? + 1.)?.sum_all()?;
        drop(loss);
    }
    device.synchronize()?;
    report("after 100 steps", rocm);
    let stats = rocm.memory_stats();
    // In checked mode every buffer is an allocation of its own, so that the device can see where it ends.
    ensure!(
        rocm.hip_device().is_checked() || stats.hits * 10 > stats.requests * 9,
        "the pool asked the system {} times for {} requests",
        stats.requests - stats.hits,
        stats.requests
    );

    drop(weights);
    report("all dropped", rocm);

    // What is kept can be given back, for another program on the same GPU, say.
    let bytes = rocm.hip_device().trim_pools()?;
    println!("{:.1} MiB went back to the system", bytes as f64 / MIB);
    report("at the end", rocm);
    Ok(())
}
