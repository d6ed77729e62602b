//! Pooling and resampling of images.

use super::kernels::{Bilinear, Kernels, Operand, Output, Pool};
use super::RocmStorage;
use crate::{Layout, Result};

/// Makes an image of `size` from the one in `storage`, whose first two dimensions are batch and channel.
fn resample(
    storage: &RocmStorage,
    layout: &Layout,
    op: &'static str,
    size: &[usize],
    make: impl FnOnce(&Kernels, &Operand<'_>, &mut Output<'_>) -> hip::Result<()>,
) -> Result<RocmStorage> {
    let input = storage.operand(layout, op)?;
    let count = layout.dims().iter().take(2).chain(size).product();
    let device = &storage.device;
    RocmStorage::filled(device, storage.slice.dtype(), count, op, |out| make(device.kernels(), &input, out))
}

/// One element for each place of a window.
pub(super) fn pool2d(
    storage: &RocmStorage,
    layout: &Layout,
    pool: Pool,
    kernel: (usize, usize),
    stride: (usize, usize),
) -> Result<RocmStorage> {
    let (_, _, height, width) = layout.shape().dims4()?;
    let places = |size: usize, kernel: usize, stride: usize| size.saturating_sub(kernel) / stride.max(1) + 1;
    let size = [places(height, kernel.0, stride.0), places(width, kernel.1, stride.1)];
    resample(storage, layout, "pool2d", &size, |kernels, input, out| kernels.pool2d(pool, kernel, stride, input, out))
}

/// Each element is the one it stands on.
pub(super) fn upsample_nearest(
    storage: &RocmStorage,
    layout: &Layout,
    op: &'static str,
    size: &[usize],
) -> Result<RocmStorage> {
    resample(storage, layout, op, size, |kernels, input, out| kernels.upsample_nearest(size, input, out))
}

/// Each element is blended from the four around it.
pub(super) fn upsample_bilinear2d(
    storage: &RocmStorage,
    layout: &Layout,
    size: (usize, usize),
    align_corners: bool,
    scale: (Option<f64>, Option<f64>),
) -> Result<RocmStorage> {
    let params = Bilinear { align_corners, scale };
    resample(storage, layout, "upsample_bilinear2d", &[size.0, size.1], |kernels, input, out| {
        kernels.upsample_bilinear2d(size, params, input, out)
    })
}
