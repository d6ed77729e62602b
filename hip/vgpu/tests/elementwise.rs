//! Whole kernels of HIP source, from the object to the result, on every target, against Rust's own arithmetic.

mod common;

use common::{clang, hip};
use vgpu::{Arch, Buffers, Launch, Object, Schedule, Worker};

fn bytes_of(words: &[u64]) -> Vec<u64> {
    words.to_vec()
}

#[test]
fn a_fused_multiply_add_over_a_vector() {
    if clang().is_none() {
        return;
    }
    let source = r#"
extern "C" __global__ void axpy(const float* x, const float* y, float* z, float a, u32 n) {
    u32 i = BLOCK * 256 + THREAD;
    if (i < n) z[i] = __builtin_fmaf(a, x[i], y[i]);
}"#;
    for arch in Arch::ALL {
        let object = Object::load(&hip(arch, source)).unwrap();
        assert_eq!(object.arch(), arch);
        let kernel = object.kernel("axpy").unwrap();
        let n = 1000u32;
        let x: Vec<f32> = (0..n).map(|i| i as f32 * 0.37 - 100.0).collect();
        let y: Vec<f32> = (0..n).map(|i| (i as f32).sqrt()).collect();
        let mut memory = Buffers::new();
        let (dx, dy, dz) = (memory.from_slice(&x), memory.from_slice(&y), memory.alloc(4 * n as usize));
        let scalars = u64::from(1.25f32.to_bits()) | u64::from(n) << 32;
        let arguments = memory.from_slice(&bytes_of(&[dx, dy, dz, scalars]));
        let launch = Launch::new(&kernel, [n.div_ceil(256), 1, 1], [256, 1, 1], 0, arguments).unwrap();
        launch.run(&mut Worker::new(), &memory).unwrap_or_else(|failure| panic!("{arch}: {failure}"));
        let z = memory.read::<f32>(dz, n as usize).unwrap();
        for i in 0..n as usize {
            assert_eq!(z[i].to_bits(), 1.25f32.mul_add(x[i], y[i]).to_bits(), "{arch}, element {i}");
        }
    }
}

#[test]
fn division_is_correctly_rounded() {
    if clang().is_none() {
        return;
    }
    let source = r#"
extern "C" __global__ void divide(const float* x, const float* y, float* z, const double* dx, const double* dy, double* dz) {
    u32 i = BLOCK * 64 + THREAD;
    z[i] = x[i] / y[i];
    dz[i] = dx[i] / dy[i];
}"#;
    let interesting: Vec<f32> = vec![
        0.0,
        -0.0,
        1.0,
        -1.0,
        3.0,
        7.0,
        0.1,
        f32::MAX,
        f32::MIN_POSITIVE,
        1e-40,
        -1e-44,
        1.5e38,
        3e-38,
        f32::INFINITY,
        f32::NAN,
        1e20,
        1e-20,
        16777217.0,
        0.333_333_34,
        2.0f32.powi(-126),
        2.0f32.powi(127),
        1.999_999_9,
        5e-45,
        1e10,
    ];
    let mut pairs: Vec<(f32, f32)> =
        interesting.iter().flat_map(|&a| interesting.iter().map(move |&b| (a, b))).collect();
    let mut state = 12345u32;
    while !pairs.len().is_multiple_of(64) || pairs.len() < 4096 {
        let mut random = || {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            f32::from_bits(state ^ state >> 9)
        };
        pairs.push((random(), random()));
    }
    let x: Vec<f32> = pairs.iter().map(|pair| pair.0).collect();
    let y: Vec<f32> = pairs.iter().map(|pair| pair.1).collect();
    // The same exponents, stretched to f64's range, with bits in the lower half.
    let wide = |value: f32| {
        let bits = u64::from(value.to_bits());
        let (sign, exponent, mantissa) = (bits >> 31, bits >> 23 & 255, bits & 0x7f_ffff);
        f64::from_bits(sign << 63 | (exponent * 8).min(2047) << 52 | mantissa << 29 | mantissa)
    };
    let wx: Vec<f64> = x.iter().copied().map(wide).collect();
    let wy: Vec<f64> = y.iter().copied().map(wide).collect();
    for arch in Arch::ALL {
        let object = Object::load(&hip(arch, source)).unwrap();
        let kernel = object.kernel("divide").unwrap();
        let mut memory = Buffers::new();
        let n = pairs.len();
        let (dx, dy, dz) = (memory.from_slice(&x), memory.from_slice(&y), memory.alloc(4 * n));
        let (ex, ey, ez) = (memory.from_slice(&wx), memory.from_slice(&wy), memory.alloc(8 * n));
        let arguments = memory.from_slice(&[dx, dy, dz, ex, ey, ez]);
        let launch = Launch::new(&kernel, [n as u32 / 64, 1, 1], [64, 1, 1], 0, arguments).unwrap();
        launch.run(&mut Worker::new(), &memory).unwrap_or_else(|failure| panic!("{arch}: {failure}"));
        let z = memory.read::<f32>(dz, n).unwrap();
        let w = memory.read::<f64>(ez, n).unwrap();
        for i in 0..n {
            let expected = x[i] / y[i];
            assert!(
                z[i].to_bits() == expected.to_bits() || z[i].is_nan() && expected.is_nan(),
                "{arch}: {:e} / {:e} = {:e}, not {:e}",
                x[i],
                y[i],
                z[i],
                expected
            );
            let expected = wx[i] / wy[i];
            assert!(
                w[i].to_bits() == expected.to_bits() || w[i].is_nan() && expected.is_nan(),
                "{arch}: {:e} / {:e} = {:e}, not {:e}",
                wx[i],
                wy[i],
                w[i],
                expected
            );
        }
    }
}

#[test]
fn a_sum_over_local_memory_with_barriers() {
    if clang().is_none() {
        return;
    }
    let source = r#"
extern "C" __global__ void sums(const u32* x, u32* out, u32 rounds) {
    __shared__ u32 part[256];
    u32 t = THREAD;
    u32 sum = 0;
    for (u32 r = 0; r < rounds; r++) sum += x[(BLOCK * rounds + r) * 256 + t];
    part[t] = sum;
    BARRIER;
    for (u32 half = 128; half > 0; half /= 2) {
        if (t < half) part[t] += part[t + half];
        BARRIER;
    }
    if (t == 0) __atomic_fetch_add(out + BLOCK % 2, part[0], __ATOMIC_RELAXED);
}"#;
    for arch in Arch::ALL {
        let object = Object::load(&hip(arch, source)).unwrap();
        let kernel = object.kernel("sums").unwrap();
        assert_eq!(kernel.descriptor().lds_bytes, 1024);
        let schedules = [(Schedule::Ascending, 0), (Schedule::Descending, 3), (Schedule::Random(77), 5)];
        for (schedule, switch_every) in schedules {
            let (blocks, rounds) = (5u32, 3u32);
            let x: Vec<u32> = (0..blocks * rounds * 256).map(|i| i.wrapping_mul(2654435761)).collect();
            let mut memory = Buffers::new();
            let (dx, out) = (memory.from_slice(&x), memory.from_slice(&[0u32; 2]));
            let arguments = memory.from_slice(&[dx, out, u64::from(rounds)]);
            let options = vgpu::Options { schedule, switch_every, ..Default::default() };
            let launch = Launch::new(&kernel, [blocks, 1, 1], [256, 1, 1], 0, arguments).unwrap().with_options(options);
            launch.run(&mut Worker::new(), &memory).unwrap_or_else(|failure| panic!("{arch}: {failure}"));
            let got = memory.read::<u32>(out, 2).unwrap();
            let mut expected = [0u32; 2];
            for (i, value) in x.iter().enumerate() {
                let slot = i as u32 / (rounds * 256) % 2;
                expected[slot as usize] = expected[slot as usize].wrapping_add(*value);
            }
            assert_eq!(got, expected, "{arch}, {schedule:?}");
        }
    }
}

/// Atomics that the host sees: on some targets caches are written back and forgotten around them.
#[test]
fn a_counter_that_the_whole_system_sees() {
    if clang().is_none() {
        return;
    }
    let source = r#"
extern "C" __global__ void count(u32* counter, u32* tickets) {
    u32 ticket = __hip_atomic_fetch_add(counter, 3u, __ATOMIC_SEQ_CST, __HIP_MEMORY_SCOPE_SYSTEM);
    __hip_atomic_store(tickets + ticket / 3, ticket, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
}"#;
    for arch in Arch::ALL {
        let object = Object::load(&hip(arch, source)).unwrap();
        let kernel = object.kernel("count").unwrap();
        let mut memory = Buffers::new();
        let (counter, tickets) = (memory.from_slice(&[0u32]), memory.from_slice(&[u32::MAX; 256]));
        let arguments = memory.from_slice(&[counter, tickets]);
        let launch = Launch::new(&kernel, [2, 1, 1], [128, 1, 1], 0, arguments).unwrap();
        launch.run(&mut Worker::new(), &memory).unwrap_or_else(|failure| panic!("{arch}: {failure}"));
        assert_eq!(memory.read::<u32>(counter, 1).unwrap(), [768], "{arch}");
        let expected: Vec<u32> = (0..256).map(|n| 3 * n).collect();
        assert_eq!(memory.read::<u32>(tickets, 256).unwrap(), expected, "{arch}");
    }
}
