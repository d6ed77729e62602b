//! RMS and layer normalisation over the last dimension.

use crate::kernels::{fits, one_stream, same_dims, Kernels};
use crate::layout::row_major;
use crate::registry::Id;
use crate::rows::{contiguous, RowMatrix, RowStep};
use crate::tensor::{Operand, Output};
use hip::{DevicePtr, Error, Result};

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

    /// `left + right` into `sum`, and the [`rms_norm`](Self::rms_norm) of that into `out`: a residual connection with the norm behind it.
    /// One launch for rows that fit into the registers of a block, two for others. All tensors are contiguous and of one shape.
    pub fn rms_norm_of_sum(
        &self,
        [left, right]: [&Operand<'_>; 2],
        alpha: &Operand<'_>,
        eps: f64,
        sum: &mut Output<'_>,
        out: &mut Output<'_>,
    ) -> Result<()> {
        let root = "rmsnorm_sum";
        let rows = norm_rows(root, left, &[("alpha", alpha)], out)?;
        let dtype = left.dtype();
        same_dims(root, &[left, right])?;
        fits(root, "the sum", sum.count(), left.count(), sum.dtype(), dtype)?;
        fits(root, "the right side", right.count(), left.count(), right.dtype(), dtype)?;
        contiguous(root, "the right side", right)?;
        one_stream(out.stream(), &[right])?;
        if sum.stream() != out.stream() {
            return Err(Error::refused(format!("{root}: the sum belongs to another stream than the result")));
        }
        let (a, b, total, dst, weights) = (left.ptr(), right.ptr(), sum.ptr(), out.ptr(), alpha.ptr());
        let stream = out.stream();
        let plan = rows.plan(self.profile(), dtype, &[a, b, total, dst, weights], false);
        if !plan.fits_registers() {
            self.binary("badd", left, right, sum)?;
            let strides = row_major(left.dims());
            return self.rms_norm(&sum.written(left.dims(), &strides[..left.dims().len()]), alpha, eps, out);
        }
        self.map_rows((Id::Norms, root, dtype), (rows, plan), stream, |function, step| {
            let RowStep { start, shape, config, .. } = step;
            let at = |pointer: DevicePtr<u8>| pointer.offset(start);
            let args = (at(a), at(b), at(total), at(dst), shape, eps, weights);
            // SAFETY: the parameters of `rmsnorm_sum_*` in `hip/norms.hip`; the rows lie inside all four tensors, alpha is as long as
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
