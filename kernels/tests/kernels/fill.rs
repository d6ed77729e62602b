//! Constants into contiguous and strided memory, and copies of rows: what is outside stays as it was.

use crate::bench::{assert_same, Bench};
use crate::element::{Element, Random};
use crate::for_types;
use crate::layouts;

fn fill<T: Element>(bench: &Bench) {
    let value = Random::new(29).awkward::<T>(1)[0];
    for (start, count) in [(0, 0), (0, 1), (0, 15), (0, 16), (0, 17), (0, 256 * 64 + 5), (1, 1000), (3, 5)] {
        let got = bench.result_at::<T>(start, count, |out| bench.kernels.fill(value.bits(), out));
        assert_same(&got, &vec![value; count], || format!("fill of {} x {count} from {start}", T::DTYPE));
    }
}

fn const_set<T: Element>(bench: &Bench) {
    let mut random = Random::new(31);
    for case in &[layouts::fixed(), layouts::random(37, 10)].concat() {
        let (start, strides) = &case.inputs[0];
        let mut memory = random.plain::<T>(case.span(0) + 3);
        let mut target = bench.tensor(&memory, *start, &case.dims, strides);
        let value = T::from_f64(42.0);
        bench.kernels.const_set(value.bits(), &mut target.operand_mut()).unwrap();
        layouts::offsets(&case.dims, strides).into_iter().for_each(|offset| memory[start + offset] = value);
        assert_same(&target.download::<T>(), &memory, || format!("const_set of {} over {case:?}", T::DTYPE));
    }
}

fn copy2d<T: Element>(bench: &Bench) {
    let mut random = Random::new(41);
    // Rows, columns, both strides, both starts; the second line can go in 16-byte pieces.
    for (rows, cols, from_stride, to_stride, from_start, to_start) in [
        (3, 5, 7, 6, 1, 2),
        (9, 64, 128, 64, 16, 0),
        (300, 16, 16, 48, 0, 32),
        (1, 1, 1, 1, 0, 0),
        (0, 4, 4, 4, 0, 0),
        (4, 0, 4, 4, 0, 0),
        (2000, 3, 3, 4, 0, 1),
    ] {
        let source = random.awkward::<T>(from_start + rows * from_stride + cols);
        let mut target = random.awkward::<T>(to_start + rows * to_stride + cols);
        let from = bench.tensor(&source, from_start, &[rows, cols], &[from_stride, 1]);
        let mut to = bench.tensor(&target, to_start, &[rows, cols], &[to_stride, 1]);
        bench.kernels.copy2d(&from.operand(), &mut to.operand_mut()).unwrap();
        for row in 0..rows {
            for col in 0..cols {
                target[to_start + row * to_stride + col] = source[from_start + row * from_stride + col];
            }
        }
        assert_same(&to.download::<T>(), &target, || format!("copy2d of {} x {rows} x {cols}", T::DTYPE));
    }
}

pub fn family(bench: &Bench) {
    for_types!(fill(bench) over all);
    for_types!(const_set(bench) over all);
    for_types!(copy2d(bench) over all);
}
