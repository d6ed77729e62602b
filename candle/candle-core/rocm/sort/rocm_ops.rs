//! `arg_sort` on the ROCm device.

#![warn(clippy::all, missing_docs)]

use super::ArgSort;
use crate::backend::BackendStorage;
use crate::rocm_backend::kernels::Order;
use crate::{DType, Layout, Result, RocmStorage, Shape};

/// The indices that sort the rows along the last dimension of a contiguous tensor, which the kernels see to.
pub fn arg_sort(sort: &ArgSort, storage: &RocmStorage, layout: &Layout) -> Result<(RocmStorage, Shape)> {
    let order = if sort.asc { Order::Ascending } else { Order::Descending };
    let device = storage.device();
    let input = storage.operand(layout, "argsort")?;
    let indices = RocmStorage::filled(device, DType::U32, layout.shape().elem_count(), "argsort", |out| {
        device.kernels().arg_sort(order, &input, out)
    })?;
    Ok((indices, layout.shape().clone()))
}
