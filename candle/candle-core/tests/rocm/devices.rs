//! Handles, streams, seeds, memory and kernels of one's own: what `RocmDevice` promises beyond computing tensors.

use candle_core::backend::BackendStorage;
use candle_core::rocm_backend::hip::LaunchConfig;
use candle_core::rocm_backend::RocmStorage;
use candle_core::{CpuStorage, CustomOp1, DType, Device, DeviceLocation, InplaceOp1, Layout, Result, Shape, Tensor};

#[test]
fn two_handles_of_one_gpu_mix_freely() -> Result<()> {
    let (one, other) = (Device::new_rocm(0)?, Device::new_rocm(0)?);
    assert!(!one.same_device(&other));
    assert_eq!(one.location(), DeviceLocation::Cuda { gpu_id: 0 });
    let sum = (Tensor::new(&[1f32, 2.], &one)? + Tensor::new(&[10f32, 20.], &other)?)?;
    assert_eq!(sum.to_vec1::<f32>()?, [11., 22.]);
    Ok(())
}

#[test]
fn a_stream_of_its_own_waits_where_tensors_meet() -> Result<()> {
    let (one, other) = (Device::new_rocm(0)?, Device::new_rocm_with_stream(0)?);
    let mut x = Tensor::zeros((64, 64), DType::F32, &other)?;
    for _ in 0..20 {
        x = (x + 1.)?;
    }
    let sum = (Tensor::ones((64, 64), DType::F32, &one)? + &x)?;
    assert_eq!(sum.sum_all()?.to_scalar::<f32>()?, 21. * 64. * 64.);
    let product = x.matmul(&Tensor::ones((64, 64), DType::F32, &one)?)?;
    assert_eq!(product.mean_all()?.to_scalar::<f32>()?, 20. * 64.);
    Ok(())
}

#[test]
fn seeds_repeat_and_numbers_differ() -> Result<()> {
    let device = Device::new_rocm(0)?;
    device.set_seed(42)?;
    assert_eq!(device.get_current_seed()?, 42);
    let first = Tensor::randn(0f32, 1., (100,), &device)?.to_vec1::<f32>()?;
    let second = Tensor::randn(0f32, 1., (100,), &device)?.to_vec1::<f32>()?;
    assert_ne!(first, second);
    device.set_seed(42)?;
    assert_eq!(first, Tensor::randn(0f32, 1., (100,), &device)?.to_vec1::<f32>()?);
    let uniform = Tensor::rand(-2f64, 3., (1000,), &device)?.to_vec1::<f64>()?;
    assert!(uniform.iter().all(|x| (-2. ..3.).contains(x)));
    Ok(())
}

#[test]
fn transfers_copy() -> Result<()> {
    let (one, other) = (Device::new_rocm(0)?, Device::new_rocm(0)?);
    let original = Tensor::arange(0u32, 1000, &one)?;
    let copy = original.to_device(&other)?;
    copy.slice_set(&Tensor::zeros(1000, DType::U32, &other)?, 0, 0)?;
    assert_eq!(original.to_vec1::<u32>()?, (0..1000).collect::<Vec<_>>());
    assert_eq!(copy.to_vec1::<u32>()?, vec![0; 1000]);
    Ok(())
}

#[test]
fn memory_is_used_again() -> Result<()> {
    let device = Device::new_rocm_with_stream(0)?;
    let rocm = device.as_rocm_device()?;
    for _ in 0..50 {
        Tensor::zeros(100_000, DType::F32, &device)?.sqr()?;
    }
    device.synchronize()?;
    let stats = rocm.memory_stats();
    assert!(rocm.hip_device().is_checked() || stats.hits * 2 > stats.requests, "{stats:?}");
    Ok(())
}

const SOURCE: &str = r#"
extern "C" __global__ void twice(const float *in, float *out, unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = 2.0f * in[i];
}
"#;

struct Twice;

impl CustomOp1 for Twice {
    fn name(&self) -> &'static str {
        "twice"
    }
    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        candle_core::bail!("twice is for the ROCm device")
    }
    fn rocm_fwd(&self, x: &RocmStorage, layout: &Layout) -> Result<(RocmStorage, Shape)> {
        let device = x.device();
        let kernel = device.get_or_load_custom_func("twice", "twice_module", SOURCE)?;
        let count = layout.shape().elem_count();
        let input = x.as_rocm_slice::<f32>()?;
        let mut out = device.alloc_zeros::<f32>(count)?;
        // SAFETY: the arguments are those of `twice`; both buffers hold `count` floats and belong to the device's stream.
        unsafe { kernel.launch(LaunchConfig::for_elements(count, 64), &(input, &mut out, count as u32))? };
        Ok((RocmStorage::wrap_rocm_slice(out, device.clone()), layout.shape().clone()))
    }
}

#[test]
fn a_kernel_of_ones_own() -> Result<()> {
    let device = Device::new_rocm(0)?;
    let x = Tensor::arange(0f32, 1000., &device)?;
    let doubled = x.apply_op1(Twice)?;
    assert_eq!(doubled.to_vec1::<f32>()?, (0..1000).map(|i| 2. * i as f32).collect::<Vec<_>>());
    Ok(())
}

/// An operation that nobody wrote for ROCm.
struct Nothing;

impl InplaceOp1 for Nothing {
    fn name(&self) -> &'static str {
        "nothing"
    }
    fn cpu_fwd(&self, _: &mut CpuStorage, _: &Layout) -> Result<()> {
        Ok(())
    }
}

#[test]
fn an_operation_without_a_rocm_side_says_so() -> Result<()> {
    let x = Tensor::zeros(3, DType::F32, &Device::new_rocm(0)?)?;
    let error = x.inplace_op1(&Nothing).expect_err("there is no ROCm side").to_string();
    assert!(error.contains("no rocm implementation for nothing"), "{error}");
    Ok(())
}
