//! Convolutions and their column forms against nested loops, on whole numbers, where there is one right answer.

use crate::bench::{assert_same, Bench};
use crate::element::{Element, Random};
use crate::for_types;
use crate::layouts::contiguous_strides;
use candle_rocm_kernels::{Convolution, DType, Output};
use half::{bf16, f16};

/// What is convolved: (batch, channels, height, width), the kernel's taps, channels that come out. A height of 0 stands for
/// a tensor of one dimension.
#[derive(Clone, Copy, Debug)]
struct Case {
    batch: usize,
    channels: usize,
    size: [usize; 2],
    kernel: [usize; 2],
    out: usize,
    params: Convolution,
}

const fn params(stride: usize, padding: usize, dilation: usize, groups: usize, output_padding: usize) -> Convolution {
    Convolution { stride, padding, dilation, groups, output_padding }
}

const fn case(
    batch: usize,
    channels: usize,
    size: [usize; 2],
    kernel: [usize; 2],
    out: usize,
    params: Convolution,
) -> Case {
    Case { batch, channels, size, kernel, out, params }
}

const CASES: [Case; 14] = [
    case(1, 1, [3, 3], [1, 1], 1, params(1, 0, 1, 1, 0)),
    case(2, 5, [9, 7], [3, 3], 12, params(1, 1, 1, 1, 0)),
    case(1, 8, [12, 13], [3, 2], 70, params(2, 0, 1, 1, 0)),
    case(1, 4, [11, 9], [3, 3], 8, params(3, 2, 2, 1, 1)),
    case(2, 6, [7, 8], [3, 3], 9, params(1, 1, 1, 3, 0)),
    case(2, 6, [6, 5], [2, 2], 6, params(2, 0, 1, 6, 0)),
    case(1, 16, [5, 6], [4, 4], 16, params(2, 1, 1, 2, 0)),
    case(3, 4, [0, 40], [0, 5], 9, params(1, 2, 1, 1, 0)),
    case(2, 3, [0, 17], [0, 4], 10, params(3, 0, 1, 1, 0)),
    case(1, 9, [0, 30], [0, 3], 9, params(2, 1, 3, 3, 1)),
    case(1, 2, [4, 4], [2, 3], 130, params(1, 0, 1, 1, 0)),
    // Transposed, their rows fall into fours.
    case(2, 3, [5, 6], [4, 4], 8, params(2, 1, 1, 1, 0)),
    case(1, 2, [4, 7], [3, 3], 4, params(2, 1, 2, 1, 1)),
    case(0, 2, [4, 4], [2, 2], 8, params(1, 0, 1, 1, 0)),
];

impl Case {
    fn flat(&self) -> bool {
        self.size[0] == 0
    }

    /// Height and width, 1 for the height of a tensor of one dimension.
    fn area(&self) -> [usize; 2] {
        [self.size[0].max(1), self.size[1]]
    }

    fn taps(&self) -> [usize; 2] {
        [self.kernel[0].max(1), self.kernel[1]]
    }

    /// Stride, padding and dilation along the two axes.
    fn along(&self, axis: usize) -> (usize, usize, usize) {
        let p = &self.params;
        if axis == 0 && self.flat() {
            (1, 0, 1)
        } else {
            (p.stride, p.padding, p.dilation)
        }
    }

    fn dims(&self, first: usize, second: usize, sizes: [usize; 2]) -> Vec<usize> {
        if self.flat() {
            vec![first, second, sizes[1]]
        } else {
            vec![first, second, sizes[0], sizes[1]]
        }
    }

    fn out_area(&self, back: bool) -> [usize; 2] {
        let (size, taps) = (self.area(), self.taps());
        let along = |axis: usize| {
            if axis == 0 && self.flat() {
                return 1;
            }
            let result = if back {
                self.params.places_transposed(size[axis], taps[axis])
            } else {
                self.params.places(size[axis], taps[axis])
            };
            result.expect("the window fits")
        };
        [along(0), along(1)]
    }

    /// Calls `each` with (input place, output place, tap) for every tap that connects a pair.
    fn connect(&self, back: bool, mut each: impl FnMut([usize; 2], [usize; 2], usize)) {
        let (size, taps, out) = (self.area(), self.taps(), self.out_area(back));
        // Forwards the window slides over the input, backwards over the result.
        let (slides, over) = if back { (size, out) } else { (out, size) };
        for y in 0..slides[0] {
            for x in 0..slides[1] {
                for tap in 0..taps[0] * taps[1] {
                    let reach = |axis: usize, at: usize, tap: usize| {
                        let (stride, padding, dilation) = self.along(axis);
                        (at * stride + tap * dilation).checked_sub(padding).filter(|&there| there < over[axis])
                    };
                    if let (Some(y2), Some(x2)) = (reach(0, y, tap / taps[1]), reach(1, x, tap % taps[1])) {
                        if back {
                            each([y, x], [y2, x2], tap)
                        } else {
                            each([y2, x2], [y, x], tap)
                        }
                    }
                }
            }
        }
    }
}

/// Whole numbers so small that no sum of products loses anything, in any dtype.
fn whole<T: Element>(random: &mut Random, count: usize) -> Vec<T> {
    (0..count).map(|_| T::from_f64(random.below(5) as f64 - if T::DTYPE.is_float() { 2.0 } else { 0.0 })).collect()
}

/// Sums of small whole numbers, as the dtype has them: floats round (or saturate), integers wrap.
fn result<T: Element>(sums: &[f64]) -> Vec<T> {
    sums.iter()
        .map(|&sum| if T::DTYPE.is_float() { T::from_f64(sum) } else { T::from_bits(sum as i64 as u64) })
        .collect()
}

fn check<T: Element>(bench: &Bench, back: bool) {
    let mut random = Random::new(81);
    for case in CASES {
        let Case { batch, channels, out, params, .. } = case;
        let (area, taps, out_area) = (case.area(), case.taps(), case.out_area(back));
        let (size, window, out_size) = (area[0] * area[1], taps[0] * taps[1], out_area[0] * out_area[1]);
        let (from, to) = (channels / params.groups, out / params.groups);
        let image = whole::<T>(&mut random, batch * channels * size);
        let weights = whole::<T>(&mut random, channels * out / params.groups * window);
        let mut sums = vec![0.0; batch * out * out_size];
        case.connect(back, |[y, x], [out_y, out_x], tap| {
            for b in 0..batch {
                for o in 0..out {
                    let group = o / to;
                    for c in 0..from {
                        let weight = if back { (group * from + c) * to + o % to } else { o * from + c };
                        let pixel = image[((b * channels + group * from + c) * area[0] + y) * area[1] + x];
                        sums[((b * out + o) * out_area[0] + out_y) * out_area[1] + out_x] +=
                            pixel.to_f64() * weights[weight * window + tap].to_f64();
                    }
                }
            }
        });
        let kernel_dims = if back { case.dims(channels, to, taps) } else { case.dims(out, from, taps) };
        let kernel = bench.contiguous(&weights, &kernel_dims);
        // The image in order, and with its last two dimensions swapped in memory and a gap in front.
        let dims = case.dims(batch, channels, area);
        let mut swapped = contiguous_strides(&dims);
        let last = dims.len() - 1;
        (swapped[last - 1], swapped[last]) = (1, dims[last - 1]);
        let mut memory = vec![T::from_f64(1.0); image.len() + 1];
        for (at, &place) in crate::layouts::offsets(&dims, &swapped).iter().enumerate() {
            memory[1 + place] = image[at];
        }
        let inputs = [(true, bench.contiguous(&image, &dims)), (false, bench.tensor(&memory, 1, &dims, &swapped))];
        for (gpu, input) in inputs {
            let bench = bench.as_on_a_gpu(gpu);
            let got = bench.result::<T>(sums.len(), |place| match back {
                false => bench.kernels.conv(&params, &input.operand(), &kernel.operand(), place),
                true => bench.kernels.conv_transpose(&params, &input.operand(), &kernel.operand(), place),
            });
            assert_same(&got, &result::<T>(&sums), || {
                format!("{} of {} {case:?}", if back { "conv_transpose" } else { "conv" }, T::DTYPE)
            });
        }
    }
}

fn forwards<T: Element>(bench: &Bench) {
    check::<T>(bench, false);
    // Large tiles: a batch has at least one for each of the two rows of tiles that 160 channels are.
    let batch = bench.many_tiles().div_ceil(2);
    let (image, weights) = (vec![T::from_f64(1.0); batch * 8 * 12 * 12], vec![T::from_f64(1.0); 160 * 8]);
    let (input, kernel) = (bench.contiguous(&image, &[batch, 8, 12, 12]), bench.contiguous(&weights, &[160, 8, 1, 1]));
    let got = bench.result::<T>(batch * 160 * 144, |out| {
        bench.kernels.conv(&Convolution::default(), &input.operand(), &kernel.operand(), out)
    });
    assert_same(&got, &vec![T::from_f64(8.0); batch * 160 * 144], || "a kernel of one tap".into());
}

fn backwards<T: Element>(bench: &Bench) {
    check::<T>(bench, true);
}

fn columns<T: Element>(bench: &Bench) {
    let mut random = Random::new(91);
    for case in CASES.iter().filter(|case| case.params.groups == 1) {
        let (area, taps) = (case.area(), case.taps());
        let window = taps[0] * taps[1];
        let kernel: Vec<usize> = if case.flat() { vec![taps[1]] } else { taps.to_vec() };
        let dims = case.dims(case.batch, case.channels, area);

        let places = case.out_area(false);
        let image = random.awkward::<T>(dims.iter().product());
        let mut want = vec![T::from_bits(0); case.batch * places[0] * places[1] * case.channels * window];
        case.connect(false, |[y, x], [out_y, out_x], tap| {
            for plane in 0..case.batch * case.channels {
                let column = (plane * window + tap) * places[0] + out_y;
                want[column * places[1] + out_x] = image[(plane * area[0] + y) * area[1] + x];
            }
        });
        let input = bench.contiguous(&image, &dims);
        let got =
            bench.result::<T>(want.len(), |out| bench.kernels.im2col(&case.params, &kernel, &input.operand(), out));
        assert_same(&got, &want, || format!("im2col of {} {case:?}", T::DTYPE));

        let out = case.out_area(true);
        let rows = area[0] * area[1];
        let columns = whole::<T>(&mut random, case.batch * rows * case.channels * window);
        let mut sums = vec![0.0; case.batch * case.channels * out[0] * out[1]];
        case.connect(true, |[y, x], [out_y, out_x], tap| {
            for plane in 0..case.batch * case.channels {
                let column = (plane * window + tap) * area[0] + y;
                sums[(plane * out[0] + out_y) * out[1] + out_x] += columns[column * area[1] + x].to_f64();
            }
        });
        let input = bench.contiguous(&columns, &[case.batch, case.channels, window, rows]);
        let from: Vec<usize> = if case.flat() { vec![area[1]] } else { area.to_vec() };
        let got = bench
            .result::<T>(sums.len(), |out| bench.kernels.col2im(&case.params, &from, &kernel, &input.operand(), out));
        assert_same(&got, &result::<T>(&sums), || format!("col2im of {} {case:?}", T::DTYPE));
    }
}

fn refused(bench: &Bench) {
    let image = bench.contiguous(&[1f32; 16], &[1, 1, 4, 4]);
    let kernel = bench.contiguous(&[1f32; 25], &[1, 1, 5, 5]);
    let mut memory = bench.stream.zeros::<u8>(64).unwrap();
    let mut out = Output::new(&mut memory, DType::F32, 0, 16).unwrap();
    let error = bench
        .kernels
        .conv(&Convolution::default(), &image.operand(), &kernel.operand(), &mut out)
        .unwrap_err()
        .to_string();
    assert!(error.contains("does not fit"), "{error}");
    let kernel = bench.contiguous(&[1f32; 2], &[1, 2, 1, 1]);
    let error = bench
        .kernels
        .conv(&Convolution::default(), &image.operand(), &kernel.operand(), &mut out)
        .unwrap_err()
        .to_string();
    assert!(error.contains("does not go with"), "{error}");
    let kernel = bench.contiguous(&[1f32; 1], &[1, 1, 1, 1]);
    for params in [params(0, 0, 1, 1, 0), params(1, 0, 0, 1, 0), params(1, 0, 1, 0, 0), params(1, 0, 1, 2, 0)] {
        assert!(bench.kernels.conv(&params, &image.operand(), &kernel.operand(), &mut out).is_err(), "{params:?}");
        assert!(
            bench.kernels.conv_transpose(&params, &image.operand(), &kernel.operand(), &mut out).is_err(),
            "{params:?}"
        );
    }
    let ints = bench.contiguous(&[1u8; 16], &[1, 1, 4, 4]);
    let kernel = bench.contiguous(&[1u8; 1], &[1, 1, 1, 1]);
    let mut out = Output::new(&mut memory, DType::U8, 0, 16).unwrap();
    let error = bench
        .kernels
        .conv(&Convolution::default(), &ints.operand(), &kernel.operand(), &mut out)
        .unwrap_err()
        .to_string();
    assert!(error.contains("conv2d") && error.contains("u8"), "{error}");
}

pub fn family(bench: &Bench) {
    for_types!(forwards(bench) over bf16 f16 f32 f64);
    for_types!(backwards(bench) over all);
    for_types!(columns(bench) over all);
    refused(bench);
}
