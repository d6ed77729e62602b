//! candle-nn's elementwise and row operations on the ROCm device. The rows are those of a contiguous tensor, as on the
//! other devices; the kernels see to that, and what a row operation computes is their business.

#![warn(clippy::all, missing_docs)]

use super::{LayerNorm, RmsNorm, Sigmoid, SoftmaxLastDim};
use candle::backend::BackendStorage;
use candle::rocm_backend::kernels::AttentionWindow;
use candle::rocm_backend::Attention;
use candle::{CpuStorage, CustomOp3, DType, Layout, Result, RocmStorage, Shape, Tensor, Var, D};

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
    Ok((x.softmax_last_dim(layout)?, layout.shape().clone()))
}

/// `x / sqrt(mean(x^2) + eps) * alpha` over the last dimension.
pub fn rms_norm(norm: &RmsNorm, x: &RocmStorage, layout: &Layout, alpha: &RocmStorage, alpha_l: &Layout) -> Answer {
    let (device, op) = (x.device(), "rms-norm");
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
    let (alpha, beta) = (alpha.on(device)?, beta.on(device)?);
    let (input, alpha, beta) = (x.operand(layout, op)?, alpha.operand(alpha_l, op)?, beta.operand(beta_l, op)?);
    let result = RocmStorage::filled(device, x.dtype(), layout.shape().elem_count(), op, |out| {
        device.kernels().layer_norm(&input, &alpha, &beta, norm.eps.into(), out)
    })?;
    Ok((result, layout.shape().clone()))
}

/// Scaled dot product attention; any mask that can be broadcast, and grouped heads. f16, bf16 and f32 are one launch that keeps no
/// scores in memory, and a gradient takes [`composed`] instead. So does everything else: f64, heads of more than 512 elements, and a
/// mask that is trained.
pub fn rocm_sdpa(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    mask: Option<&Tensor>,
    do_causal: bool,
    scale: f32,
    softcapping: f32,
) -> Result<Tensor> {
    let short = matches!(q.dtype(), DType::F16 | DType::BF16 | DType::F32);
    let longest = q.dim(D::Minus1)?.max(v.dim(D::Minus1)?);
    if !short || longest > LONGEST_HEAD || mask.is_some_and(Tensor::track_op) {
        return composed(q, k, v, mask, do_causal, scale, softcapping);
    }
    q.apply_op3(k, v, FusedSdpa { mask: mask.cloned(), do_causal, scale, softcapping })
}

/// Elements of a head that the fused kernels take.
const LONGEST_HEAD: usize = 512;

/// `sdpa` in one launch.
struct FusedSdpa {
    mask: Option<Tensor>,
    do_causal: bool,
    scale: f32,
    softcapping: f32,
}

impl CustomOp3 for FusedSdpa {
    fn name(&self) -> &'static str {
        "sdpa"
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
        candle::bail!("sdpa: q is on the ROCm device, but k or v are not; move them there")
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
        let attention = Attention {
            softcap: (self.softcapping != 1.).then_some(self.softcapping),
            window: if self.do_causal { AttentionWindow::CAUSAL } else { AttentionWindow::default() },
            mask: self.mask.as_ref().map(|mask| with_four_dimensions(mask, q.dtype())).transpose()?,
            // As the softmax of a row without scores.
            nan_rows: true,
            ..Attention::scaled("sdpa", self.scale)
        };
        let result = attention.forward((q, q_l), (k, k_l), (v, v_l), &Layout::contiguous(&shape))?;
        Ok((result, shape))
    }

    /// Computes the attention once more, piece by piece, and follows the gradient through the pieces.
    fn bwd(&self, q: &Tensor, k: &Tensor, v: &Tensor, _: &Tensor, grad: &Tensor) -> Result<Gradients> {
        let [q, k, v] = [q, k, v].map(|input| Var::from_tensor(&input.detach()));
        let (q, k, v) = (q?, k?, v?);
        let mask = self.mask.as_ref();
        let out = composed(&q, &k, &v, mask, self.do_causal, self.scale, self.softcapping)?;
        let grads = (out * grad)?.backward()?;
        let of = |input: &Tensor| grads.get(input).cloned();
        Ok((of(&q), of(&k), of(&v)))
    }
}

type Gradients = (Option<Tensor>, Option<Tensor>, Option<Tensor>);

/// A mask as the kernels read it: of the dtype of the queries or f32.
fn with_four_dimensions(mask: &Tensor, dtype: DType) -> Result<Tensor> {
    let mask = match mask.dtype() {
        DType::F32 => mask.clone(),
        _ => mask.to_dtype(dtype)?,
    };
    // Dimensions that are added here are free of copies, also where the mask is broadcast.
    (mask.rank()..4).try_fold(mask, |mask, _| mask.unsqueeze(0))
}

/// Scaled dot product attention as products and a softmax, with scores in memory; any shapes that make sense, any mask that can be
/// broadcast, grouped heads, and gradients.
fn composed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    mask: Option<&Tensor>,
    do_causal: bool,
    scale: f32,
    softcapping: f32,
) -> Result<Tensor> {
    let (batch, heads, rows, depth) = q.dims4()?;
    let (_, groups, columns, _) = k.dims4()?;
    if groups == 0 || heads % groups != 0 || v.dim(1)? != groups {
        candle::bail!("sdpa: {heads} heads of q cannot share {groups} heads of k and {} of v", v.dim(1)?)
    }
    // Heads that share a key are rows of one product: nothing is repeated in memory.
    let shared = heads / groups;
    let scores = q.reshape((batch, groups, shared * rows, depth))?.matmul(&k.t()?)?;
    let mut scores = scores.reshape((batch, heads, rows, columns))?.affine(scale.into(), 0.)?;
    if softcapping != 1. {
        let cap = f64::from(softcapping);
        scores = scores.affine(1. / cap, 0.)?.tanh()?.affine(cap, 0.)?;
    }
    if let Some(mask) = mask {
        scores = scores.broadcast_add(&mask.to_dtype(scores.dtype())?)?;
    }
    if do_causal {
        scores = scores.broadcast_add(&causal_mask(rows, columns, &scores)?)?;
    }
    let weights = super::softmax(&scores.to_dtype(accumulator(q.dtype()))?, D::Minus1)?.to_dtype(q.dtype())?;
    let out = weights.reshape((batch, groups, shared * rows, columns))?.matmul(&v.contiguous()?)?;
    out.reshape((batch, heads, rows, v.dim(3)?))
}

/// Short floats are normalised in f32.
fn accumulator(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    }
}

/// Minus infinity where a column lies after its row; the last row sees all columns.
fn causal_mask(rows: usize, columns: usize, like: &Tensor) -> Result<Tensor> {
    let hidden = (0..rows).flat_map(|row| {
        (0..columns).map(move |column| if column + rows > row + columns { f32::NEG_INFINITY } else { 0. })
    });
    Tensor::from_iter(hidden, like.device())?.reshape((rows, columns))?.to_dtype(like.dtype())
}
