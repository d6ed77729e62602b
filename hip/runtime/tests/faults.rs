//! Every fallible call that this crate makes fails once: the error comes out with its name, nothing leaks, and the same work
//! succeeds afterwards. Which calls there are is not a list kept here: the embedded device records them.

use hip::{
    hipError_t, Compiler, Device, Event, LaunchConfig, Module, PinnedBuffer, Platform, PlatformKind, Program, Result,
    Rows,
};
use hip_host::inject;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// A code that nothing else returns here.
const FAILURE: hipError_t = hipError_t::hipErrorECCNotCorrectable;
const RTC_FAILURE: hip_abi::hiprtcResult = hip_abi::hiprtcResult::HIPRTC_ERROR_INTERNAL_ERROR;

const SOURCE: &str = "__constant__ int counter = 5;
extern \"C\" __global__ void twice(float* x, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2.0f;
}";

/// What is allocated is counted for the whole process, so one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn platform() -> Platform {
    static CONFIGURED: OnceLock<()> = OnceLock::new();
    CONFIGURED.get_or_init(|| {
        let options = hip_host::Options { devices: 2, wave_sizes: vec![32, 64], ..hip_host::Options::default() };
        hip_host::configure(options).expect("nothing has used the device before");
    });
    Platform::named("host").expect("the embedded device starts")
}

fn code(device: &Device) -> Result<Vec<u8>> {
    static CODE: OnceLock<Vec<u8>> = OnceLock::new();
    if let Some(code) = CODE.get() {
        return Ok(code.clone());
    }
    let code = Compiler::new(device.platform())?.compile(&Program::new("twice.hip", SOURCE).for_device(device))?;
    Ok(CODE.get_or_init(|| code).clone())
}

type Work = fn(&Device) -> Result<()>;

/// Pieces of work that together make every call.
const WORK: &[(&str, Work)] = &[
    ("opening a platform and its devices", |_| {
        let platform = Platform::open(PlatformKind::Host, "a test")?;
        assert_eq!(platform.devices()?.len(), 2);
        Ok(())
    }),
    ("asking about a device", |device| {
        device.memory()?;
        device.synchronize()?;
        device.platform().runtime_version()?;
        let peer = device.platform().device(1)?;
        device.can_access(&peer)?;
        device.enable_access(&peer)
    }),
    ("copies", |device| {
        let (stream, other) = (device.new_stream()?, device.new_stream()?);
        let mut small = stream.upload(&[1u32, 2, 3])?;
        let large = stream.upload(&vec![7u32; 100_000])?;
        small.copy_from(large.slice(..3)?)?;
        assert_eq!(small.to_stream(&other)?.to_vec()?, [7, 7, 7]);
        small.view_mut().copy_rows_from(&large, Rows { width: 1, count: 3, target_pitch: 1, source_pitch: 5 })?;
        small.fill(9)?;
        small.zero()?;
        let mut halves = stream.alloc::<u16>(5)?;
        halves.fill(0x1234)?;
        let mut doubles = stream.alloc::<f64>(600)?;
        doubles.fill(0.1)?;
        assert_eq!(doubles.to_vec()?, vec![0.1; 600]);
        stream.synchronize()
    }),
    ("much there and back", |device| {
        let stream = device.new_stream()?;
        let large = stream.upload(&vec![7u32; 5 << 18])?;
        assert!(large.to_vec()?.iter().all(|&value| value == 7));
        assert_eq!(large.slice(..600_000)?.to_vec()?, vec![7; 600_000]);
        Ok(())
    }),
    ("a file that is read in", |device| {
        let stream = device.new_stream()?;
        let mut buffer = stream.zeros::<u8>((2 << 20) + 5)?;
        let len = buffer.len();
        for start in (0..len).step_by(1 << 20) {
            buffer.slice_mut(start..len.min(start + (1 << 20)))?.write_from(|part| {
                part.fill(3);
                Ok::<_, hip::Error>(())
            })?;
            // More pinned memory is made while the first piece of it is in use: here it never is, so that the calls do not depend on time.
            stream.synchronize()?;
        }
        assert!(buffer.to_vec()?.iter().all(|&value| value == 3));
        Ok(())
    }),
    ("many small uploads", |device| {
        let stream = device.new_stream()?;
        for _ in 0..40 {
            stream.upload(&[1u8; 60_000])?;
        }
        stream.synchronize()
    }),
    ("copies between devices", |device| {
        let stream = device.new_stream()?;
        let there = device.platform().device(1)?.new_stream()?;
        assert_eq!(stream.upload(&[1u8, 2])?.to_stream(&there)?.to_vec()?, [1, 2]);
        Ok(())
    }),
    ("pinned memory", |device| {
        let stream = device.new_stream()?;
        let mut buffer = stream.alloc::<u32>(10)?;
        let pending = buffer.write_pinned(PinnedBuffer::zeros(device, 10)?)?;
        pending.is_ready()?;
        let pinned = pending.wait()?;
        drop(buffer.read_pinned(pinned)?);
        Ok(())
    }),
    ("events", |device| {
        let stream = device.new_stream()?;
        let (start, stop) = (stream.record_timed()?, stream.record_timed()?);
        stop.synchronize()?;
        stop.elapsed_since(&start)?;
        stream.wait(&Event::new(device)?)?;
        assert!(stop.is_reached()?);
        stream.is_idle().map(|_| ())
    }),
    ("kernels", |device| {
        let stream = device.new_stream()?;
        // SAFETY: the compiler has just made it.
        let module = unsafe { Module::load(device, code(device)?) }?;
        assert_eq!(module.global("counter")?.1, 4);
        let twice = module.function("twice")?;
        twice.info()?;
        twice.best_block(0)?;
        twice.blocks_per_compute_unit(64, 0)?;
        let mut data = stream.upload(&[1.5f32; 100])?;
        // SAFETY: the kernel takes a pointer and a count, and checks its bounds.
        unsafe { twice.launch(&stream, LaunchConfig::for_elements(100, 64), &(&mut data, 100u32)) }?;
        assert_eq!(data.to_vec()?, [3.0; 100]);
        Ok(())
    }),
    ("graphs", |device| {
        let stream = device.new_stream()?;
        let source = stream.upload(&[1u32, 2, 3])?;
        let mut target = stream.zeros::<u32>(3)?;
        let graph = stream.capture(|stream| {
            let mut between = stream.alloc::<u32>(3)?;
            between.copy_from(&source)?;
            target.copy_from(&between)?;
            target.slice_mut(..1)?.write(&[9])
        })?;
        graph.launch(&stream)?;
        assert_eq!(target.to_vec()?, [9, 2, 3]);
        Ok(())
    }),
    ("a capture that is given up", |device| {
        let stream = device.new_stream()?;
        let mut target = stream.zeros::<u32>(3)?;
        let given_up = stream.capture(|_| {
            target.zero()?;
            Err(hip::Error::refused("given up"))
        });
        match given_up {
            Err(error) if error.to_string() == "given up" => target.zero(),
            Err(error) => Err(error),
            Ok(_) => panic!("it was given up"),
        }
    }),
    ("growing and trimming", |device| {
        let stream = device.new_stream()?;
        let mut last = stream.alloc::<u8>(1 << 20)?;
        for size in 2..24 {
            last = stream.alloc::<u8>(size << 20)?;
        }
        drop(last);
        device.trim_pools()?;
        Ok(())
    }),
    ("compiling", |device| {
        let compiler = Compiler::new(device.platform())?;
        let empty = Program::new("empty.hip", "extern \"C\" __global__ void empty() {}").for_device(device);
        compiler.compile(&empty).map(|code| assert!(!code.is_empty()))
    }),
];

/// Calls that this crate makes and that may fail without an error coming out, each with the reason.
const SILENT: &[(&str, &str)] = &[
    ("hiprtcDestroyProgram", "host memory of the compiler; the log hears of it"),
    ("hipStreamIsCapturing", "asked only to clean up after a failure that is being reported"),
];

#[test]
fn every_call_fails_once_and_nothing_is_lost() {
    let _alone = alone();
    let device = platform().device(0).expect("device 0");
    let _peer = platform().device(1).expect("device 1");
    let mut seen = BTreeSet::new();
    let mut injected = 0;
    for (what, work) in WORK {
        work(&device).unwrap_or_else(|error| panic!("{what} fails by itself: {error}"));
        let baseline = hip_host::live_allocations().len();
        let (outcome, calls) = inject::record(|| work(&device));
        outcome.unwrap_or_else(|error| panic!("{what} fails by itself: {error}"));
        assert_eq!(hip_host::live_allocations().len(), baseline, "{what} leaks by itself");
        for (function, count) in calls {
            seen.insert(function);
            // A compiler run takes a while, and its first call is like its last.
            for nth in 1..=if *what == "compiling" { 1 } else { count } {
                let at = format!("{what}, call {nth} of {function}");
                let armed = if function.starts_with("hiprtc") {
                    inject::fail(function, nth, RTC_FAILURE)
                } else {
                    inject::fail(function, nth, FAILURE)
                };
                let outcome = work(&device);
                let fired = armed.fired();
                drop(armed);
                injected += 1;
                assert!(fired, "{at} was not made the second time");
                // An error of something dropped comes out at the next call on its device.
                let error = outcome.err().or_else(|| device.memory().err()).or_else(|| _peer.memory().err());
                let expected = if function.starts_with("hiprtc") { RTC_FAILURE.name() } else { FAILURE.name() };
                match error {
                    // A second error, after the caller's own, is told in the detail of the first.
                    Some(error) if error.name().is_none() => {
                        let detail = error.detail().unwrap_or_default();
                        assert!(detail.contains(expected) && detail.contains(function), "{at}: {error}");
                    }
                    Some(error) => {
                        assert_eq!((error.name(), error.call()), (Some(expected), Some(function)), "{at}: {error}");
                    }
                    None => {
                        assert!(SILENT.iter().any(|(silent, _)| *silent == function), "{at} failed without an error")
                    }
                }
                while device.memory().and(_peer.memory()).is_err() {}
                assert_eq!(hip_host::live_allocations().len(), baseline, "{at} leaks");
                work(&device).unwrap_or_else(|error| panic!("after {at} the same work fails: {error}"));
            }
        }
    }
    println!("{injected} failures of {} functions: {seen:?}", seen.len());
    // Nothing that this crate calls has escaped.
    let called = called_functions();
    let escaped: Vec<_> = called
        .iter()
        .filter(|function| !seen.contains(function.as_str()) && !UNREACHED.contains(&function.as_str()))
        .collect();
    assert!(escaped.is_empty(), "no piece of work above makes these calls: {escaped:?}");
}

/// Calls that succeed always, or that are made only after another call failed, or only on other platforms.
const UNREACHED: &[&str] = &[
    "hipGetLastError",
    "hipGetDeviceProperties",
    "hipStreamIsCapturing",
    "hiprtcGetProgramLog",
    "hiprtcGetProgramLogSize",
];

/// The functions of the tables that the source of this crate names as calls.
fn called_functions() -> Vec<String> {
    let mut texts = String::new();
    for folder in ["src", "src/pool"] {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        for entry in std::fs::read_dir(folder).expect("the source is here").flatten() {
            texts += &std::fs::read_to_string(entry.path()).unwrap_or_default();
        }
    }
    let functions = hip_abi::Hip::FUNCTIONS.iter().chain(hip_abi::Hiprtc::FUNCTIONS);
    let is_called = |name: &str| {
        [format!("{name}("), format!("{name})"), format!(".{name} ")].iter().any(|call| texts.contains(call))
    };
    functions.map(|function| function.name.to_owned()).filter(|name| is_called(name)).collect()
}

#[test]
fn out_of_memory_gives_back_what_is_kept_and_tries_once_more() {
    let _alone = alone();
    let device = platform().device(1).expect("device 1");
    let (stream, other) = (device.new_stream().expect("a stream"), device.new_stream().expect("a stream"));
    for stream in [&stream, &other] {
        drop(stream.alloc::<u8>(64 << 20).expect("memory"));
    }
    assert!(device.pool_stats().reserved_bytes >= 128 << 20);
    // The system refuses once: both pools give back what they keep, and the second try succeeds.
    let armed = inject::fail("hipMalloc", 1, hipError_t::hipErrorOutOfMemory);
    let buffer = stream.alloc::<u8>(100 << 20).expect("the second try succeeds");
    assert!(armed.fired());
    drop(armed);
    let stats = device.pool_stats();
    assert_eq!(stats.live_bytes, 100 << 20);
    assert!(stats.reserved_bytes < 120 << 20, "the pools still keep {} bytes", stats.reserved_bytes);
    drop(buffer);
    // There is really not enough: an error with the sizes in it, and the next request works.
    let error = stream.alloc::<u8>(1 << 50).map(|_| ()).expect_err("a pebibyte");
    assert!(error.is_out_of_memory() && error.to_string().contains("1024.0 TiB"), "{error}");
    assert_eq!(stream.upload(&[5u8]).and_then(|buffer| buffer.to_vec()).expect("a round trip"), [5]);
}

#[test]
fn an_error_while_dropping_comes_out_once_at_the_next_call() {
    let _alone = alone();
    let device = platform().device(0).expect("device 0");
    // SAFETY: the compiler has just made it.
    let module = unsafe { Module::load(&device, code(&device).expect("code")) }.expect("a module");
    let armed = inject::fail("hipModuleUnload", 1, FAILURE);
    drop(module);
    assert!(armed.fired());
    let error = device.new_stream().map(|_| ()).expect_err("the error of the drop");
    assert!(error.is_deferred() && error.name() == Some(FAILURE.name()), "{error}");
    assert!(error.to_string().starts_with("earlier"), "{error}");
    device.new_stream().expect("it is told once");
}
