//! Reductions over any dimensions.

use super::kernels::Reduce;
use super::RocmStorage;
use crate::op::ReduceOp;
use crate::{DType, Layout, Result};

/// One element for each index of the dimensions that are not reduced.
pub(super) fn reduce(storage: &RocmStorage, op: ReduceOp, layout: &Layout, dims: &[usize]) -> Result<RocmStorage> {
    let (how, name, dtype) = match op {
        ReduceOp::Sum => (Reduce::Sum, "sum", storage.slice.dtype()),
        ReduceOp::Min => (Reduce::Min, "min", storage.slice.dtype()),
        ReduceOp::Max => (Reduce::Max, "max", storage.slice.dtype()),
        ReduceOp::ArgMin => (Reduce::ArgMin, "argmin", DType::U32),
        ReduceOp::ArgMax => (Reduce::ArgMax, "argmax", DType::U32),
    };
    let input = storage.operand(layout, name)?;
    let kept = layout.dims().iter().enumerate().filter(|(at, _)| !dims.contains(at)).map(|(_, &extent)| extent);
    let device = &storage.device;
    RocmStorage::filled(device, dtype, kept.product(), name, |out| device.kernels().reduce(how, &input, dims, out))
}
