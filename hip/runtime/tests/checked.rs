//! Checked mode, seen from a program: a kernel that misbehaves becomes an error that names the kernel, the block and the
//! thread, and the program goes on. That correct programs stay silent is seen by running the conformance suite in this mode.

use hip::{Buffer, Compiler, Device, Error, KernelArgs, LaunchConfig, Module, Platform, Program, Result, Stream};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

const SOURCE: &str = r#"
extern "C" __global__ void read_at(const float* source, float* target, int reader, int index) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    target[i] = i == reader ? source[index] : source[i % 4];
}

extern "C" __global__ void write_at(float* target, int writer, int index) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == writer) target[index] = 1.0f;
}

extern "C" __global__ void assert_below(int limit) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= limit) __builtin_trap();
}
"#;

/// The reports of failed kernels are the process's, so one test at a time.
struct Bench {
    stream: Stream,
    module: Module,
    _alone: MutexGuard<'static, ()>,
}

fn device() -> Device {
    static CONFIGURED: OnceLock<()> = OnceLock::new();
    CONFIGURED.get_or_init(|| {
        let options = hip_host::Options { checked: true, ..hip_host::Options::default() };
        hip_host::configure(options).expect("nothing has used the device before");
    });
    let device = Platform::named("host").and_then(|platform| platform.device(0)).expect("the embedded device starts");
    assert!(device.is_checked() && device.arch() == "host:checked+", "{device:?}");
    device
}

impl Bench {
    fn new() -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        static CODE: OnceLock<Vec<u8>> = OnceLock::new();
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let device = device();
        let code = CODE.get_or_init(|| {
            let compiler = Compiler::new(device.platform()).expect("there is a C++ compiler");
            compiler.compile(&Program::new("misbehave.hip", SOURCE).for_device(&device)).expect("it compiles")
        });
        // SAFETY: the compiler has made it.
        let module = unsafe { Module::load(&device, code.clone()) }.expect("it loads");
        Self { stream: device.new_stream().expect("a stream"), module, _alone: alone }
    }

    /// Launches 4 blocks of 8 threads and waits.
    fn run(&self, kernel: &str, args: &impl KernelArgs) -> Result<()> {
        // SAFETY: the arguments are those of the kernels; what they do wrong is what is tested, and the checked device
        // turns it into an error.
        unsafe { self.module.function(kernel)?.launch(&self.stream, LaunchConfig::new(4, 8), args) }?;
        self.stream.synchronize()
    }

    fn floats(&self, count: usize) -> Buffer<f32> {
        self.stream.upload(&vec![1.0; count]).expect("an upload")
    }

    /// The error must name kernel, block and thread and contain `parts`; after it, the device works.
    fn expect(&self, outcome: Result<()>, name: &str, site: &str, parts: &[&str]) {
        let error: Error = outcome.expect_err("the kernel misbehaves");
        let text = error.to_string();
        assert_eq!(error.name(), Some(name), "{text}");
        for part in [site].iter().chain(parts) {
            assert!(text.contains(part), "the error does not say {part:?}: {text}");
        }
        let (source, mut target) = (self.floats(4), self.stream.zeros::<f32>(32).expect("zeros"));
        self.run("read_at", &(&source, &mut target, 0i32, 0i32)).expect("the next launch works");
        assert_eq!(target.to_vec().expect("a download"), [1.0; 32]);
        assert_eq!(hip_host::take_report(), None, "one failure, one report");
    }
}

#[test]
fn a_read_past_the_end() {
    let bench = Bench::new();
    let (source, mut target) = (bench.floats(5), bench.floats(32));
    let outcome = bench.run("read_at", &(&source, &mut target, 19i32, 5i32));
    bench.expect(
        outcome,
        "hipErrorIllegalAddress",
        "kernel read_at, block (2, 0, 0), thread (3, 0, 0)",
        &["read 4 bytes", "past the end", "20 bytes"],
    );
}

#[test]
fn a_write_past_the_end() {
    let bench = Bench::new();
    let mut target = bench.floats(7);
    let outcome = bench.run("write_at", &(&mut target, 9i32, 7i32));
    bench.expect(
        outcome,
        "hipErrorIllegalAddress",
        "kernel write_at, block (1, 0, 0), thread (1, 0, 0)",
        &["wrote 4 bytes", "past the end", "28 bytes"],
    );
}

#[test]
fn a_write_far_before_the_start() {
    let bench = Bench::new();
    let mut target = bench.floats(7);
    let outcome = bench.run("write_at", &(&mut target, 9i32, -3i32));
    bench.expect(
        outcome,
        "hipErrorIllegalAddress",
        "kernel write_at, block (1, 0, 0), thread (1, 0, 0)",
        &["wrote 4 bytes"],
    );
}

#[test]
fn a_use_after_free() {
    let bench = Bench::new();
    let (source, mut target) = (bench.floats(4), bench.floats(32));
    let gone = source.ptr();
    drop(source);
    let outcome = bench.run("read_at", &(gone, &mut target, 0i32, 1i32));
    bench.expect(outcome, "hipErrorIllegalAddress", "kernel read_at, block", &["thread", "freed before"]);
}

#[test]
fn a_read_of_memory_never_written() {
    let bench = Bench::new();
    let mut source = bench.stream.alloc::<f32>(64).expect("memory");
    source.slice_mut(..4).and_then(|mut start| start.zero()).expect("zeros");
    let mut target = bench.floats(32);
    let outcome = bench.run("read_at", &(&source, &mut target, 31i32, 10i32));
    bench.expect(
        outcome,
        "hipErrorIllegalAddress",
        "kernel read_at, block (3, 0, 0), thread (7, 0, 0)",
        &["never written", "256 bytes"],
    );
}

#[test]
fn arguments_that_are_not_the_kernels() {
    let bench = Bench::new();
    let mut target = bench.stream.upload(&[0.0f32; 32]).expect("an upload");
    // An index of eight bytes where the kernel takes four, and one argument too few: a GPU would read what lies behind.
    let wide = bench.run("write_at", &(&mut target, 0i32, 0i64)).expect_err("the index is an int").to_string();
    assert!(wide.contains("write_at") && wide.contains("[8, 4, 4]") && wide.contains("[8, 4, 8]"), "{wide}");
    let few = bench.run("write_at", &(&mut target, 0i32)).expect_err("there are three").to_string();
    assert!(few.contains("takes 3 arguments") && few.contains("passes 2"), "{few}");
    bench.run("write_at", &(&mut target, 0i32, 5i32)).expect("the next launch works");
}

#[test]
fn a_trap() {
    let bench = Bench::new();
    let outcome = bench.run("assert_below", &(13i32,));
    bench.expect(outcome, "hipErrorLaunchFailure", "kernel assert_below, block (", &["trapped"]);
}

#[test]
fn a_leak_is_reported_at_exit_and_a_clean_program_is_silent() {
    let this = std::env::current_exe().expect("a test has a path");
    let child = |test: &str| {
        let output =
            Command::new(&this).args(["--exact", test, "--ignored", "--nocapture"]).output().expect("it starts");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let report = child("child_that_leaks");
    assert!(report.contains("never freed") && report.contains("12345"), "{report}");
    let report = child("child_that_frees");
    assert!(!report.contains("never freed"), "{report}");
}

#[test]
#[ignore = "run by the test of leaks, in a process of its own"]
fn child_that_leaks() {
    let stream = device().new_stream().expect("a stream");
    std::mem::forget(stream.zeros::<u8>(12_345).expect("memory"));
}

#[test]
#[ignore = "run by the test of leaks, in a process of its own"]
fn child_that_frees() {
    let stream = device().new_stream().expect("a stream");
    drop(stream.upload(&[1u8; 12_345]).expect("memory"));
}
