//! A program as it is written for CUDA: it names nothing of ROCm, and runs on the ROCm device.

use candle_core::backend::{BackendDevice, BackendStorage};
use candle_core::cuda_backend::cudarc::driver::{LaunchConfig, PushKernelArg};
use candle_core::cuda_backend::{CudaStorageSlice, WrapErr};
use candle_core::{
    CpuStorage, CudaDevice, CudaStorage, CustomOp1, Device, DeviceLocation, Layout, Result, Shape, Storage, Tensor,
};

/// Complete only as long as there is no further variant.
fn kind(device: &Device, location: DeviceLocation) -> (&'static str, &'static str) {
    let device = match device {
        Device::Cpu => "cpu",
        Device::Cuda(_) => "cuda",
        Device::Metal(_) => "metal",
    };
    let location = match location {
        DeviceLocation::Cpu => "cpu",
        DeviceLocation::Cuda { gpu_id: _ } => "cuda",
        DeviceLocation::Metal { gpu_id: _ } => "metal",
    };
    (device, location)
}

#[test]
fn the_device_is_cudas() -> Result<()> {
    let device = Device::new_cuda(0)?;
    assert!(device.is_cuda() && device.is_rocm() && !device.is_metal());
    assert_eq!(kind(&device, device.location()), ("cuda", "cuda"));
    let inside: &CudaDevice = device.as_cuda_device()?;
    assert_eq!(inside.location(), device.as_rocm_device()?.location());
    assert_eq!(Device::Cuda(CudaDevice::new_with_stream(0)?).location(), Device::new_cuda_with_stream(0)?.location());
    let available = candle_core::utils::cuda_is_available();
    assert_eq!(available, candle_core::utils::rocm_is_available());
    assert_eq!(Device::cuda_if_available(0)?.is_cuda(), available);
    let error = Device::Cpu.as_cuda_device().expect_err("the CPU is none").to_string();
    assert!(error.contains("expected a cuda device, got cpu"), "{error}");
    Ok(())
}

/// A platform that was asked for and is not there is an error, also for programs that would take the CPU.
#[test]
fn what_is_asked_for_and_missing_is_no_cpu() {
    let mut child = std::process::Command::new(std::env::current_exe().expect("a test has a path"));
    child.args(["--exact", "cuda_names::child_that_wants_a_gpu", "--ignored", "--nocapture"]);
    // Whatever this machine has, no GPU is seen.
    child.env("CANDLE_ROCM_PLATFORM", "amd").env("HIP_VISIBLE_DEVICES", "").env("ROCR_VISIBLE_DEVICES", "");
    let output = child.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("refused: ") && !said.contains("got a device"), "{said}");
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn child_that_wants_a_gpu() {
    match Device::cuda_if_available(0) {
        Ok(device) => println!("got a device: {device:?}"),
        Err(error) => println!("refused: {error}"),
    }
}

const KERNELS: &str = r#"
extern "C" __global__ void shift(float *out, const float *in, const float by, const unsigned count) {
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x) out[i] = in[i] + by;
}
"#;

struct Shift(f32);

impl CustomOp1 for Shift {
    fn name(&self) -> &'static str {
        "shift"
    }
    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        candle_core::bail!("shift is for the GPU")
    }
    fn cuda_fwd(&self, storage: &CudaStorage, layout: &Layout) -> Result<(CudaStorage, Shape)> {
        let device = storage.device().clone();
        let slice = storage.as_cuda_slice::<f32>()?;
        let slice = match layout.contiguous_offsets() {
            None => candle_core::bail!("input has to be contiguous"),
            Some((start, end)) => slice.slice(start..end),
        };
        let count = layout.shape().elem_count();
        // SAFETY: the kernel writes all of it.
        let output = unsafe { device.alloc::<f32>(count) }?;
        let function = device.get_or_load_custom_func("shift", "shift_module", KERNELS)?;
        let config = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (64, 1, 1), shared_mem_bytes: 0 };
        let mut builder = function.builder();
        builder.arg(&output);
        builder.arg(&slice);
        candle_core::builder_arg!(builder, self.0, count as u32);
        // SAFETY: the arguments are those of `shift`, and both buffers hold `count` floats.
        unsafe { builder.launch(config) }.w()?;
        Ok((CudaStorage::wrap_cuda_slice(output, device), layout.shape().clone()))
    }
}

#[test]
fn an_operation_written_for_cuda_runs() -> Result<()> {
    let device = Device::new_cuda(0)?;
    let x = Tensor::arange(0f32, 100., &device)?.narrow(0, 10, 70)?;
    let shifted = x.apply_op1(Shift(0.5))?;
    assert_eq!(shifted.to_vec1::<f32>()?, (10..80).map(|i| i as f32 + 0.5).collect::<Vec<_>>());
    let (storage, _) = shifted.storage_and_layout();
    let Storage::Cuda(CudaStorage { slice: CudaStorageSlice::F32(slice), device }) = &*storage else {
        candle_core::bail!("the result is elsewhere")
    };
    assert_eq!(device.clone_dtoh(&slice.slice(..2))?, [10.5, 11.5]);
    Ok(())
}

#[test]
fn machine_code_for_nvidia_is_refused_with_a_sentence() -> Result<()> {
    let device = Device::new_cuda(0)?;
    let ptx = "//\n// Generated by NVIDIA NVVM Compiler\n//\n.version 8.0\n.target sm_80\n.address_size 64\n";
    let error = device.as_cuda_device()?.get_or_load_custom_func("f", "ptx", ptx).err().map(|error| error.to_string());
    assert!(error.as_ref().is_some_and(|error| error.contains("PTX")), "{error:?}");
    Ok(())
}
