//! Convolutions in tiles, their products by our own kernels, against sums in f64, over random sizes, paddings and layouts.

use crate::bench::{Bench, Tensor};
use crate::element::{Element, Random};
use crate::for_types;
use crate::layouts::{contiguous_strides, offsets};
use candle_rocm_kernels::{Convolution, DType, Output, Winograd};

/// One convolution of (batch, channels, height, width) into `out` channels; no height for a signal.
#[derive(Clone, Copy, Debug)]
struct Case {
    batch: usize,
    channels: usize,
    out: usize,
    height: Option<usize>,
    width: usize,
    padding: usize,
}

/// Sizes that fill tiles and sizes that do not, an image smaller than a tile, none at all; then random ones.
fn cases(random: &mut Random) -> Vec<Case> {
    let case = |batch, channels, out, height, width, padding| Case { batch, channels, out, height, width, padding };
    let mut cases = vec![
        case(1, 1, 1, Some(3), 3, 0),
        case(1, 2, 3, Some(1), 1, 1),
        case(2, 3, 5, Some(8), 12, 1),
        case(0, 2, 2, Some(5), 5, 1),
        case(1, 4, 2, None, 16, 1),
        case(3, 2, 2, None, 3, 0),
    ];
    for turn in 0..24 {
        let mut between = |low: usize, high: usize| low + random.below(high - low + 1);
        let padding = between(0, 4);
        let least = 3usize.saturating_sub(2 * padding).max(1);
        let height = (turn % 3 != 0).then(|| between(least, 19));
        cases.push(case(between(1, 3), between(1, 9), between(1, 9), height, between(least, 37), padding));
    }
    cases
}

impl Case {
    fn dims(&self, first: usize, second: usize, height: usize, width: usize) -> Vec<usize> {
        match self.height {
            Some(_) => vec![first, second, height, width],
            None => vec![first, second, width],
        }
    }
}

fn check<T: Element>(bench: &Bench) {
    let mut random = Random::new(111);
    for case in cases(&mut random) {
        let Case { batch, channels, out, height, width, padding } = case;
        let (rows, top, taps) = height.map_or((1, 0, 1), |height| (height, padding, 3));
        let (out_rows, out_width) = (rows + 2 * top + 1 - taps, width + 2 * padding - 2);
        let mut values = |count| (0..count).map(|_| T::from_f64(random.between(-1.0, 1.0))).collect::<Vec<T>>();
        let (image, weights) = (values(batch * channels * rows * width), values(out * channels * taps * 3));

        let dims = case.dims(batch, channels, rows, width);
        let kernel_dims = case.dims(out, channels, taps, 3);
        let params = Convolution { padding, ..Default::default() };
        let plan = Winograd::of(&params, &dims, &kernel_dims).expect("three taps");
        let (planes, places) = (plan.planes(), plan.places());
        let product = |parts: &[usize; 3]| parts.iter().product::<usize>();
        let [left, right, made] = [[planes, out, channels], [planes, channels, places], [planes, out, places]];

        // The image in order, and reversed in memory with a gap in front.
        let mut reversed = vec![1; dims.len()];
        for d in 1..dims.len() {
            reversed[d] = reversed[d - 1] * dims[d - 1];
        }
        let mut memory = vec![T::from_f64(1e9); image.len() + 1];
        for (&place, &value) in offsets(&dims, &reversed).iter().zip(&image) {
            memory[1 + place] = value;
        }
        let kernel = bench.contiguous(&weights, &kernel_dims);
        let weight_tiles =
            bench.result::<T>(product(&left), |tiles| bench.kernels.winograd_weights(&plan, &kernel.operand(), tiles));
        let weight_tiles = bench.contiguous(&weight_tiles, &left);
        let inputs: [(usize, Tensor); 2] =
            [(0, bench.contiguous(&image, &dims)), (1, bench.tensor(&memory, 1, &dims, &reversed))];
        for (start, input) in inputs {
            let tiles = bench
                .result::<T>(product(&right), |tiles| bench.kernels.winograd_image(&plan, &input.operand(), tiles));
            let tiles = bench.contiguous(&tiles, &right);
            let mut products = bench.contiguous(&vec![T::from_f64(0.0); product(&made)], &made);
            bench
                .kernels
                .matmul(&weight_tiles.operand(), &tiles.operand(), &mut products.operand_mut())
                .expect("products of all planes");
            let count = batch * out * out_rows * out_width;
            let got =
                bench.result_at::<T>(start, count, |to| bench.kernels.winograd_result(&plan, &products.operand(), to));

            let unit = if T::DTYPE.size() == 4 { 2f64.powi(-24) } else { 2f64.powi(-53) };
            let strides = contiguous_strides(&[batch, out, out_rows, out_width]);
            let places = offsets(&[batch, out, out_rows, out_width], &strides);
            for at in places {
                let (x, y) = (at % out_width, at / out_width % out_rows);
                let (o, b) = (at / strides[1] % out, at / strides[0]);
                let (mut sum, mut magnitude) = (0.0, 0.0);
                for c in 0..channels {
                    let plane = &image[(b * channels + c) * rows * width..][..rows * width];
                    for (tap, weight) in weights[(o * channels + c) * taps * 3..][..taps * 3].iter().enumerate() {
                        // All magnitudes are below one: that is what a tile's largest is.
                        magnitude += weight.to_f64().abs();
                        let (from_y, from_x) = ((y + tap / 3).wrapping_sub(top), (x + tap % 3).wrapping_sub(padding));
                        if from_y < rows && from_x < width {
                            sum += weight.to_f64() * plane[from_y * width + from_x].to_f64();
                        }
                    }
                }
                let error = (got[at].to_f64() - sum).abs();
                assert!(
                    error <= Winograd::ERROR * unit * magnitude,
                    "{case:?} of {}: element {at} is {:?}, but should be {sum}",
                    T::DTYPE,
                    got[at]
                );
            }
        }
    }
}

fn refused(bench: &Bench) {
    let of = |params: Convolution, image: &[usize], kernel: &[usize]| Winograd::of(&params, image, kernel);
    let plain = Convolution { padding: 1, ..Default::default() };
    let (image, kernel) = ([1, 2, 8, 8], [4, 2, 3, 3]);
    let plan = of(plain, &image, &kernel).expect("three taps");
    assert_eq!((plan.planes(), plan.places()), (36, 4));
    for params in [
        Convolution { stride: 2, ..plain },
        Convolution { dilation: 2, ..plain },
        Convolution { groups: 2, ..plain },
        Convolution { padding: usize::MAX, ..plain },
    ] {
        assert_eq!(of(params, &image, &kernel), None, "{params:?}");
    }
    assert_eq!(of(plain, &image, &[4, 2, 5, 3]), None);
    assert_eq!(of(plain, &image, &[4, 3, 3, 3]), None);
    assert_eq!(of(plain, &[1, 2, 1 << 20, 1 << 20], &kernel), None, "more tiles than 32 bits count");
    assert_eq!(of(Convolution::default(), &[1, 2, 2, 8], &kernel), None, "the window does not fit");

    // Tensors that are not what was planned are refused, not read beyond.
    let small = bench.contiguous(&[1f32; 64], &[1, 1, 8, 8]);
    let mut memory = bench.stream.zeros::<u8>(36 * 2 * 4 * 4).unwrap();
    let mut tiles = Output::new(&mut memory, DType::F32, 0, 36 * 2 * 4).unwrap();
    for error in [
        bench.kernels.winograd_image(&plan, &small.operand(), &mut tiles),
        bench.kernels.winograd_weights(&plan, &small.operand(), &mut tiles),
        bench.kernels.winograd_result(&plan, &small.operand(), &mut tiles),
    ] {
        assert!(error.unwrap_err().to_string().contains("winograd"));
    }
    let ints = bench.contiguous(&[1u8; 128], &image);
    let mut tiles = Output::new(&mut memory, DType::U8, 0, 36 * 2 * 4).unwrap();
    let error = bench.kernels.winograd_image(&plan, &ints.operand(), &mut tiles).unwrap_err().to_string();
    assert!(error.contains("u8"), "{error}");
}

pub fn family(bench: &Bench) {
    for_types!(check(bench) over f32 f64);
    refused(bench);
}
