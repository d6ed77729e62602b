//! Operations that compute each element of the result from the same element of the operands. Layouts are the kernels'
//! business; here an operation is a row: the root of its kernel's name, its operands, and the dtype of its result.

use super::RocmStorage;
use crate::op::CmpOp;
use crate::{DType, Layout, Result};

fn count(layout: &Layout) -> usize {
    layout.shape().elem_count()
}

/// The elements in order, whatever the layout they come from.
pub(super) fn copy(storage: &RocmStorage, layout: &Layout) -> Result<RocmStorage> {
    let input = storage.operand(layout, "copy")?;
    let device = &storage.device;
    RocmStorage::filled(device, storage.slice.dtype(), count(layout), "copy", |out| device.kernels().copy(&input, out))
}

/// A function of one tensor.
pub(super) fn unary(storage: &RocmStorage, layout: &Layout, root: &str, op: &'static str) -> Result<RocmStorage> {
    with_parameter(storage, layout, root, op, 0.)
}

/// A function of one tensor and one number.
pub(super) fn with_parameter(
    storage: &RocmStorage,
    layout: &Layout,
    root: &str,
    op: &'static str,
    parameter: f64,
) -> Result<RocmStorage> {
    let input = storage.operand(layout, op)?;
    let device = &storage.device;
    RocmStorage::filled(device, storage.slice.dtype(), count(layout), op, |out| {
        device.kernels().unary_with(root, parameter, &input, out)
    })
}

/// `x * mul + add`.
pub(super) fn affine(storage: &RocmStorage, layout: &Layout, mul: f64, add: f64) -> Result<RocmStorage> {
    let input = storage.operand(layout, "affine")?;
    let device = &storage.device;
    RocmStorage::filled(device, storage.slice.dtype(), count(layout), "affine", |out| {
        device.kernels().affine(&input, mul, add, out)
    })
}

/// The elements as another dtype.
pub(super) fn cast(storage: &RocmStorage, layout: &Layout, dtype: DType) -> Result<RocmStorage> {
    let input = storage.operand(layout, "to_dtype")?;
    let device = &storage.device;
    RocmStorage::filled(device, dtype, count(layout), "to_dtype", |out| device.kernels().cast(&input, out))
}

/// Arithmetic on two tensors.
pub(super) fn binary(
    lhs: &RocmStorage,
    rhs: &RocmStorage,
    lhs_l: &Layout,
    rhs_l: &Layout,
    root: &str,
    op: &'static str,
) -> Result<RocmStorage> {
    let device = &lhs.device;
    let rhs = rhs.on(device)?;
    let (left, right) = (lhs.operand(lhs_l, op)?, rhs.operand(rhs_l, op)?);
    RocmStorage::filled(device, lhs.slice.dtype(), count(lhs_l), op, |out| {
        device.kernels().binary(root, &left, &right, out)
    })
}

/// A comparison, as u8.
pub(super) fn compare(
    lhs: &RocmStorage,
    op: CmpOp,
    rhs: &RocmStorage,
    lhs_l: &Layout,
    rhs_l: &Layout,
) -> Result<RocmStorage> {
    let root = match op {
        CmpOp::Eq => "eq",
        CmpOp::Ne => "ne",
        CmpOp::Lt => "lt",
        CmpOp::Le => "le",
        CmpOp::Gt => "gt",
        CmpOp::Ge => "ge",
    };
    let device = &lhs.device;
    let rhs = rhs.on(device)?;
    let (left, right) = (lhs.operand(lhs_l, "cmp")?, rhs.operand(rhs_l, "cmp")?);
    RocmStorage::filled(device, DType::U8, count(lhs_l), "cmp", |out| {
        device.kernels().compare(root, &left, &right, out)
    })
}

/// One of two tensors, element by element.
pub(super) fn where_cond(
    condition: &RocmStorage,
    condition_l: &Layout,
    on_true: &RocmStorage,
    on_true_l: &Layout,
    on_false: &RocmStorage,
    on_false_l: &Layout,
) -> Result<RocmStorage> {
    let device = &condition.device;
    let (on_true, on_false) = (on_true.on(device)?, on_false.on(device)?);
    let choice = condition.operand(condition_l, "where")?;
    let (yes, no) = (on_true.operand(on_true_l, "where")?, on_false.operand(on_false_l, "where")?);
    RocmStorage::filled(device, on_true.slice.dtype(), count(condition_l), "where", |out| {
        device.kernels().where_cond(&choice, &yes, &no, out)
    })
}

/// The softmax over the last dimension.
pub(super) fn softmax(storage: &RocmStorage, layout: &Layout) -> Result<RocmStorage> {
    let op = "softmax-last-dim";
    let input = storage.operand(layout, op)?;
    let device = &storage.device;
    RocmStorage::filled(device, storage.slice.dtype(), count(layout), op, |out| device.kernels().softmax(&input, out))
}

impl RocmStorage {
    /// `exp(x) / sum(exp(x))` over the last dimension; that of scores may become part of attention.
    pub fn softmax_last_dim(&self, layout: &Layout) -> Result<Self> {
        match super::put_off::softmax(self, layout)? {
            Some(later) => Ok(later),
            None => softmax(self, layout),
        }
    }
}
