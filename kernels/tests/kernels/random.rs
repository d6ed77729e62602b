//! Random numbers: Philox against its published test vectors, the same numbers everywhere, and the shape of the
//! distributions.

use crate::bench::{assert_same, Bench};
use crate::element::Element;
use crate::for_types;
use candle_rocm_kernels::{DType, Output};

/// Philox 4x32-10 with the counter's upper half 0, as the kernels use it.
fn philox(counter: u64, seed: u64) -> [u32; 4] {
    let mut c = [counter as u32, (counter >> 32) as u32, 0, 0];
    let mut k = [seed as u32, (seed >> 32) as u32];
    for _ in 0..10 {
        let p = 0xd251_1f53u64 * u64::from(c[0]);
        let q = 0xcd9e_8d57u64 * u64::from(c[2]);
        c = [(q >> 32) as u32 ^ c[1] ^ k[0], q as u32, (p >> 32) as u32 ^ c[3] ^ k[1], p as u32];
        k = [k[0].wrapping_add(0x9e37_79b9), k[1].wrapping_add(0xbb67_ae85)];
    }
    c
}

/// A uniform number has as many random bits as the dtype's significand.
fn uniform<T: Element>(bench: &Bench) {
    assert_eq!(philox(0, 0), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8], "the vector of the Philox paper");
    for (count, seed, offset) in [(1, 0u64, 0u64), (5, 42, 7), (1000, u64::MAX, 1 << 40), (4099, 299_792_458, 0)] {
        let (low, high) = (-1.0, 3.0);
        let want: Vec<T> = (0..count as u64)
            .map(|i| {
                let unit = match T::DTYPE {
                    DType::F64 => {
                        let words = philox(offset + i / 2, seed);
                        let (a, b) =
                            (u64::from(words[2 * (i as usize % 2)]), u64::from(words[2 * (i as usize % 2) + 1]));
                        ((b << 32 | a) >> 11) as f64 / (1u64 << 53) as f64
                    }
                    dtype => {
                        let digits = match dtype {
                            DType::F32 => 24,
                            DType::F16 => 11,
                            DType::BF16 => 8,
                            _ => 4,
                        };
                        f64::from(philox(offset + i / 4, seed)[i as usize % 4] >> (32 - digits))
                            / f64::from(1u32 << digits)
                    }
                };
                T::from_f64(low + unit * (high - low))
            })
            .collect();
        let mut next = 0;
        let got = bench.result::<T>(count, |out| {
            next = bench.kernels.rand_uniform(out, low, high, seed, offset)?;
            Ok(())
        });
        assert_same(&got, &want, || format!("{count} uniform {} from seed {seed}", T::DTYPE));
        assert!(got.iter().all(|x| (low..high).contains(&x.to_f64())));
        assert_eq!(next, offset + count.div_ceil(if T::DTYPE == DType::F64 { 2 } else { 4 }) as u64);
    }
}

/// Mean, deviation and tails of many numbers, and that a call goes on where the last one ended.
fn normal<T: Element>(bench: &Bench) {
    let (mean, deviation, count) = (1.0, 2.0, 20_000);
    let run = |count: usize, seed: u64, offset: u64| {
        bench.result::<T>(count, |out| bench.kernels.rand_normal(out, mean, deviation, seed, offset).map(|_| ()))
    };
    let numbers = run(count, 9, 0);
    let wide: Vec<f64> = numbers.iter().map(|x| x.to_f64()).collect();
    let m = wide.iter().sum::<f64>() / count as f64;
    let d = (wide.iter().map(|x| (x - m) * (x - m)).sum::<f64>() / count as f64).sqrt();
    let beyond = wide.iter().filter(|x| (*x - mean).abs() > 2.0 * deviation).count() as f64 / count as f64;
    // 20,000 numbers: the mean varies by 0.014, the deviation by 0.01, the tail (0.0455) by 0.0015; f8 adds its grid, on
    // which many numbers lie exactly two deviations from the mean.
    let slack = if T::DTYPE == DType::F8E4M3 { 3.0 } else { 1.0 };
    assert!((m - mean).abs() < 0.06 * slack && (d - deviation).abs() < 0.05 * slack, "{}: {m} {d}", T::DTYPE);
    assert!((beyond - 0.0455).abs() < 0.007 * slack, "{}: {beyond}", T::DTYPE);
    assert_same(&run(1000, 9, 50), &numbers[50 * per_block::<T>()..][..1000], || "from an offset".into());
    assert_ne!(
        run(8, 10, 0).iter().map(|x| x.bits()).collect::<Vec<_>>(),
        numbers[..8].iter().map(|x| x.bits()).collect::<Vec<_>>()
    );
}

fn per_block<T: Element>() -> usize {
    if T::DTYPE == DType::F64 {
        2
    } else {
        4
    }
}

/// The same bits on every platform: these were made once, and every device must make them again.
fn fixed(bench: &Bench) {
    let f32s = bench.result::<f32>(8, |out| bench.kernels.rand_normal(out, 0.0, 1.0, 299_792_458, 0).map(|_| ()));
    assert_eq!(f32s.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), NORMAL_F32);
    let f64s = bench.result::<f64>(4, |out| bench.kernels.rand_normal(out, 0.0, 1.0, 299_792_458, 0).map(|_| ()));
    assert_eq!(f64s.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), NORMAL_F64);
}

const NORMAL_F32: [u32; 8] =
    [0x3f7f_7381, 0xbf9d_881e, 0x3f2a_e2a5, 0xbdbb_dc48, 0xc011_8085, 0xbc27_1ec0, 0x3fb9_9ebe, 0x3f8b_ee74];
const NORMAL_F64: [u64; 4] =
    [0x3fe1_8442_9600_1542, 0xbfb3_41b4_2fd9_ac69, 0x3fee_0e0c_9d46_7bc1, 0x3fe6_a83b_6c75_7695];

/// Against Box-Muller in f64 from the same words.
fn accurate(bench: &Bench) {
    let count = 20_000;
    let f32s = bench.result::<f32>(count, |out| bench.kernels.rand_normal(out, 0.0, 1.0, 5, 0).map(|_| ()));
    let f64s = bench.result::<f64>(count, |out| bench.kernels.rand_normal(out, 0.0, 1.0, 5, 0).map(|_| ()));
    for i in (0..count).step_by(2) {
        let pair = |unit: f64, turn: f64| {
            let radius = (-2.0 * unit.ln()).sqrt();
            let angle = std::f64::consts::TAU * turn;
            [radius * angle.cos(), radius * angle.sin()]
        };
        let words = philox(i as u64 / 4, 5);
        let (a, b) = (words[i % 4], words[i % 4 + 1]);
        let want = pair((f64::from(a) + 0.5) / 4_294_967_296.0, f64::from(b >> 8) / f64::from(1u32 << 24));
        // The uniform number is rounded to f32, which next to 1 is as coarse as the logarithm there.
        let near = |got: f64, want: f64, tolerance: f64| (got - want).abs() <= tolerance;
        assert!((0..2).all(|j| near(f64::from(f32s[i + j]), want[j], 1e-3)), "{:?} {want:?}", &f32s[i..i + 2]);
        let words = philox(i as u64 / 2, 5).map(u64::from);
        let (a, b) = ((words[1] << 32 | words[0]) >> 11, (words[3] << 32 | words[2]) >> 11);
        let scale = (1u64 << 53) as f64;
        let want = pair((a as f64 + 0.5) / scale, b as f64 / scale);
        assert!((0..2).all(|j| near(f64s[i + j], want[j], 1e-12)), "{:?} {want:?}", &f64s[i..i + 2]);
    }
}

fn refused(bench: &Bench) {
    let mut memory = bench.stream.zeros::<u8>(64).unwrap();
    let mut out = Output::new(&mut memory, DType::F32, 0, 8).unwrap();
    for (low, high) in [(1.0, 1.0), (2.0, 1.0), (f64::NAN, 1.0), (0.0, f64::INFINITY)] {
        assert!(bench.kernels.rand_uniform(&mut out, low, high, 0, 0).is_err(), "{low} to {high}");
    }
    assert!(bench.kernels.rand_normal(&mut out, 0.0, -1.0, 0, 0).is_err());
    let mut out = Output::new(&mut memory, DType::I32, 0, 8).unwrap();
    let error = bench.kernels.rand_uniform(&mut out, 0.0, 1.0, 0, 0).unwrap_err().to_string();
    assert!(error.contains("rand_uniform") && error.contains("i32"), "{error}");
    assert!(bench.result::<f32>(0, |out| bench.kernels.rand_uniform(out, 0.0, 1.0, 0, 0).map(|_| ())).is_empty());
}

pub fn family(bench: &Bench) {
    for_types!(uniform(bench) over floats);
    for_types!(normal(bench) over floats);
    fixed(bench);
    accurate(bench);
    refused(bench);
}
