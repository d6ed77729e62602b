//! `x * mul + add`, with every step rounded to the dtype.

use crate::bench::{assert_close, assert_same, Bench};
use crate::element::{Element, Random};
use crate::for_types;
use crate::layouts;
use crate::unary::signed;

fn check<T: Element>(bench: &Bench) {
    let mut random = Random::new(7);
    let (mul, add) = (T::from_f64(2.5), T::from_f64(3.25));
    for case in &[layouts::fixed(), layouts::random(11, 10)].concat() {
        let memory = random.awkward::<T>(case.span(0));
        let want: Vec<T> = case
            .gather(0, &memory)
            .into_iter()
            .map(|x| {
                if T::DTYPE.is_float() {
                    let product = T::from_f64(x.to_f64() * mul.to_f64());
                    T::from_f64(product.to_f64() + add.to_f64())
                } else {
                    T::from_bits(signed(x).wrapping_mul(signed(mul)).wrapping_add(signed(add)) as u64)
                }
            })
            .collect();
        let input = bench.tensor(&memory, case.inputs[0].0, &case.dims, &case.inputs[0].1);
        let got = bench
            .result_at::<T>(case.out_start, case.count(), |out| bench.kernels.affine(&input.operand(), 2.5, 3.25, out));
        let what = || format!("affine of {} over {case:?}", T::DTYPE);
        // A GPU may fuse the two steps of f32 and f64.
        if T::DTYPE.is_float() && T::DTYPE.size() >= 4 {
            assert_close(&got, &want, what)
        } else {
            assert_same(&got, &want, what)
        }
    }
}

pub fn family(bench: &Bench) {
    for_types!(check(bench) over all);
}
