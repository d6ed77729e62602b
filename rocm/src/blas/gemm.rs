//! A strided batched matrix product, described without BLAS's conventions, and its translation into them.
//!
//! rocBLAS thinks in column-major matrices with one leading dimension; a tensor has a stride for each dimension. A row-major
//! product C = A B is the column-major product of the transposes, Cᵀ = Bᵀ Aᵀ, which needs no copy as long as each operand has
//! a stride of one in rows or columns.

use super::abi::{rocblas_datatype, rocblas_operation};
use hip::{Error, Result};
use std::ffi::c_void;

/// The element type of a matrix. f16 and bf16 are accumulated in f32.
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
    /// Signed bytes, whose products are I32.
    I8,
    /// Signed 32-bit integers, as a result only.
    I32,
}

impl Element {
    pub(super) const fn datatype(self) -> rocblas_datatype {
        match self {
            Self::F16 => rocblas_datatype::rocblas_datatype_f16_r,
            Self::BF16 => rocblas_datatype::rocblas_datatype_bf16_r,
            Self::F32 => rocblas_datatype::rocblas_datatype_f32_r,
            Self::F64 => rocblas_datatype::rocblas_datatype_f64_r,
            Self::I8 => rocblas_datatype::rocblas_datatype_i8_r,
            Self::I32 => rocblas_datatype::rocblas_datatype_i32_r,
        }
    }

    /// What a product of this type is computed in.
    pub(super) const fn compute(self) -> rocblas_datatype {
        match self {
            Self::F64 => rocblas_datatype::rocblas_datatype_f64_r,
            Self::I8 | Self::I32 => rocblas_datatype::rocblas_datatype_i32_r,
            _ => rocblas_datatype::rocblas_datatype_f32_r,
        }
    }

    /// Whether rocBLAS has products of operands of this type with a result of another.
    const fn makes(self, result: Self) -> bool {
        use Element::{BF16, F16, F32, F64, I32, I8};
        matches!((self, result), (F16, F16 | F32) | (BF16, BF16 | F32) | (F32, F32) | (F64, F64) | (I8, I32))
    }

    /// Alpha and beta in what the product is computed in.
    pub(super) fn scalars(self, alpha: f64, beta: f64) -> Result<Scalars> {
        match self {
            Self::F64 => Ok(Scalars::F64([alpha, beta])),
            Self::I8 => {
                let whole = |value: f64| (f64::from(value as i32) == value).then_some(value as i32);
                let whole = whole(alpha).zip(whole(beta)).map(|(alpha, beta)| Scalars::I32([alpha, beta]));
                whole.ok_or_else(|| {
                    Error::refused(format!("alpha and beta of an i8 product are whole numbers, not {alpha} and {beta}"))
                })
            }
            _ => Ok(Scalars::F32([alpha as f32, beta as f32])),
        }
    }
}

/// Alpha and beta, as the library reads them.
pub(super) enum Scalars {
    F32([f32; 2]),
    F64([f64; 2]),
    I32([i32; 2]),
}

impl Scalars {
    pub fn pointers(&self) -> [*const c_void; 2] {
        fn each<T>(pair: &[T; 2]) -> [*const c_void; 2] {
            [std::ptr::from_ref(&pair[0]).cast(), std::ptr::from_ref(&pair[1]).cast()]
        }
        match self {
            Self::F32(pair) => each(pair),
            Self::F64(pair) => each(pair),
            Self::I32(pair) => each(pair),
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
    /// Element type of the operands.
    pub element: Element,
    /// Element type of the result: that of the operands, or f32 for operands in f16 or bf16; i32 for i8.
    pub result: Element,
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
    /// Whether there is nothing to write.
    pub(super) fn is_empty(&self) -> bool {
        self.m == 0 || self.n == 0 || self.batch == 0
    }

    /// Whether BLAS can take these operands without a copy, and has a product of these types.
    pub fn fits_blas(&self) -> bool {
        let sizes = [self.m, self.n, self.k, self.batch];
        self.element.makes(self.result)
            && sizes.iter().all(|&size| i32::try_from(size).is_ok())
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
