//! Reductions over every kind of row, against a loop in Rust: contiguous, strided and scattered rows, short and long ones,
//! with one thread for a row and with teams.

use crate::bench::{assert_same, Bench};
use crate::element::{Element, Random};
use crate::for_types;
use crate::layouts::offsets;
use candle_rocm_kernels::{DType, Operand, Output, Reduce};

struct Case {
    dims: Vec<usize>,
    strides: Vec<usize>,
    start: usize,
    over: Vec<usize>,
}

impl Case {
    fn new(dims: &[usize], strides: &[usize], start: usize, over: &[usize]) -> Self {
        Self { dims: dims.to_vec(), strides: strides.to_vec(), start, over: over.to_vec() }
    }

    fn span(&self) -> usize {
        let last: usize =
            self.dims.iter().zip(&self.strides).map(|(&size, stride)| size.saturating_sub(1) * stride).sum();
        self.start + last + 1
    }

    /// The rows that are reduced, in the order of the result.
    fn rows<T: Copy>(&self, memory: &[T]) -> Vec<Vec<T>> {
        let some = |reduced: bool| -> (Vec<usize>, Vec<usize>) {
            let chosen = (0..self.dims.len()).filter(|d| self.over.contains(d) == reduced);
            chosen.map(|d| (self.dims[d], self.strides[d])).unzip()
        };
        let ((kept, kept_strides), (reduced, reduced_strides)) = (some(false), some(true));
        let within = offsets(&reduced, &reduced_strides);
        offsets(&kept, &kept_strides)
            .into_iter()
            .map(|row| within.iter().map(|at| memory[self.start + row + at]).collect())
            .collect()
    }
}

fn cases() -> Vec<Case> {
    let mut cases = vec![
        // Rows along the last dimension: one element, less than a vector, around a vector, a wave, a block.
        Case::new(&[3, 1], &[1, 1], 0, &[1]),
        Case::new(&[5, 7], &[7, 1], 0, &[1]),
        Case::new(&[300, 16], &[16, 1], 0, &[1]),
        Case::new(&[4, 257], &[257, 1], 3, &[1]),
        Case::new(&[2, 3, 4], &[12, 4, 1], 0, &[1, 2]),
        // One long row, which is cut into pieces; aligned and not; the same along a column, and through a gap.
        Case::new(&[40_000], &[1], 0, &[0]),
        Case::new(&[20_011], &[1], 1, &[0]),
        Case::new(&[9_001, 2], &[2, 1], 0, &[0]),
        Case::new(&[16_001], &[2], 0, &[0]),
        // Columns: the reduction over an outer dimension, a middle one, and two that do not merge.
        Case::new(&[33, 70], &[70, 1], 0, &[0]),
        Case::new(&[3, 50, 9], &[450, 9, 1], 0, &[1]),
        Case::new(&[6, 5, 40], &[200, 40, 1], 0, &[0, 2]),
        // Columns in 16-byte pieces: in one piece and in several, between other dimensions, with two strides, from a slice.
        Case::new(&[2000, 32], &[32, 1], 0, &[0]),
        Case::new(&[40, 272], &[272, 1], 0, &[0]),
        Case::new(&[3, 600, 24], &[14400, 24, 1], 0, &[1]),
        Case::new(&[6, 10, 4, 16], &[640, 64, 16, 1], 0, &[0, 2]),
        Case::new(&[300, 16], &[48, 1], 16, &[0]),
        // Transposed, broadcast, sliced, nothing reduced, everything reduced in another order.
        Case::new(&[30, 41], &[1, 30], 0, &[1]),
        Case::new(&[8, 9], &[0, 1], 2, &[0]),
        Case::new(&[4, 10, 32], &[1000, 64, 1], 8, &[2]),
        Case::new(&[6, 4], &[4, 1], 0, &[]),
        Case::new(&[4, 5, 6], &[1, 24, 4], 0, &[2, 0, 1]),
        Case::new(&[], &[], 0, &[]),
        Case::new(&[2, 3, 2, 3, 2, 3], &[1, 108, 2, 36, 18, 4], 1, &[1, 3, 4]),
    ];
    let mut random = Random::new(11);
    for case in crate::layouts::random(12, 8) {
        let over = (0..case.dims.len()).filter(|_| random.below(2) == 0).collect::<Vec<_>>();
        cases.push(Case { dims: case.dims, strides: case.inputs[0].1.clone(), start: case.inputs[0].0, over });
    }
    cases
}

/// The loop of Candle's CPU backend: the first element stays unless a later one is strictly better.
fn choose<T: Element>(row: &[T], min: bool) -> (T, u32) {
    let (mut best, mut at) = (row[0], 0);
    for (i, &x) in row.iter().enumerate() {
        if if min { best > x } else { best < x } {
            (best, at) = (x, i as u32);
        }
    }
    (best, at)
}

/// Sums of integers wrap; those of floats are tried on small whole numbers, where there is one right answer.
fn sum<T: Element>(row: &[T]) -> T {
    if T::DTYPE.is_float() {
        T::from_f64(row.iter().map(|x| x.to_f64()).sum())
    } else {
        T::from_bits(row.iter().fold(0u64, |sum, x| sum.wrapping_add(x.bits())))
    }
}

fn check<T: Element>(bench: &Bench) {
    let mut random = Random::new(21);
    for case in cases() {
        let whole: Vec<T> = (0..case.span()).map(|_| T::from_f64(random.below(7) as f64 - 3.0)).collect();
        let awkward = random.awkward::<T>(case.span());
        for op in Reduce::ALL {
            let memory = if op == Reduce::Sum {
                if T::DTYPE.is_float() {
                    &whole
                } else {
                    &awkward
                }
            } else {
                &awkward
            };
            let rows = case.rows(memory);
            let input = bench.tensor(memory, case.start, &case.dims, &case.strides);
            let what = || {
                format!("{op:?} of {} {:?} with strides {:?} over {:?}", T::DTYPE, case.dims, case.strides, case.over)
            };
            agrees(bench, op, &input.operand(), &case.over, &rows, what);
        }
    }
}

/// What comes out is what a loop over each of `rows` finds, with one thread for a row and with teams.
fn agrees<T: Element>(
    bench: &Bench,
    op: Reduce,
    input: &Operand<'_>,
    over: &[usize],
    rows: &[Vec<T>],
    what: impl Fn() -> String,
) {
    for gpu in [false, true] {
        let bench = bench.as_on_a_gpu(gpu);
        let run = |out: &mut Output<'_>| bench.kernels.reduce(op, input, over, out);
        match op {
            Reduce::ArgMin | Reduce::ArgMax => {
                let want: Vec<u32> = rows.iter().map(|row| choose(row, op == Reduce::ArgMin).1).collect();
                assert_same(&bench.result::<u32>(rows.len(), run), &want, &what);
            }
            Reduce::Sum => {
                let want: Vec<T> = rows.iter().map(|row| sum(row)).collect();
                assert_same(&bench.result::<T>(rows.len(), run), &want, &what);
            }
            _ => {
                let want: Vec<T> = rows.iter().map(|row| choose(row, op == Reduce::Min).0).collect();
                // Zeros of different signs are equal; which of them comes out is nobody's promise.
                let zero = |x: T| if x.to_f64() == 0.0 { T::from_f64(0.0) } else { x };
                let got: Vec<T> = bench.result::<T>(rows.len(), run).into_iter().map(zero).collect();
                assert_same(&got, &want.into_iter().map(zero).collect::<Vec<_>>(), &what);
            }
        }
    }
}

/// Rows of nothing but the least or the greatest there is: alone, behind a NaN, and before one.
fn extremes<T: Element>(bench: &Bench) {
    for (edge, columns) in [5, 700, 20_000].into_iter().flat_map(|n| [(f64::NEG_INFINITY, n), (f64::INFINITY, n)]) {
        let mut rows = vec![vec![T::from_f64(edge); columns]; 3];
        rows[1][0] = T::from_f64(f64::NAN);
        rows[2][columns - 1] = T::from_f64(f64::NAN);
        let input = bench.contiguous(&rows.concat(), &[3, columns]);
        for op in Reduce::ALL.into_iter().filter(|op| *op != Reduce::Sum) {
            agrees(bench, op, &input.operand(), &[1], &rows, || format!("{op:?} of {columns} {} {edge}", T::DTYPE));
        }
    }
}

/// Sums that round: the error stays within the dtype's tolerance of the sum of magnitudes.
fn rounding<T: Element>(bench: &Bench) {
    let mut random = Random::new(31);
    for (dims, over) in [([7usize, 1000], 1usize), ([1, 50_000], 1), ([3000, 5], 0)] {
        let memory = random.plain::<T>(dims[0] * dims[1]);
        let input = bench.contiguous(&memory, &dims);
        let case = Case::new(&dims, &[dims[1], 1], 0, &[over]);
        for gpu in [false, true] {
            let bench = bench.as_on_a_gpu(gpu);
            let got = bench
                .result::<T>(dims[1 - over], |out| bench.kernels.reduce(Reduce::Sum, &input.operand(), &[over], out));
            let rows = case.rows(&memory);
            crate::sums::assert_sums(&got, &rows.iter().map(|row| crate::sums::terms(row)).collect::<Vec<_>>(), || {
                format!("the sum of {} {dims:?} over {over}", T::DTYPE)
            });
        }
    }
}

fn nothing<T: Element>(bench: &Bench) {
    let input = bench.contiguous::<T>(&[], &[3, 0]);
    let got = bench.result::<T>(3, |out| bench.kernels.reduce(Reduce::Sum, &input.operand(), &[1], out));
    assert_same(&got, &[T::from_f64(0.0); 3], || format!("the sum of nothing as {}", T::DTYPE));
    assert!(bench.result::<T>(0, |out| bench.kernels.reduce(Reduce::Sum, &input.operand(), &[0], out)).is_empty());
    let mut memory = bench.stream.zeros::<u8>(3 * T::DTYPE.size()).unwrap();
    let mut out = Output::new(&mut memory, T::DTYPE, 0, 3).unwrap();
    let error = bench.kernels.reduce(Reduce::Max, &input.operand(), &[1], &mut out).unwrap_err().to_string();
    assert!(error.contains("fast_max") && error.contains("no elements"), "{error}");
}

fn refused(bench: &Bench) {
    let input = bench.contiguous(&[1f32; 6], &[2, 3]);
    let mut memory = bench.stream.zeros::<u8>(64).unwrap();
    let mut out = Output::new(&mut memory, DType::F32, 0, 2).unwrap();
    for dims in [&[2usize][..], &[1, 1]] {
        assert!(bench.kernels.reduce(Reduce::Sum, &input.operand(), dims, &mut out).is_err(), "{dims:?}");
    }
    assert!(bench.kernels.reduce(Reduce::Sum, &input.operand(), &[0], &mut out).is_err(), "three sums into two places");
    assert!(bench.kernels.reduce(Reduce::ArgMax, &input.operand(), &[1], &mut out).is_err(), "indices into floats");
    bench.kernels.reduce(Reduce::Sum, &input.operand(), &[1], &mut out).expect("the next call works");
}

/// A row that is cut into pieces, first met in a capture of a stream of its own: its counters are the graph's, which may run
/// beside the stream that recorded it.
fn captured(bench: &Bench) {
    if !bench.kernels.device().platform().can_capture() {
        return;
    }
    let bench = bench.as_on_a_gpu(true);
    let stream = bench.kernels.device().new_stream().unwrap();
    let memory = stream.upload(&[1f32; 40_000]).unwrap();
    let input = Operand::new(&memory, DType::F32, 0, &[40_000], &[1]).unwrap();
    let mut sum = stream.zeros::<f32>(1).unwrap();
    let graph = stream.capture(|_| {
        bench.kernels.reduce(Reduce::Sum, &input, &[0], &mut Output::new(&mut sum, DType::F32, 0, 1).unwrap())
    });
    let graph = graph.expect("a reduction can be captured");
    for _ in 0..3 {
        sum.zero().unwrap();
        graph.launch(&stream).unwrap();
        assert_eq!(sum.to_vec().unwrap(), [40_000.]);
    }
}

pub fn family(bench: &Bench) {
    for_types!(check(bench) over all);
    for_types!(extremes(bench) over all);
    for_types!(rounding(bench) over floats);
    for_types!(nothing(bench) over all);
    refused(bench);
    captured(bench);
}
