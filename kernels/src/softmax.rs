//! Softmax and log-softmax over the last dimension.

use crate::kernels::Kernels;
use crate::registry::Id;
use crate::resident::Plan;
use crate::rows::{Rows, Step};
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
        let rows = Rows::of(root, input, out)?;
        let dtype = [input.dtype()];
        // Also when there is nothing to do, so that a dtype that is not served is refused then too.
        self.function(Id::Softmax, root, &dtype, "")?;
        let (src, dst, stream) = (input.ptr(), out.ptr(), out.stream());
        if let Some(plan) = Plan::of(self.profile(), rows, input.dtype(), &[src, dst]) {
            let function = self.function(Id::Softmax, root, &dtype, "_resident")?;
            // SAFETY: the parameters of the kernels in `hip/softmax.hip`; the rows lie inside both tensors, whose memory is in the
            // order of `stream`, as are the states.
            return plan
                .launch(stream, rows, |shape, config| unsafe { function.launch(stream, config, &(src, dst, shape)) });
        }
        rows.launches(self.profile(), stream, input.dtype(), &[src, dst], |step, config, start| {
            let function = self.function(Id::Softmax, root, &dtype, step.variant())?;
            let (src, dst) = (src.offset(start), dst.offset(start));
            // SAFETY: the parameters of the kernels in `hip/softmax.hip`; the rows lie inside both tensors, whose memory is
            // in the order of `stream`, as is that of the states.
            unsafe {
                match step {
                    Step::Rows(shape) => function.launch(stream, config, &(src, dst, shape)),
                    Step::Gather { states, shape } => function.launch(stream, config, &(src, states, shape)),
                    Step::Map { states, shape } => function.launch(stream, config, &(src, dst, states, shape)),
                }
            }
        })
    }
}
