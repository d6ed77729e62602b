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

fn concat<T: Element>(bench: &Bench) {
    let mut random = Random::new(43);
    // Rows, the columns of each part, and the gap between its rows; the second half can go in 16-byte pieces. More parts than a
    // launch takes, empty ones, none at all.
    let nine = [(1, 0), (2, 1), (3, 0), (0, 0), (5, 2), (6, 0), (7, 0), (8, 3), (9, 0), (1, 0), (1, 0)];
    let tables: [(usize, &[(usize, usize)]); 9] = [
        (3, &[(5, 1), (2, 0)]),
        (7, &nine),
        (1, &[(1, 0), (1, 0), (1, 0)]),
        (0, &[(4, 0), (4, 0)]),
        (4, &[(0, 0), (0, 4)]),
        (4, &[]),
        (8, &[(640, 0), (16, 0)]),
        (300, &[(16, 16), (32, 0), (0, 0), (48, 16)]),
        (5, &[(16, 0); 20]),
    ];
    for (rows, parts) in tables {
        let cols: usize = parts.iter().map(|part| part.0).sum();
        let mut expected = vec![T::from_f64(0.0); rows * cols];
        let mut tensors = Vec::new();
        let mut first = 0;
        for &(width, gap) in parts {
            let source = random.awkward::<T>(rows * (width + gap) + width);
            for row in 0..rows {
                expected[row * cols + first..][..width].copy_from_slice(&source[row * (width + gap)..][..width]);
            }
            tensors.push(bench.tensor(&source, 0, &[rows, width], &[width + gap, 1]));
            first += width;
        }
        let blank = vec![T::from_f64(0.0); rows * cols];
        let mut to = bench.tensor(&blank, 0, &[rows, cols], &[cols, 1]);
        let operands: Vec<_> = tensors.iter().map(|tensor| tensor.operand()).collect();
        bench.kernels.concat(&operands, &mut to.operand_mut()).unwrap();
        assert_same(&to.download::<T>(), &expected, || format!("concat of {} x {rows} x {parts:?}", T::DTYPE));
    }
    let (narrow, low) = (bench.tensor(&[T::from_f64(1.0); 6], 0, &[2, 3], &[3, 1]), [T::from_f64(0.0); 9]);
    let mut to = bench.tensor(&low, 0, &[3, 3], &[3, 1]);
    bench.kernels.concat(&[narrow.operand()], &mut to.operand_mut()).expect_err("two rows into three");
}

pub fn family(bench: &Bench) {
    for_types!(fill(bench) over all);
    for_types!(const_set(bench) over all);
    for_types!(copy2d(bench) over all);
    for_types!(concat(bench) over all);
}
