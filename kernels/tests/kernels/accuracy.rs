//! How far the elementary functions are from the truth, in units of the last place: `hip/portable/math.h` and `trig.h`
//! promise a few. The reference for f32 is f64; for f64 it is libm, which is itself within one.

use crate::bench::Bench;
use crate::element::{Element, Random};

/// A function, its reference, and the range of magnitudes its arguments are drawn from, evenly in their exponents.
type Row = (&'static str, fn(f64) -> f64, f64, f64);

const ROWS: [Row; 12] = [
    ("uexp", libm::exp, 1e-8, 85.0),
    ("ulog", libm::log, 1e-37, 1e37),
    ("utanh", libm::tanh, 1e-8, 30.0),
    ("uerf", libm::erf, 1e-8, 7.0),
    ("usin", libm::sin, 1e-8, 10.0),
    ("ucos", libm::cos, 1e-8, 10.0),
    ("usin", libm::sin, 10.0, 1e6),
    ("ucos", libm::cos, 10.0, 1e6),
    // Beyond 2^20 the reduction reads the bits of 2/pi that matter.
    ("usin", libm::sin, 1e6, 1e37),
    ("ucos", libm::cos, 1e6, 1e37),
    ("usqrt", libm::sqrt, 1e-30, 1e30),
    ("upowf", |x| libm::pow(x, 2.5), 1e-14, 1e14),
];

/// The distance of two neighbouring values around `x`.
fn unit<T: Element>(x: T) -> f64 {
    let next = T::from_bits((x.bits() & !(1 << (8 * T::DTYPE.size() - 1))) + 1).to_f64();
    next - x.to_f64().abs()
}

fn check<T: Element>(bench: &Bench, most: f64) {
    let mut random = Random::new(47);
    for (root, reference, low, high) in ROWS {
        let arguments: Vec<T> = (0..20_000)
            .map(|i| {
                let magnitude = random.between(low.ln(), high.ln()).exp();
                T::from_f64(if i % 2 == 0 || root == "ulog" || root == "upowf" { magnitude } else { -magnitude })
            })
            .collect();
        let input = bench.contiguous(&arguments, &[arguments.len()]);
        let got = bench.result::<T>(arguments.len(), |out| bench.kernels.unary_with(root, 2.5, &input.operand(), out));
        for (x, got) in arguments.iter().zip(got) {
            let want = reference(x.to_f64());
            if want.is_nan() {
                assert!(got.is_nan(), "{root}({x:?}) is {got:?}, but should be NaN");
                continue;
            }
            let off = (got.to_f64() - want).abs() / unit(T::from_f64(want));
            assert!(off <= most, "{root}({x:?}) is {got:?}, {off:.2} units from {want}");
        }
    }
}

pub fn family(bench: &Bench) {
    check::<f32>(bench, 3.0);
    check::<f64>(bench, 4.0);
}
