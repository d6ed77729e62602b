//! The ROCm backend: Candle's storage and device traits on an AMD GPU, or on the embedded device where there is none.
//! This file is the table of contents: every operation of `BackendStorage` is one line that names the file it lives in.
//! A launch is made by the crate `candle-rocm-kernels`, which this module re-exports for people who write their own ops.

#![warn(clippy::all, missing_docs, clippy::undocumented_unsafe_blocks)]

mod attention;
mod columns;
mod convolution;
mod custom;
mod device;
mod elementwise;
mod error;
mod fill;
mod graph;
mod indexing;
mod libraries;
mod matmul;
#[cfg(feature = "miopen")]
mod miopen;
mod operand;
mod put_off;
mod random;
mod reduce;
mod storage;
mod window;
mod winograd;

pub use attention::{Attention, PackedSequences};
pub use candle_rocm_kernels as kernels;
pub use cudarc;
pub use custom::{builder_arg, RocmFunc};
pub use device::{DeviceId, RocmDevice};
pub use error::{RocmError, WrapErr};
pub(crate) use fill::concat;
pub use graph::RocmGraph;
pub use hip;
pub use operand::{kernel_dtype, OnStream};
pub use storage::{RocmDType, RocmStorage, RocmStorageSlice};

// What Candle and its programs call them.
pub use self::{
    RocmDType as CudaDType, RocmDevice as CudaDevice, RocmError as CudaError, RocmFunc as CudaFunc,
    RocmStorage as CudaStorage, RocmStorageSlice as CudaStorageSlice,
};

use crate::backend::BackendStorage;
use crate::conv::{ParamsConv1D, ParamsConv2D, ParamsConvTranspose1D, ParamsConvTranspose2D};
use crate::op::{BinaryOpT, CmpOp, ReduceOp, UnaryOpT};
use crate::scalar::Scalar;
use crate::{CpuStorage, DType, Layout, Result};

/// Whether a program should choose this device over the CPU: there is an AMD GPU, or `CANDLE_ROCM_PLATFORM` asks for a platform.
/// The embedded device computes on the CPU as well, only slower, so unasked it does not count. What is asked for and is not there
/// counts: a device is an error then, and not the CPU. A program that gets the CPU for want of a GPU is told why, once.
pub fn is_available() -> bool {
    static TOLD: std::sync::Once = std::sync::Once::new();
    if hip::Platform::asked_for().is_some() {
        return true;
    }
    let Err(error) = hip::Platform::named("amd") else { return true };
    TOLD.call_once(|| {
        hip::warn(&format!(
            "no AMD GPU can be used, so a program that asks whether one is there gets the CPU: {error}. {}=amd makes that an error",
            hip::PLATFORM_VARIABLE
        ));
    });
    false
}

impl BackendStorage for RocmStorage {
    type Device = RocmDevice;

    /// The whole memory, since the clone is used with the same layout.
    fn try_clone(&self, _: &Layout) -> Result<Self> {
        self.transfer_to_device(&self.device)
    }

    fn dtype(&self) -> DType {
        self.slice.dtype()
    }

    fn device(&self) -> &RocmDevice {
        &self.device
    }

    fn to_cpu_storage(&self) -> Result<CpuStorage> {
        self.download(0..self.slice.len())
    }

    fn affine(&self, layout: &Layout, mul: f64, add: f64) -> Result<Self> {
        match put_off::scores_affine(self, layout, mul, add)? {
            Some(later) => Ok(later),
            None => elementwise::affine(self, layout, mul, add),
        }
    }

    fn powf(&self, layout: &Layout, exponent: f64) -> Result<Self> {
        elementwise::with_parameter(self, layout, "upowf", "powf", exponent)
    }

    fn elu(&self, layout: &Layout, alpha: f64) -> Result<Self> {
        elementwise::with_parameter(self, layout, "uelu", "elu", alpha)
    }

    fn reduce_op(&self, op: ReduceOp, layout: &Layout, dims: &[usize]) -> Result<Self> {
        reduce::reduce(self, op, layout, dims)
    }

    fn cmp(&self, op: CmpOp, rhs: &Self, lhs_l: &Layout, rhs_l: &Layout) -> Result<Self> {
        elementwise::compare(self, op, rhs, lhs_l, rhs_l)
    }

    fn to_dtype(&self, layout: &Layout, dtype: DType) -> Result<Self> {
        match put_off::scored_cast(self, layout, dtype)? {
            Some(later) => Ok(later),
            None => elementwise::cast(self, layout, dtype),
        }
    }

    fn unary_impl<B: UnaryOpT>(&self, layout: &Layout) -> Result<Self> {
        let later = match B::KERNEL {
            "usilu" | "ugelu" => put_off::activation(self, layout, B::KERNEL)?,
            "utanh" => put_off::scores_tanh(self, layout)?,
            _ => None,
        };
        match later {
            Some(later) => Ok(later),
            None => elementwise::unary(self, layout, B::KERNEL, B::NAME),
        }
    }

    fn binary_impl<B: BinaryOpT>(&self, rhs: &Self, lhs_l: &Layout, rhs_l: &Layout) -> Result<Self> {
        let done = match B::KERNEL {
            "bmul" => put_off::gated(self, rhs, lhs_l, rhs_l)?,
            "badd" => put_off::scores_masked(self, rhs, lhs_l, rhs_l)?,
            _ => None,
        };
        match done {
            Some(done) => Ok(done),
            None => elementwise::binary(self, rhs, lhs_l, rhs_l, B::KERNEL, B::NAME),
        }
    }

    fn where_cond(&self, layout: &Layout, t: &Self, t_l: &Layout, f: &Self, f_l: &Layout) -> Result<Self> {
        match put_off::scores_chosen((self, layout), (t, t_l), (f, f_l))? {
            Some(later) => Ok(later),
            None => elementwise::where_cond(self, layout, t, t_l, f, f_l),
        }
    }

    fn conv1d(&self, l: &Layout, kernel: &Self, kernel_l: &Layout, params: &ParamsConv1D) -> Result<Self> {
        convolution::conv1d(self, l, kernel, kernel_l, params)
    }

    fn conv_transpose1d(&self, l: &Layout, k: &Self, k_l: &Layout, params: &ParamsConvTranspose1D) -> Result<Self> {
        convolution::conv_transpose1d(self, l, k, k_l, params)
    }

    fn conv2d(&self, l: &Layout, kernel: &Self, kernel_l: &Layout, params: &ParamsConv2D) -> Result<Self> {
        convolution::conv2d(self, l, kernel, kernel_l, params)
    }

    fn conv_transpose2d(&self, l: &Layout, k: &Self, k_l: &Layout, params: &ParamsConvTranspose2D) -> Result<Self> {
        convolution::conv_transpose2d(self, l, k, k_l, params)
    }

    fn avg_pool2d(&self, layout: &Layout, kernel: (usize, usize), stride: (usize, usize)) -> Result<Self> {
        window::pool2d(self, layout, kernels::Pool::Average, kernel, stride)
    }

    fn max_pool2d(&self, layout: &Layout, kernel: (usize, usize), stride: (usize, usize)) -> Result<Self> {
        window::pool2d(self, layout, kernels::Pool::Max, kernel, stride)
    }

    fn upsample_nearest1d(&self, layout: &Layout, length: usize) -> Result<Self> {
        window::upsample_nearest(self, layout, "upsample_nearest1d", &[length])
    }

    fn upsample_nearest2d(&self, layout: &Layout, height: usize, width: usize) -> Result<Self> {
        window::upsample_nearest(self, layout, "upsample_nearest2d", &[height, width])
    }

    fn upsample_bilinear2d(
        &self,
        layout: &Layout,
        height: usize,
        width: usize,
        align_corners: bool,
        scale_y: Option<f64>,
        scale_x: Option<f64>,
    ) -> Result<Self> {
        window::upsample_bilinear2d(self, layout, (height, width), align_corners, (scale_y, scale_x))
    }

    fn gather(&self, layout: &Layout, ids: &Self, ids_l: &Layout, dim: usize) -> Result<Self> {
        indexing::gather(self, layout, ids, ids_l, dim)
    }

    fn scatter_set(
        &mut self,
        layout: &Layout,
        ids: &Self,
        ids_l: &Layout,
        source: &Self,
        source_l: &Layout,
        dim: usize,
    ) -> Result<()> {
        indexing::scatter(self, layout, ids, ids_l, source, source_l, dim)
    }

    fn scatter_add_set(
        &mut self,
        layout: &Layout,
        ids: &Self,
        ids_l: &Layout,
        source: &Self,
        source_l: &Layout,
        dim: usize,
    ) -> Result<()> {
        indexing::scatter_add(self, layout, ids, ids_l, source, source_l, dim)
    }

    fn index_select(&self, ids: &Self, layout: &Layout, ids_l: &Layout, dim: usize) -> Result<Self> {
        indexing::index_select(self, layout, ids, ids_l, dim)
    }

    fn index_add(
        &self,
        layout: &Layout,
        ids: &Self,
        ids_l: &Layout,
        source: &Self,
        source_l: &Layout,
        dim: usize,
    ) -> Result<Self> {
        indexing::index_add(self, layout, ids, ids_l, source, source_l, dim)
    }

    fn matmul(&self, rhs: &Self, bmnk: (usize, usize, usize, usize), lhs_l: &Layout, rhs_l: &Layout) -> Result<Self> {
        matmul::matmul(self, rhs, bmnk, lhs_l, rhs_l)
    }

    fn copy_strided_src(&self, dst: &mut Self, dst_offset: usize, layout: &Layout) -> Result<()> {
        fill::copy_strided(self, dst, dst_offset, layout)
    }

    fn copy2d(
        &self,
        dst: &mut Self,
        rows: usize,
        columns: usize,
        src_stride: usize,
        dst_stride: usize,
        src_offset: usize,
        dst_offset: usize,
    ) -> Result<()> {
        fill::copy2d(self, dst, (rows, columns), (src_stride, src_offset), (dst_stride, dst_offset))
    }

    fn const_set(&mut self, value: Scalar, layout: &Layout) -> Result<()> {
        fill::const_set(self, value, layout)
    }
}

macro_rules! reduced_precision {
    ($get:ident, $set:ident, $dtype:literal) => {
        #[doc = concat!("Whether sums of ", $dtype, " products may be kept in less than f32. They never are: the call is there for programs written for CUDA.")]
        pub fn $get() -> bool {
            false
        }
        #[doc = concat!("Asks for less precise sums of ", $dtype, " products. The answer is to keep them in f32.")]
        pub fn $set(_: bool) {}
    };
}
reduced_precision!(gemm_reduced_precision_f16, set_gemm_reduced_precision_f16, "f16");
reduced_precision!(gemm_reduced_precision_bf16, set_gemm_reduced_precision_bf16, "bf16");
reduced_precision!(gemm_reduced_precision_f32, set_gemm_reduced_precision_f32, "f32");
