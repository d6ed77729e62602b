//! Tensors put together on the ROCm device by one launch, whatever their number. Language models do this for every token: the
//! cache grows by a column, and heads that share a key have it repeated.

#![warn(clippy::all, missing_docs)]

use crate::op::{BackpropOp, Op};
use crate::rocm_backend::concat;
use crate::{Error, Result, Shape, Storage, Tensor};

/// `Tensor::cat_contiguous` on the ROCm device: tensors of one shape but for `dim`, from which on each lies in memory without gaps.
pub fn rocm_tensor_cat_contiguous<A: AsRef<Tensor>>(args: &[A], dim: usize) -> Result<Tensor> {
    let Some(first) = args.first().map(A::as_ref) else {
        return Err(Error::OpRequiresAtLeastOneTensor { op: "cat" }.bt());
    };
    let (op, device) = ("cat", first.device());
    for arg in args.iter().map(A::as_ref) {
        let (lhs, rhs) = (first.dtype(), arg.dtype());
        if lhs != rhs {
            return Err(Error::DTypeMismatchBinaryOp { lhs, rhs, op }.bt());
        }
        let (lhs, rhs) = (device.location(), arg.device().location());
        if lhs != rhs {
            return Err(Error::DeviceMismatchBinaryOp { lhs, rhs, op }.bt());
        }
    }
    let mut dims = first.dims().to_vec();
    dims[dim] = args.iter().map(|arg| arg.as_ref().dims()[dim]).sum();
    let guards: Vec<_> = args.iter().map(|arg| arg.as_ref().storage_and_layout()).collect();
    let mut parts = Vec::with_capacity(guards.len());
    for (storage, layout) in &guards {
        match &**storage {
            Storage::Cuda(storage) => parts.push((storage, *layout)),
            _ => crate::bail!("{op}: a tensor of the ROCm device has its memory elsewhere"),
        }
    }
    let storage = concat(device.as_rocm_device()?, &parts, dim)?;
    let backward = BackpropOp::new(args, |args| Op::Cat(args, dim));
    Ok(crate::tensor::from_storage(Storage::Cuda(storage), Shape::from(dims), backward, false))
}
