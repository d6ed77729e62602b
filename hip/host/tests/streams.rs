//! Streams, events, copies and graphs on the bare table.

mod common;
use common::{hip, launch, status, Buffer, Gate, Module, Stream, SLEEPER};
use hip_abi::{hipError_t, hipEventDisableTiming, hipEvent_t, hipFunction_t, hipGraphExec_t, hipGraph_t, hipModule_t};
use hip_abi::{hipMemcpyKind, hipStreamCaptureMode, hipStreamCaptureStatus, hipStreamDefault, hipStream_t};
use std::ffi::c_void;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

const NULL: hipStream_t = hipStream_t::NULL;

/// Two devices; one test at a time, because captures forbid calls of other threads.
fn device() -> MutexGuard<'static, ()> {
    static CONFIGURED: Once = Once::new();
    static ALONE: Mutex<()> = Mutex::new(());
    CONFIGURED.call_once(|| {
        let options = hip_host::Options { devices: 2, wave_sizes: vec![32, 64], ..Default::default() };
        hip_host::configure(options).expect("first use");
    });
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn event() -> hipEvent_t {
    let mut event = hipEvent_t(std::ptr::null_mut());
    hip!(hipEventCreateWithFlags(&mut event, 0));
    event
}

fn sleeper(module: &Module, stream: hipStream_t, out: &Buffer<i32>, milliseconds: i32, value: i32) {
    module.launch("sleep_then_write", 1, 1, stream, &[out.into(), milliseconds.into(), value.into()]);
}

fn copy_out(out: &mut i32, from: &Buffer<i32>, stream: hipStream_t) {
    let kind = hipMemcpyKind::hipMemcpyDeviceToHost;
    hip!(hipMemcpyAsync((&raw mut *out).cast(), from.address, 4, kind, stream));
}

#[test]
fn work_is_not_done_until_it_is_waited_for() {
    let _alone = device();
    let (module, stream, out) = (Module::new(SLEEPER), Stream::new(), Buffer::from(&[1i32]));
    let gate = Gate::closed();
    gate.write_behind(&module, stream.0, &out, 2);
    assert_eq!(status!(hipStreamQuery(stream.0)), hipError_t::hipErrorNotReady);
    // Another stream, which is ordered by nothing, reads what was there before.
    let (other, mut seen) = (Stream::new(), 0);
    copy_out(&mut seen, &out, other.0);
    other.wait();
    assert_eq!(seen, 1, "a missing synchronisation must show");
    gate.open();
    stream.wait();
    assert_eq!(out.read(), [2]);
    assert_eq!(status!(hipStreamQuery(stream.0)), hipError_t::hipSuccess);
}

#[test]
fn events_order_streams_and_tell_the_time() {
    let _alone = device();
    let (module, first, second) = (Module::new(SLEEPER), Stream::new(), Stream::new());
    let (out, mut seen) = (Buffer::from(&[1i32]), 0);
    let (before, after) = (event(), event());
    assert_eq!(status!(hipEventQuery(before)), hipError_t::hipSuccess, "an event never recorded is done");
    let mut time = 0.0;
    assert_eq!(status!(hipEventElapsedTime(&mut time, before, after)), hipError_t::hipErrorInvalidHandle);
    hip!(hipEventRecord(before, first.0));
    let gate = Gate::closed();
    gate.write_behind(&module, first.0, &out, 2);
    sleeper(&module, first.0, &out, 50, 2);
    hip!(hipEventRecord(after, first.0));
    assert_eq!(status!(hipEventQuery(after)), hipError_t::hipErrorNotReady);
    assert_eq!(status!(hipEventElapsedTime(&mut time, before, after)), hipError_t::hipErrorNotReady);
    hip!(hipStreamWaitEvent(second.0, after, 0));
    // The wait is for the place the event had, not for the event: recording it again changes nothing.
    hip!(hipEventRecord(after, first.0));
    hip!(hipEventRecord(after, first.0));
    copy_out(&mut seen, &out, second.0);
    gate.open();
    second.wait();
    assert_eq!(seen, 2);
    hip!(hipEventSynchronize(after));
    hip!(hipEventElapsedTime(&mut time, before, after));
    assert!((50.0..60_000.0).contains(&time), "{time} ms");
    let mut untimed = hipEvent_t(std::ptr::null_mut());
    hip!(hipEventCreateWithFlags(&mut untimed, hipEventDisableTiming));
    hip!(hipEventRecord(untimed, first.0));
    assert_eq!(status!(hipEventElapsedTime(&mut time, before, untimed)), hipError_t::hipErrorInvalidHandle);
    for event in [before, after, untimed] {
        hip!(hipEventDestroy(event));
        assert_eq!(status!(hipEventRecord(event, first.0)), hipError_t::hipErrorInvalidHandle);
    }
}

#[test]
fn the_null_stream_waits_for_blocking_streams_and_they_for_it() {
    let _alone = device();
    let (module, blocking, free) = (Module::new(SLEEPER), Stream::with_flags(hipStreamDefault), Stream::new());
    let out = Buffer::from(&[0i32]);
    let (mut on_null, mut on_blocking, mut on_free) = (0, 0, 0);
    sleeper(&module, blocking.0, &out, 60, 1);
    copy_out(&mut on_null, &out, NULL);
    hip!(hipStreamSynchronize(NULL));
    assert_eq!(on_null, 1, "the null stream waits for a blocking one");
    let gate = Gate::closed();
    gate.write_behind(&module, NULL, &out, 2);
    copy_out(&mut on_free, &out, free.0);
    copy_out(&mut on_blocking, &out, blocking.0);
    free.wait();
    assert_eq!(on_free, 1, "a non-blocking stream does not wait");
    gate.open();
    blocking.wait();
    assert_eq!(on_blocking, 2, "a blocking stream waits for the null one");
    sleeper(&module, blocking.0, &out, 60, 3);
    hip!(hipStreamSynchronize(NULL));
    assert_eq!(out.read(), [3], "waiting for the null stream is waiting for the blocking ones");
}

#[test]
fn host_functions_run_in_their_turn() {
    unsafe extern "C" fn add(data: *mut c_void) {
        // A stream that waited for itself would wait forever.
        assert_eq!(status!(hipDeviceSynchronize()), hipError_t::hipErrorIllegalState);
        // SAFETY: the test passes a counter that outlives the stream's work.
        unsafe { &*data.cast::<AtomicI32>() }.fetch_add(1, Ordering::SeqCst);
    }
    let _alone = device();
    let (module, stream, out) = (Module::new(SLEEPER), Stream::new(), Buffer::from(&[0i32]));
    let counter = AtomicI32::new(0);
    let gate = Gate::closed();
    gate.write_behind(&module, stream.0, &out, 1);
    let launch = common::table().hipLaunchHostFunc.expect("the embedded device has it");
    // SAFETY: the counter outlives the wait below.
    assert!(unsafe { launch(stream.0, add, (&raw const counter).cast_mut().cast()) }.is_success());
    assert_eq!(counter.load(Ordering::SeqCst), 0);
    gate.open();
    stream.wait();
    assert_eq!(counter.load(Ordering::SeqCst), 1);
}

#[test]
fn copies_and_fills() {
    let _alone = device();
    use hipMemcpyKind as K;
    let input: Vec<u8> = (0..=255).collect();
    let (a, b) = (Buffer::from(&input), Buffer::<u8>::new(256));
    hip!(hipMemcpy(b.address, a.address, 256, K::hipMemcpyDeviceToDevice));
    assert_eq!(b.read(), input);
    // Eight rows of 16 bytes out of rows of 32, and back in other places.
    let mut rows = [0u8; 8 * 20];
    let stream = Stream::new();
    hip!(hipMemcpy2DAsync(rows.as_mut_ptr().cast(), 20, a.address, 32, 16, 8, K::hipMemcpyDeviceToHost, stream.0));
    stream.wait();
    for (row, chunk) in rows.chunks(20).enumerate() {
        assert_eq!(chunk[..16], input[row * 32..row * 32 + 16]);
        assert_eq!(chunk[16..], [0; 4]);
    }
    let narrow = status!(hipMemcpy2DAsync(
        rows.as_mut_ptr().cast(),
        8,
        a.address,
        32,
        16,
        8,
        K::hipMemcpyDeviceToHost,
        stream.0
    ));
    assert_eq!(narrow, hipError_t::hipErrorInvalidPitchValue);

    let words = Buffer::<u32>::new(4);
    let pointer = hip_abi::hipDeviceptr_t(words.address);
    hip!(hipMemsetD32Async(pointer, 0x01020304, 4, stream.0));
    hip!(hipMemsetD16Async(pointer, 0xABCD, 2, stream.0));
    hip!(hipMemsetD8Async(pointer, 0xEE, 1, stream.0));
    hip!(hipMemsetAsync(words.address.wrapping_byte_add(12), -1, 4, stream.0));
    stream.wait();
    assert_eq!(words.read(), [0xABCD_ABEE, 0x0102_0304, 0x0102_0304, u32::MAX]);

    let mut pinned = std::ptr::null_mut();
    hip!(hipHostMalloc(&mut pinned, 256, 0));
    hip!(hipMemcpyAsync(pinned, a.address, 256, K::hipMemcpyDefault, stream.0));
    stream.wait();
    // SAFETY: 256 bytes of pinned memory, just written.
    assert_eq!(unsafe { std::slice::from_raw_parts(pinned.cast::<u8>(), 256) }, input);
    hip!(hipHostFree(pinned));

    let host = input.as_ptr().cast::<c_void>();
    let null = std::ptr::null_mut();
    for (name, got, expected) in [
        (
            "past the end",
            status!(hipMemcpy(b.address, host, 257, K::hipMemcpyHostToDevice)),
            hipError_t::hipErrorInvalidValue,
        ),
        ("null", status!(hipMemcpy(null, host, 1, K::hipMemcpyHostToDevice)), hipError_t::hipErrorInvalidValue),
        ("no such direction", status!(hipMemcpy(b.address, host, 1, K(9))), hipError_t::hipErrorInvalidMemcpyDirection),
        (
            "a device pointer as host",
            status!(hipMemcpy(b.address, a.address, 1, K::hipMemcpyHostToDevice)),
            hipError_t::hipErrorInvalidMemcpyDirection,
        ),
        (
            "a host pointer as device",
            status!(hipMemcpy(b.address, host, 1, K::hipMemcpyDeviceToDevice)),
            hipError_t::hipErrorInvalidValue,
        ),
        ("a fill past the end", status!(hipMemsetAsync(b.address, 0, 257, stream.0)), hipError_t::hipErrorInvalidValue),
    ] {
        assert_eq!(got, expected, "{name}");
    }
    assert_eq!(b.read(), input, "nothing was changed by what was refused");
    assert_eq!(status!(hipMemcpy(null, std::ptr::null(), 0, K::hipMemcpyHostToDevice)), hipError_t::hipSuccess);
}

#[test]
fn two_devices() {
    let _alone = device();
    hip!(hipSetDevice(0));
    let (first, first_module) = (Buffer::from(&[11i32, 12]), Module::new(SLEEPER));
    hip!(hipSetDevice(1));
    let second = Buffer::<i32>::new(2);
    let stream = Stream::new();
    hip!(hipMemcpyPeerAsync(second.address, 1, first.address, 0, 8, stream.0));
    stream.wait();
    assert_eq!(second.read(), [11, 12]);
    let wrong = status!(hipMemcpyPeerAsync(second.address, 0, first.address, 0, 8, stream.0));
    assert_eq!(wrong, hipError_t::hipErrorInvalidValue, "the buffer is not that device's");
    let foreign = launch(
        first_module.function("sleep_then_write"),
        [1; 3],
        [1; 3],
        0,
        stream.0,
        &[(&second).into(), 0.into(), 1.into()],
    );
    assert_eq!(foreign, hipError_t::hipErrorInvalidHandle, "a module belongs to the device it was loaded on");
    let mut can = 0;
    hip!(hipDeviceCanAccessPeer(&mut can, 0, 1));
    assert_eq!(can, 1);
    hip!(hipDeviceEnablePeerAccess(0, 0));
    assert_eq!(status!(hipDeviceEnablePeerAccess(0, 0)), hipError_t::hipErrorPeerAccessAlreadyEnabled);
    hip!(hipDeviceDisablePeerAccess(0));
    assert_eq!(status!(hipSetDevice(2)), hipError_t::hipErrorInvalidDevice);
    drop((second, stream));
    hip!(hipSetDevice(0));
}

#[test]
fn memory_is_accounted_for_and_limited() {
    let _alone = device();
    let (mut free, mut total, mut after) = (0, 0, 0);
    hip!(hipMemGetInfo(&mut free, &mut total));
    let buffer = Buffer::<u8>::new(1 << 20);
    hip!(hipMemGetInfo(&mut after, &mut total));
    assert_eq!(free - after, 1 << 20);
    let mut pointer = std::ptr::null_mut();
    assert_eq!(status!(hipMalloc(&mut pointer, total + 1)), hipError_t::hipErrorOutOfMemory);
    assert_eq!(status!(hipMalloc(&mut pointer, usize::MAX)), hipError_t::hipErrorOutOfMemory);
    assert_eq!(status!(hipFree(buffer.address.wrapping_byte_add(1))), hipError_t::hipErrorInvalidValue);
    hip!(hipMalloc(&mut pointer, 0));
    assert!(pointer.is_null());
    hip!(hipFree(std::ptr::null_mut()));
    let address = buffer.address;
    drop(buffer);
    assert_eq!(status!(hipFree(address)), hipError_t::hipErrorInvalidValue, "freed twice");
    hip!(hipMemGetInfo(&mut after, &mut total));
    assert_eq!(free, after);
}

fn begin(stream: &Stream) {
    hip!(hipStreamBeginCapture(stream.0, hipStreamCaptureMode::hipStreamCaptureModeThreadLocal));
}

fn end(stream: &Stream) -> hipGraph_t {
    let mut graph = hipGraph_t::NULL;
    hip!(hipStreamEndCapture(stream.0, &mut graph));
    graph
}

#[test]
fn a_graph_replays_what_was_captured_with_new_inputs() {
    let _alone = device();
    let module = Module::new(
        r#"extern "C" __global__ void add(int *out, const int *in, int more) { out[threadIdx.x] = in[threadIdx.x] + more; }"#,
    );
    let (main, side) = (Stream::new(), Stream::new());
    let (input, middle, out) = (Buffer::from(&[1i32, 2, 3]), Buffer::from(&[0i32; 3]), Buffer::from(&[0i32; 3]));
    let (fork, join) = (event(), event());
    begin(&main);
    let mut capturing = hipStreamCaptureStatus(9);
    hip!(hipStreamIsCapturing(main.0, &mut capturing));
    assert_eq!(capturing, hipStreamCaptureStatus::hipStreamCaptureStatusActive);
    module.launch("add", 1, 3, main.0, &[(&middle).into(), (&input).into(), 10.into()]);
    hip!(hipEventRecord(fork, main.0));
    hip!(hipStreamWaitEvent(side.0, fork, 0));
    module.launch("add", 1, 3, side.0, &[(&out).into(), (&middle).into(), 100.into()]);
    hip!(hipEventRecord(join, side.0));
    assert_eq!(status!(hipEventQuery(join)), hipError_t::hipErrorCapturedEvent);
    hip!(hipStreamWaitEvent(main.0, join, 0));
    hip!(hipMemsetAsync(middle.address, 0, 4, main.0));
    let graph = end(&main);
    let mut nodes = 0;
    hip!(hipGraphGetNodes(graph, std::ptr::null_mut(), &mut nodes));
    assert_eq!(nodes, 3);
    assert_eq!(out.read(), [0; 3], "capturing runs nothing");
    let mut exec = hipGraphExec_t::NULL;
    hip!(hipGraphInstantiate(&mut exec, graph, std::ptr::null_mut(), std::ptr::null_mut(), 0));
    hip!(hipGraphDestroy(graph));
    for start in [1, 50] {
        let values = [start, start + 1, start + 2];
        hip!(hipMemcpy(input.address, values.as_ptr().cast(), 12, hipMemcpyKind::hipMemcpyHostToDevice));
        hip!(hipGraphLaunch(exec, main.0));
        main.wait();
        assert_eq!(out.read(), values.map(|value| value + 110));
        assert_eq!(middle.read(), [0, values[1] + 10, values[2] + 10]);
    }
    // A fill whose buffer is gone is not done.
    drop(middle);
    begin(&side);
    hip!(hipMemsetAsync(out.address, 0, 4, side.0));
    let (stale, mut stale_exec) = (end(&side), hipGraphExec_t::NULL);
    hip!(hipGraphInstantiate(&mut stale_exec, stale, std::ptr::null_mut(), std::ptr::null_mut(), 0));
    drop(out);
    hip!(hipGraphLaunch(stale_exec, side.0));
    assert_eq!(status!(hipStreamSynchronize(side.0)), hipError_t::hipErrorIllegalAddress);
    hip!(hipGraphDestroy(stale));
    hip!(hipGraphExecDestroy(stale_exec));
    hip!(hipGraphExecDestroy(exec));
    assert_eq!(status!(hipGraphLaunch(exec, main.0)), hipError_t::hipErrorInvalidHandle);
    for event in [fork, join] {
        hip!(hipEventDestroy(event));
    }
}

#[test]
fn what_a_capture_forbids() {
    use hipError_t as E;
    let _alone = device();
    let (stream, other, blocking) = (Stream::new(), Stream::new(), Stream::with_flags(hipStreamDefault));
    let (mut graph, mut pointer) = (hipGraph_t::NULL, std::ptr::null_mut());
    let spoiled = |stream: &Stream| {
        let mut graph = hipGraph_t(std::ptr::dangling_mut());
        let ended = status!(hipStreamEndCapture(stream.0, &mut graph));
        assert!(graph.is_null());
        ended
    };
    let global = hipStreamCaptureMode::hipStreamCaptureModeGlobal;
    assert_eq!(status!(hipStreamBeginCapture(NULL, global)), E::hipErrorStreamCaptureImplicit);
    assert_eq!(status!(hipStreamEndCapture(stream.0, &mut graph)), E::hipErrorIllegalState);
    begin(&stream);
    assert_eq!(status!(hipStreamBeginCapture(stream.0, global)), E::hipErrorIllegalState);
    assert_eq!(status!(hipStreamSynchronize(stream.0)), E::hipErrorStreamCaptureUnsupported);
    assert_eq!(status!(hipMemsetAsync(pointer, 0, 0, stream.0)), E::hipSuccess, "nothing to do is fine");
    assert_eq!(spoiled(&stream), E::hipErrorStreamCaptureInvalidated);
    begin(&stream);
    assert_eq!(status!(hipMalloc(&mut pointer, 16)), E::hipErrorStreamCaptureUnsupported);
    assert_eq!(spoiled(&stream), E::hipErrorStreamCaptureInvalidated);
    begin(&blocking);
    assert_eq!(status!(hipStreamSynchronize(NULL)), E::hipErrorStreamCaptureImplicit);
    assert_eq!(spoiled(&blocking), E::hipErrorStreamCaptureInvalidated);
    // A stream forked off and never joined.
    let buffer = Buffer::<i32>::new(1);
    let fork = event();
    begin(&stream);
    hip!(hipEventRecord(fork, stream.0));
    hip!(hipStreamWaitEvent(other.0, fork, 0));
    hip!(hipMemsetAsync(buffer.address, 0, 4, other.0));
    assert_eq!(status!(hipStreamEndCapture(other.0, &mut graph)), E::hipErrorStreamCaptureUnmatched);
    assert_eq!(spoiled(&stream), E::hipErrorStreamCaptureUnjoined);
    // Work outside cannot be waited for from inside.
    hip!(hipEventRecord(fork, other.0));
    begin(&stream);
    assert_eq!(status!(hipStreamWaitEvent(stream.0, fork, 0)), E::hipErrorStreamCaptureIsolation);
    assert_eq!(spoiled(&stream), E::hipErrorStreamCaptureInvalidated);
    // Everything works again afterwards.
    hip!(hipMemsetAsync(buffer.address, 0, 4, stream.0));
    stream.wait();
    assert_eq!(buffer.read(), [0]);
    hip!(hipEventDestroy(fork));
}

#[test]
fn stale_handles_and_null_pointers_are_errors() {
    use hipError_t as E;
    let _alone = device();
    let stale_stream = {
        let stream = Stream::new();
        stream.0
    };
    let stale_module = {
        let module = Module::new(SLEEPER);
        let function = module.function("sleep_then_write");
        (module.0, function)
    };
    let mut function = hipFunction_t::NULL;
    assert_eq!(status!(hipStreamSynchronize(stale_stream)), E::hipErrorInvalidHandle);
    assert_eq!(status!(hipStreamDestroy(stale_stream)), E::hipErrorInvalidHandle);
    assert_eq!(status!(hipStreamDestroy(NULL)), E::hipErrorInvalidHandle);
    assert_eq!(status!(hipModuleUnload(stale_module.0)), E::hipErrorInvalidHandle);
    assert_eq!(status!(hipModuleGetFunction(&mut function, stale_module.0, c"f".as_ptr())), E::hipErrorInvalidHandle);
    assert_eq!(launch(stale_module.1, [1; 3], [1; 3], 0, NULL, &[]), E::hipErrorInvalidHandle);
    let invented = hipStream_t(std::ptr::dangling_mut());
    assert_eq!(status!(hipStreamQuery(invented)), E::hipErrorInvalidHandle);
    assert_eq!(status!(hipMalloc(std::ptr::null_mut(), 4)), E::hipErrorInvalidValue);
    assert_eq!(status!(hipGetDeviceCount(std::ptr::null_mut())), E::hipErrorInvalidValue);
    let mut module = hipModule_t::NULL;
    assert_eq!(status!(hipModuleLoadData(&mut module, std::ptr::null())), E::hipErrorInvalidValue);
    assert_eq!(status!(hipModuleLoadData(&mut module, [0u8; 64].as_ptr().cast())), E::hipErrorInvalidImage);
    // The last error stays until it is asked for, and success does not clear it.
    hip!(hipDeviceSynchronize());
    assert_eq!(status!(hipPeekAtLastError()), E::hipErrorInvalidImage);
    assert_eq!(status!(hipGetLastError()), E::hipErrorInvalidImage);
    assert_eq!(status!(hipGetLastError()), E::hipSuccess);
}

#[test]
fn a_module_stays_loaded_until_its_last_launch_has_run() {
    let _alone = device();
    let (stream, out) = (Stream::new(), Buffer::from(&[0i32]));
    let module = Module::new(SLEEPER);
    sleeper(&module, stream.0, &out, 20, 1);
    sleeper(&module, stream.0, &out, 20, 2);
    drop(module);
    stream.wait();
    assert_eq!(out.read(), [2]);
}

#[test]
fn a_failing_kernel_is_reported_once_and_the_next_works() {
    let _alone = device();
    let module = Module::new(
        r#"extern "C" __global__ void bad(int *out, int how) {
            if (blockIdx.x == 3 && threadIdx.x == 5) {
                if (how == 0) *(volatile int *)16 = 1;
                if (how == 1) assert(how == 0);
                if (how == 2) abort();
                if (how == 3) out[1] = 7 / *(volatile int *)out;
            }
            __syncthreads();
            if (how == 5) out[threadIdx.x] = threadIdx.x;
        }
        extern "C" __global__ void deep(int *out, int) {
            volatile char local[4 << 20];
            for (int i = 0; i < 4 << 20; i += 64) local[i] = 1;
            *out = local[threadIdx.x];
        }"#,
    );
    let (stream, out) = (Stream::new(), Buffer::from(&[0i32; 64]));
    while hip_host::take_report().is_some() {}
    for (name, how, error, words) in [
        ("bad", 0, hipError_t::hipErrorIllegalAddress, "block (3, 0, 0)"),
        ("bad", 1, hipError_t::hipErrorAssert, "thread (5, 0, 0): failed an assertion"),
        ("bad", 2, hipError_t::hipErrorLaunchFailure, "trapped"),
        ("bad", 3, hipError_t::hipErrorLaunchFailure, "divided an integer by zero"),
        ("deep", 4, hipError_t::hipErrorLaunchFailure, "more stack than a thread has"),
    ] {
        if how == 3 && cfg!(target_arch = "aarch64") {
            // Dividing by zero is no fault there, as it is none on a GPU.
            continue;
        }
        module.launch(name, 8, 64, stream.0, &[(&out).into(), how.into()]);
        assert_eq!(status!(hipStreamSynchronize(stream.0)), error, "how {how}");
        assert_eq!(status!(hipStreamSynchronize(stream.0)), hipError_t::hipSuccess, "once only");
        let report = hip_host::take_report().expect("a report");
        assert!(report.contains(name) && report.contains(words), "{report}");
        while hip_host::take_report().is_some() {}
        module.launch("bad", 8, 64, stream.0, &[(&out).into(), 5.into()]);
        stream.wait();
        assert_eq!(out.read()[..64], (0..64).collect::<Vec<i32>>()[..]);
    }
}

#[test]
fn injected_faults_come_out_and_releases_still_release() {
    use hipError_t as E;
    let _alone = device();
    let ((), calls) = hip_host::inject::record(|| drop(Buffer::from(&[1i32])));
    assert_eq!(calls, [("hipFree", 1), ("hipMalloc", 1), ("hipMemcpy", 1)]);
    let mut pointer = std::ptr::null_mut();
    let armed = hip_host::inject::fail("hipMalloc", 2, E::hipErrorOutOfMemory);
    hip!(hipMalloc(&mut pointer, 16));
    let first = pointer;
    assert_eq!(status!(hipMalloc(&mut pointer, 16)), E::hipErrorOutOfMemory);
    assert!(armed.fired());
    assert_eq!(status!(hipGetLastError()), E::hipErrorOutOfMemory);
    let live = hip_host::live_allocations().len();
    let _armed = hip_host::inject::fail("hipFree", 1, E::hipErrorUnknown);
    assert_eq!(status!(hipFree(first)), E::hipErrorUnknown);
    assert_eq!(hip_host::live_allocations().len(), live - 1, "freed although the call was made to fail");
}

#[test]
fn eight_threads_share_a_device() {
    let _alone = device();
    let module = Module::new(
        r#"extern "C" __global__ void step(int *out, int value) {
            __shared__ int sum;
            if (threadIdx.x == 0) sum = 0;
            __syncthreads();
            atomicAdd(&sum, value);
            __syncthreads();
            out[blockIdx.x * blockDim.x + threadIdx.x] += sum;
        }"#,
    );
    std::thread::scope(|scope| {
        for worker in 1..=8 {
            let module = &module;
            scope.spawn(move || {
                let (stream, out) = (Stream::new(), Buffer::from(&[0i32; 256]));
                for _ in 0..50 {
                    module.launch("step", 4, 64, stream.0, &[(&out).into(), worker.into()]);
                }
                stream.wait();
                assert_eq!(out.read(), [50 * 64 * worker; 256]);
            });
        }
    });
}
