//! rocRAND's C ABI as `rocrand.h` declares it (rocRAND 2 and 3, the generators that a host calls).

#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals)]

use hip_abi::hipStream_t;
use std::ffi::{c_int, c_uint, c_ulonglong};

hip_abi::handles! {
    /// A generator with its seed, its position and its stream.
    rocrand_generator;
}

hip_abi::integers! {
    /// What a call came to.
    rocrand_status: u32 {
        ROCRAND_STATUS_SUCCESS = 0;
        ROCRAND_STATUS_VERSION_MISMATCH = 100;
        ROCRAND_STATUS_NOT_CREATED = 101;
        ROCRAND_STATUS_ALLOCATION_FAILED = 102;
        ROCRAND_STATUS_TYPE_ERROR = 103;
        ROCRAND_STATUS_OUT_OF_RANGE = 104;
        ROCRAND_STATUS_LENGTH_NOT_MULTIPLE = 105;
        ROCRAND_STATUS_DOUBLE_PRECISION_REQUIRED = 106;
        ROCRAND_STATUS_LAUNCH_FAILURE = 107;
        ROCRAND_STATUS_INTERNAL_ERROR = 108;
    }

    /// Kinds of generators.
    rocrand_rng_type: u32 {
        ROCRAND_RNG_PSEUDO_DEFAULT = 400;
        ROCRAND_RNG_PSEUDO_XORWOW = 401;
        ROCRAND_RNG_PSEUDO_MRG32K3A = 402;
        ROCRAND_RNG_PSEUDO_PHILOX4_32_10 = 404;
    }
}

hip_abi::library! {
    /// rocRAND.
    pub struct Rocrand in ["rocrand"] versions [1] {
        fn rocrand_create_generator(generator: *mut rocrand_generator, kind: rocrand_rng_type) -> rocrand_status;
        fn rocrand_destroy_generator(generator: rocrand_generator) -> rocrand_status;
        fn rocrand_set_stream(generator: rocrand_generator, stream: hipStream_t) -> rocrand_status;
        fn rocrand_set_seed(generator: rocrand_generator, seed: c_ulonglong) -> rocrand_status;
        fn rocrand_set_offset(generator: rocrand_generator, offset: c_ulonglong) -> rocrand_status;
        fn rocrand_generate(generator: rocrand_generator, output: *mut c_uint, count: usize) -> rocrand_status;
        fn rocrand_generate_uniform(generator: rocrand_generator, output: *mut f32, count: usize) -> rocrand_status;
        fn rocrand_generate_uniform_double(generator: rocrand_generator, output: *mut f64, count: usize) -> rocrand_status;
        fn rocrand_generate_normal(generator: rocrand_generator, output: *mut f32, count: usize, mean: f32, deviation: f32) -> rocrand_status;
        fn rocrand_generate_normal_double(generator: rocrand_generator, output: *mut f64, count: usize, mean: f64, deviation: f64) -> rocrand_status;
        fn rocrand_generate_log_normal(generator: rocrand_generator, output: *mut f32, count: usize, mean: f32, deviation: f32) -> rocrand_status;
        fn rocrand_generate_log_normal_double(generator: rocrand_generator, output: *mut f64, count: usize, mean: f64, deviation: f64) -> rocrand_status;
        fn rocrand_generate_poisson(generator: rocrand_generator, output: *mut c_uint, count: usize, lambda: f64) -> rocrand_status;
        fn rocrand_get_version(version: *mut c_int) -> rocrand_status;
    }
}

/// The element types that rocRAND has real distributions for.
pub trait Real: hip::DeviceCopy {
    /// This type's column of the table: uniform, normal, log-normal.
    #[doc(hidden)]
    fn routines(table: &Rocrand) -> Routines<Self>;
}

type Fill<T> = unsafe extern "C" fn(rocrand_generator, *mut T, usize) -> rocrand_status;
type FillWith<T> = unsafe extern "C" fn(rocrand_generator, *mut T, usize, T, T) -> rocrand_status;

/// The routines of one element type.
#[allow(missing_docs)]
pub struct Routines<T> {
    pub uniform: Fill<T>,
    pub normal: FillWith<T>,
    pub log_normal: FillWith<T>,
}

impl Real for f32 {
    fn routines(table: &Rocrand) -> Routines<Self> {
        let (normal, log_normal) = (table.rocrand_generate_normal, table.rocrand_generate_log_normal);
        Routines { uniform: table.rocrand_generate_uniform, normal, log_normal }
    }
}

impl Real for f64 {
    fn routines(table: &Rocrand) -> Routines<Self> {
        let (normal, log_normal) = (table.rocrand_generate_normal_double, table.rocrand_generate_log_normal_double);
        Routines { uniform: table.rocrand_generate_uniform_double, normal, log_normal }
    }
}
