use candle_core::{Device, Result, Tensor};

fn main() -> Result<()> {
    // The feature `cuda` is the AMD GPU when `cargo rocm` builds, and NVIDIA's when cargo does.
    let device = if cfg!(feature = "cuda") { Device::new_cuda(0)? } else { Device::Cpu };
    let a = Tensor::randn(0f32, 1.0, (2, 3), &device)?;
    println!("on {:?}: {}", device.location(), a.matmul(&a.t()?)?);
    Ok(())
}
