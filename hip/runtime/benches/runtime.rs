//! Three ratios, each of two things measured in turns in one run: the safe launch against the bare call, a streaming kernel
//! on the embedded device against the same loop in plain Rust, a kernel with a barrier against one without.
//!
//! `cargo bench -p hip`; `CANDLE_ROCM_PLATFORM` chooses the platform, the embedded device by default. Each number is the
//! best of many rounds, which is what the machine can do when nothing else runs.

use hip::{Buffer, Compiler, Function, LaunchConfig, Module, Platform, Program, Result, Stream};
use std::ffi::c_void;
use std::time::Instant;

const SOURCE: &str = r#"
extern "C" __global__ void nothing(int* target, int a, float b, unsigned count) {}

extern "C" __global__ void axpy(const float* __restrict__ x, float* __restrict__ y, float a, unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = a * x[i] + y[i];
}

extern "C" __global__ void neighbours(const float* __restrict__ x, float* __restrict__ y) {
    unsigned t = threadIdx.x, base = blockIdx.x * blockDim.x;
    y[base + t] = x[base + t] * 0.5f + x[base + (t + 1) % blockDim.x] * 0.25f;
}

extern "C" __global__ void neighbours_shared(const float* __restrict__ x, float* __restrict__ y) {
    __shared__ float tile[256];
    unsigned t = threadIdx.x, base = blockIdx.x * blockDim.x;
    tile[t] = x[base + t] * 0.5f;
    __syncthreads();
    y[base + t] = tile[t] + tile[(t + 1) % blockDim.x] * 0.5f;
}
"#;

struct Bench {
    stream: Stream,
    module: Module,
}

impl Bench {
    fn kernel(&self, name: &str) -> Result<Function> {
        self.module.function(name)
    }
}

/// The best time of each of two things, in seconds, measured in turns.
fn best_of(rounds: usize, mut a: impl FnMut() -> Result<()>, mut b: impl FnMut() -> Result<()>) -> Result<(f64, f64)> {
    let mut best = (f64::INFINITY, f64::INFINITY);
    for _ in 0..rounds {
        let start = Instant::now();
        a()?;
        best.0 = best.0.min(start.elapsed().as_secs_f64());
        let start = Instant::now();
        b()?;
        best.1 = best.1.min(start.elapsed().as_secs_f64());
    }
    Ok(best)
}

fn launch_overhead(bench: &Bench) -> Result<()> {
    const LAUNCHES: usize = 64;
    let (stream, nothing) = (&bench.stream, bench.kernel("nothing")?);
    let mut target = stream.zeros::<i32>(1)?;
    let table = stream.device().platform().table();
    let (mut best_safe, mut best_bare) = (f64::INFINITY, f64::INFINITY);
    // Only the submission is timed; the queue is empty when it begins.
    for _ in 0..2000 {
        stream.synchronize()?;
        let start = Instant::now();
        for _ in 0..LAUNCHES {
            // SAFETY: the kernel takes a pointer, an int, a float and an unsigned, and touches nothing.
            unsafe { nothing.launch(stream, LaunchConfig::new(1, 1), &(&mut target, 1i32, 2.0f32, 3u32)) }?;
        }
        best_safe = best_safe.min(start.elapsed().as_secs_f64());
        stream.synchronize()?;
        let start = Instant::now();
        for _ in 0..LAUNCHES {
            let (mut address, mut a, mut b, mut count) = (target.ptr(), 1i32, 2.0f32, 3u32);
            let mut params: [*mut c_void; 4] =
                [(&raw mut address).cast(), (&raw mut a).cast(), (&raw mut b).cast(), (&raw mut count).cast()];
            let (function, queue) = (nothing.handle(), stream.handle());
            // SAFETY: as above; the pointers are to live values.
            let code = unsafe {
                (table.hipModuleLaunchKernel)(
                    function,
                    1,
                    1,
                    1,
                    1,
                    1,
                    1,
                    0,
                    queue,
                    params.as_mut_ptr(),
                    std::ptr::null_mut(),
                )
            };
            assert!(code.is_success(), "{code}");
        }
        best_bare = best_bare.min(start.elapsed().as_secs_f64());
    }
    let (safe, bare) = (best_safe / LAUNCHES as f64 * 1e6, best_bare / LAUNCHES as f64 * 1e6);
    let verdict = verdict(safe - bare < 0.3);
    println!("launch: safe {safe:.3} us, bare {bare:.3} us, overhead {:.3} us (under 0.3: {verdict})", safe - bare);
    Ok(())
}

fn streaming(bench: &Bench) -> Result<()> {
    let count = 16 << 20;
    let (stream, axpy) = (&bench.stream, bench.kernel("axpy")?);
    let x = stream.upload(&vec![1.0f32; count])?;
    let mut y = stream.upload(&vec![2.0f32; count])?;
    let (plain_x, mut plain_y) = (vec![1.0f32; count], vec![2.0f32; count]);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = || -> Result<()> {
        let config = LaunchConfig::for_elements(count, 256);
        // SAFETY: the kernel takes two pointers, a float and a count, and checks its bounds.
        unsafe { axpy.launch(stream, config, &(&x, &mut y, 0.5f32, count as u32)) }?;
        stream.synchronize()
    };
    let plain = || -> Result<()> {
        let piece = count.div_ceil(threads);
        std::thread::scope(|scope| {
            for (x, y) in plain_x.chunks(piece).zip(plain_y.chunks_mut(piece)) {
                scope.spawn(move || x.iter().zip(y).for_each(|(x, y)| *y += 0.5 * x));
            }
        });
        Ok(())
    };
    let (kernel, plain) = best_of(30, kernel, plain)?;
    let rate = |seconds: f64| 12.0 * count as f64 / seconds / 1e9;
    let ratio = plain / kernel;
    println!(
        "streaming: kernel {:.1} GB/s, plain Rust on {threads} threads {:.1} GB/s, ratio {ratio:.2} (at least 0.7: {})",
        rate(kernel),
        rate(plain),
        verdict(ratio >= 0.7)
    );
    Ok(())
}

fn barriers(bench: &Bench) -> Result<()> {
    let blocks = 16_384u32;
    let stream = &bench.stream;
    let x = stream.upload(&vec![1.0f32; blocks as usize * 256])?;
    let mut y = stream.zeros::<f32>(blocks as usize * 256)?;
    let run = |kernel: &Function, y: &mut Buffer<f32>| -> Result<()> {
        // SAFETY: the kernels take two pointers to as many floats as there are threads.
        unsafe { kernel.launch(stream, LaunchConfig::new(blocks, 256), &(&x, y)) }?;
        stream.synchronize()
    };
    let (with, without) = (bench.kernel("neighbours_shared")?, bench.kernel("neighbours")?);
    let mut other = stream.zeros::<f32>(blocks as usize * 256)?;
    let (with, without) = best_of(20, || run(&with, &mut y), || run(&without, &mut other))?;
    let ratio = with / without;
    println!(
        "barriers: {:.2} ms with one in every block, {:.2} ms without, ratio {ratio:.2} (under 5: {})",
        with * 1e3,
        without * 1e3,
        verdict(ratio < 5.0)
    );
    Ok(())
}

fn verdict(holds: bool) -> &'static str {
    if holds {
        "holds"
    } else {
        "DOES NOT HOLD"
    }
}

fn main() -> Result<()> {
    let name = std::env::var(hip::PLATFORM_VARIABLE).unwrap_or_else(|_| "host".to_owned());
    let device = Platform::named(&name)?.device(0)?;
    println!("{}: {}, {}", device.platform().name(), device.name(), device.arch());
    let program = Program::new("bench.hip", SOURCE).option("-O3").for_device(&device);
    let module = Module::load(&device, Compiler::new(device.platform())?.compile(&program)?)?;
    let bench = Bench { stream: device.new_stream()?, module };
    launch_overhead(&bench)?;
    streaming(&bench)?;
    barriers(&bench)
}
