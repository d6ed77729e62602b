//! Choice by a condition: one of two elements, bit for bit.

use crate::bench::Bench;
use crate::element::{Element, Random};
use crate::for_types;
use crate::layouts;

fn check<T: Element, C: Element>(bench: &Bench) {
    let mut random = Random::new(19);
    for case in &[layouts::fixed(), layouts::random(23, 6)].concat() {
        let condition: Vec<C> =
            (0..case.span(0)).map(|_| C::from_bits(if random.below(2) == 0 { 0 } else { random.next() })).collect();
        let (yes, no) = (random.awkward::<T>(case.span(1)), random.awkward::<T>(case.span(2)));
        let choose = |((c, y), n): ((C, T), T)| if c.bits() != 0 { y.bits() } else { n.bits() };
        let want: Vec<u64> = case
            .gather(0, &condition)
            .into_iter()
            .zip(case.gather(1, &yes))
            .zip(case.gather(2, &no))
            .map(choose)
            .collect();
        let c = bench.tensor(&condition, case.inputs[0].0, &case.dims, &case.inputs[0].1);
        let y = bench.tensor(&yes, case.inputs[1].0, &case.dims, &case.inputs[1].1);
        let n = bench.tensor(&no, case.inputs[2].0, &case.dims, &case.inputs[2].1);
        let got = bench.result_at::<T>(case.out_start, case.count(), |out| {
            bench.kernels.where_cond(&c.operand(), &y.operand(), &n.operand(), out)
        });
        let got: Vec<u64> = got.into_iter().map(T::bits).collect();
        assert_eq!(got, want, "where of {} by {} over {case:?}", T::DTYPE, C::DTYPE);
    }
}

fn by_all_conditions<T: Element>(bench: &Bench) {
    check::<T, u8>(bench);
    check::<T, u32>(bench);
    check::<T, i16>(bench);
    check::<T, i32>(bench);
    check::<T, i64>(bench);
}

pub fn family(bench: &Bench) {
    for_types!(by_all_conditions(bench) over all);
    // A condition that is no integer is refused by name.
    let (c, x) = (bench.contiguous(&[1.0f32], &[1]), bench.contiguous(&[1.0f32], &[1]));
    let mut memory = bench.stream.zeros::<u8>(4).unwrap();
    let mut out = candle_rocm_kernels::Output::new(&mut memory, f32::DTYPE, 0, 1).unwrap();
    let error = bench.kernels.where_cond(&c.operand(), &x.operand(), &x.operand(), &mut out).unwrap_err().to_string();
    assert!(error.contains("where") && error.contains("f32"), "{error}");
}
