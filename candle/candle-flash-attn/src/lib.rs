//! Flash attention for Candle on a ROCm device: the functions and arguments of upstream's candle-flash-attn 0.11.1, on the kernels of
//! candle-rocm. It builds without CUDA and runs wherever `Device::new_rocm` gives a device.
//!
//! All functions compute `softmax(q k^T softmax_scale) v` without the matrix of scores in memory. q, k and v are f16 or bf16, and other
//! than upstream's also f32; heads have up to 512 elements, of any number and with any strides, and v may have other ones than q and k.
//! The heads of k and v may be fewer than those of q, where they divide them: neighbouring heads of q share one.
//!
//! - *Batches* have shape (batch, rows, heads, dim), and so has the result.
//! - *Packed sequences* (`varlen`) have shape (rows of all sequences, heads, dim). `seqlens_q` and `seqlens_k` are u32 and cumulative:
//!   0, the length of the first sequence, of the first two together, and so on. `max_seqlen_q` and `max_seqlen_k` are the longest.
//!   Rows that belong to no sequence become zeros. Starts that lead outside are reported by the next call that waits, and nothing
//!   outside is read.
//! - *Windows*: the last query of a sequence is at the position of its last key. A query sees `window_size_left` keys before its own
//!   position and `window_size_right` after it; `None`, and a number above that of the keys, is no limit. `causal` is a right window
//!   of 0. A query that sees no key gets zeros.
//! - *Alibi slopes*, f32 (heads): a score is lowered by the slope times the distance between query and key.
//! - *Softcap*: `cap * tanh(score / cap)` takes the score's place. 0 or less is none.
//!
//! There is no gradient, as upstream has none: `backward` says so. `candle_nn::ops::sdpa` has one.

mod batches;
mod packed;

pub use batches::FlashAttn;

use candle::rocm_backend::kernels::AttentionWindow;
use candle::{bail, DType, Result, Tensor};
use packed::FlashAttnVarLen;

/// Attention of batches.
pub fn flash_attn(q: &Tensor, k: &Tensor, v: &Tensor, softmax_scale: f32, causal: bool) -> Result<Tensor> {
    FlashAttn { softmax_scale, window_size_right: causal.then_some(0), ..FlashAttn::PLAIN }.of(q, k, v)
}

/// Attention of batches within a window.
pub fn flash_attn_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
) -> Result<Tensor> {
    FlashAttn { softmax_scale, window_size_left, window_size_right, ..FlashAttn::PLAIN }.of(q, k, v)
}

/// Attention of batches with alibi.
pub fn flash_attn_alibi(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: &Tensor,
    softmax_scale: f32,
    causal: bool,
) -> Result<Tensor> {
    flash_attn_alibi_windowed(q, k, v, alibi_slopes, softmax_scale, None, causal.then_some(0))
}

/// Attention of batches with alibi, within a window.
pub fn flash_attn_alibi_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: &Tensor,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
) -> Result<Tensor> {
    let alibi_slopes = Some(alibi_slopes.clone());
    FlashAttn { softmax_scale, alibi_slopes, window_size_left, window_size_right, softcap: None }.of(q, k, v)
}

/// Attention of batches with a softcap, within a window, with alibi or without.
#[allow(clippy::too_many_arguments)] // Upstream's signature.
pub fn flash_attn_alibi_windowed_softcap(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: Option<&Tensor>,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
    softcap: f32,
) -> Result<Tensor> {
    let (alibi_slopes, softcap) = (alibi_slopes.cloned(), Some(softcap));
    FlashAttn { softmax_scale, alibi_slopes, window_size_left, window_size_right, softcap }.of(q, k, v)
}

/// Attention of packed sequences.
#[allow(clippy::too_many_arguments)] // Upstream's signature.
pub fn flash_attn_varlen(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    causal: bool,
) -> Result<Tensor> {
    let right = causal.then_some(0);
    flash_attn_varlen_windowed(q, k, v, seqlens_q, seqlens_k, max_seqlen_q, max_seqlen_k, softmax_scale, None, right)
}

/// Attention of packed sequences within a window.
#[allow(clippy::too_many_arguments)] // Upstream's signature.
pub fn flash_attn_varlen_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
) -> Result<Tensor> {
    let op = FlashAttnVarLen { window_size_left, window_size_right, ..FlashAttnVarLen::plain(softmax_scale) };
    op.sequences(seqlens_q, seqlens_k, max_seqlen_q, max_seqlen_k)?.of(q, k, v)
}

/// Attention of packed sequences whose keys and values lie in a cache of pages: k and v have shape (pages, `page_block_size`, heads,
/// dim), and `block_table`, u32 or i32 (sequences, pages of the longest), says in which pages the keys of a sequence lie. Of
/// `seqlens_k` only the differences count. A page that is not there is reported by the next call that waits.
///
/// Within a range of `mm_prefix_ranges`, i32 (sequences, ranges, 2), of positions from the first up to the second, all queries see all
/// keys, whatever the window. An empty range changes nothing.
#[allow(clippy::too_many_arguments)] // Upstream's signature.
pub fn flash_attn_varlen_paged_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    block_table: &Tensor,
    mm_prefix_ranges: Option<&Tensor>,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
    page_block_size: usize,
    softcap: Option<f32>,
) -> Result<Tensor> {
    let op = FlashAttnVarLen {
        window_size_left,
        window_size_right,
        softcap,
        pages: Some((block_table.contiguous()?, page_block_size)),
        prefixes: mm_prefix_ranges.map(Tensor::contiguous).transpose()?,
        ..FlashAttnVarLen::plain(softmax_scale)
    };
    op.sequences(seqlens_q, seqlens_k, max_seqlen_q, max_seqlen_k)?.of(q, k, v)
}

/// Attention of packed sequences with alibi.
#[allow(clippy::too_many_arguments)] // Upstream's signature.
pub fn flash_attn_varlen_alibi(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    causal: bool,
) -> Result<Tensor> {
    let right = causal.then_some(0);
    flash_attn_varlen_alibi_windowed(
        q,
        k,
        v,
        alibi_slopes,
        seqlens_q,
        seqlens_k,
        max_seqlen_q,
        max_seqlen_k,
        softmax_scale,
        None,
        right,
    )
}

/// Attention of packed sequences with alibi, within a window.
#[allow(clippy::too_many_arguments)] // Upstream's signature.
pub fn flash_attn_varlen_alibi_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
) -> Result<Tensor> {
    let alibi_slopes = Some(alibi_slopes.clone());
    let plain = FlashAttnVarLen::plain(softmax_scale);
    let op = FlashAttnVarLen { alibi_slopes, window_size_left, window_size_right, ..plain };
    op.sequences(seqlens_q, seqlens_k, max_seqlen_q, max_seqlen_k)?.of(q, k, v)
}

/// Attention of packed sequences with a softcap, within a window, with alibi or without.
#[allow(clippy::too_many_arguments)] // Upstream's signature.
pub fn flash_attn_varlen_alibi_windowed_softcap(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: Option<&Tensor>,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
    softcap: f32,
) -> Result<Tensor> {
    let (alibi_slopes, softcap) = (alibi_slopes.cloned(), Some(softcap));
    let plain = FlashAttnVarLen::plain(softmax_scale);
    let op = FlashAttnVarLen { alibi_slopes, window_size_left, window_size_right, softcap, ..plain };
    op.sequences(seqlens_q, seqlens_k, max_seqlen_q, max_seqlen_k)?.of(q, k, v)
}

/// The window as CUDA's kernels take it: a side of more keys than there are has no limit, and where only the left one has, the right one
/// reaches over all keys.
fn window(left: Option<usize>, right: Option<usize>, keys: usize) -> AttentionWindow {
    let [left, right] = [left, right].map(|side| side.filter(|&side| side <= keys));
    AttentionWindow { left, right: right.or(left.map(|_| keys)), offset: None }
}

/// A softcap of 0 or less is none. One that is not a number is left for the kernels to refuse.
fn softcap(cap: Option<f32>) -> Option<f32> {
    cap.filter(|cap| cap.is_nan() || *cap > 0.0)
}

/// What all functions ask of q, k and v, before shapes.
fn check_inputs(op: &str, q: &Tensor, k: &Tensor, v: &Tensor) -> Result<()> {
    for (name, tensor) in [("q", q), ("k", k), ("v", v)] {
        if !tensor.device().is_cuda() {
            bail!(
                "{op}: {name} is on {:?}; flash attention runs on a ROCm device, so move q, k and v there, or use candle_nn::attention::flash_attn on the CPU",
                tensor.device().location()
            )
        }
    }
    if !matches!(q.dtype(), DType::F16 | DType::BF16 | DType::F32) {
        bail!("{op}: q is {:?}; flash attention takes f16, bf16 and f32", q.dtype())
    }
    if k.dtype() != q.dtype() || v.dtype() != q.dtype() {
        bail!("{op}: q, k and v are {:?}, {:?} and {:?}; they must be of one dtype", q.dtype(), k.dtype(), v.dtype())
    }
    Ok(())
}

/// Heads of q, and of k and v.
fn check_heads(op: &str, heads: usize, kv_heads: usize, dims: [usize; 2]) -> Result<()> {
    if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
        bail!("{op}: {heads} heads of q cannot share {kv_heads} heads of k and v; the first must be a multiple")
    }
    match dims.into_iter().find(|&dim| dim > 512) {
        Some(dim) => bail!("{op}: heads of {dim} elements are too long; at most 512 are supported"),
        None => Ok(()),
    }
}

fn check_slopes(op: &str, slopes: &Tensor, heads: usize) -> Result<()> {
    if slopes.dtype() != DType::F32 || slopes.dims() != [heads] {
        bail!(
            "{op}: alibi_slopes are {:?} {:?}, but must be f32 [{heads}], one for each head of q",
            slopes.dtype(),
            slopes.dims()
        )
    }
    Ok(())
}
