//! Matrix products: all four transpositions, batches, shared factors, odd sizes, few rows and few columns. Whole numbers
//! have one right answer; fractions are held to the dtype's tolerance.

use crate::bench::{assert_same, Bench, Tensor};
use crate::element::{Element, Random};
use crate::for_types;
use crate::sums::{assert_sums, Terms};
use half::{bf16, f16};

struct Case {
    batch: usize,
    rows: usize,
    depth: usize,
    columns: usize,
}

/// (batch, rows, depth, columns)
const SIZES: [[usize; 4]; 14] = [
    [1, 1, 1, 1],
    [1, 1, 300, 70],
    [2, 3, 128, 33],
    [1, 8, 64, 40],
    [1, 9, 17, 11],
    [2, 40, 20, 3],
    [3, 65, 33, 67],
    [1, 128, 64, 128],
    [1, 131, 70, 257],
    [1, 200, 16, 136],
    [5, 16, 16, 16],
    [1, 5, 0, 7],
    [0, 5, 4, 7],
    [2, 0, 4, 7],
];

/// A matrix of each batch in memory: in order or transposed, apart from its neighbours, shared by all batches or not.
#[derive(Clone, Copy, Debug)]
struct Place {
    transposed: bool,
    gap: usize,
    shared: bool,
}

impl Place {
    fn strides(self, [rows, columns]: [usize; 2]) -> [usize; 3] {
        let (row, column, whole) = match self.transposed {
            false => (columns + self.gap, 1, rows * (columns + self.gap)),
            true => (1, rows + self.gap, columns * (rows + self.gap)),
        };
        [if self.shared { 0 } else { whole }, row, column]
    }

    fn tensor<T: Element>(
        self,
        bench: &Bench,
        fill: impl FnMut() -> T,
        [batch, rows, columns]: [usize; 3],
    ) -> (Vec<T>, Tensor) {
        let strides = self.strides([rows, columns]);
        let span = if self.transposed { columns * (rows + self.gap) } else { rows * (columns + self.gap) };
        let mut data = Vec::new();
        data.resize_with(span * if self.shared { 1 } else { batch }.max(1) + 1, fill);
        let tensor = bench.tensor(&data, 0, &[batch, rows, columns], &strides);
        (data, tensor)
    }
}

fn check_case<T: Element>(bench: &Bench, case: &Case, places: [Place; 3], whole: bool) {
    let &Case { batch, rows, depth, columns } = case;
    let mut random = Random::new((rows * 31 + columns) as u64);
    let mut fill = || {
        if whole {
            T::from_f64(random.below(9) as f64 - 4.0)
        } else {
            T::from_f64(random.between(-1.0, 1.0))
        }
    };
    let (a, left) = places[0].tensor(bench, &mut fill, [batch, rows, depth]);
    let (b, right) = places[1].tensor(bench, &mut fill, [batch, depth, columns]);
    let (mut want_memory, mut out) = places[2].tensor(bench, &mut fill, [batch, rows, columns]);
    bench.kernels.matmul(&left.operand(), &right.operand(), &mut out.operand_mut()).expect("a product");
    let got = out.download::<T>();

    let (ls, rs, os) =
        (places[0].strides([rows, depth]), places[1].strides([depth, columns]), places[2].strides([rows, columns]));
    let what = || format!("{batch} x {rows} x {depth} x {columns} of {}, {places:?}", T::DTYPE);
    let (mut found, mut want) = (Vec::new(), Vec::new());
    for z in 0..batch {
        for i in 0..rows {
            for j in 0..columns {
                let mut terms = Terms::NONE;
                for k in 0..depth {
                    let x = a[z * ls[0] + i * ls[1] + k * ls[2]].to_f64();
                    terms.add(x * b[z * rs[0] + k * rs[1] + j * rs[2]].to_f64());
                }
                let at = z * os[0] + i * os[1] + j * os[2];
                found.push(got[at]);
                want.push(terms);
                want_memory[at] = T::from_f64(terms.sum);
            }
        }
    }
    if whole {
        // All of the memory: what lies between the rows of the result must not change.
        assert_same(&got, &want_memory, what);
    } else {
        assert_sums(&found, &want, what);
    }
}

fn check<T: Element>(bench: &Bench) {
    let plain = Place { transposed: false, gap: 0, shared: false };
    for gpu in [true, false] {
        let bench = &bench.as_on_a_gpu(gpu);
        for [batch, rows, depth, columns] in SIZES {
            let case = Case { batch, rows, depth, columns };
            for turn in 0..4 {
                let factor = |bit: u32| Place { transposed: turn & bit != 0, ..plain };
                check_case::<T>(bench, &case, [factor(1), factor(2), plain], true);
            }
        }
        // Gaps that keep the alignment and gaps that spoil it, results along columns, factors that all batches share.
        for [batch, rows, depth, columns] in [[2, 70, 24, 40], [3, 2, 96, 24], [2, 33, 48, 4]] {
            let case = Case { batch, rows, depth, columns };
            for gap in [8, 3] {
                for turn in 0..8 {
                    let place = |bit: u32| Place { transposed: turn & bit != 0, gap, shared: false };
                    check_case::<T>(bench, &case, [place(1), place(2), place(4)], true);
                }
            }
            let shared = Place { shared: true, ..plain };
            check_case::<T>(bench, &case, [shared, plain, plain], true);
            check_case::<T>(bench, &case, [plain, shared, plain], true);
        }
        check_case::<T>(bench, &Case { batch: 1, rows: 65, depth: 300, columns: 70 }, [plain; 3], false);
        check_case::<T>(bench, &Case { batch: 1, rows: 3, depth: 700, columns: 70 }, [plain; 3], false);
    }
    // Large tiles, six to a batch.
    let batch = bench.many_tiles().div_ceil(6);
    check_case::<T>(bench, &Case { batch, rows: 260, depth: 24, columns: 140 }, [plain; 3], true);
}

/// A matrix whose elements lie in memory full of NaN and infinities, with what it holds.
fn surrounded<T: Element>(
    bench: &Bench,
    random: &mut Random,
    place: Place,
    start: usize,
    [batch, rows, columns]: [usize; 3],
) -> (Vec<f64>, Tensor) {
    let strides = place.strides([rows, columns]);
    let mut bad = 0usize;
    let mut memory = Vec::new();
    memory.resize_with(start + batch * strides[0] + 1, || {
        bad += 1;
        T::from_f64([f64::NAN, f64::INFINITY, f64::NEG_INFINITY][bad % 3])
    });
    let mut values = Vec::with_capacity(batch * rows * columns);
    for z in 0..batch {
        for i in 0..rows {
            for j in 0..columns {
                let value = random.below(9) as f64 - 4.0;
                values.push(value);
                memory[start + z * strides[0] + i * strides[1] + j * strides[2]] = T::from_f64(value);
            }
        }
    }
    (values, bench.tensor(&memory, start, &[batch, rows, columns], &strides))
}

/// What lies around the factors is no part of a product, whatever it is, and what lies around the result stays. Whole numbers
/// have one right answer, so every element is compared exactly.
fn check_surrounded<T: Element>(bench: &Bench, case: &Case, gap: usize, start: usize, turn: u32) {
    let &Case { batch, rows, depth, columns } = case;
    let mut random = Random::new((depth * 8 + gap + turn as usize) as u64);
    let place = |bit: u32| Place { transposed: turn & bit != 0, gap, shared: false };
    let (a, left) = surrounded::<T>(bench, &mut random, place(1), start, [batch, rows, depth]);
    let (b, right) = surrounded::<T>(bench, &mut random, place(2), start, [batch, depth, columns]);
    let (_, mut out) = surrounded::<T>(bench, &mut random, place(4), start, [batch, rows, columns]);
    let mut want = out.download::<T>();
    bench.kernels.matmul(&left.operand(), &right.operand(), &mut out.operand_mut()).expect("a product");
    let strides = place(4).strides([rows, columns]);
    for z in 0..batch {
        for i in 0..rows {
            for j in 0..columns {
                let product = |k| a[(z * rows + i) * depth + k] * b[(z * depth + k) * columns + j];
                // From a zero that is positive, as kernels begin.
                let sum = (0..depth).map(product).fold(0.0, |sum, x| sum + x);
                want[start + z * strides[0] + i * strides[1] + j * strides[2]] = T::from_f64(sum);
            }
        }
    }
    assert_same(&out.download::<T>(), &want, || {
        format!("{batch} x {rows} x {depth} x {columns} of {}, turn {turn}, gap {gap}, from {start} on", T::DTYPE)
    });
}

/// Depths around the slabs of tiles and the vectors they are read in, aligned and not, for both sizes of tiles.
fn edges<T: Element>(bench: &Bench) {
    let bench = &bench.as_on_a_gpu(true);
    for (n, depth) in [1, 7, 8, 31, 40, 64, 65, 136].into_iter().enumerate() {
        for turn in 0..4 {
            let case = Case { batch: 1, rows: 24, depth, columns: 16 + 8 * (n % 3) };
            check_surrounded::<T>(bench, &case, 8, 8, turn);
            check_surrounded::<T>(bench, &case, 3, 1, turn);
        }
    }
    let batch = bench.many_tiles();
    for (rows, columns, gap, turn) in
        [(72, 136, 8, 0), (70, 67, 3, 1), (136, 72, 8, 2), (80, 72, 8, 3), (67, 130, 1, 6)]
    {
        check_surrounded::<T>(bench, &Case { batch, rows, depth: 40, columns }, gap, gap, turn);
    }
}

/// An infinity meets a zero in its own row and column, and nowhere else.
fn infinities<T: Element>(bench: &Bench) {
    let bench = &bench.as_on_a_gpu(true);
    let (rows, depth, columns) = (33, 36, 40);
    let mut left = vec![T::from_f64(0.0); rows * depth];
    let mut right = vec![T::from_f64(1.0); depth * columns];
    left[5 * depth + 35] = T::from_f64(f64::INFINITY);
    right[35 * columns + 9] = T::from_f64(0.0);
    right[2 * columns + 17] = T::from_f64(f64::NAN);
    let (left, right) = (bench.contiguous(&left, &[1, rows, depth]), bench.contiguous(&right, &[1, depth, columns]));
    let mut out = bench.contiguous(&vec![T::from_f64(7.0); rows * columns], &[1, rows, columns]);
    bench.kernels.matmul(&left.operand(), &right.operand(), &mut out.operand_mut()).expect("a product");
    let want: Vec<T> = (0..rows * columns)
        .map(|at| match (at / columns, at % columns) {
            (_, 17) | (5, 9) => T::from_f64(f64::NAN),
            (5, _) => T::from_f64(f64::INFINITY),
            _ => T::from_f64(0.0),
        })
        .collect();
    assert_same(&out.download::<T>(), &want, || format!("infinities of {}", T::DTYPE));
}

fn refused(bench: &Bench) {
    let left = bench.contiguous(&[1f32; 6], &[1, 2, 3]);
    let right = bench.contiguous(&[1f32; 6], &[1, 2, 3]);
    let mut out = bench.contiguous(&[0f32; 4], &[1, 2, 2]);
    let error =
        bench.kernels.matmul(&left.operand(), &right.operand(), &mut out.operand_mut()).unwrap_err().to_string();
    assert!(error.contains("gemm") && error.contains("[1, 2, 3]"), "{error}");
    let ints = bench.contiguous(&[1i64; 6], &[1, 2, 3]);
    let more = bench.contiguous(&[1i64; 6], &[1, 3, 2]);
    let mut out = bench.contiguous(&[0i64; 4], &[1, 2, 2]);
    let error = bench.kernels.matmul(&ints.operand(), &more.operand(), &mut out.operand_mut()).unwrap_err().to_string();
    assert!(error.contains("i64"), "{error}");
}

pub fn family(bench: &Bench) {
    for_types!(check(bench) over bf16 f16 f32 f64);
    for_types!(edges(bench) over bf16 f16 f32 f64);
    for_types!(infinities(bench) over bf16 f16 f32 f64);
    refused(bench);
}
