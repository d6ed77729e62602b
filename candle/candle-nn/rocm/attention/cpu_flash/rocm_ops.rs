//! `candle_nn::attention::flash_attn` on the ROCm device: what the CPU does for one batch or some, in one launch.

#![warn(clippy::all, missing_docs)]

use super::super::AttnMask;
use candle::rocm_backend::kernels::AttentionWindow;
use candle::rocm_backend::Attention;
use candle::{CpuStorage, CustomOp3, DType, Layout, Result, RocmStorage, Shape, Tensor};

const OP: &str = "flash_attn";

/// Attention of q (batch, rows, heads, dim) with k and v (batch, keys, their heads, dim); the result is (batch, heads, rows, dim).
///
/// A causal mask shows query `i` the keys up to `i + kv_offset`, whatever the batch. A mask is added to the scores, and is one that can be
/// broadcast to (batch, heads, rows, keys). `max_bias` makes alibi's slopes: they are multiplied with the mask, or without one with the
/// distance of query and key. There is no gradient, and `backward` says so.
pub fn rocm_flash_attn(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    softmax_scale: f32,
    attn_mask: AttnMask,
    max_bias: Option<f32>,
    softcap: Option<f32>,
) -> Result<Tensor> {
    let (_, _, heads, _) = q.dims4()?;
    let slopes = match max_bias.filter(|&bias| bias > 0.) {
        Some(bias) => Some(Tensor::new(slopes(heads, bias), q.device())?),
        None => None,
    };
    let softcap = softcap.filter(|&cap| cap != 0.);
    let plain = Attention { softcap, ..Attention::scaled(OP, softmax_scale) };
    let attention = match attn_mask {
        AttnMask::None => Attention { slopes, ..plain },
        AttnMask::Causal { kv_offset } => Attention {
            slopes,
            window: AttentionWindow { offset: Some(kv_offset as isize), ..AttentionWindow::CAUSAL },
            ..plain
        },
        AttnMask::Mask(mask) => {
            let mask = (mask.rank()..4).try_fold(mask, |mask, _| mask.unsqueeze(0))?;
            let mask = match slopes {
                Some(slopes) => mask.to_dtype(DType::F32)?.broadcast_mul(&slopes.reshape((1, heads, 1, 1))?)?,
                None if mask.dtype() == DType::F32 => mask,
                None => mask.to_dtype(q.dtype())?,
            };
            Attention { mask: Some(mask), ..plain }
        }
    };
    q.transpose(1, 2)?.apply_op3(&k.transpose(1, 2)?, &v.transpose(1, 2)?, Fused(attention))
}

/// Alibi's slopes as the CPU makes them.
fn slopes(heads: usize, max_bias: f32) -> Vec<f32> {
    let rounded = heads.next_power_of_two() as f32;
    (0..heads).map(|head| 2f32.powf(-max_bias * (head + 1) as f32 / rounded)).collect()
}

/// Attention in one launch, without a gradient.
struct Fused(Attention);

impl CustomOp3 for Fused {
    fn name(&self) -> &'static str {
        OP
    }

    fn cpu_fwd(
        &self,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        candle::bail!("{OP}: q is on the ROCm device, but k or v are not; move them there")
    }

    fn rocm_fwd(
        &self,
        q: &RocmStorage,
        q_l: &Layout,
        k: &RocmStorage,
        k_l: &Layout,
        v: &RocmStorage,
        v_l: &Layout,
    ) -> Result<(RocmStorage, Shape)> {
        let (batch, heads, rows, _) = q_l.shape().dims4()?;
        let shape = Shape::from((batch, heads, rows, v_l.shape().dims4()?.3));
        Ok((self.0.forward((q, q_l), (k, k_l), (v, v_l), &Layout::contiguous(&shape))?, shape))
    }
}
