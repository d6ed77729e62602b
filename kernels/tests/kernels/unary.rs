//! Functions of one tensor, on floats against f64 and on integers against Rust.

use crate::bench::{assert_close, assert_same, Bench};
use crate::element::{Element, Random};
use crate::for_types;
use crate::layouts::{self, Case};
use candle_rocm_kernels::DType;
use float8::F8E4M3;
use half::{bf16, f16};

/// A function, its reference in f64, and whether there is one right answer for it.
type Row = (&'static str, fn(f64) -> f64, bool);

const ALPHA: f64 = 0.75;
const EXPONENT: f64 = 2.5;

const FLOATS: [Row; 22] = [
    ("ucopy", |x| x, true),
    ("uexp", f64::exp, false),
    ("ulog", f64::ln, false),
    ("usin", f64::sin, false),
    ("ucos", f64::cos, false),
    ("utanh", f64::tanh, false),
    ("uneg", |x| -x, true),
    ("urecip", |x| 1.0 / x, true),
    ("usqr", |x| x * x, true),
    ("usqrt", f64::sqrt, true),
    ("uerf", libm::erf, false),
    ("uabs", f64::abs, true),
    ("uceil", f64::ceil, true),
    ("ufloor", f64::floor, true),
    ("uround", f64::round, true),
    ("usign", |x| f64::from(x > 0.0) - f64::from(x < 0.0), true),
    ("urelu", |x| if x < 0.0 || x.is_nan() { 0.0 } else { x }, true),
    ("usigmoid", |x| 1.0 / (1.0 + (-x).exp()), false),
    ("usilu", |x| x / (1.0 + (-x).exp()), false),
    ("ugelu", |x| 0.5 * x * (1.0 + (0.797_884_560_802_865_4 * x * (1.0 + 0.044715 * x * x)).tanh()), false),
    ("ugelu_erf", |x| (libm::erf(x * std::f64::consts::FRAC_1_SQRT_2) + 1.0) * 0.5 * x, false),
    ("uelu", |x| if x.is_sign_positive() { x } else { (x.exp() - 1.0) * ALPHA }, false),
];

/// What the CPU backend makes of f8 where it composes a function from several f8 operations, each of which rounds.
fn f8_by_steps(root: &str, x: F8E4M3) -> Option<F8E4M3> {
    use num_traits::Float;
    let f = F8E4M3::from_f64;
    let one = F8E4M3::ONE;
    Some(match root {
        "urelu" => F8E4M3::max(x, F8E4M3::ZERO),
        "usigmoid" => one / (one + (-x).exp()),
        "usilu" => x / (one + (-x).exp()),
        "ugelu" => f(0.5) * x * (one + (f(0.797_884_560_802_865_4) * x * (one + f(0.044715) * x * x)).tanh()),
        "uelu" if x.is_sign_negative() => (x.exp() - one) * f(ALPHA),
        _ => return None,
    })
}

fn parameter(root: &str) -> f64 {
    if root == "uelu" {
        ALPHA
    } else {
        EXPONENT
    }
}

fn check<T: Element>(bench: &Bench, row: &Row, case: &Case, memory: &[T]) {
    let (root, reference, exact) = *row;
    let want: Vec<T> =
        case.gather(0, memory)
            .into_iter()
            .map(|x| {
                match T::DTYPE {
                    DType::F8E4M3 => f8_by_steps(root, F8E4M3::from_bits(x.bits() as u8))
                        .map(|y| T::from_bits(u64::from(y.to_bits()))),
                    _ => None,
                }
                .unwrap_or_else(|| if root == "ucopy" { x } else { T::from_f64(reference(x.to_f64())) })
            })
            .collect();
    let input = bench.tensor(memory, case.inputs[0].0, &case.dims, &case.inputs[0].1);
    let got = bench.result_at::<T>(case.out_start, case.count(), |out| {
        bench.kernels.unary_with(root, parameter(root), &input.operand(), out)
    });
    let what = || format!("{root} of {} over {case:?}", T::DTYPE);
    if exact {
        assert_same(&got, &want, what)
    } else {
        assert_close(&got, &want, what)
    }
}

fn floats<T: Element>(bench: &Bench) {
    let mut random = Random::new(1);
    let cases = [layouts::fixed(), layouts::random(2, 6)].concat();
    let powf: Row = ("upowf", |x| x.powf(T_EXPONENT), false);
    for row in FLOATS.iter().chain([&powf]) {
        for case in &cases {
            check(bench, row, case, &random.plain::<T>(case.span(0)));
        }
        // Special values on one layout; steep functions of huge arguments are left to the accuracy test.
        let case = layouts::fixed().swap_remove(3);
        let mut memory = random.awkward::<T>(case.span(0));
        let steep = |x: &T| x.to_f64().is_finite() && x.to_f64().abs() > 80.0;
        if !row.2 {
            memory.iter_mut().filter(|x| steep(x)).for_each(|x| *x = T::from_f64(0.25));
        }
        check(bench, row, &case, &memory);
    }
}

/// 2.5 is exact in every dtype, so that the reference takes the very exponent the kernel does.
const T_EXPONENT: f64 = EXPONENT;

/// Integers: what Rust says, and 0 where the CPU backend says 0.
fn ints<T: Element>(bench: &Bench) {
    let mut random = Random::new(3);
    type Row = (&'static str, fn(i64) -> i64);
    let rows: [Row; 11] = [
        ("ucopy", |x| x),
        ("uabs", |x| x.wrapping_abs()),
        ("uceil", |x| x),
        ("ufloor", |x| x),
        ("uround", |x| x),
        ("usign", i64::signum),
        ("urelu", |x| x.max(0)),
        ("uerf", |_| 0),
        ("ugelu", |_| 0),
        ("ugelu_erf", |_| 0),
        ("usilu", |_| 0),
    ];
    for (root, reference) in rows {
        for case in &layouts::fixed() {
            let memory = random.awkward::<T>(case.span(0));
            let widen = |x: T| if T::DTYPE == DType::U32 { x.bits() as i64 } else { signed(x) };
            let want: Vec<T> =
                case.gather(0, &memory).into_iter().map(|x| T::from_bits(reference(widen(x)) as u64)).collect();
            let input = bench.tensor(&memory, case.inputs[0].0, &case.dims, &case.inputs[0].1);
            let got = bench
                .result_at::<T>(case.out_start, case.count(), |out| bench.kernels.unary(root, &input.operand(), out));
            assert_same(&got, &want, || format!("{root} of {} over {case:?}", T::DTYPE));
        }
    }
    for root in
        ["uexp", "ulog", "usin", "ucos", "utanh", "uneg", "urecip", "usqr", "usqrt", "uelu", "upowf", "usigmoid"]
    {
        let input = bench.contiguous(&random.plain::<T>(4), &[4]);
        let mut memory = bench.stream.zeros::<u8>(4 * T::DTYPE.size()).unwrap();
        let mut out = candle_rocm_kernels::Output::new(&mut memory, T::DTYPE, 0, 4).unwrap();
        let error = bench.kernels.unary(root, &input.operand(), &mut out).unwrap_err().to_string();
        assert!(error.contains(root) && error.contains(T::DTYPE.suffix()), "{error}");
    }
}

/// The value of an integer element of any width.
pub fn signed<T: Element>(x: T) -> i64 {
    match T::DTYPE {
        DType::I16 => i64::from(x.bits() as i16),
        DType::I32 => i64::from(x.bits() as i32),
        _ => x.bits() as i64,
    }
}

/// All 65,536 halves and all 256 eighths through every function that has one right answer.
fn every_value<T: Element>(bench: &Bench) {
    let bits = 8 * T::DTYPE.size() as u32;
    let memory: Vec<T> = (0..1u64 << bits).map(T::from_bits).collect();
    let case = layouts::fixed().swap_remove(1);
    let case = Case { dims: vec![memory.len()], ..case };
    FLOATS.iter().filter(|row| row.2).for_each(|row| check(bench, row, &case, &memory));
}

pub fn family(bench: &Bench) {
    for_types!(floats(bench) over floats);
    for_types!(ints(bench) over ints);
    for_types!(every_value(bench) over bf16 f16 F8E4M3);
}
