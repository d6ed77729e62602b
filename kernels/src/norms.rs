//! RMS and layer normalisation over the last dimension.

use crate::kernels::{fits, one_stream, Kernels};
use crate::registry::Id;
use crate::rows::{contiguous, RowMatrix, RowStep};
use crate::tensor::{Operand, Output};
use hip::Result;

impl Kernels {
    /// `x / sqrt(mean(x^2) + eps) * alpha` over the last dimension of a contiguous tensor.
    pub fn rms_norm(&self, input: &Operand<'_>, alpha: &Operand<'_>, eps: f64, out: &mut Output<'_>) -> Result<()> {
        let root = "rmsnorm";
        let rows = norm_rows(root, input, &[("alpha", alpha)], out)?;
        let (src, dst, alpha, stream, dtype) = (input.ptr(), out.ptr(), alpha.ptr(), out.stream(), input.dtype());
        let plan = rows.plan(self.profile(), dtype, &[src, dst, alpha], false);
        self.map_rows((Id::Norms, root, dtype), (rows, plan), stream, |function, step| {
            let RowStep { start, states, shape, config, .. } = step;
            let args = (src.offset(start), dst.offset(start), states, shape, eps, alpha);
            // SAFETY: the parameters of the kernels in `hip/norms.hip`; the rows lie inside both tensors, alpha is as long as
            // a row, and all memory is in the order of `stream`.
            unsafe { function.launch(stream, config, &args) }
        })
    }

    /// `(x - mean(x)) / sqrt(variance(x) + eps) * alpha + beta` over the last dimension of a contiguous tensor.
    pub fn layer_norm(
        &self,
        input: &Operand<'_>,
        alpha: &Operand<'_>,
        beta: &Operand<'_>,
        eps: f64,
        out: &mut Output<'_>,
    ) -> Result<()> {
        let root = "layernorm";
        let rows = norm_rows(root, input, &[("alpha", alpha), ("beta", beta)], out)?;
        let (src, dst, stream, dtype) = (input.ptr(), out.ptr(), out.stream(), input.dtype());
        let (alpha, beta) = (alpha.ptr(), beta.ptr());
        let plan = rows.plan(self.profile(), dtype, &[src, dst, alpha, beta], false);
        self.map_rows((Id::Norms, root, dtype), (rows, plan), stream, |function, step| {
            let RowStep { start, states, shape, config, .. } = step;
            let args = (src.offset(start), dst.offset(start), states, shape, eps, alpha, beta);
            // SAFETY: as for rms_norm, with beta as long as a row too.
            unsafe { function.launch(stream, config, &args) }
        })
    }
}

/// The rows to normalise, once the weights are known to be as long as one of them.
fn norm_rows(root: &str, input: &Operand<'_>, weights: &[(&str, &Operand<'_>)], out: &Output<'_>) -> Result<RowMatrix> {
    let rows = RowMatrix::of(root, input, out)?;
    for (name, weight) in weights {
        fits(root, name, weight.count(), rows.columns as usize, weight.dtype(), input.dtype())?;
        contiguous(root, name, weight)?;
        one_stream(out.stream(), &[weight])?;
    }
    Ok(rows)
}
