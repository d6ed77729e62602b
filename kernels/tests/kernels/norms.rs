//! RMS and layer normalisation against f64, data far from zero included.

use crate::bench::{assert_same, Bench, Tensor};
use crate::element::{Element, Random};
use crate::for_types;
use crate::softmax::SHAPES;
use crate::sums::{assert_sums, careful_sum, Terms};
use candle_rocm_kernels::{DType, Output};
use half::{bf16, f16};

const EPS: f64 = 1e-5;

/// What a row should become; the magnitude is what the tolerance is of.
fn reference<T: Element>(row: &[T], alpha: &[T], beta: Option<&[T]>) -> Vec<Terms> {
    let n = row.len() as f64;
    let wide: Vec<f64> = row.iter().map(|x| x.to_f64()).collect();
    let mean = if beta.is_some() { careful_sum(wide.iter().copied()) / n } else { 0.0 };
    let square = careful_sum(wide.iter().map(|x| (x - mean) * (x - mean))) / n;
    let scale = 1.0 / (square + EPS).sqrt();
    // A rounding of the mean shows in the result as that much of the data's own magnitude.
    let spread = wide.iter().fold(0.0, |most: f64, x| most.max(x.abs())) * scale;
    let each = |i: usize| {
        let (a, b) = (alpha[i].to_f64(), beta.map_or(0.0, |beta| beta[i].to_f64()));
        Terms { sum: (wide[i] - mean) * scale * a + b, magnitude: (1.0 + spread) * a.abs() + b.abs() }
    };
    (0..row.len()).map(each).collect()
}

fn check_rows<T: Element>(bench: &Bench, data: &[T], [rows, columns]: [usize; 2]) {
    let mut random = Random::new(columns as u64);
    let (alpha, beta) = (random.plain::<T>(columns), random.plain::<T>(columns));
    let input = bench.contiguous(data, &[rows, columns]);
    let (weights, shifts) = (bench.contiguous(&alpha, &[columns]), bench.contiguous(&beta, &[columns]));
    for gpu in [false, true] {
        let bench = bench.as_on_a_gpu(gpu);
        let rms =
            bench.result::<T>(data.len(), |out| bench.kernels.rms_norm(&input.operand(), &weights.operand(), EPS, out));
        let layer = bench.result::<T>(data.len(), |out| {
            bench.kernels.layer_norm(&input.operand(), &weights.operand(), &shifts.operand(), EPS, out)
        });
        let shifted: Vec<T> = data.iter().rev().copied().collect();
        sums_and_norms(&bench, [data, &shifted], &weights, [rows, columns]);
        let chunks = || data.chunks(columns.max(1));
        let want: Vec<Terms> = chunks().flat_map(|row| reference(row, &alpha, None)).collect();
        assert_sums(&rms, &want, || format!("rms_norm of {rows} rows of {columns} {}", T::DTYPE));
        let want: Vec<Terms> = chunks().flat_map(|row| reference(row, &alpha, Some(&beta))).collect();
        assert_sums(&layer, &want, || format!("layer_norm of {rows} rows of {columns} {}", T::DTYPE));
    }
}

/// The norm of a sum, and the sum, are what the two operations by themselves make, bit for bit.
fn sums_and_norms<T: Element>(bench: &Bench, sides: [&[T]; 2], alpha: &Tensor, [rows, columns]: [usize; 2]) {
    let [left, right] = sides.map(|side| bench.contiguous(side, &[rows, columns]));
    let count = rows * columns;
    let sum = bench.result::<T>(count, |out| bench.kernels.binary("badd", &left.operand(), &right.operand(), out));
    let added = bench.contiguous(&sum, &[rows, columns]);
    let want = bench.result::<T>(count, |out| bench.kernels.rms_norm(&added.operand(), &alpha.operand(), EPS, out));
    let mut norm = Vec::new();
    let got = bench.result::<T>(count, |sum| {
        norm = bench.result::<T>(count, |out| {
            bench.kernels.rms_norm_of_sum([&left.operand(), &right.operand()], &alpha.operand(), EPS, sum, out)
        });
        Ok(())
    });
    assert_same(&got, &sum, || format!("sum of {rows} rows of {columns} {}", T::DTYPE));
    assert_same(&norm, &want, || format!("norm of a sum of {rows} rows of {columns} {}", T::DTYPE));
}

fn check<T: Element>(bench: &Bench) {
    let mut random = Random::new(61);
    for shape in SHAPES {
        check_rows(bench, &random.plain::<T>(shape[0] * shape[1]), shape);
    }
    // Far from zero: mean(x^2) - mean(x)^2 would have nothing left in f32.
    let far: Vec<T> = (0..512).map(|_| T::from_f64(1000.0 + random.below(8) as f64)).collect();
    check_rows(bench, &far, [2, 256]);
}

fn refused(bench: &Bench) {
    let input = bench.contiguous(&[1f32; 6], &[2, 3]);
    let weights = bench.contiguous(&[1f32; 2], &[2]);
    let mut memory = bench.stream.zeros::<u8>(24).unwrap();
    let mut out = Output::new(&mut memory, DType::F32, 0, 6).unwrap();
    let error = bench.kernels.rms_norm(&input.operand(), &weights.operand(), EPS, &mut out).unwrap_err().to_string();
    assert!(error.contains("rmsnorm") && error.contains("alpha"), "{error}");
    let ints = bench.contiguous(&[1i32; 6], &[2, 3]);
    let alpha = bench.contiguous(&[1i32; 3], &[3]);
    let mut out = Output::new(&mut memory, DType::I32, 0, 6).unwrap();
    let error = bench.kernels.rms_norm(&ints.operand(), &alpha.operand(), EPS, &mut out).unwrap_err().to_string();
    assert!(error.contains("rmsnorm") && error.contains("i32"), "{error}");
}

pub fn family(bench: &Bench) {
    for_types!(check(bench) over bf16 f16 f32 f64);
    refused(bench);
}
