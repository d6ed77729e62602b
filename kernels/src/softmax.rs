//! Softmax and log-softmax over the last dimension.

use crate::kernels::Kernels;
use crate::registry::Id;
use crate::rows::{RowMatrix, RowPlan, RowStep};
use crate::tensor::{Operand, Output};
use hip::Result;

impl Kernels {
    /// `exp(x) / sum(exp(x))` over the last dimension of a contiguous tensor.
    pub fn softmax(&self, input: &Operand<'_>, out: &mut Output<'_>) -> Result<()> {
        self.softmax_as("softmax", input, out)
    }

    /// `x - log(sum(exp(x)))` over the last dimension of a contiguous tensor.
    pub fn log_softmax(&self, input: &Operand<'_>, out: &mut Output<'_>) -> Result<()> {
        self.softmax_as("log_softmax", input, out)
    }

    fn softmax_as(&self, root: &str, input: &Operand<'_>, out: &mut Output<'_>) -> Result<()> {
        let rows = RowMatrix::of(root, input, out)?;
        let (src, dst, stream, dtype) = (input.ptr(), out.ptr(), out.stream(), input.dtype());
        match rows.plan(self.profile(), dtype, &[src, dst], true) {
            RowPlan::Resident(plan) => {
                let function = self.function(Id::Softmax, root, &[dtype], "_resident")?;
                // SAFETY: the parameters of the kernels in `hip/softmax.hip`; the rows lie inside both tensors, whose memory is in
                // the order of `stream`, as are the states.
                plan.launch(stream, rows, |shape, config| unsafe {
                    function.launch(stream, config, &(src, dst, shape))
                })
            }
            plan => self.map_rows((Id::Softmax, root, dtype), (rows, plan), stream, |function, step| {
                let RowStep { start, states, shape, config, .. } = step;
                // SAFETY: the parameters of the kernels in `hip/softmax.hip`; the rows lie inside both tensors, whose memory is
                // in the order of `stream`, as is that of the states.
                unsafe { function.launch(stream, config, &(src.offset(start), dst.offset(start), states, shape)) }
            }),
        }
    }
}
