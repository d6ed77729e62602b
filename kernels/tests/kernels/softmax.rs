//! Softmax and log-softmax against f64, rows that begin masked and rows with nothing to choose from included.

use crate::bench::{assert_close, Bench};
use crate::element::{Element, Random};
use crate::for_types;
use candle_rocm_kernels::Planning;
use half::{bf16, f16};

/// Around a vector, a wave, a block's registers, and beyond them; the last rows are cut into pieces.
pub const SHAPES: [[usize; 2]; 13] = [
    [3, 1],
    [5, 2],
    [7, 9],
    [300, 16],
    [4, 33],
    [2, 64],
    [3, 257],
    [2, 1000],
    [2, 4096],
    [1, 9001],
    [2, 0],
    [2, 33_000],
    [9, 33_000],
];

fn reference(row: &[f64], log: bool) -> Vec<f64> {
    let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = row.iter().map(|x| (x - largest).exp()).sum();
    row.iter().map(|x| if log { x - largest - sum.ln() } else { (x - largest).exp() / sum }).collect()
}

fn check_rows<T: Element>(bench: &Bench, data: &[T], [rows, columns]: [usize; 2]) {
    let input = bench.contiguous(data, &[rows, columns]);
    for log in [false, true] {
        let want: Vec<T> = data
            .chunks(columns.max(1))
            .flat_map(|row| reference(&row.iter().map(|x| x.to_f64()).collect::<Vec<_>>(), log))
            .map(T::from_f64)
            .collect();
        // As planned, as planned for a GPU, and by blocks that keep rows on the chip; the last give up waiting for each other.
        for (as_on_a_gpu, residents) in [(false, None), (true, None), (true, Some(1 << 14)), (true, Some(0))] {
            let bench = bench.planned(Planning { as_on_a_gpu, residents, ..Default::default() });
            let got = bench.result::<T>(data.len(), |out| {
                if log {
                    bench.kernels.log_softmax(&input.operand(), out)
                } else {
                    bench.kernels.softmax(&input.operand(), out)
                }
            });
            assert_close(&got, &want, || format!("softmax (log: {log}) of {rows} rows of {columns} {}", T::DTYPE));
        }
    }
}

fn check<T: Element>(bench: &Bench) {
    let mut random = Random::new(51);
    for shape in SHAPES {
        check_rows(bench, &random.plain::<T>(shape[0] * shape[1]), shape);
    }
    // A causal mask: minus infinity where nothing is to be seen, in front and behind; and a row of nothing else.
    let masked: Vec<T> = (0..6 * 40)
        .map(|i| (i / 40 * 8, i % 40))
        .map(|(seen, column)| T::from_f64(if column < seen { 0.25 * (column % 5) as f64 } else { f64::NEG_INFINITY }))
        .collect();
    check_rows(bench, &masked, [6, 40]);
    check_rows(bench, &masked.iter().rev().copied().collect::<Vec<_>>(), [6, 40]);
    // Large values would overflow without the largest taken off.
    let large: Vec<T> = (0..100).map(|i| T::from_f64(if i % 7 == 0 { 30_000.0 } else { 29_900.0 })).collect();
    check_rows(bench, &large, [2, 50]);
    let mut broken = random.plain::<T>(20);
    broken[13] = T::from_f64(f64::NAN);
    check_rows(bench, &broken, [2, 10]);
}

pub fn family(bench: &Bench) {
    for_types!(check(bench) over bf16 f16 f32 f64);
}
