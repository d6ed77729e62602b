//! candle-nn's elementwise and row operations on the ROCm device. The rows are those of a contiguous tensor, as on the
//! other devices; what a row operation computes is the kernels' business.

#![warn(clippy::all, missing_docs)]

use super::{LayerNorm, RmsNorm, Sigmoid, SoftmaxLastDim};
use candle::backend::BackendStorage;
use candle::{Layout, Result, RocmStorage, Shape};

type Answer = Result<(RocmStorage, Shape)>;

/// `1 / (1 + exp(-x))`.
pub fn sigmoid(_: &Sigmoid, x: &RocmStorage, layout: &Layout) -> Answer {
    let (device, op) = (x.device(), "sigmoid");
    let input = x.operand(layout, op)?;
    let result = RocmStorage::filled(device, x.dtype(), layout.shape().elem_count(), op, |out| {
        device.kernels().unary("usigmoid", &input, out)
    })?;
    Ok((result, layout.shape().clone()))
}

/// `exp(x) / sum(exp(x))` over the last dimension.
pub fn softmax_last_dim(_: &SoftmaxLastDim, x: &RocmStorage, layout: &Layout) -> Answer {
    let (device, op) = (x.device(), "softmax-last-dim");
    contiguous(layout, "input")?;
    let input = x.operand(layout, op)?;
    let result = RocmStorage::filled(device, x.dtype(), layout.shape().elem_count(), op, |out| {
        device.kernels().softmax(&input, out)
    })?;
    Ok((result, layout.shape().clone()))
}

/// `x / sqrt(mean(x^2) + eps) * alpha` over the last dimension.
pub fn rms_norm(norm: &RmsNorm, x: &RocmStorage, layout: &Layout, alpha: &RocmStorage, alpha_l: &Layout) -> Answer {
    let (device, op) = (x.device(), "rms-norm");
    contiguous(layout, "input")?;
    contiguous(alpha_l, "alpha")?;
    let alpha = alpha.on(device)?;
    let (input, alpha) = (x.operand(layout, op)?, alpha.operand(alpha_l, op)?);
    let result = RocmStorage::filled(device, x.dtype(), layout.shape().elem_count(), op, |out| {
        device.kernels().rms_norm(&input, &alpha, norm.eps.into(), out)
    })?;
    Ok((result, layout.shape().clone()))
}

/// `(x - mean(x)) / sqrt(variance(x) + eps) * alpha + beta` over the last dimension.
pub fn layer_norm(
    norm: &LayerNorm,
    x: &RocmStorage,
    layout: &Layout,
    alpha: &RocmStorage,
    alpha_l: &Layout,
    beta: &RocmStorage,
    beta_l: &Layout,
) -> Answer {
    let (device, op) = (x.device(), "layer-norm");
    contiguous(layout, "input")?;
    contiguous(alpha_l, "alpha")?;
    contiguous(beta_l, "beta")?;
    let (alpha, beta) = (alpha.on(device)?, beta.on(device)?);
    let (input, alpha, beta) = (x.operand(layout, op)?, alpha.operand(alpha_l, op)?, beta.operand(beta_l, op)?);
    let result = RocmStorage::filled(device, x.dtype(), layout.shape().elem_count(), op, |out| {
        device.kernels().layer_norm(&input, &alpha, &beta, norm.eps.into(), out)
    })?;
    Ok((result, layout.shape().clone()))
}

fn contiguous(layout: &Layout, what: &str) -> Result<()> {
    if layout.is_contiguous() {
        return Ok(());
    }
    candle::bail!("{what} has to be contiguous")
}
