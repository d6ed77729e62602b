//! Mixture-of-experts products on the ROCm device.

#![warn(clippy::all, missing_docs)]
// With both features upstream's own functions are the ones that are called.
#![cfg_attr(feature = "cuda", allow(dead_code))]

use candle::quantized::rocm::RoutedInput;
use candle::quantized::QTensor;
use candle::{DType, Result, Tensor};

/// For each token, the product with the weights of its experts: (tokens, k) and (experts, n, k) make a row of n for each pair
/// of a token and an expert. Pair i is slot `sorted_token_ids[i]` of the result and belongs to expert `experts_ids[i]`.
///
/// Weights are f16 or bf16 as on CUDA, or f32. The route is read back, so that each expert in use is one matrix product with
/// all of its rows, by the same library as any other; prefill and decoding take the same way, and `_is_prefill` does not
/// matter.
pub fn moe_gemm(
    input: &Tensor,
    weights: &Tensor,
    topk_weights: &Option<Tensor>,
    sorted_token_ids: &Tensor,
    experts_ids: &Tensor,
    topk: usize,
    _is_prefill: bool,
) -> Result<Tensor> {
    let (rows, columns) = input.dims2()?;
    let (expert_count, _, weight_columns) = weights.dims3()?;
    if columns != weight_columns || input.dtype() != weights.dtype() {
        candle::bail!("moe_gemm: input {input:?} does not go with weights {weights:?}")
    }
    let share = rows_shared_by(topk_weights, topk);
    let slots = sorted_token_ids.flatten_all()?.to_vec1::<u32>()?;
    let experts = experts_ids.flatten_all()?.to_vec1::<u32>()?;
    let order = slot_order(&slots, rows * share)?;
    if experts.len() != slots.len() {
        candle::bail!("moe_gemm: {} experts for {} slots; every slot has one", experts.len(), slots.len())
    }
    if let Some(expert) = experts.iter().find(|&&expert| expert as usize >= expert_count) {
        candle::bail!("moe_gemm: there is no expert {expert}, there are {expert_count}")
    }
    if slots.is_empty() {
        return Tensor::zeros((0, weights.dim(1)?), input.dtype(), input.device());
    }

    let ids = |ids: Vec<u32>| Tensor::from_vec(ids, slots.len(), input.device());
    let sorted = input.index_select(&ids(slots.iter().map(|slot| slot / share as u32).collect())?, 0)?;
    let mut products = Vec::new();
    let mut first = 0;
    for pairs in experts.chunk_by(|one, next| one == next) {
        let expert = weights.get(pairs[0] as usize)?;
        products.push(sorted.narrow(0, first, pairs.len())?.matmul(&expert.t()?)?);
        first += pairs.len();
    }
    let by_slot = Tensor::cat(&products, 0)?.index_select(&ids(order)?, 0)?;
    match topk_weights {
        None => Ok(by_slot),
        Some(factors) => {
            let factors = factors.reshape(((), 1))?.to_dtype(DType::F32)?;
            by_slot.to_dtype(DType::F32)?.broadcast_mul(&factors)?.to_dtype(input.dtype())
        }
    }
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
    let factors = topk_weights.as_ref().map(Tensor::flatten_all).transpose()?;
    weights.rocm_experts(&RoutedInput {
        input,
        experts: experts_ids,
        slots: sorted_token_ids,
        factors: factors.as_ref(),
        share: rows_shared_by(topk_weights, topk),
    })
}

/// Without weights a token's experts share its row; with them every slot has a row of its own.
fn rows_shared_by(topk_weights: &Option<Tensor>, topk: usize) -> usize {
    if topk_weights.is_none() {
        topk
    } else {
        1
    }
}

/// For each slot, the pair that belongs there.
fn slot_order(slots: &[u32], count: usize) -> Result<Vec<u32>> {
    let mut order = vec![u32::MAX; count];
    for (pair, &slot) in slots.iter().enumerate() {
        match order.get_mut(slot as usize) {
            Some(place) if *place == u32::MAX => *place = pair as u32,
            _ => candle::bail!("moe_gemm: slot {slot} is there twice, or is not one of {count}"),
        }
    }
    if slots.len() != count {
        candle::bail!("moe_gemm: {} slots, but the input has rows for {count}", slots.len())
    }
    Ok(order)
}
