//! Mixture-of-experts products on the ROCm device.

#![warn(clippy::all, missing_docs)]

use candle::quantized::rocm::RoutedInput;
use candle::quantized::QTensor;
use candle::rocm_backend::RocmError;
use candle::{DType, Result, Tensor};

/// For each token, the product with the weights of its experts, which are f16 or bf16.
pub fn moe_gemm(
    _input: &Tensor,
    _weights: &Tensor,
    _topk_weights: &Option<Tensor>,
    _sorted_token_ids: &Tensor,
    _experts_ids: &Tensor,
    _topk: usize,
    _is_prefill: bool,
) -> Result<Tensor> {
    Err(RocmError::NotThereYet { op: "moe_gemm" }.into())
}

/// As [`moe_gemm`], with quantized weights, in f32. Prefill and decoding take the same way, and the input's own dtype is
/// rounded to bytes whatever it is, so that neither `_is_prefill` nor `_dtype` matters.
#[allow(clippy::too_many_arguments)] // Upstream's signature.
pub fn moe_gemm_gguf(
    input: &Tensor,
    weights: &QTensor,
    topk_weights: &Option<Tensor>,
    sorted_token_ids: &Tensor,
    experts_ids: &Tensor,
    topk: usize,
    _is_prefill: bool,
    _dtype: DType,
) -> Result<Tensor> {
    // Without weights a token's experts share its row; with them every slot has a row of its own.
    let share = if topk_weights.is_none() { topk } else { 1 };
    let factors = topk_weights.as_ref().map(Tensor::flatten_all).transpose()?;
    weights.rocm_experts(&RoutedInput {
        input,
        experts: experts_ids,
        slots: sorted_token_ids,
        factors: factors.as_ref(),
        share,
    })
}
