//! Convolutions in tiles, their products by our own kernels, against sums in f64, over random sizes, paddings and layouts.

use crate::bench::{Bench, Tensor};
use crate::element::{Element, Random};
use crate::for_types;
use crate::layouts::offsets;
use candle_rocm_kernels::{Convolution, DType, Output, Winograd};

/// One convolution of (batch, channels, height, width) into `out` channels; no height for a signal.
#[derive(Clone, Copy, Debug)]
struct Case {
    batch: usize,
    channels: usize,
    out: usize,
    height: Option<usize>,
    width: usize,
    kernel: usize,
    transposed: bool,
    params: Convolution,
}

/// Sizes that fill tiles and sizes that do not, an image smaller than a tile, none at all; then random ones.
fn cases(random: &mut Random) -> Vec<Case> {
    let case = |batch, channels, out, height, width, padding| {
        let params = Convolution { padding, ..Default::default() };
        Case { batch, channels, out, height, width, kernel: 3, transposed: false, params }
    };
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
    // Transposed: (taps, step, padding, more at the end). Taps that see three places, or fewer, or lie beyond the padding.
    let transposed = [
        (4, 2, 1, 0),
        (3, 1, 1, 0),
        (3, 1, 0, 0),
        (3, 2, 1, 1),
        (5, 2, 2, 1),
        (6, 2, 2, 0),
        (8, 4, 2, 0),
        (2, 2, 0, 0),
        (3, 1, 2, 0),
        (1, 1, 0, 0),
        (7, 3, 2, 2),
    ];
    for (kernel, stride, padding, output_padding) in transposed {
        for flat in [false, true] {
            let mut between = |low: usize, high: usize| low + random.below(high - low + 1);
            let height = (!flat).then(|| between(3, 11));
            let plain = case(between(1, 2), between(1, 5), between(1, 5), height, between(3, 19), padding);
            let params = Convolution { stride, output_padding, ..plain.params };
            cases.push(Case { kernel, transposed: true, params, ..plain });
        }
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

    /// The size of the result along an axis.
    fn along(&self, size: usize) -> usize {
        let places = match self.transposed {
            false => self.params.places(size, self.kernel),
            true => self.params.places_transposed(size, self.kernel),
        };
        places.expect("the window fits")
    }
}

fn check<T: Element>(bench: &Bench) {
    let mut random = Random::new(111);
    for case in cases(&mut random) {
        let Case { batch, channels, out, height, width, kernel, transposed, params } = case;
        let (rows, top, taps) = height.map_or((1, 0, 1), |height| (height, params.padding, kernel));
        let (out_rows, out_width) = (height.map_or(1, |height| case.along(height)), case.along(width));
        let mut values = |count| (0..count).map(|_| T::from_f64(random.between(-1.0, 1.0))).collect::<Vec<T>>();
        let (image, weights) = (values(batch * channels * rows * width), values(out * channels * taps * kernel));

        // What should come out, and how large the taps of each channel of the result are: the image is all within one.
        let mut sums = vec![0.0; batch * out * out_rows * out_width];
        let mut magnitudes = vec![0.0; out];
        for (at, weight) in weights.iter().enumerate() {
            let (tap_y, tap_x, pair) = (at / kernel % taps, at % kernel, at / (taps * kernel));
            let (o, c) = if transposed { (pair % out, pair / out) } else { (pair / channels, pair % channels) };
            magnitudes[o] += weight.to_f64().abs();
            // The window slides over the image, or over the result: from each place of the other to one of these.
            let (slides, over) = ((out_rows, out_width), (rows, width));
            let (slides, over) = if transposed { (over, slides) } else { (slides, over) };
            for y in 0..slides.0 {
                for x in 0..slides.1 {
                    let step = if height.is_some() { params.stride } else { 1 };
                    let (to_y, to_x) = (
                        (y * step + tap_y).wrapping_sub(top),
                        (x * params.stride + tap_x).wrapping_sub(params.padding),
                    );
                    if to_y >= over.0 || to_x >= over.1 {
                        continue;
                    }
                    let ((y, x), (to_y, to_x)) =
                        if transposed { ((y, x), (to_y, to_x)) } else { ((to_y, to_x), (y, x)) };
                    for b in 0..batch {
                        sums[((b * out + o) * out_rows + to_y) * out_width + to_x] +=
                            weight.to_f64() * image[((b * channels + c) * rows + y) * width + x].to_f64();
                    }
                }
            }
        }

        let dims = case.dims(batch, channels, rows, width);
        let (into, from) = if transposed { (channels, out) } else { (out, channels) };
        let kernel_dims = case.dims(into, from, taps, kernel);
        let plan = if transposed { Winograd::transposed } else { Winograd::of };
        let plan = plan(&params, &dims, &kernel_dims).unwrap_or_else(|| panic!("{case:?} sees three places"));
        let (planes, places, made_rows) = (plan.planes(), plan.places(), plan.rows());
        let product = |parts: &[usize; 3]| parts.iter().product::<usize>();
        let [left, right, made] =
            [[planes, made_rows, channels], [planes, channels, places], [planes, made_rows, places]];

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
            let got = bench
                .result_at::<T>(start, sums.len(), |to| bench.kernels.winograd_result(&plan, &products.operand(), to));
            let unit = if T::DTYPE.size() == 4 { 2f64.powi(-24) } else { 2f64.powi(-53) };
            for (at, (got, want)) in got.iter().zip(&sums).enumerate() {
                let magnitude = magnitudes[at / (out_rows * out_width) % out];
                assert!(
                    (got.to_f64() - want).abs() <= Winograd::ERROR * unit * magnitude,
                    "{case:?} of {}: element {at} is {got:?}, but should be {want}",
                    T::DTYPE
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
    for image in
        [[1, 2, 1 << 20, 1 << 20], [usize::MAX, 2, 8, 8], [1, 2, usize::MAX / 2, 8], [usize::MAX, 2, usize::MAX, 8]]
    {
        assert_eq!(of(plain, &image, &kernel), None, "more tiles than 32 bits count");
        assert_eq!(Winograd::transposed(&plain, &image, &[2, 4, 3, 3]), None, "more tiles than 32 bits count");
    }
    assert_eq!(of(Convolution::default(), &[1, 2, 2, 8], &kernel), None, "the window does not fit");

    let turned = |params: Convolution, taps: usize| Winograd::transposed(&params, &image, &[2, 4, taps, taps]);
    assert!(turned(Convolution { stride: 2, ..plain }, 4).is_some());
    assert_eq!(turned(Convolution { stride: 2, ..plain }, 7), None, "four places");
    assert_eq!(turned(Convolution { stride: 2, dilation: 2, ..plain }, 3), None);
    assert_eq!(turned(Convolution { stride: 0, ..plain }, 3), None);
    assert_eq!(turned(Convolution { padding: usize::MAX, ..plain }, 3), None);
    assert_eq!(Winograd::transposed(&plain, &image, &[2, 4, 3, 2]), None);

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
