//! Views cost nothing, and mistakes cost a sentence: slices, transposes and broadcasts share memory, and after every
//! refused request the device works on.
//!
//!     cargo run --release --example 03-layouts-and-errors

use anyhow::{bail, ensure, Result};
use candle_core::{DType, Device, Tensor};

/// A name, and something that cannot be done.
type Mistake = (&'static str, fn(&Device) -> candle_core::Result<Tensor>);

const MISTAKES: &[Mistake] = &[
    ("shapes that do not fit", |device| {
        let a = Tensor::ones((2, 3), DType::F32, device)?;
        a.matmul(&a)
    }),
    ("two dtypes", |device| Tensor::ones(4, DType::F32, device)? + Tensor::ones(4, DType::F16, device)?),
    ("two devices", |device| Tensor::ones(4, DType::F32, device)? + Tensor::ones(4, DType::F32, &Device::Cpu)?),
    ("exp of integers", |device| Tensor::ones(4, DType::U32, device)?.exp()),
    // Only the kernel can see this one. It is reported where the host waits for the device.
    ("row 7 of 4", |device| {
        let rows = Tensor::ones((4, 2), DType::F32, device)?.index_select(&Tensor::new(&[0u32, 7], device)?, 0)?;
        rows.to_device(&Device::Cpu)
    }),
    ("256 TiB", |device| Tensor::zeros((1 << 24, 1 << 22), DType::F32, device)),
    ("a device that is not there", |_| Tensor::zeros(1, DType::F32, &Device::new_rocm(99)?)),
];

fn main() -> Result<()> {
    let device = Device::new_rocm(0)?;
    let rocm = device.as_rocm_device()?;
    let a = Tensor::arange(0f32, 12., &device)?.reshape((3, 4))?;

    let before = rocm.memory_stats().requests;
    let views = [
        ("as it was made", a.clone()),
        ("transposed", a.t()?),
        ("columns 1 and 2", a.narrow(1, 1, 2)?),
        ("row 0, three times", a.narrow(0, 0, 1)?.broadcast_as((3, 4))?),
    ];
    ensure!(rocm.memory_stats().requests == before, "a view asked for memory");
    println!("four views, no memory:");
    for (what, view) in &views {
        // Kernels take shapes and strides as arguments, so a strided sum needs no copy either.
        let sum = view.sum_all()?.to_scalar::<f32>()?;
        println!("  {what:<18} {:?}, strides {:?}, sum {sum}", view.dims(), view.stride());
    }
    println!("twice the transpose:\n{}", (a.t()? * 2.)?);

    println!("what cannot be done is said:");
    for (what, attempt) in MISTAKES {
        let Err(error) = attempt(&device) else { bail!("{what} worked") };
        // The first line is the sentence; a backtrace may follow.
        println!("  {what}: {}", error.to_string().lines().next().unwrap_or_default());
        let sum = Tensor::ones(100, DType::F32, &device)?.sum_all()?.to_scalar::<f32>()?;
        ensure!(sum == 100., "after {what}, a hundred ones are {sum}");
    }
    println!("and after each of them the device worked on");
    Ok(())
}
