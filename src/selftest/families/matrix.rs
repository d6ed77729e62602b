//! Matrix products by our own kernels, and convolutions in all their forms.

use super::{Operations, FLOATS};
use crate::selftest::compare::{Comparison, Tolerance};
use crate::selftest::number::Values;
use crate::selftest::operand::{Layout, Tensor};
use candle_rocm_kernels::{Convolution, DType, Operand, OperandMut, Winograd};

const TYPES: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::F64];

pub fn add(list: &mut Operations) {
    list.add("gemm/matmul", matmul);
    list.add("gemm/few rows", few_rows);
    list.add("conv/conv1d", |c| convolution(c, true, false));
    list.add("conv/conv2d", |c| convolution(c, false, false));
    list.add("conv/conv_transpose1d", |c| convolution(c, true, true));
    list.add("conv/conv_transpose2d", |c| convolution(c, false, true));
    list.add("conv/im2col", im2col);
    list.add("conv/col2im", col2im);
    list.add("conv/winograd", winograd);
}

fn matmul(c: &mut Comparison<'_>) {
    for dtype in DType::ALL {
        for _ in 0..2 * c.turns {
            let most = c.random.of_list(&[20, 70, 130]);
            let sizes = [c.random.between(1, 2), c.random.between(1, most), c.random.between(1, 70)];
            let columns = c.random.between(1, most);
            product(c, dtype, sizes, columns);
        }
    }
}

/// One to eight rows: the matrix-vector kernels.
fn few_rows(c: &mut Comparison<'_>) {
    for dtype in TYPES {
        for _ in 0..2 * c.turns {
            let sizes = [c.random.between(1, 3), c.random.between(1, 8), c.random.between(1, 600)];
            let columns = c.random.of_list(&[1, 16, 64, 257]);
            product(c, dtype, sizes, columns);
        }
    }
}

/// A factor: rows one after the other, or columns.
fn factor(c: &mut Comparison<'_>, dtype: DType, [batch, rows, columns]: [usize; 3]) -> Tensor {
    let strides = if c.random.once_in(2) { [rows * columns, columns, 1] } else { [rows * columns, 1, rows] };
    let start = if c.random.once_in(4) { 1 } else { 0 };
    let layout = Layout { start, dims: vec![batch, rows, columns], strides: strides.to_vec() };
    Tensor::random(&mut c.random, dtype, Values::Plain, layout)
}

fn product(c: &mut Comparison<'_>, dtype: DType, [batch, rows, depth]: [usize; 3], columns: usize) {
    let (left, right) = (factor(c, dtype, [batch, rows, depth]), factor(c, dtype, [batch, depth, columns]));
    let tolerance = Tolerance::of_sum(dtype, depth, 16.0 * depth as f64);
    let dims = [batch, rows, columns];
    let layout = Layout::contiguous(&dims);
    c.compare_at(0, &format!("{left} times {right}"), dtype, layout.count(), tolerance, |side, out| {
        // The result is an operand of its own kind, so it is made here and copied to where the comparison looks.
        let (left, right) = (side.put(&left)?, side.put(&right)?);
        let mut memory = side.stream.alloc::<u8>(layout.count() * dtype.size())?;
        let mut result = OperandMut::new(&mut memory, dtype, 0, &dims, &layout.strides)?;
        side.kernels.matmul(&left.operand()?, &right.operand()?, &mut result)?;
        side.kernels.copy(&Operand::new(&memory, dtype, 0, &dims, &layout.strides)?, out)
    });
}

/// A convolution of random sizes: image, kernel and parameters; the kernel of a transposed one is (in, out / groups, ...).
struct Drawn {
    params: Convolution,
    image: Vec<usize>,
    kernel: Vec<usize>,
    /// The shape of the result.
    out: Vec<usize>,
}

fn draw(c: &mut Comparison<'_>, flat: bool, transposed: bool, groups: bool) -> Option<Drawn> {
    let axes = if flat { 1 } else { 2 };
    let groups = if groups { c.random.of_list(&[1, 1, 2]) } else { 1 };
    let (batch, channels) = (c.random.between(1, 2), groups * c.random.of_list(&[1, 2, 5, 9]));
    let out = groups * c.random.of_list(&[1, 3, 8, 10]);
    let stride = c.random.of_list(&[1, 1, 2]);
    let params = Convolution {
        stride,
        padding: c.random.between(0, 2),
        dilation: c.random.of_list(&[1, 1, 2]),
        groups,
        output_padding: if transposed && stride > 1 { c.random.between(0, 1) } else { 0 },
    };
    let mut sizes = |low, high| (0..axes).map(|_| c.random.between(low, high)).collect::<Vec<usize>>();
    let (size, taps) = (sizes(5, 17), sizes(1, 3));
    let along = |(&size, &taps): (&usize, &usize)| match transposed {
        true => params.places_transposed(size, taps),
        false => params.places(size, taps),
    };
    // A window that does not fit is drawn again by the caller.
    let places = size.iter().zip(&taps).map(along).collect::<hip::Result<Vec<usize>>>().ok()?;
    if places.contains(&0) {
        return None;
    }
    let pair = if transposed { [channels, out / groups] } else { [out, channels / groups] };
    Some(Drawn {
        params,
        image: [&[batch, channels][..], &size].concat(),
        kernel: [&pair[..], &taps].concat(),
        out: [&[batch, out][..], &places].concat(),
    })
}

/// Products that may meet in an element of the result: those of the taps and channels.
fn terms(drawn: &Drawn) -> usize {
    drawn.image[1] * drawn.kernel[2..].iter().product::<usize>()
}

fn convolution(c: &mut Comparison<'_>, flat: bool, transposed: bool) {
    for dtype in TYPES {
        for _ in 0..2 * c.turns {
            let Some(drawn) = draw(c, flat, transposed, true) else { continue };
            let image = Tensor::dense(&mut c.random, dtype, Values::Plain, &drawn.image);
            let kernel = Tensor::dense(&mut c.random, dtype, Values::Plain, &drawn.kernel);
            let name = if transposed { "transposed convolution" } else { "convolution" };
            let what = format!("{name} of {image} with {kernel}, {:?}", drawn.params);
            let tolerance = Tolerance::of_sum(dtype, terms(&drawn), 16.0 * terms(&drawn) as f64);
            c.compare(&what, dtype, drawn.out.iter().product(), tolerance, |side, out| {
                let (image, kernel) = (side.put(&image)?, side.put(&kernel)?);
                match transposed {
                    true => side.kernels.conv_transpose(&drawn.params, &image.operand()?, &kernel.operand()?, out),
                    false => side.kernels.conv(&drawn.params, &image.operand()?, &kernel.operand()?, out),
                }
            });
        }
    }
}

fn im2col(c: &mut Comparison<'_>) {
    for dtype in FLOATS {
        for turn in 0..2 * c.turns {
            let Some(drawn) = draw(c, turn % 2 == 1, false, false) else { continue };
            let image = Tensor::dense(&mut c.random, dtype, Values::Awkward, &drawn.image);
            let taps = &drawn.kernel[2..];
            let places: usize = drawn.out[2..].iter().product();
            let count = drawn.image[0] * places * drawn.image[1] * taps.iter().product::<usize>();
            let what = format!("columns of {image} for {taps:?} taps, {:?}", drawn.params);
            c.compare(&what, dtype, count, Tolerance::Exact, |side, out| {
                side.kernels.im2col(&drawn.params, taps, &side.put(&image)?.operand()?, out)
            });
        }
    }
}

fn col2im(c: &mut Comparison<'_>) {
    for dtype in TYPES {
        for turn in 0..2 * c.turns {
            let Some(drawn) = draw(c, turn % 2 == 1, true, false) else { continue };
            let (places, taps) = (&drawn.image[2..], &drawn.kernel[2..]);
            let (many, rows) = (taps.iter().product::<usize>(), places.iter().product::<usize>());
            let shape = [drawn.image[0], drawn.out[1], many, rows];
            let columns = Tensor::dense(&mut c.random, dtype, Values::Plain, &shape);
            let what = format!("columns {columns} from {places:?} places of {taps:?} taps, {:?}", drawn.params);
            let tolerance = Tolerance::of_sum(dtype, many, 4.0 * many as f64);
            c.compare(&what, dtype, drawn.out.iter().product(), tolerance, |side, out| {
                side.kernels.col2im(&drawn.params, places, taps, &side.put(&columns)?.operand()?, out)
            });
        }
    }
}

/// The three steps of a convolution in tiles, each by itself.
fn winograd(c: &mut Comparison<'_>) {
    for dtype in [DType::F32, DType::F64] {
        for turn in 0..2 * c.turns {
            let axes = 1 + turn % 2;
            let mut sizes =
                |low, high, count: usize| (0..count).map(|_| c.random.between(low, high)).collect::<Vec<_>>();
            let (channels, size) = (sizes(1, 6, 3), sizes(4, 19, axes));
            let image = [&channels[..2], &size].concat();
            let kernel = [&[channels[2], channels[1]][..], &vec![3; axes]].concat();
            let params = Convolution { padding: 1, ..Default::default() };
            let Some(plan) = Winograd::of(&params, &image, &kernel) else { continue };
            let (planes, places, rows) = (plan.planes(), plan.places(), plan.rows());
            let image = Tensor::dense(&mut c.random, dtype, Values::Plain, &image);
            let kernel = Tensor::dense(&mut c.random, dtype, Values::Plain, &kernel);
            let tiles = Tensor::dense(&mut c.random, dtype, Values::Plain, &[planes, rows, places]);
            let tolerance = Tolerance::of_sum(dtype, 64, 2000.0);
            let count = planes * channels[1] * places;
            c.compare(&format!("tiles of the image {image}"), dtype, count, tolerance, |side, out| {
                side.kernels.winograd_image(&plan, &side.put(&image)?.operand()?, out)
            });
            let count = planes * rows * channels[1];
            c.compare(&format!("tiles of the kernel {kernel}"), dtype, count, tolerance, |side, out| {
                side.kernels.winograd_weights(&plan, &side.put(&kernel)?.operand()?, out)
            });
            let count = image.layout.dims[0] * rows * size.iter().product::<usize>();
            c.compare(&format!("the result of tiles {tiles}"), dtype, count, tolerance, |side, out| {
                side.kernels.winograd_result(&plan, &side.put(&tiles)?.operand()?, out)
            });
        }
    }
}
