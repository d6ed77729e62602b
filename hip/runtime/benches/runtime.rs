//! Three ratios, each of two things measured in turns in one run: the safe launch against the bare call, a streaming kernel
//! on the embedded device against the same loop in plain Rust, a kernel with barriers against one without.
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

// Rows of 16384 numbers, one a block: each thread adds 64 of them...
extern "C" __global__ void row_parts(const float* __restrict__ rows, float* __restrict__ parts) {
    unsigned t = threadIdx.x;
    const float* row = rows + blockIdx.x * 16384u;
    float sum = 0.0f;
    for (unsigned i = t; i < 16384; i += 256) sum += row[i];
    parts[blockIdx.x * 256 + t] = sum;
}

// ...and here the block adds the parts up, with a barrier before each of the eight halvings.
extern "C" __global__ void row_sums(const float* __restrict__ rows, float* __restrict__ sums) {
    __shared__ float parts[256];
    unsigned t = threadIdx.x;
    const float* row = rows + blockIdx.x * 16384u;
    float sum = 0.0f;
    for (unsigned i = t; i < 16384; i += 256) sum += row[i];
    parts[t] = sum;
    for (unsigned half = 128; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) parts[t] += parts[t + half];
    }
    if (t == 0) sums[blockIdx.x] = parts[0];
}

// One barrier and hardly anything else: what a barrier costs each thread.
extern "C" __global__ void turn(const float* __restrict__ x, float* __restrict__ y) {
    __shared__ float tile[256];
    unsigned t = threadIdx.x, base = blockIdx.x * 256;
    tile[t] = x[base + t];
    __syncthreads();
    y[base + t] = tile[255 - t];
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

fn allocation(bench: &Bench) -> Result<()> {
    const ROUNDS: usize = 1000;
    let stream = &bench.stream;
    let sizes = [4 << 10, 300 << 10, 5 << 20];
    let pooled = || -> Result<()> {
        for round in 0..ROUNDS {
            stream.alloc::<u8>(sizes[round % sizes.len()])?;
        }
        Ok(())
    };
    let table = stream.device().platform().table();
    let system = || -> Result<()> {
        for round in 0..ROUNDS {
            let mut pointer = std::ptr::null_mut();
            // SAFETY: the pointer is to a live pointer; what is allocated is freed once, unused.
            let code = unsafe { (table.hipMalloc)(&mut pointer, sizes[round % sizes.len()]) };
            assert!(code.is_success(), "{code}");
            // SAFETY: as above.
            let code = unsafe { (table.hipFree)(pointer) };
            assert!(code.is_success(), "{code}");
        }
        Ok(())
    };
    let (pooled, system) = best_of(20, pooled, system)?;
    let each = |seconds: f64| seconds / ROUNDS as f64 * 1e6;
    println!(
        "memory: {:.3} us to allocate and free from the pool, {:.3} us from the system",
        each(pooled),
        each(system)
    );
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
    let rows = 1024u32;
    let count = rows as usize * 16_384;
    let stream = &bench.stream;
    let x = stream.upload(&vec![1.0f32; count])?;
    let run = |kernel: &Function, blocks: u32, y: &mut Buffer<f32>| -> Result<()> {
        // SAFETY: the kernels take two pointers: a row for each block, or a number for each thread.
        unsafe { kernel.launch(stream, LaunchConfig::new(blocks, 256), &(&x, y)) }?;
        stream.synchronize()
    };
    let (with, without) = (bench.kernel("row_sums")?, bench.kernel("row_parts")?);
    let (mut sums, mut parts) = (stream.zeros::<f32>(rows as usize)?, stream.zeros::<f32>(rows as usize * 256)?);
    let (with, without) = best_of(20, || run(&with, rows, &mut sums), || run(&without, rows, &mut parts))?;
    assert_eq!(sums.to_vec()?, vec![16_384.0; rows as usize]);
    let ratio = with / without;
    println!(
        "barriers: row sums {:.2} ms with eight in every block, {:.2} ms without, ratio {ratio:.2} (under 5: {})",
        with * 1e3,
        without * 1e3,
        verdict(ratio < 5.0)
    );
    let (turn, nothing, blocks) = (bench.kernel("turn")?, bench.kernel("axpy")?, 16_384u32);
    let mut y = stream.zeros::<f32>(blocks as usize * 256)?;
    let mut z = stream.zeros::<f32>(blocks as usize * 256)?;
    let plain = || -> Result<()> {
        // SAFETY: the kernel takes two pointers, a float and a count, and checks its bounds.
        unsafe { nothing.launch(stream, LaunchConfig::new(blocks, 256), &(&x, &mut z, 0.5f32, blocks * 256)) }?;
        stream.synchronize()
    };
    let (with, without) = best_of(20, || run(&turn, blocks, &mut y), plain)?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let each = with * 1e9 * threads / (f64::from(blocks) * 256.0);
    println!(
        "barriers: {:.2} ms with one and nothing else to do ({each:.0} ns of a processor for each thread), {:.2} ms for axpy",
        with * 1e3,
        without * 1e3
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
    // SAFETY: the compiler has just made it.
    let module = unsafe { Module::load(&device, Compiler::new(device.platform())?.compile(&program)?) }?;
    let bench = Bench { stream: device.new_stream()?, module };
    launch_overhead(&bench)?;
    allocation(&bench)?;
    streaming(&bench)?;
    barriers(&bench)
}
