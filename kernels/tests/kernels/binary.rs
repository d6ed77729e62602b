//! Arithmetic and comparisons of two tensors: all have one right answer, NaN and wrapping included.

use crate::bench::{assert_same, Bench};
use crate::element::{Element, Random};
use crate::for_types;
use crate::layouts;
use crate::unary::signed;
use candle_rocm_kernels::{DType, Output};
use half::{bf16, f16};

type Arithmetic = (&'static str, fn(f64, f64) -> f64, fn(i64, i64) -> i64);

const ARITHMETIC: [Arithmetic; 4] = [
    ("badd", |a, b| a + b, i64::wrapping_add),
    ("bsub", |a, b| a - b, i64::wrapping_sub),
    ("bmul", |a, b| a * b, i64::wrapping_mul),
    ("bdiv", |a, b| a / b, i64::wrapping_div),
];

fn apply<T: Element>(root: &str, a: T, b: T) -> T {
    match root {
        "bminimum" => return if a > b { b } else { a },
        "bmaximum" => return if a < b { b } else { a },
        _ => {}
    }
    let (_, float, int) = ARITHMETIC.iter().find(|row| row.0 == root).expect("a row of the table");
    if T::DTYPE.is_float() {
        // One rounding from f64 is the same as the dtype's own operation: f64 has more than twice the digits of the others.
        T::from_f64(float(a.to_f64(), b.to_f64()))
    } else {
        T::from_bits(int(signed(a), signed(b)) as u64)
    }
}

fn compare<T: Element>(root: &str, a: T, b: T) -> u8 {
    u8::from(match root {
        "eq" => a == b,
        "ne" => a != b,
        "lt" => a < b,
        "le" => a <= b,
        "gt" => a > b,
        _ => a >= b,
    })
}

fn check<T: Element>(bench: &Bench) {
    let mut random = Random::new(5);
    for case in &[layouts::fixed(), layouts::random(13, 12)].concat() {
        let lhs = random.awkward::<T>(case.span(0));
        let mut rhs = random.awkward::<T>(case.span(1));
        if !T::DTYPE.is_float() {
            rhs.iter_mut().filter(|b| b.bits() == 0).for_each(|b| *b = T::from_f64(3.0));
        }
        // Equal elements must occur for the comparisons.
        (0..lhs.len().min(rhs.len())).step_by(3).for_each(|i| {
            if T::DTYPE.is_float() || lhs[i].bits() != 0 {
                rhs[i] = lhs[i]
            }
        });
        let pairs: Vec<(T, T)> = case.gather(0, &lhs).into_iter().zip(case.gather(1, &rhs)).collect();
        let a = bench.tensor(&lhs, case.inputs[0].0, &case.dims, &case.inputs[0].1);
        let b = bench.tensor(&rhs, case.inputs[1].0, &case.dims, &case.inputs[1].1);
        for root in ["badd", "bsub", "bmul", "bdiv", "bminimum", "bmaximum"] {
            let want: Vec<T> = pairs.iter().map(|&(a, b)| apply(root, a, b)).collect();
            let got = bench.result_at::<T>(case.out_start, case.count(), |out| {
                bench.kernels.binary(root, &a.operand(), &b.operand(), out)
            });
            assert_same(&got, &want, || format!("{root} of {} over {case:?}", T::DTYPE));
        }
        for root in ["eq", "ne", "lt", "le", "gt", "ge"] {
            let want: Vec<u8> = pairs.iter().map(|&(a, b)| compare(root, a, b)).collect();
            let got = bench.result_at::<u8>(case.out_start, case.count(), |out| {
                bench.kernels.compare(root, &a.operand(), &b.operand(), out)
            });
            assert_same(&got, &want, || format!("{root} of {} over {case:?}", T::DTYPE));
        }
    }
    bench.kernels.check(&bench.stream).expect("nothing was divided by zero");
}

/// A gated linear unit is the activation and the product, bit for bit.
fn gated<T: Element>(bench: &Bench) {
    let mut random = Random::new(7);
    for case in &[layouts::fixed(), layouts::random(3, 17)].concat() {
        let (lhs, rhs) = (random.awkward::<T>(case.span(0)), random.awkward::<T>(case.span(1)));
        let a = bench.tensor(&lhs, case.inputs[0].0, &case.dims, &case.inputs[0].1);
        let b = bench.tensor(&rhs, case.inputs[1].0, &case.dims, &case.inputs[1].1);
        for (root, activation) in [("gsilu", "usilu"), ("ggelu", "ugelu")] {
            let active = bench.result::<T>(case.count(), |out| bench.kernels.unary(activation, &a.operand(), out));
            let active = bench.contiguous(&active, &case.dims);
            let want = bench
                .result::<T>(case.count(), |out| bench.kernels.binary("bmul", &active.operand(), &b.operand(), out));
            let got = bench.result_at::<T>(case.out_start, case.count(), |out| {
                bench.kernels.gated(root, &a.operand(), &b.operand(), out)
            });
            assert_same(&got, &want, || format!("{root} of {} over {case:?}", T::DTYPE));
        }
    }
}

/// An integer divided by zero is an error at the next look, once, and the rest of the result is right.
fn division_by_zero(bench: &Bench) {
    let stream = bench.kernels.device().new_stream().unwrap();
    let kernels = candle_rocm_kernels::Kernels::new(&stream).unwrap();
    let bytes = |values: &[i32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let (a, b) = (stream.upload(&bytes(&[7, 8, 9])).unwrap(), stream.upload(&bytes(&[2, 0, -1])).unwrap());
    let operand = |memory| candle_rocm_kernels::Operand::new(memory, DType::I32, 0, &[3], &[1]).unwrap();
    let mut memory = stream.zeros::<u8>(12).unwrap();
    let mut out = Output::new(&mut memory, DType::I32, 0, 3).unwrap();
    kernels.binary("bdiv", &operand(&a), &operand(&b), &mut out).unwrap();
    let error = kernels.check(&stream).unwrap_err().to_string();
    assert!(error.contains("div") && error.contains('8'), "{error}");
    assert_eq!(memory.to_vec().unwrap(), bytes(&[3, 0, -9]));
    kernels.check(&stream).expect("reported once");
}

fn mismatches_are_refused(bench: &Bench) {
    let (a, b) = (bench.contiguous(&[1.0f32; 6], &[2, 3]), bench.contiguous(&[1.0f64; 6], &[2, 3]));
    let c = bench.contiguous(&[1.0f32; 6], &[3, 2]);
    let mut memory = bench.stream.zeros::<u8>(24).unwrap();
    let mut out = Output::new(&mut memory, DType::F32, 0, 6).unwrap();
    let error = bench.kernels.binary("badd", &a.operand(), &b.operand(), &mut out).unwrap_err().to_string();
    assert!(error.contains("f32") && error.contains("f64"), "{error}");
    let error = bench.kernels.binary("badd", &a.operand(), &c.operand(), &mut out).unwrap_err().to_string();
    assert!(error.contains("[2, 3]") && error.contains("[3, 2]"), "{error}");
    let error = bench.kernels.binary("bxor", &a.operand(), &a.operand(), &mut out).unwrap_err().to_string();
    assert!(error.contains("bxor") && error.contains("f32"), "{error}");
    let mut short = Output::new(&mut memory, DType::F32, 0, 5).unwrap();
    let error = bench.kernels.binary("badd", &a.operand(), &a.operand(), &mut short).unwrap_err().to_string();
    assert!(error.contains('5') && error.contains('6'), "{error}");
}

pub fn family(bench: &Bench) {
    for_types!(check(bench) over all);
    for_types!(gated(bench) over bf16 f16 f32);
    division_by_zero(bench);
    mismatches_are_refused(bench);
}
