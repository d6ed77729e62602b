//! A strided batched matrix product, described without BLAS's conventions, and its translation into them.
//!
//! rocBLAS thinks in column-major matrices with one leading dimension; a tensor has a stride for each dimension. A row-major
//! product C = A B is the column-major product of the transposes, Cᵀ = Bᵀ Aᵀ, which needs no copy as long as each operand has
//! a stride of one in rows or columns.

use super::abi::{rocblas_datatype, rocblas_operation};

/// The element type of all three matrices. f16 and bf16 are accumulated in f32.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Element {
    /// IEEE half precision.
    F16,
    /// bfloat16.
    BF16,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
}

impl Element {
    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            Self::F16 | Self::BF16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    pub(super) const fn datatype(self) -> rocblas_datatype {
        match self {
            Self::F16 => rocblas_datatype::rocblas_datatype_f16_r,
            Self::BF16 => rocblas_datatype::rocblas_datatype_bf16_r,
            Self::F32 => rocblas_datatype::rocblas_datatype_f32_r,
            Self::F64 => rocblas_datatype::rocblas_datatype_f64_r,
        }
    }

    pub(super) const fn compute(self) -> rocblas_datatype {
        match self {
            Self::F64 => rocblas_datatype::rocblas_datatype_f64_r,
            _ => rocblas_datatype::rocblas_datatype_f32_r,
        }
    }
}

/// Where a batch of matrices lies: strides in elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Matrix {
    /// Device address of the first element.
    pub address: u64,
    /// From one row to the next.
    pub row_stride: usize,
    /// From one column to the next.
    pub column_stride: usize,
    /// From one matrix of the batch to the next; zero uses the same matrix for all.
    pub batch_stride: usize,
}

/// `c = a · b` for each matrix of the batch: a is m × k, b is k × n, c is m × n with its columns next to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gemm {
    /// Element type.
    pub element: Element,
    /// Rows of a and c.
    pub m: usize,
    /// Columns of b and c.
    pub n: usize,
    /// Columns of a, rows of b.
    pub k: usize,
    /// Matrices in the batch.
    pub batch: usize,
    /// Left operand.
    pub a: Matrix,
    /// Right operand.
    pub b: Matrix,
    /// Result.
    pub c: Matrix,
}

/// An operand as BLAS names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Operand {
    pub operation: rocblas_operation,
    pub leading: i32,
}

impl Matrix {
    /// The column-major view of this matrix's transpose, or `None` where neither stride is one.
    pub(super) fn operand(&self, rows: usize, columns: usize) -> Option<Operand> {
        // A dimension of size one has no stride worth the name, nor has any dimension of an empty matrix.
        let empty = rows == 0 || columns == 0;
        let unit = |stride: usize, size: usize| stride == 1 || size == 1 || empty;
        let leading = |stride: usize, size: usize, least: usize| {
            let stride = if size == 1 || empty { least.max(1) } else { stride };
            (stride >= least.max(1)).then(|| i32::try_from(stride).ok()).flatten()
        };
        if unit(self.column_stride, columns) {
            if let Some(leading) = leading(self.row_stride, rows, columns) {
                return Some(Operand { operation: rocblas_operation::rocblas_operation_none, leading });
            }
        }
        if unit(self.row_stride, rows) {
            if let Some(leading) = leading(self.column_stride, columns, rows) {
                return Some(Operand { operation: rocblas_operation::rocblas_operation_transpose, leading });
            }
        }
        None
    }
}

impl Gemm {
    /// Whether BLAS can take these operands without a copy.
    pub fn fits_blas(&self) -> bool {
        let sizes = [self.m, self.n, self.k, self.batch];
        sizes.iter().all(|&size| i32::try_from(size).is_ok())
            && self.a.operand(self.m, self.k).is_some()
            && self.b.operand(self.k, self.n).is_some()
            && self.c.operand(self.m, self.n).is_some_and(|c| c.operation == rocblas_operation::rocblas_operation_none)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(row_stride: usize, column_stride: usize) -> Matrix {
        Matrix { address: 0, row_stride, column_stride, batch_stride: 0 }
    }

    #[test]
    fn strides_become_operations_and_leading_dimensions() {
        let none = rocblas_operation::rocblas_operation_none;
        let transpose = rocblas_operation::rocblas_operation_transpose;
        let cases = [
            (matrix(5, 1), 3, 5, Some((none, 5))),      // row-major
            (matrix(8, 1), 3, 5, Some((none, 8))),      // rows of a wider matrix
            (matrix(1, 3), 3, 5, Some((transpose, 3))), // transposed
            (matrix(0, 1), 1, 5, Some((none, 5))),      // one row, any stride
            (matrix(1, 0), 5, 1, Some((none, 1))),      // one column
            (matrix(7, 0), 5, 1, Some((none, 7))),      // one column of a wider matrix
            (matrix(0, 1), 3, 5, None),                 // broadcast rows
            (matrix(10, 2), 3, 5, None),                // every other column
        ];
        for (matrix, rows, columns, expected) in cases {
            let got = matrix.operand(rows, columns).map(|o| (o.operation, o.leading));
            assert_eq!(got, expected, "{matrix:?} as {rows} x {columns}");
        }
    }
}
