//! Checked mode: what it finds, what it says, and that it is silent about correct programs.

mod common;
use common::{hip, status, Buffer, Module};
use hip_abi::{hipDeviceProp_tR0600, hipError_t, hipMemcpyKind, hipStream_t};
use std::ffi::{c_void, CStr};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// Checked devices of both wave sizes; one test at a time, because reports are the process's.
fn checked() -> MutexGuard<'static, ()> {
    static CONFIGURED: Once = Once::new();
    static ALONE: Mutex<()> = Mutex::new(());
    CONFIGURED.call_once(|| {
        let options = hip_host::Options { devices: 2, wave_sizes: vec![32, 64], checked: true, ..Default::default() };
        hip_host::configure(options).expect("first use");
    });
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    while hip_host::take_report().is_some() {}
    alone
}

const SOURCE: &str = r#"
extern "C" __global__ void write_at(float *out, int at) { if (blockIdx.x == 2 && threadIdx.x == 9) out[at] = 1.0f; }
extern "C" __global__ void read_at(float *out, const float *in, int at) {
    if (blockIdx.x == 2 && threadIdx.x == 9) out[0] = in[at];
}
extern "C" __global__ void square(float *out, const float *in) {
    __shared__ float tile[64];
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = in[i] * in[i];
    __syncthreads();
    float sum = tile[(threadIdx.x + 1) % 64] + __shfl(tile[threadIdx.x], 0);
    atomicAdd(&out[i], sum);
}
"#;

/// Runs a kernel that must fail and gives its report.
fn fails(module: &Module, name: &str, arguments: &[common::Argument]) -> String {
    module.launch(name, 4, 64, hipStream_t::NULL, arguments);
    assert_eq!(status!(hipStreamSynchronize(hipStream_t::NULL)), hipError_t::hipErrorIllegalAddress, "{name}");
    hip_host::take_report().expect("a report")
}

fn expect(report: &str, parts: &[&str]) {
    for part in parts.iter().chain(&["block (2, 0, 0), thread (9, 0, 0)"]) {
        assert!(report.contains(part), "{part:?} is not in: {report}");
    }
}

#[test]
fn the_architecture_says_so() {
    let _alone = checked();
    let mut properties = hipDeviceProp_tR0600::zeroed();
    let get = common::table().hipGetDevicePropertiesR0600.expect("the embedded device has it");
    // SAFETY: room for one structure.
    assert!(unsafe { get(&mut properties, 0) }.is_success());
    // SAFETY: the call filled it with a C string.
    assert_eq!(unsafe { CStr::from_ptr(properties.gcnArchName.as_ptr()) }, c"host:checked+");
}

#[test]
fn accesses_past_a_buffer_are_found_to_the_byte() {
    let _alone = checked();
    for device in [0, 1] {
        hip!(hipSetDevice(device));
        let module = Module::new(SOURCE);
        // 100 floats: the end is in the middle of a page and of an aligned line.
        let (out, input) = (Buffer::from(&[0f32; 100]), Buffer::from(&[0f32; 100]));
        let report = fails(&module, "write_at", &[(&out).into(), 100.into()]);
        expect(&report, &["kernel write_at", "wrote 4 bytes", "past the end of a buffer of 400 bytes"]);
        let report = fails(&module, "read_at", &[(&out).into(), (&input).into(), 103.into()]);
        expect(&report, &["kernel read_at", "read 4 bytes", "12 bytes past the end of a buffer of 400 bytes"]);
        let report = fails(&module, "read_at", &[(&out).into(), (&input).into(), (-1).into()]);
        expect(&report, &["4 bytes before the start of a buffer of 400 bytes"]);
        let report = fails(&module, "write_at", &[(&out).into(), 5000.into()]);
        expect(&report, &["wrote 4 bytes"]);
        module.run("write_at", 4, 64, &[(&out).into(), 99.into()]);
        assert_eq!(out.read()[99], 1.0);
    }
}

#[test]
fn a_read_of_memory_never_written_is_found() {
    let _alone = checked();
    let module = Module::new(SOURCE);
    let (out, input) = (Buffer::<f32>::new(100), Buffer::<f32>::new(100));
    let report = fails(&module, "read_at", &[(&out).into(), (&input).into(), 7.into()]);
    expect(&report, &["28 bytes into a buffer of 400 bytes", "never written"]);
    assert!(input.read()[7].is_nan(), "fresh memory is poisoned");
    // A copy carries what it knows along; a write by a kernel or by a fill makes memory readable.
    let copy = Buffer::<f32>::new(100);
    module.run("write_at", 4, 64, &[(&input).into(), 8.into()]);
    hip!(hipMemcpy(copy.address, input.address, 400, hipMemcpyKind::hipMemcpyDeviceToDevice));
    fails(&module, "read_at", &[(&out).into(), (&copy).into(), 7.into()]);
    module.run("read_at", 4, 64, &[(&out).into(), (&copy).into(), 8.into()]);
    hip!(hipMemsetAsync(copy.address, 0, 400, hipStream_t::NULL));
    module.run("read_at", 4, 64, &[(&out).into(), (&copy).into(), 7.into()]);
    assert!(hip_host::take_report().is_none());
}

#[test]
fn a_use_after_free_is_found() {
    let _alone = checked();
    let module = Module::new(SOURCE);
    let out = Buffer::from(&[0f32; 100]);
    let mut gone = std::ptr::null_mut::<c_void>();
    hip!(hipMalloc(&mut gone, 400));
    hip!(hipFree(gone));
    let (_between, _others) = (Buffer::<f32>::new(100), Buffer::<f32>::new(100));
    let report = fails(&module, "read_at", &[(&out).into(), gone.into(), 7.into()]);
    expect(&report, &["read 4 bytes", "28 bytes into a buffer of 400 bytes", "freed before"]);
    let report = fails(&module, "write_at", &[gone.into(), 0.into()]);
    expect(&report, &["wrote 4 bytes", "freed before"]);
}

#[test]
fn guard_pages_stop_kernels_that_do_not_check() {
    let _alone = checked();
    let request = hip_host::CompileRequest { name: "plain.hip", source: SOURCE, checked: false, ..Default::default() };
    let module = Module::load(&hip_host::compile(&request).expect("it compiles").image);
    let checking = Module::new(SOURCE);
    let out = Buffer::<f32>::new(1024);
    let report = fails(&module, "write_at", &[(&out).into(), 1024.into()]);
    expect(&report, &["0 bytes past the end of a buffer of 4096 bytes"]);
    // What it wrote counts as written.
    module.run("write_at", 4, 64, &[(&out).into(), 3.into()]);
    let other = Buffer::from(&[0f32]);
    checking.run("read_at", 4, 64, &[(&other).into(), (&out).into(), 3.into()]);
    assert_eq!(other.read(), [1.0]);
}

#[test]
fn correct_programs_stay_silent() {
    let _alone = checked();
    for device in [0, 1] {
        hip!(hipSetDevice(device));
        let module = Module::new(SOURCE);
        for round in 1..20 {
            let input: Vec<f32> = (0..256).map(|i| (i % round) as f32).collect();
            let (out, buffer) = (Buffer::from(&[0f32; 256]), Buffer::from(&input));
            module.run("square", 4, 64, &[(&out).into(), (&buffer).into()]);
            let wave = [32, 64][device as usize];
            for (i, got) in out.read().into_iter().enumerate() {
                let (block, thread) = (i / 64 * 64, i % 64);
                let (neighbour, first) = (input[block + (thread + 1) % 64], input[block + thread / wave * wave]);
                assert_eq!(got, neighbour * neighbour + first * first, "thread {i}");
            }
        }
        assert!(hip_host::take_report().is_none());
    }
    assert_eq!(hip_host::live_allocations(), []);
}
