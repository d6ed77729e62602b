//! Pools and upsampling.

use super::{Operations, FLOATS};
use crate::selftest::compare::{Comparison, Tolerance};
use crate::selftest::number::{rounding, Values};
use crate::selftest::operand::{Layout, Tensor};
use candle_rocm_kernels::{Bilinear, DType, Pool};

pub fn add(list: &mut Operations) {
    list.add("image/avg_pool2d", |c| pool(c, Pool::Average));
    list.add("image/max_pool2d", |c| pool(c, Pool::Max));
    list.add("image/upsample_nearest", nearest);
    list.add("image/upsample_bilinear2d", bilinear);
}

/// An image of any layout.
fn image(c: &mut Comparison<'_>, dtype: DType, values: Values) -> Tensor {
    let dims = [c.random.between(1, 2), c.random.between(1, 3), c.random.between(3, 17), c.random.between(3, 17)];
    let layout = Layout::random(&mut c.random, &dims);
    Tensor::random(&mut c.random, dtype, values, layout)
}

fn pool(c: &mut Comparison<'_>, pool: Pool) {
    for dtype in FLOATS {
        for _ in 0..c.turns {
            let values = if pool == Pool::Max { Values::Awkward } else { Values::Plain };
            let input = image(c, dtype, values);
            let kernel = (c.random.between(1, 3), c.random.between(1, 3));
            let stride = (c.random.between(1, 3), c.random.between(1, 3));
            let dims = &input.layout.dims;
            let count =
                dims[0] * dims[1] * ((dims[2] - kernel.0) / stride.0 + 1) * ((dims[3] - kernel.1) / stride.1 + 1);
            let tolerance = match pool {
                Pool::Max => Tolerance::AnyZero,
                Pool::Average => Tolerance::of(dtype).plus(8.0 * rounding(dtype)),
            };
            let what = format!("{pool:?} pool of {input}, kernel {kernel:?}, stride {stride:?}");
            c.compare(&what, dtype, count, tolerance, |side, out| {
                side.kernels.pool2d(pool, kernel, stride, &side.put(&input)?.operand()?, out)
            });
        }
    }
}

fn nearest(c: &mut Comparison<'_>) {
    for dtype in DType::ALL {
        for _ in 0..c.turns {
            let input = image(c, dtype, Values::Awkward);
            let size = [c.random.between(1, 30), c.random.between(1, 30)];
            let count = input.layout.dims[0] * input.layout.dims[1] * size[0] * size[1];
            let what = format!("nearest of {input} to {size:?}");
            c.compare(&what, dtype, count, Tolerance::Exact, |side, out| {
                side.kernels.upsample_nearest(&size, &side.put(&input)?.operand()?, out)
            });
        }
    }
}

fn bilinear(c: &mut Comparison<'_>) {
    for dtype in FLOATS {
        for _ in 0..c.turns {
            let input = image(c, dtype, Values::Plain);
            let size = (c.random.between(1, 30), c.random.between(1, 30));
            let params = Bilinear { align_corners: c.random.once_in(2), scale: (None, None) };
            let count = input.layout.dims[0] * input.layout.dims[1] * size.0 * size.1;
            // Where a point stands is a rounded number itself, and neighbours are up to eight apart.
            let tolerance = Tolerance::of(dtype).plus(32.0 * rounding(dtype)).plus(1e-5);
            let what = format!("bilinear of {input} to {size:?}, {params:?}");
            c.compare(&what, dtype, count, tolerance, |side, out| {
                side.kernels.upsample_bilinear2d(size, params, &side.put(&input)?.operand()?, out)
            });
        }
    }
}
