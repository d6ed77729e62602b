//! The smallest program: a matrix product on a ROCm device, and a glance at where it ran.
//!
//!     cargo run --release --example 01-hello-tensor

use anyhow::{ensure, Result};
use candle_core::{Device, Tensor};

fn main() -> Result<()> {
    // Ordinal 0 is the first GPU. Where there is none, the embedded device runs the same kernels on CPU threads.
    let device = Device::new_rocm(0)?;
    let hip = device.as_rocm_device()?.hip_device();
    println!("rocm:0 is {} ({}), platform {}", hip.name(), hip.arch(), hip.platform().name());

    let a = Tensor::arange(0f32, 6., &device)?.reshape((2, 3))?;
    // `t()` only swaps strides: the product reads the transposed matrix where it lies.
    let product = a.matmul(&a.t()?)?;
    println!("a =\n{a}\na x transposed a =\n{product}");

    // Operations are submitted and not waited for. Reading a value waits.
    let sum = product.sum_all()?.to_scalar::<f32>()?;
    println!("the sum of the product is {sum}");

    // The same on the CPU. `to_device` copies; tensors of two devices never mix silently.
    let a = a.to_device(&Device::Cpu)?;
    let expected = a.matmul(&a.t()?)?.sum_all()?.to_scalar::<f32>()?;
    ensure!(sum == expected, "the CPU says {expected}, not {sum}");
    println!("the CPU says the same");

    // For a program that prefers Candle's CPU backend to the embedded device where there is no AMD GPU. A platform that
    // CANDLE_ROCM_PLATFORM asks for counts as one.
    println!("Device::rocm_if_available(0) gives {:?} here", Device::rocm_if_available(0)?.location());
    Ok(())
}
