//! RMS and layer normalisation over the last dimension.

use crate::kernels::{fits, one_stream, Kernels};
use crate::registry::Id;
use crate::rows::{contiguous, Rows, Step};
use crate::tensor::{Operand, Output};
use hip::Result;

impl Kernels {
    /// `x / sqrt(mean(x^2) + eps) * alpha` over the last dimension of a contiguous tensor.
    pub fn rms_norm(&self, input: &Operand<'_>, alpha: &Operand<'_>, eps: f64, out: &mut Output<'_>) -> Result<()> {
        let root = "rmsnorm";
        let rows = norm_rows(root, input, &[("alpha", alpha)], out)?;
        self.function(Id::Norms, root, &[input.dtype()], "")?;
        let (src, dst, alpha, stream) = (input.ptr(), out.ptr(), alpha.ptr(), out.stream());
        rows.launches(self.profile(), stream, input.dtype(), &[src, dst, alpha], |step, config, start| {
            let function = self.function(Id::Norms, root, &[input.dtype()], step.variant())?;
            let (src, dst) = (src.offset(start), dst.offset(start));
            // SAFETY: the parameters of the kernels in `hip/norms.hip`; the rows lie inside both tensors, alpha is as long as
            // a row, and all memory is in the order of `stream`.
            unsafe {
                match step {
                    Step::Rows(shape) => function.launch(stream, config, &(src, dst, alpha, shape, eps)),
                    Step::Gather { states, shape } => {
                        function.launch(stream, config, &(src, states, alpha, shape, eps))
                    }
                    Step::Map { states, shape } => {
                        function.launch(stream, config, &(src, dst, states, alpha, shape, eps))
                    }
                }
            }
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
        self.function(Id::Norms, root, &[input.dtype()], "")?;
        let (src, dst, alpha, beta, stream) = (input.ptr(), out.ptr(), alpha.ptr(), beta.ptr(), out.stream());
        rows.launches(self.profile(), stream, input.dtype(), &[src, dst, alpha, beta], |step, config, start| {
            let function = self.function(Id::Norms, root, &[input.dtype()], step.variant())?;
            let (src, dst) = (src.offset(start), dst.offset(start));
            // SAFETY: as for rms_norm, with beta as long as a row too.
            unsafe {
                match step {
                    Step::Rows(shape) => function.launch(stream, config, &(src, dst, alpha, beta, shape, eps)),
                    Step::Gather { states, shape } => {
                        function.launch(stream, config, &(src, states, alpha, beta, shape, eps))
                    }
                    Step::Map { states, shape } => {
                        function.launch(stream, config, &(src, dst, states, alpha, beta, shape, eps))
                    }
                }
            }
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
