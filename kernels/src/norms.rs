//! RMS and layer normalisation over the last dimension.

use crate::kernels::{fits, one_stream, Kernels};
use crate::registry::Id;
use crate::rows::{contiguous, Rows, ROW_THREADS};
use crate::tensor::{Operand, Output};
use hip::{LaunchConfig, Result};

impl Kernels {
    /// `x / sqrt(mean(x^2) + eps) * alpha` over the last dimension of a contiguous tensor.
    pub fn rms_norm(&self, input: &Operand<'_>, alpha: &Operand<'_>, eps: f64, out: &mut Output<'_>) -> Result<()> {
        let root = "rmsnorm";
        let rows = norm_rows(root, input, &[("alpha", alpha)], out)?;
        let function = self.function(Id::Norms, root, &[input.dtype()], "")?;
        let (src, dst, alpha, stream) = (input.ptr(), out.ptr(), alpha.ptr(), out.stream());
        rows.launches(stream.device(), input.dtype(), &[src, dst, alpha], |shape, blocks, start| {
            let arguments = (src.offset(start), dst.offset(start), alpha, shape, eps);
            // SAFETY: the parameters of the kernel in `hip/norms.hip`; the rows lie inside both tensors, alpha is as long as
            // a row, and all memory is in the order of `stream`.
            unsafe { function.launch(stream, LaunchConfig::new(blocks, ROW_THREADS), &arguments) }
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
        let function = self.function(Id::Norms, root, &[input.dtype()], "")?;
        let (src, dst, alpha, beta, stream) = (input.ptr(), out.ptr(), alpha.ptr(), beta.ptr(), out.stream());
        rows.launches(stream.device(), input.dtype(), &[src, dst, alpha, beta], |shape, blocks, start| {
            let arguments = (src.offset(start), dst.offset(start), alpha, beta, shape, eps);
            // SAFETY: as for rms_norm, with beta as long as a row too.
            unsafe { function.launch(stream, LaunchConfig::new(blocks, ROW_THREADS), &arguments) }
        })
    }
}

/// The rows to normalise, once the weights are known to be as long as one of them.
fn norm_rows(root: &str, input: &Operand<'_>, weights: &[(&str, &Operand<'_>)], out: &Output<'_>) -> Result<Rows> {
    let rows = Rows::of(root, input, out)?;
    for (name, weight) in weights {
        fits(root, name, weight.count(), rows.columns as usize, weight.dtype(), input.dtype())?;
        contiguous(root, name, weight)?;
        one_stream(out.stream(), &[weight])?;
    }
    Ok(rows)
}
