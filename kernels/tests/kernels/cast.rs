//! Conversions between all pairs of dtypes, bit for bit what Rust's `as` and the crates half and float8 give.

use crate::bench::{assert_same, Bench};
use crate::element::{Element, Random};
use crate::for_types;
use crate::layouts::{self, Case};
use crate::unary::signed;
use candle_rocm_kernels::DType;
use float8::F8E4M3;
use half::{bf16, f16};

/// The CPU backend's conversion: integers and small floats pass through f32 on their way to a small float or an integer.
fn convert<A: Element, B: Element>(x: A) -> B {
    match (A::DTYPE.is_float(), B::DTYPE.is_float()) {
        (false, false) => B::from_bits(signed(x) as u64),
        (false, true) => match B::DTYPE {
            // The integer's own conversion, which rounds once.
            DType::F64 => B::from_f64(signed(x) as f64),
            _ => B::from_f64(f64::from(signed(x) as f32)),
        },
        (true, _) if A::DTYPE == B::DTYPE => B::from_bits(x.bits()),
        (true, _) => B::from_f64(x.to_f64()),
    }
}

fn pair<A: Element, B: Element>(bench: &Bench, memory: &[A], case: &Case) {
    let want: Vec<B> = case.gather(0, memory).into_iter().map(convert::<A, B>).collect();
    let input = bench.tensor(memory, case.inputs[0].0, &case.dims, &case.inputs[0].1);
    let got = bench.result_at::<B>(case.out_start, case.count(), |out| bench.kernels.cast(&input.operand(), out));
    if A::DTYPE == B::DTYPE {
        // Not even a NaN's payload changes.
        let bits = |values: &[B]| values.iter().map(|v| v.bits()).collect::<Vec<_>>();
        assert_eq!(bits(&got), bits(&want), "{} to itself", A::DTYPE);
    }
    let what = || format!("cast of {} to {} over {case:?}", A::DTYPE, B::DTYPE);
    assert_same(&got, &want, what);
}

fn to_all<A: Element>(bench: &Bench, memory: &[A], case: &Case) {
    fn one<B: Element, A: Element>(bench: &Bench, memory: &[A], case: &Case) {
        pair::<A, B>(bench, memory, case);
    }
    macro_rules! targets {
        ($($type:ty)*) => { $(one::<$type, A>(bench, memory, case);)* };
    }
    targets!(u8 u32 i16 i32 i64 bf16 f16 f32 f64 F8E4M3);
}

fn from_one<A: Element>(bench: &Bench) {
    let mut random = Random::new(17);
    for case in &layouts::fixed() {
        to_all(bench, &random.awkward::<A>(case.span(0)), case);
    }
    // Everything there is, or a great deal of it.
    let bits = 8 * A::DTYPE.size() as u32;
    let memory: Vec<A> = if bits <= 16 {
        (0..1u64 << bits).map(A::from_bits).collect()
    } else {
        (0..20_000).map(|_| A::from_bits(random.next())).chain(borders()).collect()
    };
    let case = Case { dims: vec![memory.len()], ..layouts::fixed().swap_remove(1) };
    to_all(bench, &memory, &case);
}

/// Values on, just below and just above where a shorter format rounds, overflows or underflows.
fn borders<A: Element>() -> Vec<A> {
    let mut values = Vec::new();
    let near = |v: f64| [v, v.next_up(), v.next_down(), -v, f64::from(v as f32), f64::from((v as f32).next_up())];
    for exponent in -160..130 {
        for step in 0..64 {
            values.extend(near((1.0 + f64::from(step) / 64.0) * 2f64.powi(exponent)).map(A::from_f64));
        }
    }
    for limit in
        [255.0, 32767.0, 65504.0, 65519.999, 65520.0, 448.0, 464.0, 480.0, 4294967295.0, 9.2e18, 1.9e19, 2147483647.0]
    {
        values.extend(near(limit).map(A::from_f64));
    }
    values
}

pub fn family(bench: &Bench) {
    for_types!(from_one(bench) over all);
}
