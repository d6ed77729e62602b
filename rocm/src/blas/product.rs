//! The arguments of rocBLAS's products, for whoever implements them: the three functions differ only in how they say where the
//! matrices lie, so here they become one value, checked once.

use super::abi::*;
use std::ffi::c_void;

/// Where the matrices of a batch lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Batch {
    /// There is one of each.
    One,
    /// At equal distances, in elements.
    Strided([rocblas_stride; 4]),
    /// At the addresses in lists in device memory.
    Listed,
}

/// The arguments of a product: of a, b, c and d wherever there are four.
pub struct Product {
    pub trans: [rocblas_operation; 2],
    /// m, n, k, and matrices in the batch.
    pub sizes: [rocblas_int; 4],
    /// Alpha and beta.
    pub scalars: [*const c_void; 2],
    /// The types of the matrices, and what is computed in.
    pub types: [rocblas_datatype; 5],
    pub leading: [rocblas_int; 4],
    pub at: [*const c_void; 4],
    pub batch: Batch,
}

impl Product {
    /// What rocBLAS refuses, whatever it runs on.
    pub fn check(&self) -> Result<(), rocblas_status> {
        let ([m, n, k, _], [lda, ldb, ldc, ldd]) = (self.sizes, self.leading);
        let none = rocblas_operation::rocblas_operation_none;
        let rows_a = if self.trans[0] == none { m } else { k };
        let rows_b = if self.trans[1] == none { k } else { n };
        let least = [(lda, rows_a), (ldb, rows_b), (ldc, m), (ldd, m)];
        let sizes = self.sizes.iter().all(|&size| size >= 0);
        if !sizes || least.iter().any(|&(leading, rows)| leading < rows.max(1)) {
            return Err(rocblas_status::rocblas_status_invalid_size);
        }
        let null = self.at.iter().chain(&self.scalars).any(|pointer| pointer.is_null());
        if null && !self.is_empty() {
            return Err(rocblas_status::rocblas_status_invalid_pointer);
        }
        Ok(())
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        let [m, n, _, batch] = self.sizes;
        m == 0 || n == 0 || batch == 0
    }

    /// Whether the result goes where the summand came from.
    pub fn is_in_place(&self) -> bool {
        let strides = match self.batch {
            Batch::Strided([_, _, c, d]) => c == d,
            _ => true,
        };
        self.at[2] == self.at[3] && self.leading[2] == self.leading[3] && strides
    }
}

/// Defines the three functions; `$act` takes the handle and the checked arguments.
macro_rules! products {
    ($act:path) => {
        #[allow(clippy::too_many_arguments)]
        pub unsafe extern "C" fn gemm_ex(
            handle: rocblas_handle,
            trans_a: rocblas_operation,
            trans_b: rocblas_operation,
            m: rocblas_int,
            n: rocblas_int,
            k: rocblas_int,
            alpha: *const c_void,
            a: *const c_void,
            a_type: rocblas_datatype,
            lda: rocblas_int,
            b: *const c_void,
            b_type: rocblas_datatype,
            ldb: rocblas_int,
            beta: *const c_void,
            c: *const c_void,
            c_type: rocblas_datatype,
            ldc: rocblas_int,
            d: *mut c_void,
            d_type: rocblas_datatype,
            ldd: rocblas_int,
            compute_type: rocblas_datatype,
            _algo: rocblas_gemm_algo,
            _solution_index: i32,
            _flags: u32,
        ) -> rocblas_status {
            let product = Product {
                trans: [trans_a, trans_b],
                sizes: [m, n, k, 1],
                scalars: [alpha, beta],
                types: [a_type, b_type, c_type, d_type, compute_type],
                leading: [lda, ldb, ldc, ldd],
                at: [a, b, c, d],
                batch: Batch::One,
            };
            match product.check() {
                // SAFETY: the caller of the ABI vouches for handle, scalars and matrices.
                Ok(()) => unsafe { $act(handle, &product) },
                Err(refused) => refused,
            }
        }

        #[allow(clippy::too_many_arguments)]
        pub unsafe extern "C" fn gemm_batched_ex(
            handle: rocblas_handle,
            trans_a: rocblas_operation,
            trans_b: rocblas_operation,
            m: rocblas_int,
            n: rocblas_int,
            k: rocblas_int,
            alpha: *const c_void,
            a: *const c_void,
            a_type: rocblas_datatype,
            lda: rocblas_int,
            b: *const c_void,
            b_type: rocblas_datatype,
            ldb: rocblas_int,
            beta: *const c_void,
            c: *const c_void,
            c_type: rocblas_datatype,
            ldc: rocblas_int,
            d: *mut c_void,
            d_type: rocblas_datatype,
            ldd: rocblas_int,
            batch_count: rocblas_int,
            compute_type: rocblas_datatype,
            _algo: rocblas_gemm_algo,
            _solution_index: i32,
            _flags: u32,
        ) -> rocblas_status {
            let product = Product {
                trans: [trans_a, trans_b],
                sizes: [m, n, k, batch_count],
                scalars: [alpha, beta],
                types: [a_type, b_type, c_type, d_type, compute_type],
                leading: [lda, ldb, ldc, ldd],
                at: [a, b, c, d],
                batch: Batch::Listed,
            };
            match product.check() {
                // SAFETY: the caller of the ABI vouches for handle, scalars and matrices.
                Ok(()) => unsafe { $act(handle, &product) },
                Err(refused) => refused,
            }
        }

        #[allow(clippy::too_many_arguments)]
        pub unsafe extern "C" fn gemm_strided_batched_ex(
            handle: rocblas_handle,
            trans_a: rocblas_operation,
            trans_b: rocblas_operation,
            m: rocblas_int,
            n: rocblas_int,
            k: rocblas_int,
            alpha: *const c_void,
            a: *const c_void,
            a_type: rocblas_datatype,
            lda: rocblas_int,
            stride_a: rocblas_stride,
            b: *const c_void,
            b_type: rocblas_datatype,
            ldb: rocblas_int,
            stride_b: rocblas_stride,
            beta: *const c_void,
            c: *const c_void,
            c_type: rocblas_datatype,
            ldc: rocblas_int,
            stride_c: rocblas_stride,
            d: *mut c_void,
            d_type: rocblas_datatype,
            ldd: rocblas_int,
            stride_d: rocblas_stride,
            batch_count: rocblas_int,
            compute_type: rocblas_datatype,
            _algo: rocblas_gemm_algo,
            _solution_index: i32,
            _flags: u32,
        ) -> rocblas_status {
            let product = Product {
                trans: [trans_a, trans_b],
                sizes: [m, n, k, batch_count],
                scalars: [alpha, beta],
                types: [a_type, b_type, c_type, d_type, compute_type],
                leading: [lda, ldb, ldc, ldd],
                at: [a, b, c, d],
                batch: Batch::Strided([stride_a, stride_b, stride_c, stride_d]),
            };
            match product.check() {
                // SAFETY: the caller of the ABI vouches for handle, scalars and matrices.
                Ok(()) => unsafe { $act(handle, &product) },
                Err(refused) => refused,
            }
        }
    };
}
pub(super) use products;
