//! The HIP table on a real NVIDIA GPU. Where the driver or a GPU is missing each test says so and why.

mod common;

use common::gpu::{argument, launch, ok, status, Memory, Module, Stream};
use common::platform;
use hip_abi::*;
use std::ffi::{c_int, c_uint, c_void, CStr};
use std::ptr::null_mut;

const SOURCE: &str = r#"
extern "C" __global__ void saxpy(float a, const float* x, float* y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
extern "C" __global__ void reverse(float* x) { // one block; all of it through dynamic shared memory
    extern __shared__ float s[];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}
extern "C" __global__ void both(float* x) { // 40 KiB of its own besides
    __shared__ float own[10240];
    extern __shared__ float s[];
    for (unsigned i = threadIdx.x; i < 10240; i += blockDim.x) own[i] = x[0];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[threadIdx.x] + own[10239 - threadIdx.x];
}
extern "C" __global__ void spin(long long nanoseconds) {
    for (long long start = wall_clock64(); wall_clock64() - start < nanoseconds;) {}
}
__device__ unsigned counter = 7;
"#;

const STREAM: hipStream_t = hipStream_t::NULL;

#[test]
fn a_device_says_what_it_is() {
    let Some((hip, _alone)) = platform() else { return };
    let mut version = 0;
    ok!(hip, hipRuntimeGetVersion(&mut version));
    assert!(version / 10_000_000 >= 11, "{version}");
    let mut name = [0; 256];
    ok!(hip, hipDeviceGetName(name.as_mut_ptr(), 256, 0));
    let mut properties = hipDeviceProp_tR0600::zeroed();
    let get = hip.hipGetDevicePropertiesR0600.expect("it is filled");
    // SAFETY: the structure is ours to write.
    assert_eq!(unsafe { get(&mut properties, 0) }, hipError_t::hipSuccess);
    // SAFETY: both texts end with a zero byte within their 256.
    let (name, arch) = unsafe { (CStr::from_ptr(name.as_ptr()), CStr::from_ptr(properties.gcnArchName.as_ptr())) };
    let (name, arch) = (name.to_string_lossy(), arch.to_string_lossy());
    assert!(arch.starts_with("sm_") && arch[3..].parse::<u32>().is_ok_and(|sm| sm >= 50), "{arch}");
    for (attribute, value) in hipDeviceAttribute_t::NAMED {
        let mut found = -1;
        ok!(hip, hipDeviceGetAttribute(&mut found, hipDeviceAttribute_t(*value as c_uint), 0));
        assert!(found >= 0, "{attribute}");
        eprintln!("{attribute} = {found}");
    }
    let (mut total, mut free, mut all) = (0, 0, 0);
    ok!(hip, hipDeviceTotalMem(&mut total, 0));
    ok!(hip, hipMemGetInfo(&mut free, &mut all));
    assert!(free <= all && all <= total && free > 0);
    eprintln!("{name}, {arch}, {} MiB", total >> 20);
    let invalid = hipError_t::hipErrorInvalidDevice;
    assert_eq!(status!(hip, hipSetDevice(99)), invalid);
    assert_eq!(status!(hip, hipSetDevice(-1)), invalid);
    assert_eq!(status!(hip, hipDeviceTotalMem(&mut total, 99)), invalid);
    let mut device = -1;
    ok!(hip, hipGetDevice(&mut device));
    assert_eq!(device, 0, "a refused device changes nothing");
}

#[test]
fn a_kernel_runs_with_its_arguments_listed_or_packed() {
    let Some((hip, _alone)) = platform() else { return };
    let module = Module::compile(hip, SOURCE);
    let saxpy = module.kernel("saxpy");
    let n = 1000u32;
    let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let (from, to) = (Memory::with(hip, &x), Memory::with(hip, &vec![1.0; 1000]));
    let a = 2.0f32;
    let mut listed = [argument(&a), argument(&from.pointer), argument(&to.pointer), argument(&n)];
    assert_eq!(launch(hip, saxpy, (8, 128, 0), STREAM, &mut listed), hipError_t::hipSuccess);
    assert_eq!(to.read::<f32>()[999], 1999.0);

    #[repr(C)]
    struct Packed(f32, *mut c_void, *mut c_void, u32);
    let (packed, mut size) = (Packed(a, from.pointer, to.pointer, n), 28usize);
    let mut extra = [
        HIP_LAUNCH_PARAM_BUFFER_POINTER,
        argument(&packed),
        HIP_LAUNCH_PARAM_BUFFER_SIZE,
        (&raw mut size).cast(),
        HIP_LAUNCH_PARAM_END,
    ];
    let extra = extra.as_mut_ptr();
    ok!(hip, hipModuleLaunchKernel(saxpy, 8, 1, 1, 128, 1, 1, 0, STREAM, null_mut(), extra));
    assert_eq!(to.read::<f32>()[999], 3997.0);

    let (mut address, mut bytes) = (hipDeviceptr_t::NULL, 0);
    ok!(hip, hipModuleGetGlobal(&mut address, &mut bytes, module.handle(), c"counter".as_ptr()));
    let mut counter = 0u32;
    let kind = hipMemcpyKind::hipMemcpyDefault;
    ok!(hip, hipMemcpy((&raw mut counter).cast(), address.0, 4, kind));
    assert_eq!((bytes, counter), (4, 7));
}

#[test]
fn shared_memory_is_granted_up_to_the_devices_limit_and_refused_above() {
    let Some((hip, _alone)) = platform() else { return };
    let module = Module::compile(hip, SOURCE);
    let (reverse, both) = (module.kernel("reverse"), module.kernel("both"));
    let x: Vec<f32> = (0..1024).map(|i| i as f32).collect();
    let mut limit = 0;
    ok!(hip, hipDeviceGetAttribute(&mut limit, hipDeviceAttribute_t::hipDeviceAttributeMaxSharedMemoryPerBlock, 0));
    let limit = limit as c_uint;
    for bytes in [4096, 49_152, limit - 1024, limit] {
        let memory = Memory::with(hip, &x);
        let status = launch(hip, reverse, (1, 1024, bytes), STREAM, &mut [argument(&memory.pointer)]);
        assert_eq!(status, hipError_t::hipSuccess, "{bytes} bytes");
        assert_eq!(memory.read::<f32>()[0], 1023.0);
        let mut blocks = 0;
        ok!(hip, hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, reverse, 1024, bytes as usize));
        assert!(blocks >= 1, "{bytes} bytes");
    }
    let memory = Memory::with(hip, &x);
    let mut params = [argument(&memory.pointer)];
    let refused = hipError_t::hipErrorInvalidConfiguration;
    assert_eq!(launch(hip, reverse, (1, 1024, limit + 1), STREAM, &mut params), refused);
    // 40 KiB of its own and 20 KiB on top: neither alone needs to be asked for, together they do.
    assert_eq!(launch(hip, both, (1, 1024, 20 << 10), STREAM, &mut params), hipError_t::hipSuccess);
    assert_eq!(memory.read::<f32>()[5], 5.0);
    let (mut own, mut most) = (0, 0);
    ok!(hip, hipFuncGetAttribute(&mut own, hipFunction_attribute::HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, both));
    let dynamic = hipFunction_attribute::HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    ok!(hip, hipFuncGetAttribute(&mut most, dynamic, both));
    assert_eq!((own, most), (40_960, limit as c_int - 40_960));
    let (mut grid, mut block) = (0, 0);
    ok!(hip, hipModuleOccupancyMaxPotentialBlockSize(&mut grid, &mut block, reverse, 0, 0));
    assert!(grid > 0 && block >= 32, "{grid} blocks of {block}");
}

#[test]
fn a_launch_that_cannot_be_is_refused_and_the_next_one_works() {
    let Some((hip, _alone)) = platform() else { return };
    let module = Module::compile(hip, SOURCE);
    let reverse = module.kernel("reverse");
    let memory = Memory::with(hip, &[1.0, 2.0]);
    let mut params = [argument(&memory.pointer)];
    for (grid, block) in [(1, 2048), (0, 1), (1, 0), (1 << 31, 1)] {
        let status = launch(hip, reverse, (grid, block, 8), STREAM, &mut params);
        assert_eq!(status, hipError_t::hipErrorInvalidConfiguration, "grid {grid}, block {block}");
    }
    assert_eq!(status!(hip, hipPeekAtLastError()), hipError_t::hipErrorInvalidConfiguration);
    assert_eq!(status!(hip, hipGetLastError()), hipError_t::hipErrorInvalidConfiguration);
    assert_eq!(status!(hip, hipGetLastError()), hipError_t::hipSuccess);
    let no_kernel = launch(hip, hipFunction_t::NULL, (1, 1, 0), STREAM, &mut params);
    assert_eq!(no_kernel, hipError_t::hipErrorInvalidHandle);
    assert_eq!(launch(hip, reverse, (1, 2, 8), STREAM, &mut params), hipError_t::hipSuccess);
    assert_eq!(memory.read::<f32>(), [2.0, 1.0]);
}

#[test]
fn a_module_that_is_none_is_refused_by_what_it_is() {
    let Some((hip, _alone)) = platform() else { return };
    let mut module = hipModule_t::NULL;
    let mut load = |image: &[u8]| status!(hip, hipModuleLoadData(&mut module, image.as_ptr().cast()));
    assert_eq!(load(b"not a code object at all\0"), hipError_t::hipErrorInvalidImage);
    let mut gfx = [0u8; 64];
    gfx[..4].copy_from_slice(b"\x7fELF");
    gfx[18] = 224;
    assert_eq!(load(&gfx), hipError_t::hipErrorNoBinaryForGpu);
    assert_eq!(status!(hip, hipModuleLoadData(&mut module, std::ptr::null())), hipError_t::hipErrorInvalidValue);
    let loaded = Module::compile(hip, SOURCE);
    let mut function = hipFunction_t::NULL;
    let missing = status!(hip, hipModuleGetFunction(&mut function, loaded.handle(), c"nobody".as_ptr()));
    assert_eq!(missing, hipError_t::hipErrorNotFound);
}

#[test]
fn copies_and_fills_reach_every_byte_and_no_other() {
    let Some((hip, _alone)) = platform() else { return };
    let stream = Stream::new(hip);
    let (default, down) = (hipMemcpyKind::hipMemcpyDefault, hipMemcpyKind::hipMemcpyDeviceToHost);
    let memory = Memory::new(hip, 64);
    let at = |offset: usize| hipDeviceptr_t(memory.pointer.wrapping_byte_add(offset));
    ok!(hip, hipMemsetAsync(memory.pointer, 0, 64, stream.1));
    ok!(hip, hipMemsetD8Async(at(1), 0xab, 2, stream.1));
    ok!(hip, hipMemsetD16Async(at(8), 0x1234, 2, stream.1));
    ok!(hip, hipMemsetD32Async(at(16), -2, 2, stream.1));
    // Rows of 4 bytes, 8 apart, gathered to rows 5 apart in pinned memory.
    let mut pinned: *mut c_void = null_mut();
    ok!(hip, hipHostMalloc(&mut pinned, 64, hipHostMallocDefault));
    ok!(hip, hipMemcpy2DAsync(pinned, 5, memory.pointer, 8, 4, 3, down, stream.1));
    stream.wait();
    // SAFETY: the 14 bytes lie inside the 64 that were allocated, and the copy into them is done.
    let rows = unsafe { std::slice::from_raw_parts(pinned.cast::<u8>(), 14) };
    assert_eq!(&rows[..4], [0, 0xab, 0xab, 0]);
    assert_eq!(&rows[5..9], [0x34, 0x12, 0x34, 0x12]);
    assert_eq!(&rows[10..], [0xfe, 0xff, 0xff, 0xff]);
    let host = [9u8; 8];
    ok!(hip, hipMemcpyAsync(at(56).0, host.as_ptr().cast(), 8, default, stream.1));
    ok!(hip, hipMemcpyAsync(at(48).0, at(56).0, 8, hipMemcpyKind::hipMemcpyDeviceToDevice, stream.1));
    stream.wait();
    assert_eq!(&memory.read::<u8>()[40..], [[0; 8], [9; 8], [9; 8]].concat());
    // A pageable two-dimensional copy finds its direction by itself.
    let mut grid = [0u8; 6];
    ok!(hip, hipMemcpy2DAsync(grid.as_mut_ptr().cast(), 3, at(46).0, 8, 3, 2, default, stream.1));
    stream.wait();
    assert_eq!(grid, [0, 0, 9, 9, 9, 9]);
    let pitch = status!(hip, hipMemcpy2DAsync(pinned, 3, memory.pointer, 8, 4, 3, down, stream.1));
    assert_eq!(pitch, hipError_t::hipErrorInvalidPitchValue);
    let kind = status!(hip, hipMemcpyAsync(pinned, memory.pointer, 4, hipMemcpyKind(77), stream.1));
    assert_eq!(kind, hipError_t::hipErrorInvalidMemcpyDirection);
    ok!(hip, hipHostFree(pinned));
    let mut own = vec![3u8; 8192];
    ok!(hip, hipHostRegister(own.as_mut_ptr().cast(), own.len(), 0));
    ok!(hip, hipHostUnregister(own.as_mut_ptr().cast()));
}

#[test]
fn nothing_is_allocated_copied_filled_and_freed_without_complaint() {
    let Some((hip, _alone)) = platform() else { return };
    let mut pointer = std::ptr::dangling_mut();
    ok!(hip, hipMalloc(&mut pointer, 0));
    assert!(pointer.is_null());
    ok!(hip, hipFree(pointer));
    ok!(hip, hipHostFree(pointer));
    ok!(hip, hipMemcpyAsync(pointer, pointer, 0, hipMemcpyKind::hipMemcpyDefault, STREAM));
    ok!(hip, hipMemsetD32Async(hipDeviceptr_t(pointer), 1, 0, STREAM));
    let too_much = status!(hip, hipMalloc(&mut pointer, 1 << 50));
    assert_eq!(too_much, hipError_t::hipErrorOutOfMemory);
    assert!(pointer.is_null());
    assert_eq!(status!(hip, hipMalloc(null_mut(), 16)), hipError_t::hipErrorInvalidValue);
}

#[test]
fn events_order_and_time_the_work_of_streams() {
    let Some((hip, _alone)) = platform() else { return };
    let module = Module::compile(hip, SOURCE);
    let (spin, nanoseconds) = (module.kernel("spin"), 20_000_000i64);
    let (first, second) = (Stream::new(hip), Stream::new(hip));
    let events: Vec<hipEvent_t> = (0..2)
        .map(|_| {
            let mut event = hipEvent_t::NULL;
            ok!(hip, hipEventCreateWithFlags(&mut event, hipEventDefault));
            event
        })
        .collect();
    let memory = Memory::with(hip, &[0.0]);
    ok!(hip, hipDeviceSynchronize());
    ok!(hip, hipEventRecord(events[0], first.1));
    assert_eq!(launch(hip, spin, (1, 1, 0), first.1, &mut [argument(&nanoseconds)]), hipError_t::hipSuccess);
    ok!(hip, hipMemsetD32Async(hipDeviceptr_t(memory.pointer), 1, 1, first.1));
    ok!(hip, hipEventRecord(events[1], first.1));
    assert_eq!(status!(hip, hipStreamQuery(first.1)), hipError_t::hipErrorNotReady);
    assert_eq!(status!(hip, hipEventQuery(events[1])), hipError_t::hipErrorNotReady);
    assert_eq!(status!(hip, hipPeekAtLastError()), hipError_t::hipSuccess, "not ready is no error");
    ok!(hip, hipStreamWaitEvent(second.1, events[1], 0));
    let mut word = 0u32;
    let kind = hipMemcpyKind::hipMemcpyDeviceToHost;
    ok!(hip, hipMemcpyAsync((&raw mut word).cast(), memory.pointer, 4, kind, second.1));
    second.wait();
    assert_eq!(word, 1, "the second stream waited for the first");
    let mut milliseconds = 0.0;
    ok!(hip, hipEventElapsedTime(&mut milliseconds, events[0], events[1]));
    assert!((20.0..200.0).contains(&milliseconds), "{milliseconds}");

    /// Adds one to the number it is given.
    unsafe extern "C" fn count(number: *mut c_void) {
        // SAFETY: the test passes its counter and waits before it goes.
        unsafe { (*number.cast::<std::sync::atomic::AtomicU32>()).fetch_add(1, std::sync::atomic::Ordering::SeqCst) };
    }
    let counter = std::sync::atomic::AtomicU32::new(0);
    let host = hip.hipLaunchHostFunc.expect("it is filled");
    // SAFETY: the counter outlives the wait below.
    assert_eq!(unsafe { host(first.1, count, argument(&counter)) }, hipError_t::hipSuccess);
    first.wait();
    assert_eq!(counter.into_inner(), 1);
    for event in events {
        ok!(hip, hipEventDestroy(event));
    }
}

#[test]
fn a_captured_graph_replays_what_was_recorded() {
    let Some((hip, _alone)) = platform() else { return };
    let module = Module::compile(hip, SOURCE);
    let stream = Stream::new(hip);
    let (from, to) = (Memory::with(hip, &[1.0; 32]), Memory::with(hip, &[0.0; 32]));
    let (a, n) = (2.0f32, 32u32);
    let mut params = [argument(&a), argument(&from.pointer), argument(&to.pointer), argument(&n)];
    let (mut graph, mut exec, mut status) = (hipGraph_t::NULL, hipGraphExec_t::NULL, hipStreamCaptureStatus(9));
    let mode = hipStreamCaptureMode::hipStreamCaptureModeThreadLocal;
    ok!(hip, hipStreamBeginCapture(stream.1, mode));
    ok!(hip, hipStreamIsCapturing(stream.1, &mut status));
    assert_eq!(status, hipStreamCaptureStatus::hipStreamCaptureStatusActive);
    for _ in 0..2 {
        assert_eq!(launch(hip, module.kernel("saxpy"), (1, 32, 0), stream.1, &mut params), hipError_t::hipSuccess);
    }
    // A launch that has to ask for its shared memory may be captured as well.
    let big = launch(hip, module.kernel("reverse"), (1, 32, 100 << 10), stream.1, &mut params[2..3]);
    assert_eq!(big, hipError_t::hipSuccess);
    ok!(hip, hipStreamEndCapture(stream.1, &mut graph));
    let mut nodes = 0;
    ok!(hip, hipGraphGetNodes(graph, null_mut(), &mut nodes));
    assert_eq!(nodes, 3);
    let mut log = [1; 8];
    ok!(hip, hipGraphInstantiate(&mut exec, graph, null_mut(), log.as_mut_ptr(), 8));
    assert_eq!(log[0], 0, "an empty log");
    assert_eq!(to.read::<f32>(), [0.0; 32], "recorded, not run");
    for _ in 0..3 {
        ok!(hip, hipGraphLaunch(exec, stream.1));
    }
    stream.wait();
    assert_eq!(to.read::<f32>(), [12.0; 32]);
    ok!(hip, hipGraphExecDestroy(exec));
    ok!(hip, hipGraphDestroy(graph));
    let refused = status!(hip, hipStreamBeginCapture(STREAM, mode));
    assert_eq!(refused, hipError_t::hipErrorStreamCaptureUnsupported);
}

/// Kernels that are launched while their predecessors still run. Each lets its successor come first and takes its time before
/// it writes, so that one which did not wait, or read through a stale cache, would not count to the end.
const WAITING: &str = r#"
extern "C" __device__ const unsigned hip_cuda_kernels_wait_by_themselves = 1;
extern "C" __global__ void next(const float* __restrict__ from, float* to, unsigned n) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    for (long long start = wall_clock64(); wall_clock64() - start < (blockIdx.x % 7) * 1000;) {}
    to[i] = from[n - 1 - i] + 1;
}
"#;

#[test]
fn kernels_that_wait_by_themselves_see_all_that_came_before() {
    let Some((hip, _alone)) = platform() else { return };
    let module = Module::compile(hip, WAITING);
    let kernel = module.kernel("next");
    let plain_module = Module::compile(hip, &WAITING.replace("hip_cuda_kernels_wait_by_themselves", "unmarked"));
    let plain = plain_module.kernel("next");
    let (stream, other) = (Stream::new(hip), Stream::new(hip));
    const BLOCKS: usize = 300;
    let n = BLOCKS * 256;
    let count = n as u32;
    let buffers = [Memory::with(hip, &vec![0f32; n]), Memory::with(hip, &vec![0f32; n])];
    let step = |round: usize, kernel, stream: &Stream| {
        let (from, to) = (buffers[round % 2].pointer, buffers[(round + 1) % 2].pointer);
        let mut params = [argument(&from), argument(&to), argument(&count)];
        assert_eq!(launch(hip, kernel, (BLOCKS as u32, 256, 0), stream.1, &mut params), hipError_t::hipSuccess);
    };
    let holds = |value: usize| {
        let found = buffers[value % 2].read::<f32>();
        assert!(found.iter().all(|&x| x == value as f32), "{value} steps, found {:?}", &found[..4]);
    };
    // One after the other; between kernels that do not wait; between copies; and across streams by an event.
    for round in 0..100 {
        step(round, kernel, &stream);
    }
    holds(100);
    for round in 100..200 {
        step(round, if round % 3 == 0 { plain } else { kernel }, &stream);
    }
    holds(200);
    let scratch = Memory::new(hip, n * 4);
    let mut event = hipEvent_t::NULL;
    ok!(hip, hipEventCreateWithFlags(&mut event, 2));
    for round in 200..250 {
        let (to, kind) = (buffers[(round + 1) % 2].pointer, hipMemcpyKind::hipMemcpyDeviceToDevice);
        step(round, kernel, &stream);
        ok!(hip, hipMemcpyAsync(scratch.pointer, to, n * 4, kind, stream.1));
        ok!(hip, hipMemsetAsync(to, 0, n * 4, stream.1));
        ok!(hip, hipMemcpyAsync(to, scratch.pointer, n * 4, kind, stream.1));
    }
    holds(250);
    for round in 250..300 {
        let (here, there) = if round % 2 == 0 { (&stream, &other) } else { (&other, &stream) };
        step(round, kernel, here);
        ok!(hip, hipEventRecord(event, here.1));
        ok!(hip, hipStreamWaitEvent(there.1, event, 0));
    }
    holds(300);
    // In a graph, twice.
    let mut graph = hipGraph_t::NULL;
    ok!(hip, hipStreamBeginCapture(stream.1, hipStreamCaptureMode::hipStreamCaptureModeGlobal));
    for round in 300..320 {
        step(round, kernel, &stream);
    }
    ok!(hip, hipStreamEndCapture(stream.1, &mut graph));
    let mut exec = hipGraphExec_t::NULL;
    ok!(hip, hipGraphInstantiate(&mut exec, graph, null_mut(), null_mut(), 0));
    ok!(hip, hipGraphLaunch(exec, stream.1));
    ok!(hip, hipGraphLaunch(exec, stream.1));
    holds(340);
    ok!(hip, hipGraphExecDestroy(exec));
    ok!(hip, hipGraphDestroy(graph));
    ok!(hip, hipEventDestroy(event));
}

#[test]
fn a_fresh_thread_has_device_zero_and_streams_are_for_all() {
    let Some((hip, _alone)) = platform() else { return };
    let stream = Stream::new(hip);
    let handle = stream.1;
    std::thread::scope(|scope| {
        for value in 0..8 {
            scope.spawn(move || {
                let memory = Memory::new(hip, 1 << 20);
                ok!(hip, hipMemsetD32Async(hipDeviceptr_t(memory.pointer), value, 1 << 18, handle));
                ok!(hip, hipStreamSynchronize(handle));
                assert!(memory.read::<c_int>().iter().all(|word| *word == value));
            });
        }
    });
}

#[test]
fn peers_are_told_apart() {
    let Some((hip, _alone)) = platform() else { return };
    let (mut count, mut can) = (0, -1);
    ok!(hip, hipGetDeviceCount(&mut count));
    let (from, to) = (Memory::with(hip, &[5.0; 16]), Memory::with(hip, &[0.0; 16]));
    ok!(hip, hipMemcpyPeerAsync(to.pointer, 0, from.pointer, 0, 64, STREAM));
    assert_eq!(to.read::<f32>(), [5.0; 16]);
    assert_eq!(status!(hip, hipDeviceCanAccessPeer(&mut can, 0, count)), hipError_t::hipErrorInvalidDevice);
    assert_ne!(status!(hip, hipDeviceEnablePeerAccess(0, 0)), hipError_t::hipSuccess, "a device is not its own peer");
    for peer in 1..count {
        ok!(hip, hipDeviceCanAccessPeer(&mut can, 0, peer));
        eprintln!("device 0 can access device {peer}: {can}");
    }
}

#[test]
fn what_a_launch_costs() {
    let Some((hip, _alone)) = platform() else { return };
    let module = Module::compile(hip, "extern \"C\" __global__ void nothing(int n) { extern __shared__ int s[]; }");
    let (kernel, n, stream) = (module.kernel("nothing"), 0i32, Stream::new(hip));
    let each = |name: &str, count: u32, call: &mut dyn FnMut()| {
        (0..count).for_each(|_| call());
        stream.wait();
        let start = std::time::Instant::now();
        (0..count).for_each(|_| call());
        eprintln!("{name}: {:.0} ns", start.elapsed().as_nanos() as f64 / f64::from(count));
        stream.wait();
    };
    each("hipSetDevice", 500, &mut || ok!(hip, hipSetDevice(0)));
    for (name, shared) in [("a launch", 0), ("a launch with dynamic shared memory", 1024)] {
        each(name, 500, &mut || {
            assert_eq!(launch(hip, kernel, (1, 32, shared), stream.1, &mut [argument(&n)]), hipError_t::hipSuccess);
        });
    }
}
