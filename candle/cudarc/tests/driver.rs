//! cudarc's calls as a program writes them, on the embedded device.

use cudarc::driver::{sys, CudaContext, CudaSlice, DevicePtr, DeviceSlice, LaunchConfig, PushKernelArg};
use cudarc::hip;

const SOURCE: &str = r#"
extern "C" __global__ void scale(float *out, const float *in, float factor, unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = in[i] * factor;
}
"#;

#[test]
fn a_kernel_is_launched_with_arguments_added_one_by_one() -> Result<(), hip::Error> {
    let device = hip::Platform::named("host")?.device(0)?;
    let stream = cudarc::driver::CudaStream::from(device.new_stream()?);
    let program = hip::Program::new("scale.hip", SOURCE).for_device(&device);
    let object = hip::Compiler::new(device.platform())?.compile(&program)?;
    let function = hip::Module::load(&device, object)?.function("scale")?;

    let input = stream.clone_htod(&[1f32, 2., 3., 4., 5.])?;
    let mut output: CudaSlice<f32> = stream.alloc_zeros(5)?;
    let (part, factor, count) = (input.slice(1..4), 2f32, 3u32);
    let mut launch = stream.launch_builder(&function);
    launch.arg(&mut output).arg(&part).arg(&factor).arg(&count);
    // SAFETY: the arguments are the kernel's, in its order, and both buffers outlive the wait below.
    unsafe { launch.launch(LaunchConfig::for_num_elems(count)) }?;
    assert_eq!(stream.clone_dtoh(&output)?, [4., 6., 8., 0., 0.]);

    let mut first = [0f32; 2];
    stream.memcpy_dtoh(&output.slice(..2), &mut first)?;
    assert_eq!(first, [4., 6.]);
    let mut copy = stream.clone_dtod(&output)?;
    stream.memcpy_htod(&[9f32], &mut copy)?;
    stream.memcpy_dtod(&input.slice(3..), &mut copy.slice_mut(3..))?;
    assert_eq!(copy.to_vec()?, [9., 6., 8., 4., 5.]);
    Ok(())
}

#[test]
fn memory_knows_where_it_is() -> Result<(), hip::Error> {
    let device = hip::Platform::named("host")?.device(0)?;
    let stream = cudarc::driver::CudaStream::from(device.new_stream()?);
    let slice = stream.clone_htod(&vec![1u32, 2, 3])?;
    assert_eq!((slice.len(), slice.num_bytes(), slice.ordinal(), slice.is_empty()), (3, 12, 0, false));
    assert_eq!(slice.slice(1..).device_ptr(&stream).0, slice.device_ptr(slice.stream()).0 + 4);
    assert_eq!(DeviceSlice::stream(&slice), &stream);
    assert_eq!(slice.context().ordinal(), stream.context().ordinal());
    assert!(slice.try_slice(2..5).is_none(), "beyond the end");
    assert!(stream.null::<u8>()?.is_empty());
    let other = stream.fork()?;
    other.join(&stream)?;
    assert_ne!(*other, stream);
    // Memory of another stream is ordered before its address is handed out.
    assert_ne!(slice.device_ptr(&other).0, 0);
    Ok(())
}

#[test]
fn unused_memory_is_given_back_by_the_raw_call() -> Result<(), hip::Error> {
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    drop(stream.alloc_zeros::<u8>(1 << 20)?);
    stream.synchronize()?;
    let mut pool = 0;
    // SAFETY: the pointer is to a live integer.
    let found = unsafe { sys::cuDeviceGetDefaultMemPool(&mut pool, context.cu_device()) };
    assert_eq!(found, sys::CUresult::CUDA_SUCCESS);
    // SAFETY: the call asks for nothing.
    assert_eq!(unsafe { sys::cuMemPoolTrimTo(pool, 0) }, sys::CUresult::CUDA_SUCCESS);
    // SAFETY: as above.
    assert_eq!(unsafe { sys::cuMemPoolTrimTo(99, 0) }, sys::CUresult::CUDA_ERROR_INVALID_DEVICE);
    Ok(())
}
