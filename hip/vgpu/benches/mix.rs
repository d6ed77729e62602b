//! Wave instructions a second on one core, on kernels like those of the project: elementwise arithmetic, a reduction over local
//! memory, a tiled product, integer dot products, indexing with 64-bit addresses. Without checks, and with all of them.

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::Instant;
use vgpu::{Arch, Buffers, Checks, Kernel, Launch, Object, Options, Worker};

const SOURCE: &str = r#"
extern "C" __global__ void k_elementwise(const float* x, const float* y, float* z, u64 n) {
    u64 i = (u64)BLOCK * 256 + THREAD;
    if (i >= n) return;
    float v = x[i], w = y[i];
    for (int r = 0; r < 16; r++) {
        float p = __builtin_fmaf(v, 0.041666f, 0.1666f);
        p = __builtin_fmaf(p, v, 0.5f);
        p = __builtin_fmaf(p, v, 1.0f);
        v = v > 2.0f ? p * 0.25f : __builtin_fmaf(p, w, 0.125f);
    }
    z[i] = v;
}
extern "C" __global__ void k_reduce(const float* x, const float* y, float* z, u64 n) {
    __shared__ float part[256];
    float sum = 0;
    for (u64 i = THREAD; i < n; i += 256) sum += x[i] * y[(i + BLOCK) % n];
    part[THREAD] = sum;
    BARRIER;
    for (u32 half = 128; half > 0; half /= 2) {
        if (THREAD < half) part[THREAD] += part[THREAD + half];
        BARRIER;
    }
    if (THREAD == 0) z[BLOCK] = part[0];
}
extern "C" __global__ void k_tile(const float* x, const float* y, float* z, u64 n) {
    __shared__ float a[16][17], b[16][17];
    u32 r = THREAD / 16, c = THREAD % 16;
    float sum = 0;
    for (u32 t = 0; t < 16; t++) {
        a[r][c] = x[(r * 256 + t * 16 + c) % n];
        b[r][c] = y[((t * 16 + r) * 16 + c) % n];
        BARRIER;
        for (u32 k = 0; k < 16; k++) sum = __builtin_fmaf(a[r][k], b[k][c], sum);
        BARRIER;
    }
    z[(u64)BLOCK * 256 + THREAD] = sum;
}
extern "C" __global__ void k_dot(const int* x, const int* y, float* z, u64 n) {
    int sum = 0;
    for (u32 i = 0; i < 64; i++) {
        int a = x[(THREAD * 4 + i) % n], b = y[(THREAD + i * 7) % n];
        for (int s = 0; s < 32; s += 8) sum += (int)(signed char)(a >> s) * (int)(signed char)(b >> s);
    }
    z[(u64)BLOCK * 256 + THREAD] = (float)sum;
}
extern "C" __global__ void k_index(const float* x, const float* y, float* z, u64 n) {
    u64 i = (u64)BLOCK * 256 + THREAD;
    u64 at = i;
    u32 s[3] = {7, 11, 13};
    u64 from = 0;
    for (int d = 0; d < 3; d++) { from += (at % s[d]) * (u64)(d * 100 + 1); at /= s[d]; }
    z[i] = x[(from + at) % n] + y[i % n];
}
"#;

/// Seconds that this thread was on a CPU, where the system says so: the machine may have other things to do.
fn cpu_seconds(start: Instant) -> f64 {
    let said = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = said.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
    nanoseconds.map_or_else(|| start.elapsed().as_secs_f64(), |time| time / 1e9)
}

fn time(kernel: &Kernel, options: Options, memory: &Buffers, arguments: u64, blocks: u32) -> (f64, u64) {
    let launch = |options: Options| {
        Launch::new(kernel, [blocks, 1, 1], [256, 1, 1], 0, arguments).expect("a launch").with_options(options)
    };
    let mut worker = Worker::new();
    launch(Options { count: true, ..options }).run(&mut worker, memory).unwrap_or_else(|failure| panic!("{failure}"));
    let instructions = worker.take_counters().total();
    let plain = launch(options);
    plain.run(&mut worker, memory).expect("it ran before");
    let (start, mut rounds) = (Instant::now(), 0);
    let before = cpu_seconds(start);
    while cpu_seconds(start) - before < 0.2 {
        plain.run(&mut worker, memory).expect("it ran before");
        rounds += 1;
    }
    ((cpu_seconds(start) - before) / f64::from(rounds), instructions)
}

fn main() {
    if common::clang().is_none() {
        return;
    }
    println!("million wave instructions a second, one core");
    println!("{:8} {:14} {:>10} {:>10}", "target", "kernel", "plain", "checked");
    // Names of targets and of kernels on the command line pick them.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let named: Vec<Arch> = words.iter().filter_map(|word| Arch::parse(word)).collect();
    let archs = if named.is_empty() { Arch::ALL.to_vec() } else { named };
    let kernels: Vec<&String> = words.iter().filter(|word| Arch::parse(word).is_none()).collect();
    for arch in archs {
        let object = Object::load(&common::hip(arch, SOURCE)).expect("an object");
        let (blocks, n) = (16u32, 4096usize);
        let mut memory = Buffers::new();
        let x = memory.from_slice(&(0..n).map(|i| i as f32 * 0.001).collect::<Vec<_>>());
        let y = memory.from_slice(&(0..n).map(|i| (i as f32).sin()).collect::<Vec<_>>());
        let z = memory.alloc(4 * 256 * blocks as usize);
        let arguments = memory.from_slice(&[x, y, z, n as u64]);
        let mut sums = [[0.0; 2]; 2];
        for kernel in
            object.kernels().filter(|kernel| kernels.is_empty() || kernels.iter().any(|name| *name == kernel.name()))
        {
            let mut rates = [0.0; 2];
            for (n, checks) in [Checks::default(), Checks::ALL].into_iter().enumerate() {
                let (seconds, instructions) =
                    time(&kernel, Options { checks, ..Options::default() }, &memory, arguments, blocks);
                rates[n] = instructions as f64 / seconds / 1e6;
                sums[n][0] += instructions as f64 / 1e6;
                sums[n][1] += seconds;
            }
            println!("{:8} {:14} {:10.1} {:10.1}", arch.name(), kernel.name(), rates[0], rates[1]);
        }
        let total = |n: usize| sums[n][0] / sums[n][1];
        println!("{:8} {:14} {:10.1} {:10.1}", arch.name(), "all", total(0), total(1));
    }
}
