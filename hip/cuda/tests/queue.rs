//! Launches that wait in the queue: they keep their place among all other calls, and refusals come at once. The queue is asked
//! for, so that few cores do not keep it away; it must be there from the first launch on, so these tests have a process of their own.

mod common;

use common::gpu::{argument, launch, ok, status, Memory, Module, Stream};
use common::platform;
use hip_abi::*;
use std::ffi::c_uint;
use std::process::Command;
use std::ptr::null_mut;
use std::sync::{MutexGuard, Once};

const SOURCE: &str = r#"
struct Wide { unsigned words[200]; };
struct TooWide { unsigned words[400]; };
extern "C" __global__ void add(unsigned* x, unsigned a) { x[blockIdx.x * blockDim.x + threadIdx.x] += a; }
extern "C" __global__ void twice(unsigned* x) { x[blockIdx.x * blockDim.x + threadIdx.x] *= 2; }
extern "C" __global__ void wide(unsigned* x, char which, Wide from) { x[threadIdx.x] = from.words[which]; }
extern "C" __global__ void too_wide(unsigned* x, char which, TooWide from) { x[threadIdx.x] = from.words[which]; }
extern "C" __global__ void nothing() {}
extern "C" __global__ void __launch_bounds__(64) small(unsigned* x) { x[threadIdx.x] += 1; }
"#;

/// The table and a stream of launches that the queue takes: enough have gone before.
fn queued() -> Option<(&'static Hip, MutexGuard<'static, ()>, Module<'static>, Stream<'static>)> {
    static ASKED_FOR: Once = Once::new();
    // SAFETY: every test of this process begins here, and until this is done none goes on to what reads the environment.
    ASKED_FOR.call_once(|| unsafe { std::env::set_var("HIP_CUDA_QUEUE", "1") });
    let (hip, alone) = platform()?;
    let (module, stream) = (Module::compile(hip, SOURCE), Stream::new(hip));
    for _ in 0..32 {
        assert_eq!(launch(hip, module.kernel("nothing"), (1, 32, 0), stream.1, &mut []), hipError_t::hipSuccess);
    }
    Some((hip, alone, module, stream))
}

#[test]
fn launches_keep_their_place_among_copies_events_streams_and_captures() {
    let Some((hip, _alone, module, stream)) = queued() else { return };
    let (add, twice, one) = (module.kernel("add"), module.kernel("twice"), 1u32);
    let (x, copy, other) = (Memory::new(hip, 256), Memory::new(hip, 256), Stream::new(hip));
    let mut event = hipEvent_t::NULL;
    ok!(hip, hipEventCreateWithFlags(&mut event, 2));
    ok!(hip, hipMemsetAsync(x.pointer, 0, 256, stream.1));
    let mut expected = 0u32;
    for round in 0..500u32 {
        for step in 0..round % 7 {
            let kernel = if step % 3 == 2 { twice } else { add };
            expected = if step % 3 == 2 { expected.wrapping_mul(2) } else { expected.wrapping_add(1) };
            let mut params = [argument(&x.pointer), argument(&one)];
            assert_eq!(launch(hip, kernel, (1, 64, 0), stream.1, &mut params), hipError_t::hipSuccess);
        }
        match round % 5 {
            0 => {
                ok!(
                    hip,
                    hipMemcpyAsync(copy.pointer, x.pointer, 256, hipMemcpyKind::hipMemcpyDeviceToDevice, stream.1)
                );
                ok!(hip, hipStreamSynchronize(stream.1));
                assert_eq!(copy.read::<u32>(), [expected; 64], "round {round}");
            }
            1 => {
                // The other stream waits for this one, adds, and this one waits for it.
                ok!(hip, hipEventRecord(event, stream.1));
                ok!(hip, hipStreamWaitEvent(other.1, event, 0));
                let mut params = [argument(&x.pointer), argument(&one)];
                assert_eq!(launch(hip, add, (1, 64, 0), other.1, &mut params), hipError_t::hipSuccess);
                ok!(hip, hipEventRecord(event, other.1));
                ok!(hip, hipStreamWaitEvent(stream.1, event, 0));
                expected = expected.wrapping_add(1);
            }
            2 => {
                let (mut graph, mut exec) = (hipGraph_t::NULL, hipGraphExec_t::NULL);
                ok!(hip, hipStreamBeginCapture(stream.1, hipStreamCaptureMode::hipStreamCaptureModeThreadLocal));
                let mut params = [argument(&x.pointer), argument(&one)];
                assert_eq!(launch(hip, add, (1, 64, 0), stream.1, &mut params), hipError_t::hipSuccess);
                ok!(hip, hipStreamEndCapture(stream.1, &mut graph));
                ok!(hip, hipGraphInstantiate(&mut exec, graph, null_mut(), null_mut(), 0));
                ok!(hip, hipGraphLaunch(exec, stream.1));
                expected = expected.wrapping_add(1);
                ok!(hip, hipGraphExecDestroy(exec));
                ok!(hip, hipGraphDestroy(graph));
            }
            _ => {}
        }
    }
    stream.wait();
    assert_eq!(x.read::<u32>(), [expected; 64]);
    ok!(hip, hipEventDestroy(event));
}

#[test]
fn arguments_are_taken_at_the_call_whatever_their_number_and_size() {
    let Some((hip, _alone, module, stream)) = queued() else { return };
    let x = Memory::new(hip, 4 * 32);
    for (kernel, words) in [("wide", 200), ("too_wide", 400)] {
        let kernel = module.kernel(kernel);
        let mut from: Vec<c_uint> = (0..words).collect();
        for which in 0..100u8 {
            let mut params = [argument(&x.pointer), argument(&which), from.as_mut_ptr().cast()];
            assert_eq!(launch(hip, kernel, (1, 32, 0), stream.1, &mut params), hipError_t::hipSuccess);
            // What was passed is the caller's again.
            from.iter_mut().for_each(|word| *word += 1);
        }
        stream.wait();
        assert_eq!(x.read::<u32>(), [99 + 99; 32], "word 99, after 99 increments");
    }
}

#[test]
fn what_the_driver_would_refuse_is_refused_at_the_call_and_the_next_one_works() {
    let Some((hip, _alone, module, stream)) = queued() else { return };
    let (small, x) = (module.kernel("small"), Memory::with(hip, &[0.; 64]));
    let run = |grid, block, shared| launch(hip, small, (grid, block, shared), stream.1, &mut [argument(&x.pointer)]);
    for _ in 0..10 {
        assert_eq!(run(1, 64, 0), hipError_t::hipSuccess);
        for (grid, block, shared) in [(0, 64, 0), (1, 0, 0), (1, 2048, 0), (1 << 31, 64, 0), (1, 64, 1 << 20)] {
            let refused = run(grid, block, shared);
            assert_eq!(refused, hipError_t::hipErrorInvalidConfiguration, "{grid} {block} {shared}");
        }
        // Within the device's limits, and beyond the kernel's.
        assert_ne!(run(1, 128, 0), hipError_t::hipSuccess);
        assert_eq!(run(1, 64, 0), hipError_t::hipSuccess);
    }
    stream.wait();
    assert_eq!(x.read::<u32>(), [20; 64]);
    let null = launch(hip, hipFunction_t::NULL, (1, 64, 0), stream.1, &mut []);
    assert_eq!(null, hipError_t::hipErrorInvalidHandle);
}

#[test]
fn a_module_goes_after_its_launches() {
    let Some((hip, _alone, _module, stream)) = queued() else { return };
    let x = Memory::with(hip, &[0.; 64]);
    for _ in 0..5 {
        let module = Module::compile(hip, SOURCE);
        let (add, one) = (module.kernel("add"), 1u32);
        for _ in 0..200 {
            let mut params = [argument(&x.pointer), argument(&one)];
            assert_eq!(launch(hip, add, (1, 64, 0), stream.1, &mut params), hipError_t::hipSuccess);
        }
    }
    stream.wait();
    assert_eq!(x.read::<u32>(), [1000; 64]);
}

/// What the next test starts: launches that nobody waits for, and the end of the process.
#[test]
#[ignore = "the test below runs it as a process of its own"]
fn leaves_launches_behind() {
    let Some((hip, _alone, module, stream)) = queued() else { return };
    let x = Memory::with(hip, &[0.; 64]);
    let (add, one) = (module.kernel("add"), 1u32);
    for _ in 0..900 {
        let mut params = [argument(&x.pointer), argument(&one)];
        assert_eq!(launch(hip, add, (1, 64, 0), stream.1, &mut params), hipError_t::hipSuccess);
    }
    println!("all launched");
    std::process::exit(0);
}

#[test]
fn a_process_may_end_while_launches_wait() {
    let Some((_hip, _alone, _module, _stream)) = queued() else { return };
    for _ in 0..3 {
        let program = std::env::current_exe().expect("this test's own file");
        let only = ["--exact", "leaves_launches_behind", "--ignored", "--nocapture"];
        let output = Command::new(program).args(only).output().expect("the process starts");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("all launched"), "{output:?}");
    }
}

#[test]
fn threads_that_share_a_stream_lose_nothing() {
    let Some((hip, _alone, module, stream)) = queued() else { return };
    let (add, one, x) = (module.kernel("add"), 1u32, Memory::with(hip, &[0.; 64]));
    let (pointer, handle) = (x.pointer.expose_provenance(), stream.1);
    let add = add.0.expose_provenance();
    let handle = handle.0.expose_provenance();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(move || {
                let stream = hipStream_t(std::ptr::with_exposed_provenance_mut(handle));
                let add = hipFunction_t(std::ptr::with_exposed_provenance_mut(add));
                for round in 0..500 {
                    let mut params = [argument(&pointer), argument(&one)];
                    assert_eq!(launch(hip, add, (1, 64, 0), stream, &mut params), hipError_t::hipSuccess);
                    if round % 100 == 99 {
                        assert_eq!(status!(hip, hipStreamSynchronize(stream)), hipError_t::hipSuccess);
                    }
                }
            });
        }
    });
    stream.wait();
    assert_eq!(x.read::<u32>(), [2000; 64]);
}
