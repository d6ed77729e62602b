//! Several devices: a model cut in two, each half on a device of its own, and two halves of a batch at the same time.
//! Without two GPUs the embedded device presents two, here even with different wave sizes.
//!
//!     cargo run --release --example 07-two-devices

use anyhow::{bail, ensure, Result};
use candle_core::rocm_backend::hip::Platform;
use candle_core::{Device, Tensor};

/// One layer: its weights decide on which device it computes.
fn layer(x: &Tensor, weights: &Tensor) -> candle_core::Result<Tensor> {
    x.matmul(weights)?.tanh()
}

fn largest_difference(a: &Tensor, b: &Tensor) -> candle_core::Result<f32> {
    (a - b.to_device(a.device())?)?.abs()?.max_all()?.to_scalar()
}

fn main() -> Result<()> {
    // The embedded device reads these once, at the first call of HIP. AMD's runtime does not know them.
    for (variable, value) in [("HIP_HOST_DEVICES", "2"), ("HIP_HOST_WAVE", "32,64")] {
        if std::env::var_os(variable).is_none() {
            std::env::set_var(variable, value);
        }
    }
    let platform = Platform::detect()?;
    for device in platform.devices()? {
        println!("rocm:{} is {} ({}), wave {}", device.ordinal(), device.name(), device.arch(), device.wave_size());
    }
    if platform.device_count() < 2 {
        bail!("this takes two devices; CANDLE_ROCM_PLATFORM=host runs it on two embedded ones");
    }
    let (first, second) = (Device::new_rocm(0)?, Device::new_rocm(1)?);

    let x = Tensor::randn(0f32, 1., (64, 256), &first)?;
    let lower = Tensor::randn(0f32, 0.06, (256, 256), &first)?;
    let upper = Tensor::randn(0f32, 0.06, (256, 256), &first)?;
    let expected = layer(&layer(&x, &lower)?, &upper)?;

    // A model too large for one device: only the activations travel. The copy waits for the work before it, on the devices
    // and not on the host.
    let upper_there = upper.to_device(&second)?;
    let halfway = layer(&x, &lower)?;
    let result = layer(&halfway.to_device(&second)?, &upper_there)?;
    let difference = largest_difference(&expected, &result)?;
    println!("cut in two, the result is on {:?} and differs by {difference:.0e}", result.device().location());
    ensure!(difference < 1e-5, "the second device computes something else");

    // A batch too slow for one device: each works on its half, at the same time, because nothing here waits.
    let halves = x.chunk(2, 0)?;
    let here = layer(&layer(&halves[0], &lower)?, &upper)?;
    let there = layer(&layer(&halves[1].to_device(&second)?, &lower.to_device(&second)?)?, &upper_there)?;
    let joined = Tensor::cat(&[here, there.to_device(&first)?], 0)?;
    let difference = largest_difference(&expected, &joined)?;
    println!("two halves of a batch, joined on {:?}, differ by {difference:.0e}", joined.device().location());
    ensure!(difference < 1e-5, "the halves do not add up");

    // Nothing travels by accident.
    match &x + &result {
        Ok(_) => bail!("tensors of two devices were added"),
        Err(error) => println!("without to_device: {}", error.to_string().lines().next().unwrap_or_default()),
    }
    Ok(())
}
