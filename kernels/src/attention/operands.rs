//! Rows as the kernels of attention read and write them: from a multiple of 16 bytes on, in whole pieces of 16 bytes. Most tensors are
//! like that. Others, of a head size that is no multiple or from an odd place on, are copied, with zeros behind their rows.

use super::RowStrides;
use crate::dtype::DType;
use crate::kernels::Kernels;
use crate::layout::row_major;
use crate::tensor::{Operand, OperandMut, Output};
use hip::{Buffer, DevicePtr, Result, Stream};

/// Rows of q, k or v.
pub(super) struct Rows {
    pub address: DevicePtr<u8>,
    pub strides: RowStrides,
    /// Elements of a row, zeros behind it included.
    pub length: usize,
    /// The copy, until it has been used.
    _copy: Option<Buffer<u8>>,
}

impl Rows {
    /// The rows of a tensor with four dimensions.
    pub fn of(kernels: &Kernels, tensor: &Operand<'_>) -> Result<Self> {
        let dims = tensor.dims();
        let address = tensor.ptr();
        if are_whole(address, tensor.dtype(), dims, tensor.strides()) {
            return Ok(Self { address, strides: row_strides(dims, tensor.strides()), length: dims[3], _copy: None });
        }
        let (dtype, stream, count) = (tensor.dtype(), tensor.stream(), tensor.count());
        if count == 0 {
            // No row is ever read.
            return Ok(Self {
                address,
                strides: row_strides(&[0; 4], &[0; 4]),
                length: padded(dtype, dims[3]),
                _copy: None,
            });
        }
        let (rows, length) = (dims[..3].iter().product::<usize>(), padded(dtype, dims[3]));
        let mut copy = stream.alloc::<u8>(count * dtype.size())?;
        kernels.copy(tensor, &mut Output::new(&mut copy, dtype, 0, count)?)?;
        if length != dims[3] && rows > 0 {
            let mut wide = stream.zeros::<u8>(rows * length * dtype.size())?;
            let matrix = [rows, dims[3]];
            kernels.copy2d(
                &Operand::new(&copy, dtype, 0, &matrix, &[dims[3], 1])?,
                &mut OperandMut::new(&mut wide, dtype, 0, &matrix, &[length, 1])?,
            )?;
            copy = wide;
        }
        let dims = [dims[0], dims[1], dims[2], length];
        let strides = row_strides(&dims, &row_major(&dims)[..4]);
        Ok(Self { address: Operand::new(&copy, dtype, 0, &[1], &[1])?.ptr(), strides, length, _copy: Some(copy) })
    }
}

/// Rows of the result.
pub(super) struct Results {
    pub address: DevicePtr<u8>,
    pub strides: RowStrides,
    /// In place of the result, with the length of its rows.
    copy: Option<(Buffer<u8>, usize)>,
}

impl Results {
    pub fn of(out: &OperandMut<'_>, stream: &Stream) -> Result<Self> {
        let (dtype, dims) = (out.dtype(), out.dims());
        if are_whole(out.ptr(), dtype, dims, out.strides()) {
            return Ok(Self { address: out.ptr(), strides: row_strides(dims, out.strides()), copy: None });
        }
        let length = padded(dtype, dims[3]);
        let dims = [dims[0], dims[1], dims[2], length];
        let copy = stream.alloc::<u8>(dims.iter().product::<usize>() * dtype.size())?;
        let address = Operand::new(&copy, dtype, 0, &[1], &[1])?.ptr();
        Ok(Self { address, strides: row_strides(&dims, &row_major(&dims)[..4]), copy: Some((copy, length)) })
    }

    /// After the launch: the result to where it was wanted.
    pub fn finish(&mut self, kernels: &Kernels, out: &mut OperandMut<'_>) -> Result<()> {
        let Some((copy, length)) = self.copy.take() else { return Ok(()) };
        let (dtype, &[batches, heads, rows, width]) = (out.dtype(), out.dims()) else { return Ok(()) };
        for batch in 0..batches {
            for head in 0..heads {
                let start = (batch * heads + head) * rows * length;
                let (dims, strides) = ([rows, width], [length, 1]);
                kernels
                    .copy2d(&Operand::new(&copy, dtype, start, &dims, &strides)?, &mut out.matrix(&[batch, head]))?;
            }
        }
        Ok(())
    }
}

/// Elements in 16 bytes.
fn lanes(dtype: DType) -> usize {
    16 / dtype.size()
}

fn padded(dtype: DType, length: usize) -> usize {
    length.next_multiple_of(lanes(dtype))
}

/// Whether all rows are whole pieces of 16 bytes from multiples of 16 on.
fn are_whole(address: DevicePtr<u8>, dtype: DType, dims: &[usize], strides: &[usize]) -> bool {
    let lanes = lanes(dtype);
    let apart = dims[..3].iter().zip(strides).all(|(&dim, stride)| dim <= 1 || stride.is_multiple_of(lanes));
    address.address().is_multiple_of(16) && dims[3].is_multiple_of(lanes) && strides[3] == 1 && apart
}

fn row_strides(dims: &[usize], strides: &[usize]) -> RowStrides {
    // The stride of a dimension of one row is never used, and may be anything.
    let stride = |d: usize| if dims[d] > 1 { strides[d] as u64 } else { 0 };
    RowStrides { batch: stride(0), head: stride(1), row: stride(2) }
}

/// The strides of a mask, 0 where it is broadcast.
pub(super) fn broadcast_strides(mask: &Operand<'_>) -> [u64; 4] {
    std::array::from_fn(|d| if mask.dims()[d] > 1 { mask.strides()[d] as u64 } else { 0 })
}
