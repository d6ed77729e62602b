//! Pools and upsampling against the loops of Candle's CPU backend.

use crate::bench::{assert_close, assert_same, Bench, Tensor};
use crate::element::{Element, Random};
use crate::for_types;
use crate::layouts::{contiguous_strides, offsets};
use candle_rocm_kernels::{Bilinear, DType, Output, Pool};

/// A tensor in order, and the same with all dimensions reversed in memory and a gap in front.
fn both_ways<T: Element>(bench: &Bench, data: &[T], dims: &[usize]) -> [Tensor; 2] {
    let mut strides = vec![1; dims.len()];
    for d in 1..dims.len() {
        strides[d] = strides[d - 1] * dims[d - 1];
    }
    let mut memory = vec![T::from_f64(1.0); data.len() + 3];
    for (at, place) in offsets(dims, &strides).into_iter().enumerate() {
        memory[3 + place] = data[at];
    }
    [bench.contiguous(data, dims), bench.tensor(&memory, 3, dims, &strides)]
}

/// A shape, the size of a window, and its step.
type PoolCase = ([usize; 4], (usize, usize), (usize, usize));

/// ((batch, channels, height, width), kernel, stride)
const POOLS: [PoolCase; 6] = [
    ([1, 1, 1, 1], (1, 1), (1, 1)),
    ([2, 3, 8, 8], (2, 2), (2, 2)),
    ([1, 2, 9, 11], (3, 2), (1, 3)),
    ([2, 2, 7, 5], (7, 5), (1, 1)),
    ([1, 5, 20, 33], (2, 3), (2, 1)),
    ([0, 2, 4, 4], (2, 2), (2, 2)),
];

fn pools<T: Element>(bench: &Bench) {
    let mut random = Random::new(101);
    for (dims, kernel, stride) in POOLS {
        let [batch, channels, height, width] = dims;
        let out = [(height - kernel.0) / stride.0 + 1, (width - kernel.1) / stride.1 + 1];
        let strides = contiguous_strides(&dims);
        let windows = |data: &[T]| -> Vec<Vec<T>> {
            offsets(&[batch, channels, out[0], out[1]], &[strides[0], strides[1], stride.0 * width, stride.1])
                .into_iter()
                .map(|corner| {
                    offsets(&[kernel.0, kernel.1], &[width, 1]).into_iter().map(|at| data[corner + at]).collect()
                })
                .collect()
        };
        let what = |pool: Pool| format!("{pool:?} pool of {} {dims:?} by {kernel:?}, stride {stride:?}", T::DTYPE);

        let data = random.awkward::<T>(dims.iter().product());
        // The first element stays unless a later one is greater: a NaN in front is kept, others are passed over.
        let want: Vec<T> = windows(&data)
            .iter()
            .map(|window| window.iter().fold(window[0], |best, &x| if best < x { x } else { best }))
            .collect();
        for input in both_ways(bench, &data, &dims) {
            let got = bench
                .result::<T>(want.len(), |out| bench.kernels.pool2d(Pool::Max, kernel, stride, &input.operand(), out));
            assert_same(&got, &want, || what(Pool::Max));
        }

        let data: Vec<T> = (0..dims.iter().product()).map(|_| T::from_f64(random.below(9) as f64)).collect();
        let area = kernel.0 * kernel.1;
        let mean = |window: &Vec<T>| {
            let sum: f64 = window.iter().map(|x| x.to_f64()).sum();
            // The CPU multiplies by the reciprocal as an integer.
            T::from_f64(if T::DTYPE.is_float() {
                sum / area as f64
            } else if area == 1 {
                sum
            } else {
                0.0
            })
        };
        let want: Vec<T> = windows(&data).iter().map(mean).collect();
        for input in both_ways(bench, &data, &dims) {
            let got = bench.result::<T>(want.len(), |out| {
                bench.kernels.pool2d(Pool::Average, kernel, stride, &input.operand(), out)
            });
            assert_close(&got, &want, || what(Pool::Average));
        }
    }
}

const SIZES: [([usize; 2], [usize; 2]); 9] = [
    ([1, 1], [1, 1]),
    ([1, 1], [3, 4]),
    ([3, 4], [6, 8]),
    ([5, 7], [3, 2]),
    ([4, 6], [13, 17]),
    ([8, 9], [8, 9]),
    ([7, 3], [49, 147]),
    ([6, 5], [1, 20]),
    ([3, 3], [0, 2]),
];

/// Where an output stands, in f64 as on the CPU.
fn nearest(from: usize, to: usize) -> Vec<usize> {
    let scale = from as f64 / to as f64;
    (0..to).map(|i| ((i as f64 * scale) as usize).min(from - 1)).collect()
}

fn upsample_nearest<T: Element>(bench: &Bench) {
    let mut random = Random::new(111);
    for (from, to) in SIZES {
        let planes = 6;
        let data = random.awkward::<T>(planes * from[0] * from[1]);
        let (ys, xs) = (nearest(from[0], to[0]), nearest(from[1], to[1]));
        let want: Vec<T> = (0..planes)
            .flat_map(|plane| ys.iter().flat_map(move |&y| (0..to[1]).map(move |x| (plane, y, x))))
            .map(|(plane, y, x)| data[(plane * from[0] + y) * from[1] + xs[x]])
            .collect();
        for input in both_ways(bench, &data, &[2, 3, from[0], from[1]]) {
            let got = bench.result::<T>(want.len(), |out| bench.kernels.upsample_nearest(&to, &input.operand(), out));
            assert_same(&got, &want, || format!("nearest {} {from:?} to {to:?}", T::DTYPE));
        }
        let rows = &data[..planes * from[1]];
        let want: Vec<T> = rows.chunks(from[1]).flat_map(|row| xs.iter().map(|&x| row[x])).collect();
        for input in both_ways(bench, rows, &[3, 2, from[1]]) {
            let got =
                bench.result::<T>(want.len(), |out| bench.kernels.upsample_nearest(&to[1..], &input.operand(), out));
            assert_same(&got, &want, || format!("nearest {} {} to {}", T::DTYPE, from[1], to[1]));
        }
    }
}

/// The elements before and after each output, and the weight of the second.
fn between(from: usize, to: usize, align_corners: bool, factor: Option<f64>) -> Vec<(usize, usize, f64)> {
    let scale = match factor {
        _ if align_corners => {
            if to > 1 {
                (from - 1) as f64 / (to - 1) as f64
            } else {
                0.0
            }
        }
        Some(factor) => 1.0 / factor,
        None => from as f64 / to as f64,
    };
    (0..to)
        .map(|i| {
            let at = (if align_corners { scale * i as f64 } else { scale * (i as f64 + 0.5) - 0.5 }).max(0.0);
            let low = (at.floor() as usize).min(from - 1);
            (low, (low + 1).min(from - 1), (at - low as f64).clamp(0.0, 1.0))
        })
        .collect()
}

fn upsample_bilinear<T: Element>(bench: &Bench) {
    let mut random = Random::new(121);
    for (from, to) in SIZES {
        for (align_corners, scale) in [(false, (None, None)), (true, (None, None)), (false, (Some(2.0), Some(1.5)))] {
            let planes = 4;
            let data = random.plain::<T>(planes * from[0] * from[1]);
            let ys = between(from[0], to[0], align_corners, scale.0);
            let xs = between(from[1], to[1], align_corners, scale.1);
            let mut want = Vec::new();
            for plane in 0..planes {
                for &(top, bottom, down) in &ys {
                    for &(left, right, over) in &xs {
                        let at = |y: usize, x: usize| data[(plane * from[0] + y) * from[1] + x].to_f64();
                        let above = at(top, left) * (1.0 - over) + at(top, right) * over;
                        let below = at(bottom, left) * (1.0 - over) + at(bottom, right) * over;
                        want.push(T::from_f64(above * (1.0 - down) + below * down));
                    }
                }
            }
            if from == to {
                want.clone_from(&data);
            }
            let params = Bilinear { align_corners, scale };
            for input in both_ways(bench, &data, &[2, 2, from[0], from[1]]) {
                let got = bench.result::<T>(want.len(), |out| {
                    bench.kernels.upsample_bilinear2d((to[0], to[1]), params, &input.operand(), out)
                });
                let what = || format!("bilinear {} {from:?} to {to:?}, {params:?}", T::DTYPE);
                if T::DTYPE.is_float() {
                    blended(&got, &want, what)
                } else {
                    assert_same(&got, &want, what)
                }
            }
        }
    }
}

/// Values of up to 10 in magnitude are blended; what is left of them may be small.
fn blended<T: Element>(got: &[T], want: &[T], what: impl Fn() -> String) {
    let terms: Vec<_> = want.iter().map(|x| crate::sums::Terms { sum: x.to_f64(), magnitude: 10.0 }).collect();
    crate::sums::assert_sums(got, &terms, what);
}

fn refused(bench: &Bench) {
    let image = bench.contiguous(&[1f32; 16], &[1, 1, 4, 4]);
    let mut memory = bench.stream.zeros::<u8>(64).unwrap();
    let mut out = Output::new(&mut memory, DType::F32, 0, 4).unwrap();
    assert!(bench.kernels.pool2d(Pool::Max, (5, 1), (1, 1), &image.operand(), &mut out).is_err(), "a window too large");
    assert!(
        bench.kernels.pool2d(Pool::Max, (2, 2), (0, 2), &image.operand(), &mut out).is_err(),
        "a stride of nothing"
    );
    assert!(bench.kernels.upsample_nearest(&[2], &image.operand(), &mut out).is_err(), "one size for two axes");
    let empty = bench.contiguous::<f32>(&[], &[1, 1, 0, 4]);
    assert!(bench.kernels.upsample_nearest(&[2, 2], &empty.operand(), &mut out).is_err(), "something out of nothing");
    bench.kernels.pool2d(Pool::Max, (2, 2), (2, 2), &image.operand(), &mut out).expect("the next call works");
}

pub fn family(bench: &Bench) {
    for_types!(pools(bench) over all);
    for_types!(upsample_nearest(bench) over all);
    for_types!(upsample_bilinear(bench) over all);
    refused(bench);
}
