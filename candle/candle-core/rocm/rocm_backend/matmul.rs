//! Matrix products: by rocBLAS where the library is there, can take the operands as they lie and is worth its call, by our own
//! kernels otherwise. Transposed and broadcast operands are strides like any others, so nothing is copied first; batch dimensions
//! that do not line up as one are walked here, a product for each of the outer ones.

use super::kernels::{DType, Operand, OperandMut};
use super::{kernel_dtype, put_off, RocmDevice, RocmStorage, WrapErr};
use crate::{Layout, Result};
use rocm_libraries::blas::{Element, Gemm, Matrix};

/// The product of (..., m, k) and (..., k, n): the second one of attention is the whole of it, the first one may be put off.
pub(super) fn matmul(
    lhs: &RocmStorage,
    rhs: &RocmStorage,
    bmnk: (usize, usize, usize, usize),
    lhs_l: &Layout,
    rhs_l: &Layout,
) -> Result<RocmStorage> {
    if let Some(attention) = put_off::attention((lhs, lhs_l), (rhs, rhs_l), bmnk)? {
        return Ok(attention);
    }
    match put_off::product((lhs, lhs_l), (rhs, rhs_l), bmnk)? {
        Some(later) => Ok(later),
        None => multiply_all(lhs, rhs, bmnk, lhs_l, rhs_l),
    }
}

/// The product, submitted now.
pub(super) fn multiply_all(
    lhs: &RocmStorage,
    rhs: &RocmStorage,
    (batches, m, n, k): (usize, usize, usize, usize),
    lhs_l: &Layout,
    rhs_l: &Layout,
) -> Result<RocmStorage> {
    let device = &lhs.device;
    let rhs = rhs.on(device)?;
    let dtype = kernel_dtype(lhs.slice.dtype(), "matmul")?;
    let mut product = RocmStorage::uninitialised(device, lhs.slice.dtype(), batches * m * n)?;
    let (left, right) = (lhs.slice.bytes()?, rhs.slice.bytes()?);
    let ([left_row, left_column], [right_row, right_column]) = (last_two(lhs_l.stride()), last_two(rhs_l.stride()));
    for Step { count, strides, starts, first } in Batches::of(lhs_l, rhs_l).steps() {
        let dims = [[count, m, k], [count, k, n], [count, m, n]];
        let strides = [[strides[0], left_row, left_column], [strides[1], right_row, right_column], [m * n, n, 1]];
        let left = Operand::new(left, dtype, starts[0], &dims[0], &strides[0]).w()?;
        let right = Operand::new(right, dtype, starts[1], &dims[1], &strides[1]).w()?;
        let mut out = OperandMut::new(product.slice.bytes_mut()?, dtype, first * m * n, &dims[2], &strides[2]).w()?;
        multiply(device, &left, &right, &mut out).w()?;
    }
    Ok(product)
}

impl RocmDevice {
    /// rocBLAS, where it can be had.
    pub(crate) fn rocblas(&self) -> Option<&rocm_libraries::blas::Blas> {
        self.libraries().blas(self.raw_stream())
    }
}

/// One batch of products: (batch, m, k) and (batch, k, n) make (batch, m, n).
pub(super) fn multiply(
    device: &RocmDevice,
    left: &Operand<'_>,
    right: &Operand<'_>,
    out: &mut OperandMut<'_>,
) -> hip::Result<()> {
    let pays = |product: &Gemm| {
        let sizes = [product.batch, product.m, product.k, product.n];
        product.fits_blas() && !device.kernels().profile().few_rows_pay(left.dtype(), sizes)
    };
    if let Some(product) = as_gemm(left, right, out).filter(pays) {
        if let Some(blas) = device.rocblas() {
            // SAFETY: all three layouts were checked to stay inside their memory, which belongs to the stream that the
            // product is queued on, and the result is borrowed for writing.
            return unsafe { blas.gemm(&product) };
        }
    }
    device.kernels().matmul(left, right, out)
}

fn as_gemm(left: &Operand<'_>, right: &Operand<'_>, out: &OperandMut<'_>) -> Option<Gemm> {
    let element = match left.dtype() {
        DType::F16 => Element::F16,
        DType::BF16 => Element::BF16,
        DType::F32 => Element::F32,
        DType::F64 => Element::F64,
        _ => return None,
    };
    let (&[batch, m, k], &[.., n]) = (left.dims(), right.dims()) else { return None };
    let matrix = |address: u64, strides: &[usize]| match *strides {
        [batch_stride, row_stride, column_stride] => Some(Matrix { address, row_stride, column_stride, batch_stride }),
        _ => None,
    };
    let a = matrix(left.ptr().address(), left.strides())?;
    let b = matrix(right.ptr().address(), right.strides())?;
    let c = matrix(out.ptr().address(), out.strides())?;
    // A sum over nothing is our kernels' business.
    (k > 0).then_some(Gemm { element, result: element, m, n, k, batch, a, b, c })
}

fn last_two(strides: &[usize]) -> [usize; 2] {
    match strides {
        [.., row, column] => [*row, *column],
        _ => [1, 1],
    }
}

/// A batch dimension: its size, and the strides of both operands along it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Dimension {
    size: usize,
    strides: [usize; 2],
}

/// The batch dimensions of a product, as few as possible, outermost first.
struct Batches {
    starts: [usize; 2],
    dimensions: Vec<Dimension>,
}

/// Batches that one launch multiplies.
struct Step {
    count: usize,
    strides: [usize; 2],
    starts: [usize; 2],
    /// The index of the first batch in the result.
    first: usize,
}

impl Batches {
    fn of(lhs: &Layout, rhs: &Layout) -> Self {
        let mut dimensions: Vec<Dimension> = Vec::new();
        let batch_rank = lhs.dims().len().saturating_sub(2);
        for at in 0..batch_rank {
            let (size, strides) = (lhs.dims()[at], [lhs.stride()[at], rhs.stride()[at]]);
            if size == 1 {
                continue;
            }
            match dimensions.last_mut() {
                // The outer dimension continues where the inner one ends, in both operands: they are one.
                Some(outer) if (0..2).all(|operand| outer.strides[operand] == strides[operand] * size) => {
                    *outer = Dimension { size: outer.size * size, strides };
                }
                _ => dimensions.push(Dimension { size, strides }),
            }
        }
        Self { starts: [lhs.start_offset(), rhs.start_offset()], dimensions }
    }

    fn steps(&self) -> impl Iterator<Item = Step> + '_ {
        let single = Dimension { size: 1, strides: [0, 0] };
        let (inner, outer) = match self.dimensions.split_last() {
            Some((inner, outer)) => (*inner, outer),
            None => (single, &[][..]),
        };
        let launches: usize = outer.iter().map(|dimension| dimension.size).product();
        (0..launches).map(move |launch| {
            let (mut rest, mut starts) = (launch, self.starts);
            for dimension in outer.iter().rev() {
                let index = rest % dimension.size;
                rest /= dimension.size;
                for (start, stride) in starts.iter_mut().zip(dimension.strides) {
                    *start += index * stride;
                }
            }
            Step { count: inner.size, strides: inner.strides, starts, first: launch * inner.size }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(dims: &[usize], lhs: &[usize], rhs: &[usize]) -> Vec<(usize, [usize; 2], [usize; 2], usize)> {
        let layout = |strides: &[usize]| Layout::new(dims.into(), strides.to_vec(), 0);
        let walk = Batches::of(&layout(lhs), &layout(rhs));
        walk.steps().map(|step| (step.count, step.strides, step.starts, step.first)).collect()
    }

    #[test]
    fn contiguous_batches_are_one_launch() {
        assert_eq!(steps(&[2, 3, 4, 5], &[60, 20, 5, 1], &[60, 20, 5, 1]), [(6, [20, 20], [0, 0], 0)]);
    }

    #[test]
    fn a_shared_factor_has_stride_zero() {
        assert_eq!(steps(&[2, 3, 4, 5], &[60, 20, 5, 1], &[0, 0, 5, 1]), [(6, [20, 0], [0, 0], 0)]);
    }

    #[test]
    fn batches_that_do_not_line_up_are_walked() {
        let walked = steps(&[2, 3, 4, 5], &[20, 40, 5, 1], &[60, 20, 5, 1]);
        assert_eq!(walked, [(3, [40, 20], [0, 0], 0), (3, [40, 20], [20, 60], 3)]);
    }

    #[test]
    fn no_batch_is_one_launch() {
        assert_eq!(steps(&[4, 5], &[5, 1], &[5, 1]), [(1, [0, 0], [0, 0], 0)]);
    }
}
