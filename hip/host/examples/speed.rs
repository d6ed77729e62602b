//! What the embedded device costs, as ratios within one run: a streaming kernel against the same loop in plain Rust, a kernel with
//! barriers against one without, and the time a launch takes from its caller. `cargo run --release -p hip-host --example speed`.

use hip_abi::{hipFunction_t, hipMemcpyKind, hipModule_t, hipStream_t, Hip};
use std::ffi::{c_void, CStr};
use std::time::{Duration, Instant};

const SOURCE: &str = r#"
extern "C" __global__ void scale(float *out, const float *in, float factor) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i] * factor;
}

// The sum of a row of 256 * 64 numbers, by a block of 256 threads: tree in shared memory...
extern "C" __global__ void row_sum(float *out, const float *in) {
    __shared__ float partial[256];
    const float *row = in + blockIdx.x * 16384;
    float sum = 0;
    for (unsigned i = threadIdx.x; i < 16384; i += 256) sum += row[i];
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = partial[0];
}

// ... or left to the host.
extern "C" __global__ void row_partial_sums(float *out, const float *in) {
    const float *row = in + blockIdx.x * 16384;
    float sum = 0;
    for (unsigned i = threadIdx.x; i < 16384; i += 256) sum += row[i];
    out[blockIdx.x * 256 + threadIdx.x] = sum;
}

extern "C" __global__ void reverse(float *out, const float *in) {
    __shared__ float tile[256];
    unsigned i = blockIdx.x * 256 + threadIdx.x;
    tile[threadIdx.x] = in[i];
    __syncthreads();
    out[i] = tile[255 - threadIdx.x];
}

extern "C" __global__ void wave_sum(float *out, const float *in) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = in[i];
    for (int delta = warpSize / 2; delta > 0; delta /= 2) sum += __shfl_down(sum, delta);
    if (__lane_id() == 0) out[i / warpSize] = sum;
}

extern "C" __global__ void tiny(float *out, const float *) {
    if (threadIdx.x == 0) out[blockIdx.x & 255] = 1;
}
"#;

const COUNT: usize = 1 << 24;

/// Calls a function of the table and stops at the first that fails.
macro_rules! hip {
    ($hip:ident.$function:ident($($argument:expr),*)) => {{
        // SAFETY: pointers are to live variables and buffers of the sizes given.
        let status = unsafe { ($hip.$function)($($argument),*) };
        assert!(status.is_success(), "{}: {status}", stringify!($function));
    }};
}

struct Bench {
    hip: &'static Hip,
    module: hipModule_t,
    stream: hipStream_t,
    out: *mut c_void,
    input: *mut c_void,
}

impl Bench {
    fn function(&self, name: &CStr) -> hipFunction_t {
        let (hip, mut function) = (self.hip, hipFunction_t::NULL);
        hip!(hip.hipModuleGetFunction(&mut function, self.module, name.as_ptr()));
        function
    }

    fn launch(&self, function: hipFunction_t, blocks: u32, threads: u32) {
        let (hip, mut out, mut input, mut factor) = (self.hip, self.out, self.input, 3.0f32);
        let mut arguments = [(&raw mut out).cast::<c_void>(), (&raw mut input).cast(), (&raw mut factor).cast()];
        let list = arguments.as_mut_ptr();
        hip!(hip.hipModuleLaunchKernel(
            function,
            blocks,
            1,
            1,
            threads,
            1,
            1,
            0,
            self.stream,
            list,
            std::ptr::null_mut()
        ));
    }

    fn wait(&self) {
        let hip = self.hip;
        hip!(hip.hipStreamSynchronize(self.stream));
    }

    /// The best of seven runs.
    fn time(&self, name: &CStr, blocks: usize, threads: u32) -> Duration {
        let function = self.function(name);
        best(|| {
            self.launch(function, blocks as u32, threads);
            self.wait();
        })
    }
}

fn best(mut work: impl FnMut()) -> Duration {
    work();
    (0..7)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .min()
        .unwrap_or_default()
}

fn main() {
    let request = hip_host::CompileRequest { name: "speed.hip", source: SOURCE, ..Default::default() };
    let object = hip_host::compile(&request).unwrap_or_else(|why| panic!("{why}"));
    let hip = hip_host::table();
    let mut bench = Bench {
        hip,
        module: hipModule_t::NULL,
        stream: hipStream_t::NULL,
        out: std::ptr::null_mut(),
        input: std::ptr::null_mut(),
    };
    hip!(hip.hipModuleLoadData(&mut bench.module, object.image.as_ptr().cast()));
    hip!(hip.hipStreamCreateWithFlags(&mut bench.stream, 1));
    hip!(hip.hipMalloc(&mut bench.out, COUNT * 4));
    hip!(hip.hipMalloc(&mut bench.input, COUNT * 4));
    let mut host = vec![1.0f32; COUNT];
    hip!(hip.hipMemcpy(bench.input, host.as_ptr().cast(), COUNT * 4, hipMemcpyKind::hipMemcpyHostToDevice));

    let threads = hip_host::options().map_or(1, |options| options.threads);
    let mut output = vec![0.0f32; COUNT];
    let plain = best(|| {
        std::thread::scope(|scope| {
            let part = COUNT.div_ceil(threads);
            for (out, input) in output.chunks_mut(part).zip(host.chunks(part)) {
                scope.spawn(move || out.iter_mut().zip(input).for_each(|(out, input)| *out = input * 3.0));
            }
        });
    });
    let streaming = bench.time(c"scale", COUNT / 256, 256);
    println!("streaming: plain Rust {plain:.2?}, kernel {streaming:.2?}: {:.2} of its speed", ratio(plain, streaming));

    let (without, with) =
        (bench.time(c"row_partial_sums", COUNT / 16384, 256), bench.time(c"row_sum", COUNT / 16384, 256));
    println!(
        "row sums: without barriers {without:.2?}, with nine {with:.2?}: {:.2} times the cost",
        ratio(with, without)
    );
    let per = |time: Duration, events: usize| time.as_secs_f64() * 1e9 * threads as f64 / events as f64;
    let reverse = bench.time(c"reverse", COUNT / 256, 256);
    println!(
        "one barrier and nothing else: {reverse:.2?}, {:.1} ns of a thread's time for each thread",
        per(reverse, COUNT)
    );
    let wave = bench.time(c"wave_sum", COUNT / 256, 256);
    println!("wave sums: {wave:.2?}, {:.1} ns for each lane and shuffle", per(wave, COUNT * 5));

    let blocks = bench.time(c"tiny", 1_000_000, 32);
    println!("a million blocks of 32 threads: {blocks:.2?}");
    let tiny = bench.function(c"tiny");
    let launches = 20_000;
    let submitted = best(|| (0..launches).for_each(|_| bench.launch(tiny, 1, 32)));
    bench.wait();
    println!("submitting a launch: {:.2?}", submitted / launches);
    let round = best(|| {
        for _ in 0..1000 {
            bench.launch(tiny, 1, 32);
            bench.wait();
        }
    });
    println!("a launch and waiting for it: {:.2?}", round / 1000);
    hip!(hip.hipMemcpy(host.as_mut_ptr().cast(), bench.out, 4, hipMemcpyKind::hipMemcpyDeviceToHost));
    hip!(hip.hipFree(bench.out));
    hip!(hip.hipFree(bench.input));
    hip!(hip.hipModuleUnload(bench.module));
    hip!(hip.hipStreamDestroy(bench.stream));
}

fn ratio(of: Duration, to: Duration) -> f64 {
    of.as_secs_f64() / to.as_secs_f64()
}
