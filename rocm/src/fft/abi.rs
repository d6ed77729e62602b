//! rocFFT's C ABI as `rocfft.h` declares it (ROCm 6 and 7; plans, their descriptions, and how they are run).

#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals)]

use half::f16;
use std::ffi::c_void;

hip_abi::handles! {
    /// A transform with its sizes, its kernels and its tables of roots.
    rocfft_plan;
    /// What is said about a plan beside its sizes: where elements lie, and the factor at the end.
    rocfft_plan_description;
    /// How a plan is run: its stream and its workspace.
    rocfft_execution_info;
}

hip_abi::integers! {
    /// What a call came to.
    rocfft_status: u32 {
        rocfft_status_success = 0;
        rocfft_status_failure = 1;
        rocfft_status_invalid_arg_value = 2;
        rocfft_status_invalid_dimensions = 3;
        rocfft_status_invalid_array_type = 4;
        rocfft_status_invalid_strides = 5;
        rocfft_status_invalid_distance = 6;
        rocfft_status_invalid_offset = 7;
        rocfft_status_invalid_work_buffer = 8;
    }

    /// What is transformed into what.
    rocfft_transform_type: u32 {
        rocfft_transform_type_complex_forward = 0;
        rocfft_transform_type_complex_inverse = 1;
        rocfft_transform_type_real_forward = 2;
        rocfft_transform_type_real_inverse = 3;
    }

    /// The type of the numbers.
    rocfft_precision: u32 {
        rocfft_precision_single = 0;
        rocfft_precision_double = 1;
        rocfft_precision_half = 2;
    }

    /// Where the result goes.
    rocfft_result_placement: u32 {
        rocfft_placement_inplace = 0;
        rocfft_placement_notinplace = 1;
    }

    /// How numbers lie in memory.
    rocfft_array_type: u32 {
        rocfft_array_type_complex_interleaved = 0;
        rocfft_array_type_complex_planar = 1;
        rocfft_array_type_real = 2;
        rocfft_array_type_hermitian_interleaved = 3;
        rocfft_array_type_hermitian_planar = 4;
        rocfft_array_type_unset = 5;
    }
}

hip_abi::library! {
    /// rocFFT.
    pub struct Rocfft in ["rocfft"] versions [0] {
        fn rocfft_setup() -> rocfft_status;
        fn rocfft_plan_create(
            plan: *mut rocfft_plan,
            placement: rocfft_result_placement,
            kind: rocfft_transform_type,
            precision: rocfft_precision,
            dimensions: usize,
            lengths: *const usize,
            count: usize,
            description: rocfft_plan_description,
        ) -> rocfft_status;
        fn rocfft_plan_destroy(plan: rocfft_plan) -> rocfft_status;
        fn rocfft_plan_get_work_buffer_size(plan: rocfft_plan, bytes: *mut usize) -> rocfft_status;
        fn rocfft_execute(
            plan: rocfft_plan,
            input: *mut *mut c_void,
            output: *mut *mut c_void,
            info: rocfft_execution_info,
        ) -> rocfft_status;
        fn rocfft_plan_description_create(description: *mut rocfft_plan_description) -> rocfft_status;
        fn rocfft_plan_description_destroy(description: rocfft_plan_description) -> rocfft_status;
        fn rocfft_plan_description_set_scale_factor(description: rocfft_plan_description, factor: f64) -> rocfft_status;
        fn rocfft_plan_description_set_data_layout(
            description: rocfft_plan_description,
            input_type: rocfft_array_type,
            output_type: rocfft_array_type,
            input_offsets: *const usize,
            output_offsets: *const usize,
            input_strides: usize,
            input_stride: *const usize,
            input_distance: usize,
            output_strides: usize,
            output_stride: *const usize,
            output_distance: usize,
        ) -> rocfft_status;
        fn rocfft_execution_info_create(info: *mut rocfft_execution_info) -> rocfft_status;
        fn rocfft_execution_info_destroy(info: rocfft_execution_info) -> rocfft_status;
        fn rocfft_execution_info_set_work_buffer(
            info: rocfft_execution_info,
            workspace: *mut c_void,
            bytes: usize,
        ) -> rocfft_status;
        fn rocfft_execution_info_set_stream(info: rocfft_execution_info, stream: *mut c_void) -> rocfft_status;
    }
}

/// The types of number that rocFFT transforms. A complex number is two of them, the real part first.
pub trait Real: hip::DeviceCopy {
    /// rocFFT's name of the type.
    #[doc(hidden)]
    const PRECISION: rocfft_precision;
    /// Rust's name of the type, for sentences.
    #[doc(hidden)]
    const NAME: &'static str;
}

impl Real for f16 {
    const PRECISION: rocfft_precision = rocfft_precision::rocfft_precision_half;
    const NAME: &'static str = "f16";
}

impl Real for f32 {
    const PRECISION: rocfft_precision = rocfft_precision::rocfft_precision_single;
    const NAME: &'static str = "f32";
}

impl Real for f64 {
    const PRECISION: rocfft_precision = rocfft_precision::rocfft_precision_double;
    const NAME: &'static str = "f64";
}
