//! The part of rocBLAS's C ABI that a matrix product needs, as `rocblas.h` declares it (rocBLAS 2 to 5, 32-bit sizes).

#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals)]

use hip_abi::hipStream_t;
use std::ffi::{c_char, c_void};

/// A rocBLAS handle: its stream and its workspace.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct rocblas_handle(pub *mut c_void);

macro_rules! integers {
    ($($(#[$doc:meta])* $name:ident: $repr:ty { $($constant:ident = $value:expr;)* })*) => {$(
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub struct $name(pub $repr);

        #[allow(missing_docs)]
        impl $name {
            $(pub const $constant: Self = Self($value);)*

            /// The constants by name, for messages and for checks against AMD's headers.
            pub const NAMED: &'static [(&'static str, i64)] = &[$((stringify!($constant), $value as i64)),*];

            /// The library's name of this value.
            pub fn name(self) -> &'static str {
                Self::NAMED.iter().find(|(_, value)| *value == self.0 as i64).map_or("an unlisted value", |(name, _)| name)
            }
        }
    )*};
}

integers! {
    /// What a call came to.
    rocblas_status: u32 {
        rocblas_status_success = 0;
        rocblas_status_invalid_handle = 1;
        rocblas_status_not_implemented = 2;
        rocblas_status_invalid_pointer = 3;
        rocblas_status_invalid_size = 4;
        rocblas_status_memory_error = 5;
        rocblas_status_internal_error = 6;
        rocblas_status_perf_degraded = 7;
        rocblas_status_invalid_value = 11;
        rocblas_status_excluded_from_build = 14;
        rocblas_status_arch_mismatch = 15;
    }

    /// Whether an operand is used as it lies or transposed.
    rocblas_operation: u32 {
        rocblas_operation_none = 111;
        rocblas_operation_transpose = 112;
    }

    /// Element types.
    rocblas_datatype: u32 {
        rocblas_datatype_f16_r = 150;
        rocblas_datatype_f32_r = 151;
        rocblas_datatype_f64_r = 152;
        rocblas_datatype_bf16_r = 168;
    }

    /// How the library chooses its kernel.
    rocblas_gemm_algo: u32 {
        rocblas_gemm_algo_standard = 0;
    }
}

/// Sizes and leading dimensions.
pub type rocblas_int = i32;
/// Distances between matrices of a batch, in elements.
pub type rocblas_stride = i64;

hip_abi::library! {
    /// rocBLAS, as far as a matrix product needs it.
    pub struct Rocblas in ["rocblas"] versions [5, 4, 3, 0] {
        fn rocblas_create_handle(handle: *mut rocblas_handle) -> rocblas_status;
        fn rocblas_destroy_handle(handle: rocblas_handle) -> rocblas_status;
        fn rocblas_set_stream(handle: rocblas_handle, stream: hipStream_t) -> rocblas_status;
        optional fn rocblas_get_version_string(buffer: *mut c_char, bytes: usize) -> rocblas_status;
        fn rocblas_gemm_strided_batched_ex(
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
            algo: rocblas_gemm_algo,
            solution_index: i32,
            flags: u32
        ) -> rocblas_status;
    }
}
