//! Attention of batches of equally long sequences: (batch, rows, heads, dim).

use candle::rocm_backend::Attention;
use candle::{bail, CpuStorage, CustomOp3, Layout, Result, RocmStorage, Shape, Tensor};

const OP: &str = "flash-attn";

/// The operation behind the functions for batches, for `Tensor::apply_op3`.
pub struct FlashAttn {
    /// The products of queries and keys are multiplied by this.
    pub softmax_scale: f32,
    /// f32, one for each head.
    pub alibi_slopes: Option<Tensor>,
    /// Keys before its own position that a query sees.
    pub window_size_left: Option<usize>,
    /// Keys after its own position that a query sees.
    pub window_size_right: Option<usize>,
    /// `cap * tanh(score / cap)` in place of the score.
    pub softcap: Option<f32>,
}

impl FlashAttn {
    pub(crate) const PLAIN: Self =
        Self { softmax_scale: 1.0, alibi_slopes: None, window_size_left: None, window_size_right: None, softcap: None };

    pub(crate) fn of(self, q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor> {
        crate::check_inputs(OP, q, k, v)?;
        q.apply_op3(k, v, self)
    }
}

impl CustomOp3 for FlashAttn {
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
        bail!("{OP}: there is no flash attention on the CPU; use candle_nn::attention::flash_attn there")
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
        let (&[batch, queries, heads, dim], &[k_batch, keys, kv_heads, k_dim], &[v_batch, v_keys, v_heads, width]) =
            (q_l.dims(), k_l.dims(), v_l.dims())
        else {
            bail!(
                "{OP}: q, k and v have shapes {:?}, {:?} and {:?}; they must have four dimensions, (batch, rows, heads, dim)",
                q_l.dims(),
                k_l.dims(),
                v_l.dims()
            )
        };
        let fitting = batch == k_batch && dim == k_dim && (k_batch, keys, kv_heads) == (v_batch, v_keys, v_heads);
        if !fitting {
            bail!(
                "{OP}: q {:?}, k {:?} and v {:?} do not go together; the shapes are (batch, queries, heads, dim), (batch, keys, kv heads, dim) and (batch, keys, kv heads, value dim)",
                q_l.dims(),
                k_l.dims(),
                v_l.dims()
            )
        }
        crate::check_heads(OP, heads, kv_heads, [dim, width])?;
        if let Some(slopes) = &self.alibi_slopes {
            crate::check_slopes(OP, slopes, heads)?;
        }
        let attention = Attention {
            softcap: crate::softcap(self.softcap),
            window: crate::window(self.window_size_left, self.window_size_right, keys),
            slopes: self.alibi_slopes.as_ref().map(Tensor::contiguous).transpose()?,
            ..Attention::scaled(OP, self.softmax_scale)
        };
        let shape = Shape::from((batch, queries, heads, width));
        let out = Layout::contiguous(&shape).transpose(1, 2)?;
        let [q_l, k_l, v_l] = [q_l.transpose(1, 2)?, k_l.transpose(1, 2)?, v_l.transpose(1, 2)?];
        Ok((attention.forward((q, &q_l), (k, &k_l), (v, &v_l), &out)?, shape))
    }
}
