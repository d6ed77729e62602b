//! cudarc's calls as a program writes them, on the embedded device.

use cudarc::driver::{sys, CudaContext, CudaSlice, DevicePtr, DeviceSlice, LaunchConfig, PushKernelArg};
use cudarc::hip;

const SOURCE: &str = r#"
extern "C" __global__ void scale(float *out, const float *in, float factor, unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = in[i] * factor;
}
// Writes after a while.
extern "C" __global__ void slow(float *out, volatile unsigned *counter, float value) {
    for (unsigned i = 0; i < 100000000; i++) *counter = i;
    out[0] = value;
}
"#;

#[test]
fn a_kernel_is_launched_with_arguments_added_one_by_one() -> Result<(), hip::Error> {
    let device = hip::Platform::named("host")?.device(0)?;
    let stream = cudarc::driver::CudaStream::from(device.new_stream()?);
    let program = hip::Program::new("scale.hip", SOURCE).for_device(&device);
    let object = hip::Compiler::new(device.platform())?.compile(&program)?;
    // SAFETY: the compiler has just made it.
    let function = unsafe { hip::Module::load(&device, object) }?.function("scale")?;

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
    let error = stream.memcpy_dtoh(&output, &mut first).expect_err("five elements do not fit into two");
    assert!(error.to_string().contains("5 elements"), "{error}");
    assert_eq!(first, [4., 6.]);
    let mut copy = stream.clone_dtod(&output)?;
    stream.memcpy_htod(&[9f32], &mut copy)?;
    stream.memcpy_dtod(&input.slice(3..), &mut copy.slice_mut(3..))?;
    assert_eq!(copy.to_vec()?, [9., 6., 8., 4., 5.]);
    Ok(())
}

/// A stream that uses memory of another one comes after the work there, and later work there comes after it.
#[test]
fn streams_take_turns_at_memory() -> Result<(), hip::Error> {
    let device = hip::Platform::named("host")?.device(0)?;
    let own = cudarc::driver::CudaStream::from(device.new_stream()?);
    let program = hip::Program::new("slow.hip", SOURCE).for_device(&device);
    let object = hip::Compiler::new(device.platform())?.compile(&program)?;
    // SAFETY: the compiler has just made it.
    let module = unsafe { hip::Module::load(&device, object) }?;
    let (slow, scale) = (module.function("slow")?, module.function("scale")?);
    let one = LaunchConfig { grid_dim: (1, 1, 1), block_dim: (1, 1, 1), shared_mem_bytes: 0 };

    let mut memory: CudaSlice<f32> = own.alloc_zeros(1)?;
    let mut counter: CudaSlice<u32> = own.alloc_zeros(1)?;
    let other = own.fork()?;
    let write_late = |memory: &mut CudaSlice<f32>, counter: &mut CudaSlice<u32>, value: f32| {
        let mut launch = other.launch_builder(&slow);
        launch.arg(memory).arg(counter).arg(&value);
        // SAFETY: the arguments are the kernel's; all memory lives to the end of the test, which waits for it.
        unsafe { launch.launch(one) }
    };
    // The memory's stream reads what the other one has still to write.
    write_late(&mut memory, &mut counter, 1.0)?;
    assert_eq!(own.clone_dtoh(&memory)?, [1.0]);
    // A kernel here reads it.
    write_late(&mut memory, &mut counter, 2.0)?;
    let mut scaled: CudaSlice<f32> = own.alloc_zeros(1)?;
    let (factor, count) = (10f32, 1u32);
    let mut launch = own.launch_builder(&scale);
    launch.arg(&mut scaled).arg(&memory).arg(&factor).arg(&count);
    // SAFETY: as above.
    unsafe { launch.launch(one) }?;
    assert_eq!(own.clone_dtoh(&scaled)?, [20.0]);
    // Copies that the other stream is asked for come after its kernel.
    write_late(&mut scaled, &mut counter, 3.0)?;
    other.memset_zeros(&mut scaled)?;
    assert_eq!(other.clone_dtoh(&scaled)?, [0.0]);
    // What was done by address is waited for when the guard is dropped.
    {
        let value = 4f32;
        let (address, _guard) = memory.device_ptr(&other);
        let mut launch = other.launch_builder(&slow);
        launch.arg(&address).arg(&mut counter).arg(&value);
        // SAFETY: an address is passed like memory, which lives on.
        unsafe { launch.launch(one) }?;
    }
    assert_eq!(own.clone_dtoh(&memory)?, [4.0]);
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
