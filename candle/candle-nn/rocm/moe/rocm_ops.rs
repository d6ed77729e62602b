//! Mixture-of-experts products on the ROCm device.

use candle::quantized::QTensor;
use candle::rocm_backend::RocmError;
use candle::{DType, Result, Tensor};

/// For each token, the product with the weights of its experts.
pub fn moe_gemm(
    _: &Tensor,
    _: &Tensor,
    _: &Option<Tensor>,
    _: &Tensor,
    _: &Tensor,
    _: usize,
    _: bool,
) -> Result<Tensor> {
    Err(RocmError::NotThereYet { op: "moe_gemm" }.into())
}

/// As `moe_gemm`, with quantized weights.
#[allow(clippy::too_many_arguments)] // Upstream's signature.
pub fn moe_gemm_gguf(
    _: &Tensor,
    _: &QTensor,
    _: &Option<Tensor>,
    _: &Tensor,
    _: &Tensor,
    _: usize,
    _: bool,
    _: DType,
) -> Result<Tensor> {
    Err(RocmError::NotThereYet { op: "moe_gemm_gguf" }.into())
}
