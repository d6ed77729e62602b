//! Convolutions as matrix products by a library: forwards, what every tap sees is written down first and multiplied with the
//! kernel; transposed, the product comes first and what the taps contribute is added up. The library's matrix units outrun
//! our own convolution kernels by more than the columns cost, so long as the product is large enough.

use super::kernels::{Convolution, Operand, OperandMut};
use super::{kernel_dtype, matmul, RocmStorage, WrapErr};
use crate::{DType, Layout, Result};

/// Output channels and depth below which a product leaves matrix units mostly empty.
const LEAST: usize = 16;

/// Columns are made for as many batches at once as fit into this many bytes: beyond the caches there is nothing to gain.
pub(super) const AT_ONCE: usize = 256 << 20;

/// A single batch with more columns than this goes through our own kernels, which need none.
pub(super) const MOST: usize = 1 << 30;

/// The sizes of a convolution as a product.
struct Product {
    batches: usize,
    channels: usize,
    taps: usize,
    out_channels: usize,
    /// Places of the input and of the result.
    from: usize,
    to: usize,
}

impl Product {
    /// Of (batch, channel, ...) into `out_dims`, with a kernel of (..., ..., taps).
    fn of(image: &Layout, kernel: &Layout, out_dims: &[usize]) -> Self {
        let area = |dims: &[usize]| dims[2..].iter().product();
        Self {
            batches: image.dims()[0],
            channels: image.dims()[1],
            taps: area(kernel.dims()),
            out_channels: out_dims[1],
            from: area(image.dims()),
            to: area(out_dims),
        }
    }

    /// How many batches to do at once; none where the product does not pay.
    fn at_once(&self, columns: usize, dtype: DType) -> Option<usize> {
        let served = matches!(dtype, DType::F16 | DType::BF16 | DType::F32 | DType::F64);
        let large = self.out_channels >= LEAST && self.channels * self.taps >= LEAST && self.channels > 1;
        let bytes = columns * dtype.size_in_bytes();
        let some = self.batches > 0 && bytes > 0 && bytes <= MOST;
        (served && large && some).then(|| (AT_ONCE / bytes).clamp(1, self.batches))
    }
}

/// The strides of an image whose places lie one after the other evenly: batch, channel, place.
fn even_places(image: &Layout) -> Option<[usize; 3]> {
    match (image.dims(), image.stride()) {
        (&[_, _, _], &[batch, channel, column]) => Some([batch, channel, column]),
        (&[_, _, _, width], &[batch, channel, row, column]) if row == width * column => Some([batch, channel, column]),
        _ => None,
    }
}

/// A convolution with a contiguous kernel, or nothing where our own kernels serve better.
pub(super) fn forwards(
    params: &Convolution,
    (image, image_l): (&RocmStorage, &Layout),
    (kernel, kernel_l): (&RocmStorage, &Layout),
    out_dims: &[usize],
) -> Result<Option<RocmStorage>> {
    let (device, dtype) = (&image.device, image.slice.dtype());
    let product = Product::of(image_l, kernel_l, out_dims);
    let (rows, depth, places) = (product.out_channels, product.channels * product.taps, product.to);
    let Some(at_once) = product.at_once(depth * places, dtype).filter(|_| device.rocblas().is_some()) else {
        return Ok(None);
    };
    let element = kernel_dtype(dtype, "conv")?;
    let mut out = RocmStorage::uninitialised(device, dtype, product.batches * rows * places)?;
    // A kernel of one tap that meets every place sees the image itself.
    let itself =
        if product.taps == 1 && product.from == places && params.padding == 0 { even_places(image_l) } else { None };
    for first in (0..product.batches).step_by(at_once) {
        let count = at_once.min(product.batches - first);
        let part = image_l.narrow(0, first, count)?;
        let made;
        let (columns, start, strides) = match itself {
            Some(strides) => (image, part.start_offset(), strides),
            None => {
                let input = image.operand(&part, "conv")?;
                made = RocmStorage::filled(device, dtype, count * depth * places, "conv", |to| {
                    device.kernels().im2col(params, &kernel_l.dims()[2..], &input, to)
                })?;
                (&made, 0, [depth * places, places, 1])
            }
        };
        let dims = [[count, rows, depth], [count, depth, places], [count, rows, places]];
        let kernel_strides = [0, depth, 1];
        let left =
            Operand::new(kernel.slice.bytes()?, element, kernel_l.start_offset(), &dims[0], &kernel_strides).w()?;
        let right = Operand::new(columns.slice.bytes()?, element, start, &dims[1], &strides).w()?;
        let to = [rows * places, places, 1];
        let mut to = OperandMut::new(out.slice.bytes_mut()?, element, first * rows * places, &dims[2], &to).w()?;
        matmul::multiply(device, &left, &right, &mut to).w()?;
    }
    Ok(Some(out))
}

/// A transposed convolution with a contiguous kernel, or nothing where our own kernels serve better.
pub(super) fn backwards(
    params: &Convolution,
    (image, image_l): (&RocmStorage, &Layout),
    (kernel, kernel_l): (&RocmStorage, &Layout),
    out_dims: &[usize],
) -> Result<Option<RocmStorage>> {
    let (device, dtype) = (&image.device, image.slice.dtype());
    let product = Product::of(image_l, kernel_l, out_dims);
    let (rows, depth, places) = (product.out_channels * product.taps, product.channels, product.from);
    let at_once = product.at_once(rows * places, dtype).filter(|_| device.rocblas().is_some());
    let (Some(at_once), Some(strides)) = (at_once, even_places(image_l)) else { return Ok(None) };
    let element = kernel_dtype(dtype, "conv_transpose")?;
    let in_batch = product.out_channels * product.to;
    let mut out = RocmStorage::uninitialised(device, dtype, product.batches * in_batch)?;
    for first in (0..product.batches).step_by(at_once) {
        let count = at_once.min(product.batches - first);
        let dims = [[count, rows, depth], [count, depth, places], [count, rows, places]];
        // The kernel is (channel, out, taps): its transpose, as it lies.
        let kernel_strides = [0, 1, rows];
        let left =
            Operand::new(kernel.slice.bytes()?, element, kernel_l.start_offset(), &dims[0], &kernel_strides).w()?;
        let start = image_l.narrow(0, first, count)?.start_offset();
        let right = Operand::new(image.slice.bytes()?, element, start, &dims[1], &strides).w()?;
        let mut columns = RocmStorage::uninitialised(device, dtype, count * rows * places)?;
        let column_strides = [rows * places, places, 1];
        let mut to = OperandMut::new(columns.slice.bytes_mut()?, element, 0, &dims[2], &column_strides).w()?;
        matmul::multiply(device, &left, &right, &mut to).w()?;
        let planes = [count, product.out_channels, product.taps, places];
        let strides = [rows * places, product.taps * places, places, 1];
        let planes = Operand::new(columns.slice.bytes()?, element, 0, &planes, &strides).w()?;
        let (from, taps) = (&image_l.dims()[2..], &kernel_l.dims()[2..]);
        let mut to = out.output_at(first * in_batch, count * in_batch, "conv_transpose")?;
        device.kernels().col2im(params, from, taps, &planes, &mut to).w()?;
    }
    Ok(Some(out))
}
