//! Convolutions of three taps in tiles, transposed ones included: image and kernel become planes, each a product over the
//! channels, and the planes become the result. In two dimensions that is a quarter of the arithmetic of all taps, for f32 and
//! f64, where matrix units are slow or missing. How exact it is, and when it pays, `kernels::Winograd` says.

use super::columns::{AT_ONCE, MOST};
use super::kernels::{Convolution, Operand, OperandMut, Winograd};
use super::{kernel_dtype, matmul, RocmStorage, WrapErr};
use crate::{Layout, Result};

/// How tiles are laid over a convolution of an image and a kernel with these dimensions.
type Plan = fn(&Convolution, &[usize], &[usize]) -> Option<Winograd>;

/// A convolution with a contiguous kernel, or nothing where other ways serve better.
pub(super) fn forwards(
    params: &Convolution,
    image: (&RocmStorage, &Layout),
    kernel: (&RocmStorage, &Layout),
    out_dims: &[usize],
) -> Result<Option<RocmStorage>> {
    where_it_pays(Winograd::of, params, image, kernel, out_dims)
}

/// A transposed convolution with a contiguous kernel, likewise.
pub(super) fn backwards(
    params: &Convolution,
    image: (&RocmStorage, &Layout),
    kernel: (&RocmStorage, &Layout),
    out_dims: &[usize],
) -> Result<Option<RocmStorage>> {
    where_it_pays(Winograd::transposed, params, image, kernel, out_dims)
}

fn where_it_pays(
    plan: Plan,
    params: &Convolution,
    image: (&RocmStorage, &Layout),
    kernel: (&RocmStorage, &Layout),
    out_dims: &[usize],
) -> Result<Option<RocmStorage>> {
    let (device, element) = (&image.0.device, kernel_dtype(image.0.slice.dtype(), "conv")?);
    let whole = plan(params, image.1.dims(), kernel.1.dims());
    let Some(whole) = whole.filter(|plan| plan.pays(device.kernels().profile(), element, device.rocblas().is_some()))
    else {
        return Ok(None);
    };
    let (batches, channels) = (image.1.dims()[0].max(1), image.1.dims()[1]);
    let bytes = whole.planes() * whole.places().div_ceil(batches) * (channels + whole.rows()) * element.size();
    if bytes > MOST {
        return Ok(None);
    }
    in_parts(plan, params, image, kernel, out_dims, (AT_ONCE / bytes.max(1)).clamp(1, batches)).map(Some)
}

/// The same for so many batches at once.
fn in_parts(
    plan: Plan,
    params: &Convolution,
    (image, image_l): (&RocmStorage, &Layout),
    (kernel, kernel_l): (&RocmStorage, &Layout),
    out_dims: &[usize],
    at_once: usize,
) -> Result<RocmStorage> {
    let (device, dtype, op) = (&image.device, image.slice.dtype(), "conv");
    let (kernels, element) = (device.kernels(), kernel_dtype(dtype, op)?);
    let (batches, depth, in_batch) = (out_dims[0], image_l.dims()[1], out_dims[1..].iter().product::<usize>());
    let mut out = RocmStorage::uninitialised(device, dtype, batches * in_batch)?;
    let taps = kernel.operand(kernel_l, op)?;
    let mut weights: Option<RocmStorage> = None;
    for first in (0..batches).step_by(at_once.max(1)) {
        let count = at_once.min(batches - first);
        let part = image_l.narrow(0, first, count)?;
        let Some(plan) = plan(params, part.dims(), kernel_l.dims()) else {
            crate::bail!("a convolution of {:?} by {:?} is not done in tiles", part.dims(), kernel_l.dims())
        };
        let (planes, places, rows) = (plan.planes(), plan.places(), plan.rows());
        let weights = match &mut weights {
            Some(weights) => weights,
            none => none.insert(RocmStorage::filled(device, dtype, planes * rows * depth, op, |tiles| {
                kernels.winograd_weights(&plan, &taps, tiles)
            })?),
        };
        let input = image.operand(&part, op)?;
        let tiles = RocmStorage::filled(device, dtype, planes * depth * places, op, |tiles| {
            kernels.winograd_image(&plan, &input, tiles)
        })?;
        let mut products = RocmStorage::uninitialised(device, dtype, planes * rows * places)?;
        let dims = [[planes, rows, depth], [planes, depth, places], [planes, rows, places]];
        let strides = dims.map(|[_, rows, columns]| [rows * columns, columns, 1]);
        let left = Operand::new(weights.slice.bytes()?, element, 0, &dims[0], &strides[0]).w()?;
        let right = Operand::new(tiles.slice.bytes()?, element, 0, &dims[1], &strides[1]).w()?;
        let mut to = OperandMut::new(products.slice.bytes_mut()?, element, 0, &dims[2], &strides[2]).w()?;
        matmul::multiply(device, &left, &right, &mut to).w()?;
        let products = Operand::new(products.slice.bytes()?, element, 0, &dims[2], &strides[2]).w()?;
        let mut to = out.output_at(first * in_batch, count * in_batch, op)?;
        kernels.winograd_result(&plan, &products, &mut to).w()?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{op::BackpropOp, DType, Device, Storage, Tensor};

    /// The tiles of an image and a kernel on the device against the CPU's convolution in f64.
    fn check(image: &Tensor, kernel: &Tensor, padding: usize, at_once: usize) -> Result<()> {
        check_with(false, &Convolution { padding, ..Default::default() }, image, kernel, at_once)
    }

    fn check_with(
        transposed: bool,
        params: &Convolution,
        image: &Tensor,
        kernel: &Tensor,
        at_once: usize,
    ) -> Result<()> {
        let wide = |tensor: &Tensor| tensor.to_device(&Device::Cpu)?.to_dtype(DType::F64);
        let (wide_image, wide_kernel) = (wide(image)?, wide(kernel)?);
        let &Convolution { stride, padding, output_padding, .. } = params;
        let plan: Plan = if transposed { Winograd::transposed } else { Winograd::of };
        let want = match (image.rank(), transposed) {
            (3, false) => wide_image.conv1d(&wide_kernel, padding, 1, 1, 1)?,
            (3, true) => wide_image.conv_transpose1d(&wide_kernel, padding, output_padding, stride, 1, 1)?,
            (_, false) => wide_image.conv2d(&wide_kernel, padding, 1, 1, 1)?,
            (_, true) => wide_image.conv_transpose2d(&wide_kernel, padding, output_padding, stride, 1)?,
        };
        let ((image_s, image_l), (kernel_s, kernel_l)) = (image.storage_and_layout(), kernel.storage_and_layout());
        let (Storage::Cuda(on_image), Storage::Cuda(on_kernel)) = (&*image_s, &*kernel_s) else {
            panic!("on the device")
        };
        let got = in_parts(plan, params, (on_image, image_l), (on_kernel, kernel_l), want.dims(), at_once)?;
        let got = crate::tensor::from_storage(Storage::Cuda(got), want.dims(), BackpropOp::none(), false);
        // All of the image is within one, so that the magnitudes of the taps remain; of the channel with the largest.
        let sizes = wide_kernel.abs()?.transpose(0, usize::from(transposed))?.contiguous()?.flatten_from(1)?.sum(1)?;
        let magnitude = sizes.max(0)?.to_scalar::<f64>()?;
        let unit = if image.dtype() == DType::F32 { 2f64.powi(-24) } else { 2f64.powi(-53) };
        let error = (got.to_device(&Device::Cpu)?.to_dtype(DType::F64)? - want)?.abs()?.flatten_all()?.max(0)?;
        let error = error.to_scalar::<f64>()?;
        assert!(error <= Winograd::ERROR * unit * magnitude, "{error} for {image:?}, {kernel:?}, padding {padding}");
        Ok(())
    }

    #[test]
    fn tiles_are_the_convolution_of_the_cpu() -> Result<()> {
        let device = Device::new_rocm(0)?;
        let random = |dims: &[usize], dtype| Tensor::rand(-1f64, 1f64, dims, &device)?.to_dtype(dtype);
        for dtype in [DType::F32, DType::F64] {
            for padding in 0..4 {
                for (batch, channels, out, height, width) in
                    [(1, 1, 1, 3, 3), (3, 5, 7, 9, 14), (2, 17, 4, 12, 8), (1, 3, 2, 4, 21)]
                {
                    for at_once in [1, 2] {
                        let (image, kernel) =
                            (random(&[batch, channels, height, width], dtype)?, random(&[out, channels, 3, 3], dtype)?);
                        check(&image, &kernel, padding, at_once)?;
                        check(&image.transpose(2, 3)?, &kernel, padding, at_once)?;
                        check(&image.flip(&[3])?.narrow(1, 0, channels)?, &kernel, padding, batch)?;
                        let (signal, taps) =
                            (image.narrow(2, 1, 1)?.squeeze(2)?, kernel.narrow(2, 1, 1)?.squeeze(2)?.contiguous()?);
                        check(&signal, &taps, padding, at_once)?;
                    }
                }
            }
        }
        Ok(())
    }

    #[test]
    fn tiles_are_the_transposed_convolution_of_the_cpu() -> Result<()> {
        let device = Device::new_rocm(0)?;
        let random = |dims: &[usize], dtype| Tensor::rand(-1f64, 1f64, dims, &device)?.to_dtype(dtype);
        for dtype in [DType::F32, DType::F64] {
            for (taps, stride, padding, output_padding) in
                [(4, 2, 1, 0), (5, 2, 2, 1), (3, 1, 0, 0), (3, 2, 1, 1), (6, 3, 1, 2)]
            {
                let params = Convolution { stride, padding, output_padding, ..Default::default() };
                let (image, kernel) = (random(&[3, 5, 9, 14], dtype)?, random(&[5, 4, taps, taps], dtype)?);
                for at_once in [1, 2, 3] {
                    check_with(true, &params, &image, &kernel, at_once)?;
                    check_with(true, &params, &image.transpose(2, 3)?, &kernel, at_once)?;
                }
                // One signal: the CPU's transposed convolution of several is wrong.
                let (signal, taps) = (random(&[1, 5, 17], dtype)?, random(&[5, 4, taps], dtype)?);
                check_with(true, &params, &signal, &taps, 1)?;
            }
        }
        Ok(())
    }

    #[test]
    fn tiles_are_chosen_for_many_channels() -> Result<()> {
        let device = Device::new_rocm(0)?;
        let params = Convolution { padding: 1, ..Default::default() };
        let chosen = |channels: usize, dtype| -> Result<bool> {
            let image = Tensor::ones((1, channels, 32, 32), dtype, &device)?;
            let kernel = Tensor::ones((channels, channels, 3, 3), dtype, &device)?;
            let ((image, image_l), (kernel, kernel_l)) = (image.storage_and_layout(), kernel.storage_and_layout());
            let (Storage::Cuda(image), Storage::Cuda(kernel)) = (&*image, &*kernel) else { panic!("on the device") };
            Ok(forwards(&params, (image, image_l), (kernel, kernel_l), &[1, channels, 32, 32])?.is_some())
        };
        assert!(chosen(64, DType::F32)? && chosen(64, DType::F64)?);
        assert!(!chosen(64, DType::F16)? && !chosen(2, DType::F32)?);
        Ok(())
    }
}
