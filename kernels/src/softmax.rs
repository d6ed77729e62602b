//! Softmax and log-softmax over the last dimension.

use crate::kernels::Kernels;
use crate::registry::Id;
use crate::rows::{Rows, ROW_THREADS};
use crate::tensor::{Operand, Output};
use hip::{DevicePtr, LaunchConfig, Result};

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
        let function = self.function(Id::Softmax, root, &[input.dtype()], "")?;
        let (src, dst, stream) = (input.ptr(), out.ptr(), out.stream());
        rows.launches(stream.device(), input.dtype(), &[src, dst], |shape, blocks, start| {
            let at = |ptr: DevicePtr<u8>| ptr.offset(start);
            // SAFETY: the parameters of the kernels in `hip/softmax.hip`; the rows lie inside both tensors, whose memory is
            // in the order of `stream`.
            unsafe { function.launch(stream, LaunchConfig::new(blocks, ROW_THREADS), &(at(src), at(dst), shape)) }
        })
    }
}
