//! Rotary position embeddings on the ROCm device.

#![warn(clippy::all, missing_docs)]

use super::{RotaryEmb, RotaryEmbI, RotaryEmbThd};
use candle::backend::BackendStorage;
use candle::rocm_backend::kernels::Rope;
use candle::{Layout, Result, RocmStorage, Shape};

type Answer = Result<(RocmStorage, Shape)>;

/// Pairs are the two halves of a head; dimensions are (batch, head, time, dim).
pub fn rotary_emb(
    _: &RotaryEmb,
    x: &RocmStorage,
    x_l: &Layout,
    cos: &RocmStorage,
    cos_l: &Layout,
    sin: &RocmStorage,
    sin_l: &Layout,
) -> Answer {
    rope(Rope::Halves, "rotary-emb", (x, x_l), (cos, cos_l), (sin, sin_l))
}

/// Pairs are neighbours; dimensions are (batch, head, time, dim).
pub fn rotary_emb_i(
    _: &RotaryEmbI,
    x: &RocmStorage,
    x_l: &Layout,
    cos: &RocmStorage,
    cos_l: &Layout,
    sin: &RocmStorage,
    sin_l: &Layout,
) -> Answer {
    rope(Rope::Interleaved, "rotary-emb-int", (x, x_l), (cos, cos_l), (sin, sin_l))
}

/// Pairs are the two halves of a head; dimensions are (batch, time, head, dim).
pub fn rotary_emb_thd(
    _: &RotaryEmbThd,
    x: &RocmStorage,
    x_l: &Layout,
    cos: &RocmStorage,
    cos_l: &Layout,
    sin: &RocmStorage,
    sin_l: &Layout,
) -> Answer {
    rope(Rope::HalvesThd, "rotary-emb-thd", (x, x_l), (cos, cos_l), (sin, sin_l))
}

fn rope(
    kind: Rope,
    op: &'static str,
    (x, x_l): (&RocmStorage, &Layout),
    (cos, cos_l): (&RocmStorage, &Layout),
    (sin, sin_l): (&RocmStorage, &Layout),
) -> Answer {
    let device = x.device();
    let (cos, sin) = (cos.on(device)?, sin.on(device)?);
    let (input, cos, sin) = (x.operand(x_l, op)?, cos.operand(cos_l, op)?, sin.operand(sin_l, op)?);
    let result = RocmStorage::filled(device, x.dtype(), x_l.shape().elem_count(), op, |out| {
        device.kernels().rope(kind, &input, &cos, &sin, out)
    })?;
    Ok((result, x_l.shape().clone()))
}
