//! Sorting against Rust's stable sort, with NaN after every number in both directions.

use crate::bench::{assert_same, Bench};
use crate::element::{Element, Random};
use crate::for_types;
use candle_rocm_kernels::{DType, Order, Output};
use std::cmp::Ordering;

/// Around the items of a thread, short rows that share a tile, one tile, and rows of several tiles.
const SHAPES: [[usize; 2]; 9] = [[3, 1], [70, 3], [5, 8], [300, 9], [5, 64], [3, 257], [1, 2048], [2, 2049], [1, 5000]];

fn compare<T: Element>(order: Order, a: T, b: T) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (false, false) => match order {
            Order::Ascending => a.partial_cmp(&b),
            Order::Descending => b.partial_cmp(&a),
        }
        .expect("numbers have an order"),
        (a, b) => a.cmp(&b),
    }
}

fn indices<T: Element>(order: Order, data: &[T], columns: usize) -> Vec<u32> {
    data.chunks(columns)
        .flat_map(|row| {
            let mut indices: Vec<u32> = (0..columns as u32).collect();
            indices.sort_by(|&i, &j| compare(order, row[i as usize], row[j as usize]));
            indices
        })
        .collect()
}

fn check_rows<T: Element>(bench: &Bench, order: Order, data: &[T], [rows, columns]: [usize; 2]) {
    let input = bench.contiguous(data, &[rows, columns]);
    let what = || format!("{order:?} sort of {rows} rows of {columns} {}", T::DTYPE);
    let want = indices(order, data, columns);
    let values: Vec<T> = want.iter().enumerate().map(|(i, &at)| data[i / columns * columns + at as usize]).collect();
    let mut both = Vec::new();
    let got = bench.result::<u32>(data.len(), |out| {
        both = bench
            .result::<T>(data.len(), |values| bench.kernels.sort_with_indices(order, &input.operand(), values, out));
        Ok(())
    });
    assert_same(&got, &want, what);
    assert_same(&both, &values, what);
    // One of the two alone takes the same way; a few shapes show that the other is left out.
    if columns % 8 == 1 {
        let got = bench.result::<u32>(data.len(), |out| bench.kernels.arg_sort(order, &input.operand(), out));
        assert_same(&got, &want, what);
        let got = bench.result::<T>(data.len(), |out| bench.kernels.sort(order, &input.operand(), out));
        assert_same(&got, &values, what);
    }
}

fn check<T: Element>(bench: &Bench) {
    let mut random = Random::new(41);
    for (i, shape) in SHAPES.into_iter().enumerate() {
        // Many ties, so that stability shows, and special values; each shape with one of them in each direction.
        let ties: Vec<T> = (0..shape[0] * shape[1]).map(|_| T::from_f64(random.below(50) as f64 - 25.0)).collect();
        let awkward = random.awkward::<T>(shape[0] * shape[1]);
        let (first, second) = if i % 2 == 0 { (&ties, &awkward) } else { (&awkward, &ties) };
        check_rows(bench, Order::Ascending, first, shape);
        check_rows(bench, Order::Descending, second, shape);
    }
}

/// The rows of a large vocabulary, and a million elements. Sorting knows nothing of waves, so one device will do.
fn long(bench: &Bench) {
    if bench.kernels.device().ordinal() != 0 {
        return;
    }
    let mut random = Random::new(43);
    for columns in [128_256, 1_000_000] {
        let data: Vec<f32> = (0..columns).map(|_| random.between(-100.0, 100.0) as f32).collect();
        let input = bench.contiguous(&data, &[columns]);
        let got = bench.result::<u32>(columns, |out| bench.kernels.arg_sort(Order::Descending, &input.operand(), out));
        assert_same(&got, &indices(Order::Descending, &data, columns), || format!("{columns} columns"));
    }
}

fn edges(bench: &Bench) {
    let empty = bench.contiguous::<f32>(&[], &[0, 5]);
    assert!(bench.result::<u32>(0, |out| bench.kernels.arg_sort(Order::Ascending, &empty.operand(), out)).is_empty());
    let empty = bench.contiguous::<f32>(&[], &[5, 0]);
    assert!(bench.result::<f32>(0, |out| bench.kernels.sort(Order::Ascending, &empty.operand(), out)).is_empty());

    let mut memory = bench.stream.zeros::<u8>(64).unwrap();
    let mut out = Output::new(&mut memory, DType::U32, 0, 6).unwrap();
    let swapped = bench.tensor(&[1f32; 6], 0, &[2, 3], &[1, 2]);
    let error = bench.kernels.arg_sort(Order::Ascending, &swapped.operand(), &mut out).unwrap_err().to_string();
    assert!(error.contains("contiguous"), "{error}");
    let scalar = bench.tensor(&[1f32], 0, &[], &[]);
    let mut out = Output::new(&mut memory, DType::U32, 0, 1).unwrap();
    assert!(bench.kernels.arg_sort(Order::Ascending, &scalar.operand(), &mut out).is_err());
}

pub fn family(bench: &Bench) {
    for_types!(check(bench) over all);
    long(bench);
    edges(bench);
}
