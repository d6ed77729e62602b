//! Convolutions through MIOpen, with the feature of that name. What it has no types or sizes for stays with our own kernels: f64, the
//! integers, and empty tensors.

use super::{elementwise, RocmDType, RocmDevice, RocmStorage, WrapErr};
use crate::{DType, Layout, Result};
use half::{bf16, f16};
use rocm_libraries::miopen::{Convolution, Element, Miopen, Sizes, Tensor, TensorMut};

impl RocmDevice {
    /// MIOpen for this device's stream; `None` where the library is not installed.
    pub fn miopen(&self) -> Option<&Miopen> {
        self.libraries().miopen(self.raw_stream())
    }
}

/// Stride, padding and dilation, the same in all directions.
pub(super) struct Steps {
    pub stride: usize,
    pub padding: usize,
    pub dilation: usize,
}

/// A convolution of an image (batch, channels, then one or two dimensions) with a contiguous kernel; `None` where it is not MIOpen's.
pub(super) fn convolve(
    steps: &Steps,
    (image, image_l): (&RocmStorage, &Layout),
    (kernel, kernel_l): (&RocmStorage, &Layout),
    out_dims: &[usize],
) -> Result<Option<RocmStorage>> {
    let run = match image.slice.dtype() {
        DType::F16 => run::<f16>,
        DType::BF16 => run::<bf16>,
        DType::F32 => run::<f32>,
        _ => return Ok(None),
    };
    let device = &image.device;
    let (Some(x), Some(w), Some(y)) = (sizes(image_l.dims()), sizes(kernel_l.dims()), sizes(out_dims)) else {
        return Ok(None);
    };
    let Some(miopen) = device.miopen() else { return Ok(None) };
    // A signal is an image one pixel high, over which nothing moves up or down.
    let (padding, stride, dilation) = match out_dims.len() {
        3 => ([0, steps.padding], [1, steps.stride], [1, steps.dilation]),
        _ => ([steps.padding; 2], [steps.stride; 2], [steps.dilation; 2]),
    };
    let convolution = Convolution { padding, stride, dilation, groups: 1 };
    let (copied, copied_l);
    let (image, image_l) = if image_l.is_contiguous() {
        (image, image_l)
    } else {
        (copied, copied_l) = (elementwise::copy(image, image_l)?, Layout::contiguous(image_l.shape()));
        (&copied, &copied_l)
    };
    run(miopen, &convolution, (image, image_l.start_offset(), x), (kernel, kernel_l.start_offset(), w), y).map(Some)
}

/// Four sizes; `None` for what MIOpen does not count: nothing, and more than 31 bits.
fn sizes(dims: &[usize]) -> Option<Sizes> {
    let sizes = match *dims {
        [n, c, w] => [n, c, 1, w],
        [n, c, h, w] => [n, c, h, w],
        _ => return None,
    };
    let count = sizes.iter().try_fold(1usize, |product, &size| product.checked_mul(size))?;
    (count > 0 && i32::try_from(count).is_ok()).then_some(sizes)
}

type Part<'a> = (&'a RocmStorage, usize, Sizes);

fn run<T: Element + RocmDType>(
    miopen: &Miopen,
    convolution: &Convolution,
    (image, image_start, x): Part<'_>,
    (kernel, kernel_start, w): Part<'_>,
    y: Sizes,
) -> Result<RocmStorage> {
    let device = &image.device;
    let mut out = RocmStorage::uninitialised(device, T::DTYPE, y.iter().product())?;
    let image = image.as_rocm_slice::<T>()?.slice(image_start..).w()?;
    let kernel = kernel.as_rocm_slice::<T>()?.slice(kernel_start..).w()?;
    let (image, kernel) = (Tensor::new(image, &x).w()?, Tensor::new(kernel, &w).w()?);
    let mut result = TensorMut::new(out.as_rocm_slice_mut::<T>()?, &y).w()?;
    miopen.convolution_forward(convolution, &image, &kernel, &mut result).w()?;
    Ok(out)
}
